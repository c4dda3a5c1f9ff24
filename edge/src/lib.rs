//! What faces traffic: DNS for the pods of a worker now; mesh, proxy and ACME follow.
//!
//! Layer L2. Knows our own contracts (`vctl_api`) and nothing of where they come from.

pub mod dns;
