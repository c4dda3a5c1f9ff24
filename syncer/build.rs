//! Generates the server side of the agent protocol. The messages are those of `vctl_api::agent`.

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=../api/proto/agent.proto");
    tonic_prost_build::configure()
        .build_client(false)
        .build_server(true)
        .extern_path(".vctl.agent.v1", "::vctl_api::agent")
        .compile_protos(&["../api/proto/agent.proto"], &["../api/proto"])
}
