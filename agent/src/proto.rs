//! The generated client of the agent service.

#[allow(missing_docs, clippy::pedantic, unused_qualifications, unreachable_pub, reason = "generated code")]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/vctl.agent.v1.rs"));
}

pub(crate) use generated::agent_service_client::AgentServiceClient;
