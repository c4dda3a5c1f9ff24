//! The binary: the command line, and the wiring of the services. Nothing else.

mod agent;
mod audit;
mod certificates;
mod cli;
mod data_dir;
mod down;
mod file_limit;
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

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

/// A request is hundreds of small allocations on whichever thread serves it, and most are freed on the same one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Developer self-service for virtual Kubernetes clusters.
#[derive(Debug, Parser)]
#[command(name = "vctl", version, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    global: cli::Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the platform in the foreground
    Up(up::Up),
    /// Run the agent of a worker
    Agent(agent::Agent),
    /// Stop the platform of a data dir and everything it runs
    Down(down::Down),
    // Renders one template for the server.
    #[command(name = vctl_portal::templates::renderer::COMMAND, hide = true)]
    Renderer,
    // Sets limits and becomes another program.
    #[command(name = vctl_portal::commands::LIMITED, hide = true)]
    Limited(renderer::Limited),
    #[command(flatten)]
    Client(cli::Command),
}

fn main() -> ExitCode {
    if cli::completion::answered(Cli::command) {
        return ExitCode::SUCCESS;
    }
    let cli = parse();
    if let Command::Agent(command) = &cli.command
        && let Err(e) = command.enter()
    {
        return failed(&e);
    }
    match &cli.command {
        Command::Renderer => return done(renderer::run()),
        Command::Limited(command) => return done(command.run()),
        _ => {}
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return failed(&anyhow::anyhow!("cannot start: {e}")),
    };
    runtime.block_on(async {
        match cli.command {
            Command::Up(command) => done(command.run(&cli.global).await),
            Command::Agent(command) => done(command.run().await),
            Command::Down(command) => done(command.run(&cli.global).await),
            // Done above, without threads.
            Command::Renderer | Command::Limited(_) => ExitCode::SUCCESS,
            Command::Client(command) => cli::run(&cli.global, command, Cli::command()).await,
        }
    })
}

/// The command line, by the name that it was called by; what is wrong with it ends the program.
fn parse() -> Cli {
    let mut command = Cli::command();
    if let Some(name) = cli::completion::called(std::env::args_os().next().as_ref()) {
        command = command.bin_name(name);
    }
    let mut matches = command.get_matches();
    Cli::from_arg_matches_mut(&mut matches).unwrap_or_else(|e| e.exit())
}

fn done(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => failed(&e),
    }
}

#[expect(clippy::print_stderr, reason = "the command line's own error")]
fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}
