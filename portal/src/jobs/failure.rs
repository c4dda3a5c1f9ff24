//! Why a job did not go on.

use crate::{error::Error, ports::PortError};

/// Why a job did not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// May pass by itself.
    #[error("{0}")]
    Temporary(String),
    /// Will not; the text says what to do.
    #[error("{0}")]
    Permanent(String),
    /// Somebody asked for it to stop.
    #[error("cancelled")]
    Cancelled,
    /// Another runner has it now: nothing may be written any more.
    #[error("another runner has taken the job over")]
    Lost,
}

impl Failure {
    /// A failure with the object it is about.
    pub(crate) fn about(e: PortError, kind: &str, name: &str) -> Self {
        match e {
            PortError::Temporary(text) => Self::Temporary(format!("{kind} {name}: {text}")),
            PortError::Permanent(text) => Self::Permanent(format!("{kind} {name}: {text}")),
        }
    }
}

impl From<PortError> for Failure {
    fn from(e: PortError) -> Self {
        match e {
            PortError::Temporary(text) => Self::Temporary(text),
            PortError::Permanent(text) => Self::Permanent(text),
        }
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        match e {
            Error::Unavailable(_) | Error::Internal(_) | Error::Conflict(_) | Error::Raced => {
                Self::Temporary(e.to_string())
            }
            other => Self::Permanent(other.to_string()),
        }
    }
}
