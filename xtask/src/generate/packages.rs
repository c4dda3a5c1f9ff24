//! Fetches the packages through the registries' ordinary clients, into a scratch directory.

use std::{
    collections::BTreeMap,
    fs,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use vctl_machinery::version::MinorVersion;

/// Minor versions of Kubernetes whose kinds are described.
const KUBERNETES: RangeInclusive<u8> = MinorVersion::OLDEST.number()..=MinorVersion::NEWEST.number();
const SCHEMAS: (&str, &str) = ("kubernetes-validate", "1.37.0");
const DESCRIPTORS: (&str, &str, &str) = ("k8s-rs-pb", "0.5.0", "v1_35");

/// Where the packages are, and a line that names them.
pub(crate) struct Packages {
    /// Schemas by minor version.
    pub(crate) definitions: BTreeMap<u8, PathBuf>,
    pub(crate) descriptors: PathBuf,
    pub(crate) sources: String,
}

/// A directory that goes away with the value.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("vctl-generate-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(why) = fs::remove_dir_all(&self.0) {
            eprintln!("{}: {why}", self.0.display());
        }
    }
}

/// Brings both packages here.
pub(crate) fn fetch(scratch: &Path) -> Result<Packages> {
    let python = scratch.join("python");
    let wheel = format!("{}=={}", SCHEMAS.0, SCHEMAS.1);
    output(
        Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
            .arg(&python)
            .arg(wheel),
    )?;
    let schemas = python.join("kubernetes_validate/kubernetes-json-schema");
    let definitions = KUBERNETES.map(|m| (m, schemas.join(format!("v1.{m}.0-local/_definitions.json")))).collect();

    let project = scratch.join("project");
    fs::create_dir_all(project.join("src"))?;
    fs::write(project.join("src/lib.rs"), "")?;
    fs::write(
        project.join("Cargo.toml"),
        format!(
            "[package]\nname = \"scratch\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n{} = \"={}\"\n",
            DESCRIPTORS.0, DESCRIPTORS.1
        ),
    )?;
    let metadata = output(Command::new("cargo").args(["metadata", "--format-version", "1"]).current_dir(&project))?;
    let metadata: Value = serde_json::from_slice(&metadata).context("cargo metadata")?;
    let manifest = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|p| p["name"] == DESCRIPTORS.0)
        .and_then(|p| p["manifest_path"].as_str())
        .context("cargo metadata names no manifest of the descriptors' crate")?;
    let descriptors =
        Path::new(manifest).parent().context("a manifest has a directory")?.join("src").join(DESCRIPTORS.2);
    Ok(Packages {
        definitions,
        descriptors,
        sources: format!(
            "kinds of Kubernetes 1.{} to 1.{}: PyPI {} {}; protobuf numbers: crate {} {} ({})",
            KUBERNETES.start(),
            KUBERNETES.end(),
            SCHEMAS.0,
            SCHEMAS.1,
            DESCRIPTORS.0,
            DESCRIPTORS.1,
            DESCRIPTORS.2
        ),
    })
}

fn output(command: &mut Command) -> Result<Vec<u8>> {
    let out = command.output().with_context(|| format!("{command:?}"))?;
    if !out.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(out.stdout)
}
