//! The virtual control plane: a multi-tenant, Kubernetes-compatible API server and its controllers.
//!
//! * [`client`]: calls into the pipeline from inside the process (controllers, syncer, portal).
//! * [`streams`]: what the API server needs from workers: logs, exec, port-forward.
//!
//! Layer L2.

pub mod client;
pub mod controllers;
pub mod streaming;
pub mod streams;
