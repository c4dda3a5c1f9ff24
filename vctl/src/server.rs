//! The commands that run the platform, and the wiring of its services. Only on Linux: servers and workers run there.

mod addresses;
mod agent;
mod audit;
mod certificates;
mod data_dir;
mod down;
mod file_limit;
mod job_history;
mod limits;
mod local_worker;
mod measured;
mod planes;
mod platform_tokens;
mod pod_streams;
mod renderer;
mod router;
mod signals;
mod store;
mod traces;
mod up;
mod virtual_api;

use anyhow::Result;
use clap::Subcommand;

use crate::cli::Global;

pub(crate) use renderer::renderer;

/// A request is hundreds of small allocations on whichever thread serves it, and most are freed on the same one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

// No doc comment: it would become the help text of whoever flattens them in.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the platform in the foreground
    Up(Box<up::Up>),
    /// Run the agent of a worker
    Agent(Box<agent::Agent>),
    /// Stop the platform of a data dir and everything it runs
    Down(down::Down),
    // Renders one template for the server.
    #[command(name = vctl_portal::templates::renderer::COMMAND, hide = true)]
    Renderer,
    // Sets limits and becomes another program.
    #[command(name = vctl_portal::commands::LIMITED, hide = true)]
    Limited(renderer::Limited),
}

impl Command {
    /// What must happen while the process has one thread. True when that was all there is to do.
    pub(crate) fn alone(&self) -> Result<bool> {
        match self {
            Self::Agent(command) => command.enter().map(|()| false),
            Self::Renderer => renderer::run().map(|()| true),
            Self::Limited(command) => command.run().map(|()| true),
            Self::Up(_) | Self::Down(_) => Ok(false),
        }
    }

    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        match self {
            Self::Up(command) => command.run(global).await,
            Self::Agent(command) => command.run().await,
            Self::Down(command) => command.run(global).await,
            // Done by `alone`.
            Self::Renderer | Self::Limited(_) => Ok(()),
        }
    }
}
