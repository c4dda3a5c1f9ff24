//! The portal as a whole, in process.

mod access;
mod backup;
mod environments;
mod jobs;
