//! `cargo xtask check`: rules of the repository that the compiler does not know.

use std::{collections::BTreeMap, path::Path, process::Command};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// Layers, bottom first. A crate may depend on crates of lower layers only.
const LAYERS: &[(&str, u8)] = &[
    ("vctl-api", 0),
    ("vctl-machinery", 0),
    ("vctl-runtime", 1),
    ("vctl-store", 1),
    ("vctl-vcluster", 2),
    ("vctl-syncer", 2),
    ("vctl-agent", 2),
    ("vctl-edge", 2),
    ("vctl-portal", 2),
    ("vctl-tui", 2),
    ("vctl", 3),
    // Tools and tests stand beside the product.
    ("vctl-bench", 4),
    ("vctl-tests", 4),
    ("xtask", 4),
];

/// Within a layer, the only dependencies that are allowed.
const WITHIN_LAYER: &[(&str, &str)] = &[("vctl-store", "vctl-runtime"), ("vctl-bench", "vctl-tests")];

/// Crates of servers and workers, which run on Linux only.
const LINUX_ONLY: &[&str] = &["vctl-vcluster", "vctl-syncer", "vctl-agent", "vctl-edge"];

/// What the client side, which is built for macOS and Windows too, may depend on under these conditions only. `make clients` shows
/// that it does build.
const GUARDED: &[(&str, &[&str])] = &[
    ("nix", &[UNIX, LINUX]),
    ("mimalloc", &[LINUX]),
    ("vctl-vcluster", &[LINUX]),
    ("vctl-syncer", &[LINUX]),
    ("vctl-agent", &[LINUX]),
    ("vctl-edge", &[LINUX]),
];
const UNIX: &str = "cfg(unix)";
const LINUX: &str = "cfg(target_os = \"linux\")";

/// Crates that make a crate impure: they bring a runtime, I/O or a clock into L0.
const IMPURE: &[&str] = &["tokio", "hyper", "axum", "tonic", "sqlx", "reqwest", "async-std", "mio", "socket2"];

/// Calls that must not stand in L0.
const IMPURE_CALLS: &[&str] = &[
    "SystemTime::now",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
    "std::fs::",
    "std::net::",
    "std::env::var",
    "std::process::",
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    target: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<NodeDep>,
}

#[derive(Deserialize)]
struct NodeDep {
    pkg: String,
    dep_kinds: Vec<DepKind>,
}

#[derive(Deserialize)]
struct DepKind {
    kind: Option<String>,
}

/// Runs every check and reports all findings.
///
/// # Errors
/// When there is any finding.
pub(crate) fn run(root: &Path) -> Result<()> {
    let metadata = metadata(root)?;
    let mut findings = Vec::new();
    layering(&metadata, &mut findings);
    guards(&metadata, &mut findings);
    purity(&metadata, root, &mut findings)?;
    placed(&metadata, root, &mut findings)?;
    sources(root, &mut findings)?;
    features(root, &mut findings)?;
    if findings.is_empty() {
        return Ok(());
    }
    for finding in &findings {
        eprintln!("xtask check: {finding}");
    }
    bail!("{} finding(s)", findings.len());
}

fn metadata(root: &Path) -> Result<Metadata> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked"])
        .current_dir(root)
        .output()
        .context("running cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn members(metadata: &Metadata) -> impl Iterator<Item = &Package> {
    metadata.packages.iter().filter(|p| metadata.workspace_members.contains(&p.id))
}

fn layer(name: &str) -> Option<u8> {
    LAYERS.iter().find(|(n, _)| *n == name).map(|(_, l)| *l)
}

fn layering(metadata: &Metadata, findings: &mut Vec<String>) {
    for package in members(metadata) {
        let Some(own) = layer(&package.name) else {
            findings.push(format!("{} has no layer: add it to LAYERS in xtask/src/check.rs", package.name));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|d| d.kind.as_deref() != Some("dev")) {
            let Some(other) = layer(&dependency.name) else { continue };
            let allowed = other < own || WITHIN_LAYER.contains(&(&package.name, &dependency.name));
            if !allowed {
                findings.push(format!(
                    "{} (L{own}) must not depend on {} (L{other}): crates of a layer meet on the wire or are joined in vctl/",
                    package.name, dependency.name
                ));
            }
        }
    }
}

/// The client side depends on nothing that only Linux, or only Unix, has.
fn guards(metadata: &Metadata, findings: &mut Vec<String>) {
    let portable = |p: &&Package| !LINUX_ONLY.contains(&&*p.name) && layer(&p.name).is_some_and(|layer| layer < 4);
    for package in members(metadata).filter(portable) {
        for dependency in package.dependencies.iter().filter(|d| d.kind.as_deref() != Some("dev")) {
            let Some((_, conditions)) = GUARDED.iter().find(|(name, _)| *name == dependency.name) else { continue };
            if !dependency.target.as_deref().is_some_and(|target| conditions.contains(&target)) {
                findings.push(format!(
                    "{} depends on {} everywhere: clients are built for macOS and Windows, too; move it to [target.'{}'.dependencies]",
                    package.name, dependency.name, conditions[0]
                ));
            }
        }
    }
}

/// L0 crates: no runtime anywhere below them, no clock or I/O in their own sources.
fn purity(metadata: &Metadata, root: &Path, findings: &mut Vec<String>) -> Result<()> {
    let names: BTreeMap<&str, &str> = metadata.packages.iter().map(|p| (&*p.id, &*p.name)).collect();
    let nodes: BTreeMap<&str, &Node> = metadata.resolve.nodes.iter().map(|n| (&*n.id, n)).collect();
    for package in members(metadata).filter(|p| layer(&p.name) == Some(0)) {
        let mut seen = std::collections::BTreeSet::new();
        let mut stack = vec![&*package.id];
        while let Some(id) = stack.pop() {
            if !seen.insert(id) {
                continue;
            }
            if IMPURE.contains(&names[id]) {
                findings.push(format!("{} is L0 but depends on {}", package.name, names[id]));
                continue;
            }
            for dependency in &nodes[id].deps {
                if dependency.dep_kinds.iter().any(|k| k.kind.is_none()) {
                    stack.push(&dependency.pkg);
                }
            }
        }
        let dir = Path::new(&package.manifest_path).parent().context("a manifest has a directory")?;
        for file in rust_files(&dir.join("src"))? {
            let text = std::fs::read_to_string(&file)?;
            // Tests may read golden files.
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for call in IMPURE_CALLS {
                if code.lines().any(|l| !l.trim_start().starts_with("//") && l.contains(call)) {
                    let file = file.strip_prefix(root).unwrap_or(&file).display();
                    findings.push(format!("{file}: {call} in an L0 crate; pass the value in"));
                }
            }
        }
    }
    Ok(())
}

/// Every crate has its place in ARCHITECTURE.md.
fn placed(metadata: &Metadata, root: &Path, findings: &mut Vec<String>) -> Result<()> {
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).context("reading ARCHITECTURE.md")?;
    for package in members(metadata) {
        let dir = Path::new(&package.manifest_path).parent().and_then(Path::file_name).unwrap_or_default();
        let dir = format!("{}/", dir.to_string_lossy());
        if !text.contains(&dir) {
            findings.push(format!("ARCHITECTURE.md does not place {dir}"));
        }
    }
    Ok(())
}

/// Nothing is left unfinished.
fn sources(root: &Path, findings: &mut Vec<String>) -> Result<()> {
    for file in rust_files(root)? {
        let text = std::fs::read_to_string(&file)?;
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        if shown.starts_with("xtask/") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for word in ["todo!(", "unimplemented!("] {
                if code.contains(word) {
                    findings.push(format!("{shown}:{}: {word}..)", number + 1));
                }
            }
            if code.contains("#[ignore") {
                findings.push(format!("{shown}:{}: an ignored test: give it a make target or delete it", number + 1));
            }
        }
    }
    Ok(())
}

/// Every feature has the test that it names.
fn features(root: &Path, findings: &mut Vec<String>) -> Result<()> {
    for feature in vctl_machinery::features::features().map_err(|e| anyhow::anyhow!(e))? {
        let path = root.join(feature.file);
        let there = path.is_file() && std::fs::read_to_string(&path)?.contains(&format!("fn {}(", feature.test));
        if !there {
            findings.push(format!(
                "machinery/facts/features.txt: {}::{} is not there; name the test that shows {:?}",
                feature.file, feature.test, feature.what
            ));
        }
    }
    Ok(())
}

fn rust_files(dir: &Path) -> Result<Vec<std::path::PathBuf>> {
    let mut files = Vec::new();
    let mut stack = vec![dir.to_path_buf()];
    while let Some(dir) = stack.pop() {
        for entry in std::fs::read_dir(&dir).with_context(|| format!("reading {}", dir.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if !matches!(&*name, "target" | ".git" | "node_modules" | ".cache") {
                    stack.push(path);
                }
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}
