//! Virtual and real: keeps what runs on workers equal to what the virtual clusters say, and tells the virtual clusters what is.
//!
//! * [`translate`] and [`status`] are the pure core: a pod of a virtual cluster as a worker runs it, and what a worker observes as
//!   the pod's status.
//! * [`hub`] is the shell around it: the server half of the agent protocol, and one work queue over the store's feed.
//! * [`target`] is what a pod can run on: an agent's worker, or the [`simulated`] one.
//! * [`ports`] is what the hub needs from the virtual API servers; `vctl/` wires it.
//!
//! Invariants: an agent can report only about pods that are bound to it; a pod is deleted for good only with its UID as
//! precondition and once its worker has said that nothing of it is left; nothing is written while nothing changes; an idle
//! environment costs a name in a map. Layer L2.

mod event;
mod expected;
pub mod hub;
mod json;
pub mod network;
mod node;
pub mod ports;
mod queue;
mod remote;
pub mod simulated;
pub mod status;
pub mod streams;
pub mod target;
pub mod translate;

#[allow(missing_docs, clippy::pedantic, unused_qualifications, unreachable_pub, reason = "generated code")]
mod grpc {
    include!(concat!(env!("OUT_DIR"), "/vctl.agent.v1.rs"));
}
