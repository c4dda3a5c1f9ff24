//! Generates the client of the agent service; the messages are `vctl_api`'s.

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=../api/proto/agent.proto");
    tonic_prost_build::configure()
        .build_server(false)
        .build_client(true)
        .build_transport(false)
        .extern_path(".vctl.agent.v1", "::vctl_api::agent")
        .compile_protos(&["../api/proto/agent.proto"], &["../api/proto"])
}
