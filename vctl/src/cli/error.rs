//! What can go wrong with a client command, and the exit code it gives.

use std::{io, path::PathBuf, process::ExitCode};

use clap::ValueEnum;
use vctl_api::rest::Problem;

use super::output::visible;

/// Exit codes of client commands. This is the one list of them: manual pages say what stands here, and docs/rest-api.md has to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[repr(u8)]
pub(crate) enum Exit {
    /// done
    Done = 0,
    /// failed
    Failed = 1,
    /// wrong usage or refused input
    Usage = 2,
    /// not found
    NotFound = 3,
    /// exists already or conflict
    Conflict = 4,
    /// not allowed
    Forbidden = 5,
    /// no server, or it cannot answer now
    Unavailable = 6,
    /// it needs approval, or waits for it
    Waits = 7,
}

impl Exit {
    /// All codes with what they mean, in their order.
    pub(crate) fn all() -> impl Iterator<Item = (u8, String)> {
        Self::value_variants().iter().map(|exit| {
            let said = exit.to_possible_value().and_then(|value| value.get_help().map(ToString::to_string));
            (*exit as u8, said.unwrap_or_default())
        })
    }
}

/// A command failed. Texts say what to do next.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// Wrong usage that the parser cannot see.
    #[error("{0}")]
    Usage(String),
    /// No server has this data dir.
    #[error("no server runs with the data dir {}: start one with `vctl up`, or name another with --data-dir", .0.display())]
    NoServer(PathBuf),
    /// There is a `server.json`, but nobody answers.
    #[error(
        "the server at {url} does not answer ({why}): is it still running? Start it with `vctl up`; its log says more"
    )]
    Unreachable {
        /// Its address.
        url: String,
        /// What happened.
        why: String,
    },
    /// There is no login that counts.
    #[error("you are not signed in at {server}, or not any more: sign in with `vctl login --server {server}`")]
    SignedOut {
        /// Address of the server.
        server: String,
    },
    /// The server refused.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    /// The server's answer makes no sense.
    #[error("the answer of the server cannot be read ({0}): is it of another version? Compare with `vctl version`")]
    Answer(String),
    /// Something else is under way; the text says how to go on.
    #[error("{0}")]
    Conflict(String),
    /// The server would refuse it.
    #[error("{0}")]
    Forbidden(String),
    /// What was asked for was begun but failed.
    #[error("{0}")]
    Failed(String),
    /// It was asked for, and waits for somebody else's approval.
    #[error("{0}")]
    Waits(String),
    /// A file cannot be used.
    #[error("{path}: {source}", path = .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The terminal or standard output failed.
    #[error("output failed: {0}")]
    Output(#[from] io::Error),
}

impl CliError {
    /// A failure of a file.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }

    /// What the process ends with.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Conflict(_) => Exit::Conflict,
            Self::SignedOut { .. } | Self::Forbidden(_) => Exit::Forbidden,
            Self::NoServer(_) | Self::Unreachable { .. } => Exit::Unavailable,
            Self::Refused(problem) => match (problem.status, problem.kind.as_str()) {
                (_, "approval-required") => Exit::Waits,
                (404, _) | (_, "unknown-template") => Exit::NotFound,
                (409 | 412, _) => Exit::Conflict,
                (401 | 403, _) => Exit::Forbidden,
                (400 | 413 | 422, _) => Exit::Usage,
                (502..=504, _) => Exit::Unavailable,
                _ => Exit::Failed,
            },
            Self::Waits(_) => Exit::Waits,
            Self::Answer(_) | Self::Failed(_) | Self::File { .. } | Self::Output(_) => Exit::Failed,
        }
    }
}

/// Writes `error: ...` to standard error; gives the exit code.
pub(crate) fn report(error: &CliError) -> ExitCode {
    if let CliError::Output(e) = error
        && e.kind() == io::ErrorKind::BrokenPipe
    {
        // The reader has seen enough: `vctl list | head -1`.
        return ExitCode::SUCCESS;
    }
    let mut text = match error {
        // Nothing went wrong.
        CliError::Waits(_) => format!("{error}\n"),
        _ => format!("error: {error}\n"),
    };
    if let CliError::Refused(problem) = error
        && problem.status >= 500
    {
        text.push_str(&format!("request id: {}\n", problem.request_id));
    }
    // Nothing is left to tell it to when standard error is gone.
    let _ = io::Write::write_all(&mut io::stderr(), visible(&text).as_bytes());
    ExitCode::from(error.exit() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, kind: &str) -> Exit {
        let problem = Problem {
            status,
            kind: kind.to_owned(),
            detail: String::new(),
            nearest: Vec::new(),
            request_id: String::new(),
            current: None,
        };
        CliError::Refused(Box::new(problem)).exit()
    }

    #[test]
    fn exit_codes_are_as_documented() {
        assert_eq!(refused(404, "not-found"), Exit::NotFound);
        assert_eq!(refused(422, "unknown-template"), Exit::NotFound);
        assert_eq!(refused(422, "invalid-parameter"), Exit::Usage);
        assert_eq!(refused(409, "already-exists"), Exit::Conflict);
        assert_eq!(refused(409, "approval-required"), Exit::Waits);
        assert_eq!(refused(401, "unauthorized"), Exit::Forbidden);
        assert_eq!(refused(503, "unavailable"), Exit::Unavailable);
        assert_eq!(refused(500, "internal"), Exit::Failed);
        assert_eq!(CliError::NoServer(PathBuf::new()).exit(), Exit::Unavailable);
        assert_eq!(CliError::Usage(String::new()).exit(), Exit::Usage);
        let document = include_str!("../../../docs/rest-api.md").replace('\n', " ");
        let said: Vec<String> = Exit::all().map(|(code, meaning)| format!("{code} {meaning}")).collect();
        assert!(document.contains(&said.join("; ")), "docs/rest-api.md does not say: {}", said.join("; "));
    }
}
