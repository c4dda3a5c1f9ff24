//! The terminal dashboard: environments, their pods, workers and events, live.
//!
//! * [`model`]: what is shown, and what the dashboard asks of whoever brings it.
//! * [`state`]: everything the screen depends on; [`update`] changes it by one message, without I/O.
//! * [`draw`]: the screen as a function of the state.
//! * [`run`]: the terminal around it: keys in, frames out, data by channels. Nothing that waits is ever between a key and a frame.
//!
//! Layer L2.

pub mod draw;
pub mod model;
pub mod run;
pub mod state;
pub mod update;

pub use run::{DashError, run};

/// Columns of the terminal that this process is attached to; none when there is none.
pub fn terminal_columns() -> Option<u16> {
    crossterm::terminal::size().ok().map(|(columns, _)| columns)
}
