//! What can go wrong with a client command, and the exit code it gives.

use std::{io, path::PathBuf, process::ExitCode};

use vctl_api::rest::Problem;

use super::output::visible;

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

    /// See [`crate::cli`].
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Conflict(_) => 4,
            Self::SignedOut { .. } | Self::Forbidden(_) => 5,
            Self::NoServer(_) | Self::Unreachable { .. } => 6,
            Self::Refused(problem) => match (problem.status, problem.kind.as_str()) {
                (_, "approval-required") => 7,
                (404, _) | (_, "unknown-template") => 3,
                (409 | 412, _) => 4,
                (401 | 403, _) => 5,
                (400 | 413 | 422, _) => 2,
                (502..=504, _) => 6,
                _ => 1,
            },
            Self::Waits(_) => 7,
            Self::Answer(_) | Self::Failed(_) | Self::File { .. } | Self::Output(_) => 1,
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
    ExitCode::from(error.exit_code())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, kind: &str) -> u8 {
        let problem = Problem {
            status,
            kind: kind.to_owned(),
            detail: String::new(),
            nearest: Vec::new(),
            request_id: String::new(),
            current: None,
        };
        CliError::Refused(Box::new(problem)).exit_code()
    }

    #[test]
    fn exit_codes_are_as_documented() {
        assert_eq!(refused(404, "not-found"), 3);
        assert_eq!(refused(422, "unknown-template"), 3);
        assert_eq!(refused(422, "invalid-parameter"), 2);
        assert_eq!(refused(409, "already-exists"), 4);
        assert_eq!(refused(401, "unauthorized"), 5);
        assert_eq!(refused(503, "unavailable"), 6);
        assert_eq!(refused(500, "internal"), 1);
        assert_eq!(CliError::NoServer(PathBuf::new()).exit_code(), 6);
        assert_eq!(CliError::Usage(String::new()).exit_code(), 2);
    }
}
