//! Generates the message types of the agent protocol.

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=proto/agent.proto");
    prost_build::Config::new().bytes(["."]).compile_protos(&["proto/agent.proto"], &["proto"])
}
