//! Images without a registry: built from Debian's binaries into the worker's own storage.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail};

/// Arguments that make `podman` use the storage of a worker.
pub fn podman_args(worker: &Path) -> Vec<String> {
    let at = |name: &str| worker.join(name).display().to_string();
    vec!["--root".into(), at("podman"), "--runroot".into(), at("run/podman")]
}

/// Builds an image of `templates/team-x/images` or `tests/images` into a worker's storage; its name is `localhost/NAME:latest`.
///
/// # Errors
/// `scripts/images` fails: with what it printed.
pub fn build(worker: &Path, names: &[&str]) -> Result<()> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/images");
    // Programs of this build are beside the test.
    let built = std::env::current_exe()?.ancestors().skip(1).take(2).map(Path::to_owned).collect::<Vec<_>>();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::env::split_paths(&path).chain(built))?;
    let output =
        Command::new(script).arg(worker).args(names).env("PATH", path).output().context("running scripts/images")?;
    if !output.status.success() {
        bail!(
            "building {names:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}
