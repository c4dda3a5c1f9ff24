//! The audit trail.
//!
//! * [`record`]: what an entry says, and what a change was, without secrets.

pub(crate) mod record;

pub(crate) use record::{Subject, entry};
