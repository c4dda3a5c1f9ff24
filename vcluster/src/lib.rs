//! The virtual control plane: a multi-tenant, Kubernetes-compatible API server and its controllers.
//!
//! * [`ControlPlanes`]: all clusters of the process: create, delete, answer requests.
//! * [`client`]: calls into the pipeline from inside the process (controllers, syncer, portal).
//! * [`streams`]: what the API server needs from workers: logs, exec, port-forward.
//!
//! Layer L2.

mod activity;
mod admission;
mod aggregation;
mod api_metrics;
pub mod audit;
mod authentication;
mod authorization;
mod bootstrap;
mod cached;
pub mod client;
pub mod config;
pub mod control_planes;
pub mod controllers;
mod convert;
mod custom;
mod document;
mod fairness;
mod guarded;
mod in_process;
mod keys;
pub mod limits;
mod objects;
mod outbound;
mod plane;
mod quota;
mod request;
mod resource_metrics;
mod server;
mod storage;
pub mod streaming;
pub mod streams;
mod subresource;
pub mod user;
mod views;

#[cfg(fuzzing)]
pub use streaming::fuzzing;

pub use config::Config;
pub use control_planes::{ControlPlanes, NewCluster, Peer};
pub use user::User;
pub use views::WatchCounters;

#[cfg(test)]
mod tests;
