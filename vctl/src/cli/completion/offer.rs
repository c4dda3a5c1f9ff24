//! What is offered of names and values that others have made up: nothing that is more than a word on whichever command line it comes to
//! stand, and nothing that does something to the terminal.

use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    sync::OnceLock,
};

use clap_complete::CompletionCandidate;

use crate::cli::output::visible;

/// Shells whose scripts put candidates on the line as words, with whatever quotes that takes. Others are not known to: PowerShell inserts
/// them as they are, and so does the script of an older kubectl.
const QUOTING: [&str; 3] = ["bash", "zsh", "fish"];

/// The shell that asks; none: kubectl. A process answers once.
static ASKING: OnceLock<Option<OsString>> = OnceLock::new();

/// Keeps which shell asks: the variable that says so is gone while names are looked up.
pub(super) fn asked_by(shell: Option<OsString>) {
    ASKING.get_or_init(|| shell);
}

/// A candidate with what is said about it; none when it cannot be offered to whoever asks.
pub(super) fn offer(value: String, help: Option<String>) -> Option<CompletionCandidate> {
    let shell = ASKING.get().and_then(Option::as_deref);
    is_offered(&value, shell).then(|| described(value, help))
}

/// The same of what is made up here.
pub(super) fn described(value: impl Into<String>, help: Option<String>) -> CompletionCandidate {
    CompletionCandidate::new(value.into()).help(help.map(|help| said(&help).into()))
}

/// Each is a line.
fn said(help: &str) -> String {
    visible(help).replace(['\n', '\t'], " ")
}

fn is_offered(value: &str, shell: Option<&OsStr>) -> bool {
    let shown = matches!(visible(value), Cow::Borrowed(_)) && !value.contains(['\n', '\t']);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=+".contains(c);
    let quotes = shell.is_some_and(|shell| QUOTING.iter().any(|known| shell == *known));
    !value.is_empty() && shown && (quotes || !value.starts_with('@') && value.chars().all(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_more_than_a_word_is_not_offered() {
        let to = |shell: Option<&str>, value: &str| is_offered(value, shell.map(OsStr::new));
        for shell in [Some("bash"), Some("zsh"), Some("fish"), Some("powershell"), Some("elvish"), None] {
            for good in ["alpha", "app@1.4.0", "db=db-one", "ann+x@example.com", "j-1"] {
                assert!(to(shell, good), "{good} to {shell:?}");
            }
            for bad in ["", "a\nb", "a\tb", "a\u{b}b", "a\u{1b}[2J", "a\u{202e}b", "a\u{9b}2J"] {
                assert!(!to(shell, bad), "{bad:?} to {shell:?}");
            }
        }
        for value in ["size=small;curl${IFS}x|sh", "a b", "$(x)", "`x`", "it's", "é"] {
            assert!(to(Some("bash"), value) && to(Some("zsh"), value) && to(Some("fish"), value), "{value}");
            assert!(!to(Some("powershell"), value) && !to(Some("elvish"), value) && !to(None, value), "{value}");
        }
        assert!(!to(Some("powershell"), "@args"));
    }

    #[test]
    fn what_is_said_about_it_is_a_line_and_does_nothing() {
        assert_eq!(said("one\n\u{1b}[31mtwo\tthree"), "one \\u{1b}[31mtwo three");
    }
}
