//! The test harness: a whole platform of the real binary in a data directory of its own, with its worker in a network namespace
//! without a default route, and the real kubectl of a named version.
//!
//! Everything a test starts ends with the value that stands for it.

#![expect(clippy::print_stderr, reason = "what a test leaves behind is told on standard error")]

pub mod background;
pub mod burst;
pub mod collector;
pub mod containers;
pub mod git_server;
pub mod golden;
pub mod image;
pub mod kubectl;
pub mod netns;
pub mod platform;
pub mod postgres;
pub mod remains;
pub mod servers;
pub mod text;
pub mod tmux;
pub mod wait;
