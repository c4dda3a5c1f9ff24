//! The hidden command that renders one template within limits of memory and time (`vctl_portal::templates::renderer`).

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use nix::sys::resource::{Resource, setrlimit};
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
