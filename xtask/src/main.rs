//! Code generation and repository checks: `cargo xtask COMMAND`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]

mod check;
mod generate;

use std::path::Path;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Code generation and repository checks")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Layering, purity of L0, every crate placed in ARCHITECTURE.md, nothing left unfinished.
    Check,
    /// The facts of Kubernetes' kinds, from registry packages, and what is printed from them.
    Generate {
        /// Only say whether what is committed is fresh.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the workspace")?;
    match Cli::parse().command {
        Command::Check => {
            check::run(root)?;
            println!("xtask check: layering, purity, placement and sources are in order");
        }
        Command::Generate { check } => generate::run(root, check)?,
    }
    Ok(())
}
