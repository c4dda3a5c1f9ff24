//! The portal as a whole, in process.

mod access;
mod environments;
mod jobs;
