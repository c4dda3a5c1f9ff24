//! The terminal dashboard: environments, what is in them, workers, jobs, events and the audit trail, live.
//!
//! * [`model`]: what is shown, and what the dashboard asks of whoever brings it; [`rows`]: REST documents as rows.
//! * [`state`]: everything the screen depends on; [`update`] changes it by one message, without I/O. [`table`] and [`page`] are its larger
//!   parts, [`keys`], [`theme`] and [`filter`] what people choose.
//! * [`draw`]: the screen as a function of the state. It touches what is on the screen, however much there is beside it.
//! * [`run`]: the terminal around it: keys in, frames out, data by channels. Nothing that waits is ever between a key and a frame.
//!
//! Layer L2.

pub mod draw;
pub mod filter;
pub mod keys;
pub mod model;
pub mod page;
pub mod rows;
pub mod run;
pub mod state;
pub mod table;
pub mod theme;
pub mod update;

pub use run::{DashError, Ends, run};

/// Columns of the terminal that this process is attached to; none when there is none.
pub fn terminal_columns() -> Option<u16> {
    crossterm::terminal::size().ok().map(|(columns, _)| columns)
}

/// Columns and rows of the terminal that this process is attached to; none when there is none.
pub fn terminal_size() -> Option<(u16, u16)> {
    crossterm::terminal::size().ok()
}
