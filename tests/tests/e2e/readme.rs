//! The commands that README.md shows are those of this build.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use vctl_tests::{
    kubectl::{self, finish},
    platform::{Platform, Workers, vctl_binary},
};

/// Every `vctl` command of README.md, in its order: lines of code blocks (indented or fenced) without their comments, and
/// commands in backticks.
fn commands() -> Result<Vec<Vec<String>>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let mut found = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        let code = fenced || line.starts_with("    ");
        let pieces: Vec<&str> = if code {
            vec![line.split(" #").next().unwrap_or_default()]
        } else {
            line.split('`').skip(1).step_by(2).collect()
        };
        for piece in pieces {
            let words: Vec<String> = piece.split_whitespace().map(ToOwned::to_owned).collect();
            let is_command = words.first().is_some_and(|w| w == "vctl" || w == "$") && words.len() > 1;
            let words: Vec<String> = words.into_iter().filter(|w| w != "$").skip(1).collect();
            if is_command && !found.contains(&words) {
                found.push(words);
            }
        }
    }
    ensure!(found.len() >= 8, "README.md shows only {found:?}: are its code blocks read as they are written?");
    Ok(found)
}

/// Each command and each of its options is known.
#[test]
fn commands_of_the_readme_are_known() -> Result<()> {
    for words in commands()? {
        let mut help = std::process::Command::new(vctl_binary()?);
        help.args([&words[0], "--help"]);
        let help = finish(help)?.ok().with_context(|| format!("README.md shows `vctl {}`", words.join(" ")))?;
        let known: Vec<&str> = help.split(|c: char| !(c.is_alphanumeric() || c == '-')).collect();
        let options = words.iter().take_while(|w| *w != "--").filter(|w| w.starts_with('-'));
        for option in options {
            let name = option.split('=').next().unwrap_or_default();
            ensure!(
                known.contains(&name),
                "README.md shows `vctl {}`, but {name} is no option:\n{help}",
                words.join(" ")
            );
        }
    }
    Ok(())
}

/// The commands for people do what they say, in the order in which they stand there.
#[test]
fn commands_of_the_readme_work() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    let tool = kubectl::binary("1.33")?;
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", tool.parent().context("a directory")?.display());
    let mut done = 0;
    // A platform runs already; the dashboard has a test of its own; what stops it comes last.
    for words in commands()?.iter().filter(|words| !["up", "dash", "down", "agent"].contains(&words[0].as_str())) {
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = platform.vctl_command(&args)?;
        command.env("PATH", &path);
        finish(command)?.ok().with_context(|| format!("README.md shows `vctl {}`", words.join(" ")))?;
        done += 1;
    }
    ensure!(done >= 5, "only {done} commands");
    platform.vctl(&["down"])?.ok()?;
    let gone = platform.vctl(&["list"])?.refused()?;
    ensure!(gone.contains("vctl up"), "{gone}");
    Ok(())
}
