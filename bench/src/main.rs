//! `vctl-bench`: the load generator and benchmark runner. It starts the platform it measures (`--vctl`, a release build) in a data
//! directory of its own and prints one line per figure.
#![expect(clippy::print_stdout, reason = "a command-line tool")]

mod clients;
mod environments;
mod memory;
mod pods;
mod samples;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Measures a vctl platform")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// REST create to the first answer of the new API server, and the whole `vctl create` process.
    Create {
        /// Environments to create.
        #[arg(long, default_value_t = 100)]
        count: u32,
    },
    /// Resident memory of the server per idle environment.
    Memory {
        /// Environments to create.
        #[arg(long, default_value_t = 500)]
        count: u32,
    },
    /// Pod create to container running, beside the same through Podman's API alone.
    Pods {
        /// Pods to start, one after the other.
        #[arg(long, default_value_t = 20)]
        count: u32,
    },
    /// All of them.
    All,
}

#[tokio::main]
async fn main() -> Result<()> {
    vctl_runtime::serve::install_crypto_provider();
    println!("machine: {}", samples::machine());
    match Cli::parse().command {
        Command::Create { count } => environments::run(count).await,
        Command::Memory { count } => memory::run(count).await,
        Command::Pods { count } => pods::run(count).await,
        Command::All => {
            environments::run(100).await?;
            memory::run(500).await?;
            pods::run(20).await
        }
    }
}
