//! What others have made up is completed as a word: whatever it would be to a shell, it is not run, and comes to the program as it is.

use std::{fs, path::Path};

use anyhow::{Result, ensure};
use vctl_tests::{
    platform::{Platform, Workers},
    tmux::Tmux,
};

use super::path;

/// What a template lets one choose, each with another first letter; what would be run makes a file.
const CHOICES: [&str; 5] = [
    "a;touch${IFS}made",
    "b$(touch made)`touch made`",
    "d it's \"so\" \\e",
    "f*{p,q}? !! #n ~",
    "k>made|touch made&touch made",
];
/// Never offered: they are more than a line, or do something to the terminal.
const HIDDEN: [&str; 2] = ["y\ntouch made", "z\u{1b}]0;title\u{7}"];

struct Shell {
    name: &'static str,
    start: &'static str,
    set_up: &'static str,
}

const SHELLS: [Shell; 3] = [
    Shell {
        name: "bash",
        start: "exec bash --norc --noprofile",
        set_up: "source <(vctl completion bash); PS1='bash> '",
    },
    Shell {
        name: "zsh",
        start: "exec zsh -f",
        set_up: "autoload -U compinit; compinit -u -D; source <(vctl completion zsh); PS1='zsh> '",
    },
    Shell {
        name: "fish",
        start: "exec fish --no-config",
        set_up: "vctl completion fish | source; function fish_prompt; echo -n 'fish> '; end",
    },
];

fn platform() -> Result<Platform> {
    let platform = Platform::start(Workers::None)?;
    let directory = platform.scratch().join("choosy");
    fs::create_dir_all(directory.join("manifests"))?;
    let choices: Vec<&str> = CHOICES.into_iter().chain(HIDDEN).collect();
    let head = "apiVersion: vctl.dev/v1\nkind: Template\nname: choosy\nversion: 1.0.0\ntitle: T\n";
    // JSON is YAML.
    let parameter =
        serde_json::json!([{ "name": "size", "type": "choice", "default": CHOICES[0], "choices": choices }]);
    fs::write(directory.join("template.yaml"), format!("{head}parameters: {parameter}\n"))?;
    fs::write(directory.join("manifests/all.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\n")?;
    platform.vctl(&["template", "publish", &directory.display().to_string()])?.ok()?;
    Ok(platform)
}

/// A terminal with this shell in an empty directory.
fn terminal(platform: &Platform, shell: &Shell) -> Result<Tmux> {
    let home = platform.scratch().join(shell.name);
    fs::create_dir_all(home.join("empty"))?;
    let (data, path) = (platform.data_dir().display().to_string(), path()?);
    let tmux = Tmux::start(&home, &[("VCTL_DATA_DIR", &data), ("HOME", &home.display().to_string())])?;
    // tmux gives its first shell the path that it was started with.
    tmux.line(&format!("export PATH='{path}'; cd '{}/empty'", home.display()))?;
    tmux.resize(1500, 50)?;
    tmux.line("clear")?;
    tmux.until("an empty screen", |s| s.trim_end() == "$")?;
    tmux.line(shell.start)?;
    tmux.until("the shell", |s| s.trim_end() != "$" && !s.trim_end().ends_with(shell.start))?;
    tmux.line(&format!("{}; clear", shell.set_up))?;
    let prompt = format!("{}>", shell.name);
    tmux.until("its prompt", |s| s.trim_end() == prompt)?;
    Ok(tmux)
}

/// Types a line, the keys among its parts, has the shell print its words, and waits until each of these is among them.
fn comes_as(tmux: &Tmux, parts: &[&str], wanted: &[String]) -> Result<()> {
    tmux.keys(parts)?;
    tmux.keys(&["C-a", "printf '[%s]\\n' ", "Enter"])?;
    let what = format!("{wanted:?} of {parts:?}");
    tmux.until(&what, |s| wanted.iter().all(|w| s.lines().any(|l| l.trim_end() == w)))?;
    Ok(())
}

fn nothing_made(directory: &Path) -> Result<()> {
    let made: Vec<_> = fs::read_dir(directory)?.collect();
    ensure!(made.is_empty(), "{made:?}");
    Ok(())
}

fn completes_as_words(shell: &Shell) -> Result<()> {
    let platform = platform()?;
    let tmux = terminal(&platform, shell)?;
    let begin = "vctl create x --template choosy";
    let mut parts = vec![begin.to_owned()];
    for choice in CHOICES {
        // A shell leaves a space behind what it completes.
        let space = if parts.len() == 1 { " " } else { "" };
        parts.extend([format!("{space}--set size={}", &choice[..1]), "Tab".to_owned()]);
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    comes_as(&tmux, &parts, &CHOICES.map(|choice| format!("[size={choice}]")))?;
    let [first, second] = HIDDEN.map(|hidden| format!("size={}", &hidden[..1]));
    let typed = [begin, " --set ", &first, "Tab", " --set ", &second, "Tab"];
    comes_as(&tmux, &typed, &[format!("[{first}]"), format!("[{second}]")])?;
    if shell.name == "bash" {
        // What is in quotes already, and what a tab before has quoted.
        for (typed, choice) in [("'size=b", CHOICES[1]), ("size='k", CHOICES[4]), ("size=d\\ ", CHOICES[2])] {
            tmux.line("clear")?;
            comes_as(&tmux, &[begin, " --set ", typed, "Tab"], &[format!("[size={choice}]")])?;
        }
        // Nothing that would end them, or be run in them.
        for typed in ["\"size=b", "'size=d"] {
            let close = &typed[..1];
            comes_as(&tmux, &[begin, " --set ", typed, "Tab", close], &[format!("[{}]", &typed[1..])])?;
        }
    }
    nothing_made(&platform.scratch().join(shell.name).join("empty"))
}

#[test]
fn bash_completes_what_others_made_up_as_words() -> Result<()> {
    completes_as_words(&SHELLS[0])
}

#[test]
fn zsh_completes_what_others_made_up_as_words() -> Result<()> {
    completes_as_words(&SHELLS[1])
}

#[test]
fn fish_completes_what_others_made_up_as_words() -> Result<()> {
    completes_as_words(&SHELLS[2])
}
