//! `vctl-bench`: the load generator and benchmark runner. It starts the platform it measures (`--vctl`, a release build) in a data
//! directory of its own and prints one line per figure.
#![expect(clippy::print_stdout, reason = "a command-line tool")]

mod api;
mod audit;
mod clients;
mod console;
mod creates;
mod environments;
mod etcd;
mod fleet;
mod jobs;
mod load;
mod memory;
mod nginx;
mod peers;
mod pods;
mod ports;
mod process;
mod reads;
mod rest;
mod samples;
mod target;
mod watch;
mod wire;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Clients of the figures about creates.
const CLIENTS: [usize; 2] = [16, 64];

/// Environments of the figures of lists and of the console.
const MANY: u32 = 10_000;

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
    /// Many idle environments: memory, CPU, one more create, a start.
    Fleet {
        /// Environments to create.
        #[arg(long, default_value_t = 2000)]
        count: u32,
    },
    /// Lists of the REST API with many environments.
    Rest {
        /// Environments to create.
        #[arg(long, default_value_t = MANY)]
        count: u32,
    },
    /// The web console in Chromium, beside many environments.
    Console {
        /// Environments to create.
        #[arg(long, default_value_t = MANY)]
        count: u32,
    },
    /// An API server, ours or any other: creates, reads, lists, watches. It makes (and empties) the namespace `bench`.
    Api {
        /// The server, and who to be there [default: a platform of our own]
        #[arg(long, value_name = "FILE")]
        kubeconfig: Option<PathBuf>,
        /// The server's process, when it runs on this machine, for its CPU time
        #[arg(long)]
        server_pid: Option<u32>,
        /// Also the peers: raw puts into etcd, nginx with the same bytes
        #[arg(long)]
        peers: bool,
        /// How long each load lasts
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=60))]
        seconds: u64,
        /// Only these figures [default: all]
        #[arg(long, value_enum, value_delimiter = ',')]
        only: Vec<peers::Part>,
        /// Clients that create at once, one figure each
        #[arg(long, value_delimiter = ',', default_values_t = CLIENTS)]
        clients: Vec<usize>,
    },
    /// The queue of jobs, on a Postgres of its own: environments that are put to sleep and woken.
    Jobs {
        /// Environments; each round is as many jobs.
        #[arg(long, default_value_t = 1000)]
        count: usize,
        /// Rounds.
        #[arg(long, default_value_t = 8)]
        rounds: usize,
    },
    /// The audit trail: changes of the platform with their entries, and changes inside of an environment with and without.
    Audit {
        /// How long each load lasts
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=60))]
        seconds: u64,
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
        Command::Fleet { count } => fleet::run(count).await,
        Command::Rest { count } => {
            let (platform, rest) = rest::environments(count).await?;
            rest::run(&platform, &rest, count).await
        }
        Command::Console { count } => {
            let (platform, _) = rest::environments(count).await?;
            console::run(&platform, count)
        }
        Command::Api { kubeconfig, server_pid, peers, seconds, only, clients } => {
            let plan = peers::Plan { seconds, peers, pid: server_pid, parts: only, clients };
            let Some(kubeconfig) = kubeconfig else { return peers::ours(plan).await };
            let scratch = tempfile::tempdir()?;
            peers::run(&target::Target::from_kubeconfig(&kubeconfig)?, &plan, scratch.path()).await
        }
        Command::Jobs { count, rounds } => jobs::run(count, rounds).await,
        Command::Audit { seconds } => audit::run(seconds).await,
        Command::All => {
            environments::run(100).await?;
            memory::run(500).await?;
            pods::run(20).await?;
            let clients = CLIENTS.to_vec();
            peers::ours(peers::Plan { seconds: 3, peers: true, pid: None, parts: Vec::new(), clients }).await?;
            jobs::run(1000, 8).await?;
            audit::run(3).await?;
            fleet::run(2000).await?;
            let (platform, rest) = rest::environments(MANY).await?;
            rest::run(&platform, &rest, MANY).await?;
            console::run(&platform, MANY)
        }
    }
}
