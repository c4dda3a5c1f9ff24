//! What every service repeats: tracked tasks and shutdown, telemetry, measurements, TLS and certificates, time.
//!
//! Layer L1.

pub mod clock;
pub mod metrics;
pub mod pki;
pub mod renewal;
pub mod serve;
pub mod tasks;
pub mod telemetry;
