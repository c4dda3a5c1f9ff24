//! What every service repeats: tracked tasks and shutdown, heavy work, telemetry, measurements, TLS and certificates, time.
//!
//! Layer L1.

pub mod address;
pub mod clock;
pub mod heavy;
pub mod metrics;
pub mod pki;
pub mod renewal;
pub mod serve;
pub mod tasks;
pub mod telemetry;
