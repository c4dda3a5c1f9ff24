//! `vctl completion`, and the names that it completes.

mod names;
mod offer;

use std::{ffi::OsString, path::Path};

use clap::Args;
use clap_complete::{CompleteEnv, env::Shells};

use super::{error::CliError, output::print};

pub(crate) use names::{
    api_keys, approval_rules, approvals, bindings, contexts, contexts_and_local, decidable, environments, jobs, logins,
    own_approvals, parameters, people, projects, resources, roles, teams, template_sources, templates, users, versions,
    webhooks,
};

/// The variable by which the script asks for completions.
const VARIABLE: &str = "VCTL_COMPLETE";

/// The script for bash: the one that is made breaks `NAME@VERSION` and `NAME=VALUE` where bash does.
const BASH: &str = include_str!("completion/bash.sh");

/// For which there is a script.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Kind {
    Bash,
    Zsh,
    Fish,
    Elvish,
    Powershell,
}

/// Arguments of `vctl completion`.
#[derive(Debug, Args)]
pub(crate) struct Completion {
    /// For which shell
    shell: Kind,
}

impl Completion {
    /// Prints the script, which asks this program at every completion: names of environments and the like are those of now.
    pub(super) fn run(self) -> Result<(), CliError> {
        let name = match self.shell {
            Kind::Bash => return print(BASH),
            Kind::Zsh => "zsh",
            Kind::Fish => "fish",
            Kind::Elvish => "elvish",
            Kind::Powershell => "powershell",
        };
        let shells = Shells::builtins();
        let shell = shells.completer(name).ok_or_else(|| CliError::Usage(format!("there is no script for {name}")))?;
        let mut script = Vec::new();
        shell.write_registration(VARIABLE, "vctl", "vctl", "vctl", &mut script)?;
        print(&String::from_utf8_lossy(&script))
    }
}

/// Answers the script, when it is the script that asks; then nothing else is to be done.
pub(crate) fn answered(command: fn() -> clap::Command) -> bool {
    let here = std::env::current_dir().ok();
    offer::asked_by(std::env::var_os(VARIABLE));
    if is_called(std::env::args_os().next().as_ref(), "kubectl_complete-vctl") {
        return for_kubectl(&mut command(), here.as_deref()).is_ok();
    }
    let complete = CompleteEnv::with_factory(command).var(VARIABLE).bin("vctl");
    complete.try_complete(std::env::args_os(), here.as_deref()).unwrap_or_default()
}

/// How this program was called: by a link `kubectl-vctl` in the path it is `kubectl vctl`.
pub(crate) fn called(argument: Option<&OsString>) -> Option<&'static str> {
    is_called(argument, "kubectl-vctl").then_some("kubectl vctl")
}

fn is_called(argument: Option<&OsString>, name: &str) -> bool {
    argument.and_then(|path| Path::new(path).file_stem()).is_some_and(|stem| stem == name)
}

/// kubectl runs a program of this name with the words after `kubectl vctl`, and wants candidates a line and a number that says what to do
/// with them: 4, not to complete names of files.
fn for_kubectl(command: &mut clap::Command, here: Option<&Path>) -> Result<(), CliError> {
    let words: Vec<OsString> = [OsString::from("vctl")].into_iter().chain(std::env::args_os().skip(1)).collect();
    let last = words.len() - 1;
    let mut text = String::new();
    for candidate in clap_complete::engine::complete(command, words, last, here)? {
        let help = candidate.get_help().map(|help| format!("\t{help}")).unwrap_or_default();
        text.push_str(&format!("{}{help}\n", candidate.get_value().to_string_lossy()));
    }
    print(&(text + ":4\n"))
}
