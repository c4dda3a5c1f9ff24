//! The binary: the command line, and the wiring of the services. Nothing else.

mod cli;
#[cfg(target_os = "linux")]
mod server;

use std::{process::ExitCode, time::Duration};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

/// How long threads get that still wait for something in the end.
const LEFT_OVER: Duration = Duration::from_secs(2);

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
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    Server(server::Command),
    #[command(flatten)]
    Client(Box<cli::Command>),
}

fn main() -> ExitCode {
    if cli::completion::answered(Cli::command) {
        return ExitCode::SUCCESS;
    }
    let cli = parse();
    #[cfg(target_os = "linux")]
    if let Command::Server(command) = &cli.command {
        match command.alone() {
            Ok(false) => {}
            finished => return done(finished.map(|_| ())),
        }
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return failed(&anyhow::anyhow!("cannot start: {e}")),
    };
    let code = runtime.block_on(async {
        match cli.command {
            #[cfg(target_os = "linux")]
            Command::Server(command) => done(command.run(&cli.global).await),
            Command::Client(command) => cli::run(&cli.global, *command, Cli::command()).await,
        }
    });
    // What matters has been waited for; a file that is read may be a pipe into which nobody ever writes.
    runtime.shutdown_timeout(LEFT_OVER);
    code
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

#[cfg(target_os = "linux")]
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
