//! The hidden commands by which the server does what might take too much: one renders a template within limits of memory and time
//! (`vctl_portal::templates::renderer`), one sets limits and becomes another program (`vctl_portal::commands`).

use std::{ffi::OsString, os::unix::process::CommandExt as _, path::PathBuf, process::Command};

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use nix::{
    sched::{CloneFlags, unshare},
    sys::resource::{Resource, setrlimit},
};
use vctl_portal::templates::renderer::{self, Renderer};

/// This program, also when its file has been replaced by another version meanwhile.
pub(crate) fn program() -> Option<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() { Some(running) } else { std::env::current_exe().ok() }
}

/// Renders templates by this program.
pub(crate) fn renderer() -> Renderer {
    Renderer::new(program())
}

/// Bytes of a page, as /proc counts; larger ones than these only make the limit larger.
const PAGE: u64 = 4096;

/// Answers one request on standard input.
pub(crate) fn run() -> Result<()> {
    // What the program itself has mapped is not the template's. The limit of data alone is not kept by every kernel.
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = pages.split(' ').next().and_then(|pages| pages.parse().ok()).unwrap_or_default();
    // No core file of what went beyond the limits.
    for (resource, limit) in [
        (Resource::RLIMIT_AS, renderer::MEMORY_LIMIT + pages * PAGE),
        (Resource::RLIMIT_DATA, renderer::MEMORY_LIMIT),
        (Resource::RLIMIT_CPU, renderer::PROCESSOR_LIMIT),
        (Resource::RLIMIT_CORE, 0),
    ] {
        setrlimit(resource, limit, limit).context("a limit cannot be set")?;
    }
    renderer::serve(std::io::stdin().lock(), std::io::stdout().lock()).context("cannot answer")
}

/// Memory that another program may take, in bytes.
const MEMORY: u64 = 1 << 30;
/// Largest file that it may write, in bytes.
const FILE: u64 = 256 << 20;
/// Longest time on a processor, in seconds.
const PROCESSOR: u64 = 300;

/// Another program.
#[derive(Debug, Args)]
pub(crate) struct Limited {
    /// Without any network, or not at all
    #[arg(long)]
    offline: bool,
    /// Without any network where the kernel takes it away
    #[arg(long, conflicts_with = "offline")]
    offline_if_possible: bool,
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

impl Limited {
    /// Becomes the program; returns only when that fails.
    pub(crate) fn run(&self) -> Result<()> {
        for (resource, limit) in [
            (Resource::RLIMIT_DATA, MEMORY),
            (Resource::RLIMIT_FSIZE, FILE),
            (Resource::RLIMIT_CPU, PROCESSOR),
            (Resource::RLIMIT_CORE, 0),
        ] {
            setrlimit(resource, limit, limit).context("a limit cannot be set")?;
        }
        if self.offline {
            take_network().context("cannot take the network away")?;
        } else if self.offline_if_possible {
            // What a template says there has been looked at; the server has warned that it is no more than that.
            let _ = take_network();
        }
        let (program, arguments) = self.command.split_first().ok_or_else(|| anyhow!("say which program"))?;
        let error = Command::new(program).args(arguments).exec();
        Err(anyhow!(error).context(format!("{} does not run", program.display())))
    }
}

/// Moves this process into a network of its own, in which there is nothing. Who is not root needs a user namespace for it, which not every
/// machine gives.
fn take_network() -> nix::Result<()> {
    let alone = CloneFlags::CLONE_NEWNET;
    unshare(alone).or_else(|_| unshare(CloneFlags::CLONE_NEWUSER | alone))
}
