//! Embeds the built web console (`web/dist/console`, made by `make web`) as a table of files. Without it the table is empty and the
//! portal serves a page that says how to build it.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

fn main() -> Result<(), Box<dyn Error>> {
    let dist = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("web/dist");
    // The directory itself is always there; cargo looks at everything in it.
    println!("cargo::rerun-if-changed={}", dist.display());
    let console = dist.join("console");
    let mut files = Vec::new();
    if console.join("index.html").is_file() {
        collect(&console, &mut files)?;
    }
    files.sort();
    let mut table = String::from("&[\n");
    for file in &files {
        let name = file.strip_prefix(&console)?.to_str().ok_or("a file name of the console is no text")?;
        let packed = |ending: &str| {
            let packed = PathBuf::from(format!("{}.{ending}", file.display()));
            if packed.is_file() {
                format!("Some(include_bytes!({:?}))", packed.display().to_string())
            } else {
                "None".into()
            }
        };
        writeln!(
            table,
            "    File {{ path: {:?}, whole: include_bytes!({:?}), gzip: {}, brotli: {} }},",
            format!("/{name}"),
            file.display().to_string(),
            packed("gz"),
            packed("br"),
        )?;
    }
    table.push(']');
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("console.rs"), table)?;
    Ok(())
}

/// All files below a directory but the compressed ones.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if !path.extension().is_some_and(|e| e == "gz" || e == "br") {
            files.push(path);
        }
    }
    Ok(())
}
