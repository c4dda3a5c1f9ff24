//! The web console in Chromium, beside many environments.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use vctl_tests::platform::Platform;

/// What `portal/web/e2e/bench.mjs` has found.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    first_contentful_paint_ms: u64,
    first_scripts_gzip_bytes: u64,
    table: Scrolled,
    cards: Scrolled,
}

/// One view of all environments.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scrolled {
    #[serde(rename = "frameP95")]
    frame_p95: f64,
    rows: u64,
    end_ms: u64,
}

/// Drives the console of a server that has `count` environments, `env-00000` and so on.
pub(crate) fn run(platform: &Platform, count: u32) -> Result<()> {
    let link = platform.vctl(&["login-link"])?.ok()?;
    let out = tempfile::tempdir()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let driven = Command::new("node")
        .arg("portal/web/e2e/bench.mjs")
        .current_dir(root)
        .env("VCTL_LINK", link.trim())
        .env("VCTL_ENVIRONMENTS", count.to_string())
        .env("VCTL_OUT", out.path())
        .output()
        .context("running node: `scripts/setup bench` installs it")?;
    ensure!(
        driven.status.success(),
        "the console could not be measured (is it part of this build? `make web`, then build vctl again)\n{}{}",
        String::from_utf8_lossy(&driven.stdout),
        String::from_utf8_lossy(&driven.stderr)
    );
    let Figures { first_contentful_paint_ms, first_scripts_gzip_bytes, table, cards } =
        serde_json::from_str(&std::fs::read_to_string(out.path().join("bench.json"))?)?;
    println!("console, first contentful paint in a warm Chromium: median {first_contentful_paint_ms} ms of 15");
    println!("console, JavaScript of the first page: {:.1} KiB gzip", first_scripts_gzip_bytes as f64 / 1024.0);
    for (view, scrolled) in [("table", table), ("cards", cards)] {
        println!(
            "console, {count} environments as {view}, scrolled by 900 pixels a frame: frame p95 {:.1} ms, {} rows in the document; their end \
             is there after {} ms",
            scrolled.frame_p95, scrolled.rows, scrolled.end_ms
        );
    }
    Ok(())
}
