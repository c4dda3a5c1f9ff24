//! `cargo xtask generate`: the facts of Kubernetes' built-in kinds, from packages of crates.io and PyPI.
//!
//! | package | what it has |
//! |---|---|
//! | PyPI `kubernetes-validate` | JSON schemas with list types, merge keys and list-map keys |
//! | crate `k8s-rs-pb` | protobuf descriptors |
//! | `machinery/facts/supplement.txt` | what neither has, by hand |

mod descriptors;
mod document;
mod packages;
mod schema;

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};

/// Writes the generated files, or with `check` compares them with what is committed.
pub(crate) fn run(root: &Path, check: bool) -> Result<()> {
    document::write(root, check)?;
    let scratch = packages::Scratch::new()?;
    let packages = match packages::fetch(scratch.path()) {
        Ok(packages) => packages,
        Err(why) if check => {
            println!("xtask generate: packages out of reach, freshness of facts not checked: {why:#}");
            return Ok(());
        }
        Err(why) => return Err(why),
    };
    let facts = root.join("machinery/facts");
    let supplement = fs::read_to_string(facts.join("supplement.txt")).context("machinery/facts/supplement.txt")?;
    let messages = descriptors::read(&packages.descriptors)?;
    let text = schema::render(&packages, &messages, &supplement)?;
    settle(&facts.join("schema.txt"), &text, check)
}

/// Writes a file, or says that it is not what it should be.
fn settle(path: &Path, text: &str, check: bool) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    if check {
        bail!("{} is not fresh: run `cargo xtask generate` and commit the result", path.display());
    }
    fs::write(path, text).with_context(|| path.display().to_string())
}
