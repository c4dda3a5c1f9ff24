//! Takes the descriptions that `kubectl explain` prints out of the sources of the `k8s-openapi` crate, which the workspace depends on
//! anyway, into one compressed artefact. Compiling that crate's `schemars` feature for it would take minutes; reading its text takes
//! half a second.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use flate2::{Compression, write::GzEncoder};
use serde_json::Value;

/// Module of the crate for the version of Kubernetes whose kinds are described.
const VERSION: &str = "v1_36";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../Cargo.lock");
    let mut text = String::new();
    visit(&sources()?, &mut text)?;
    let out = PathBuf::from(env::var("OUT_DIR")?).join("descriptions.gz");
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(text.as_bytes())?;
    fs::write(out, packed.finish()?)?;
    Ok(())
}

/// Where cargo has unpacked the crate.
fn sources() -> Result<PathBuf, Box<dyn Error>> {
    let manifest = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("Cargo.toml");
    let output = Command::new(env::var("CARGO")?)
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--manifest-path"])
        .arg(manifest)
        .args(["--filter-platform", &env::var("HOST")?])
        .output()?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let found = packages.iter().find(|p| p["name"] == "k8s-openapi").and_then(|p| p["manifest_path"].as_str());
    let root = Path::new(found.ok_or("the workspace no longer depends on k8s-openapi")?);
    Ok(root.parent().ok_or("a manifest has a directory")?.join("src").join(VERSION))
}

fn visit(directory: &Path, text: &mut String) -> Result<(), Box<dyn Error>> {
    let mut entries = fs::read_dir(directory)?.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            visit(&path, text)?;
        } else {
            descriptions(&fs::read_to_string(path)?, text)?;
        }
    }
    Ok(())
}

/// Writes lines of type, field (empty: the type itself) and description, separated by tabs.
fn descriptions(source: &str, text: &mut String) -> Result<(), Box<dyn Error>> {
    const INSERTED: &str = "                    schema_obj.ensure_object().insert(\"description\".into(), \"";
    let Some(name) = source.lines().find_map(|l| l.strip_prefix("// Generated from definition ")) else {
        return Ok(());
    };
    let Some((_, schema)) = source.split_once("json_schema!({") else { return Ok(()) };
    let mut field = "";
    for line in schema.lines() {
        let found = if let Some(rest) = line.strip_prefix("            \"description\": \"") {
            field = "";
            Some(rest)
        } else if let Some(rest) = line.strip_prefix("                \"") {
            field = rest.split('"').next().unwrap_or_default();
            None
        } else {
            line.strip_prefix("                    \"description\": \"").or_else(|| line.strip_prefix(INSERTED))
        };
        if let Some(rest) = found {
            writeln!(text, "{name}\t{field}\t{}", literal(rest))?;
        }
    }
    Ok(())
}

/// A string literal up to its end; escapes of newlines, tabs and backslashes stay as they are, to be undone by the reader.
fn literal(rest: &str) -> String {
    let mut out = String::new();
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            ('"', _) => break,
            (_, Some(c @ ('n' | 't' | '\\'))) => out.extend(['\\', c]),
            (_, Some(c)) => out.push(c),
            (c, None) => out.push(c),
        }
    }
    out
}
