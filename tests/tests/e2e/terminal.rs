//! What others wrote, on a terminal and piped.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use vctl_tests::{
    platform::{Platform, Workers, vctl_binary},
    tmux::Tmux,
};

/// Colours, erases (by the one letter that does so), and turns the order of letters around.
const REASON: &str = "\u{1b}[31mred\u{9b}2J\u{202e}end";

/// In every format it can be seen there and does nothing; what is piped is what was written.
#[test]
fn what_others_wrote_does_nothing_to_the_terminal_and_is_piped_whole() -> Result<()> {
    let platform = Platform::start(Workers::None)?;
    platform.vctl(&["project", "create", "web"])?.ok()?;
    let request = ["approval", "request", "--project", "web", "--role", "admin", "--for", "1h", "--reason", REASON];
    platform.vctl(&request)?.ok()?;
    let id = platform.vctl(&["approval", "list", "-o", "name"])?.ok()?.trim().to_owned();
    for piped in [&["approval", "get", &id][..], &["approval", "list"], &["approval", "list", "-o", "wide"]] {
        let text = platform.vctl(piped)?.ok()?;
        ensure!(text.contains(REASON), "{piped:?}: {text:?}");
    }
    let json: Value = serde_json::from_str(&platform.vctl(&["approval", "get", &id, "-o", "json"])?.ok()?)?;
    ensure!(json["reason"] == REASON, "{json}");

    let (data, home) = (platform.data_dir().display().to_string(), platform.scratch().display().to_string());
    let tmux = Tmux::start(platform.scratch(), &[("VCTL_DATA_DIR", &data), ("HOME", &home)])?;
    tmux.resize(200, 50)?;
    let vctl = vctl_binary()?.display().to_string();
    let seen = r"\u{1b}[31mred\u{9b}2J\u{202e}end";
    let commands = [
        (format!("approval get {id}"), seen),
        ("approval list".to_owned(), seen),
        ("approval list -o wide".to_owned(), seen),
        (format!("approval get {id} -o json"), r"\u001b[31mred\u009b2J\u202eend"),
        // The writer of YAML has words of its own for what it takes for control characters.
        (format!("approval get {id} -o yaml"), r"\u202eend"),
    ];
    for (number, (command, shown)) in commands.into_iter().enumerate() {
        // What the command before it showed has another end.
        tmux.line(&format!("clear; {vctl} {command}; echo it ends with $? at {number}"))?;
        let end = format!("\nit ends with 0 at {number}\n");
        let screen = tmux.until("the end", |s| s.contains(&end))?;
        ensure!(screen.contains(shown), "{command}: no {shown} in\n{screen}");
        let coloured = tmux.coloured()?;
        let line = coloured.lines().find(|line| line.contains("202e")).context("no line")?;
        ensure!(!line.contains("\u{1b}[31m"), "{command}: {line:?}");
    }
    Ok(())
}
