//! What can go wrong with a request, without a word of HTTP; [`crate::http::problem`] maps it.

use vctl_store::StoreError;

use crate::ports::PortError;

/// Why a request was refused or failed. Texts are for people and say what to do next.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody is signed in, or not any more.
    #[error("{0}")]
    Unauthorized(String),
    /// Signed in, but this request is not allowed.
    #[error("{0}")]
    Forbidden(String),
    /// There would be more than a quota allows.
    #[error("{0}")]
    QuotaExceeded(String),
    /// Rules ask for approval, and the request does not say why it should be given.
    #[error("{0}")]
    ApprovalRequired(String),
    /// There is no such thing.
    #[error("{}", not_found(.what, .name, .nearest))]
    NotFound {
        /// What kind of thing: `environment`.
        what: &'static str,
        /// Its name.
        name: String,
        /// Names that are near.
        nearest: Vec<String>,
    },
    /// There is one of that name.
    #[error("{0}")]
    AlreadyExists(String),
    /// It changed in between, or is not in a state for this.
    #[error("{0}")]
    Conflict(String),
    /// Somebody else has changed it at the same moment: nobody was refused for what they ask, and what there is now is to be read.
    #[error("somebody else has changed it at the same moment: read it again and decide anew")]
    Raced,
    /// `If-Match` does not hold.
    #[error("it has changed (its revision is {current}): read it again and decide anew")]
    Changed {
        /// Revision it has now.
        current: u64,
    },
    /// `If-Match` does not hold, and this is what is there now.
    #[error(
        "it has changed (its revision is {current}): `current` is what it is now; decide anew, and send the change with its ETag"
    )]
    Stale {
        /// Revision it has now.
        current: u64,
        /// As it would be read now.
        now: Box<serde_json::Value>,
    },
    /// What was asked for makes no sense; `kind` is a short name of what is wrong with it.
    #[error("{detail}")]
    Invalid {
        /// Short name: `invalid-name`, `invalid-parameter`, `unknown-template`, ..
        kind: &'static str,
        /// What is wrong and what would be right.
        detail: String,
        /// Names that are near.
        nearest: Vec<String>,
    },
    /// What was sent cannot be read.
    #[error("{0}")]
    BadRequest(String),
    /// The body is of a media type that the endpoint does not take.
    #[error("{0}")]
    UnsupportedMediaType(&'static str),
    /// The body is too large.
    #[error("the body is larger than the {limit} bytes that are accepted: send less")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The endpoint does not take this method.
    #[error("this address does not take that method: see /api/v1 in the documentation")]
    MethodNotAllowed,
    /// The caller has too much of something at the same time.
    #[error("{0}")]
    TooManyRequests(String),
    /// Cannot be answered now, but later.
    #[error("{0}: try again in a moment")]
    Unavailable(String),
    /// A bug or broken storage. The text goes to the log; people get the request id.
    #[error("{0}")]
    Internal(String),
}

fn not_found(what: &str, name: &str, nearest: &[String]) -> String {
    if nearest.is_empty() {
        let list = match what {
            "environment" => "; `vctl list` shows those there are",
            "template" => "; `vctl templates` shows those there are",
            _ => "",
        };
        format!("there is no {what} {name:?}{list}")
    } else {
        format!("there is no {what} {name:?}; did you mean {}?", nearest.join(", "))
    }
}

impl Error {
    /// An [`Error::Invalid`] without near names.
    pub(crate) fn invalid(kind: &'static str, detail: impl Into<String>) -> Self {
        Self::Invalid { kind, detail: detail.into(), nearest: Vec::new() }
    }
}

impl From<StoreError> for Error {
    fn from(e: StoreError) -> Self {
        match e {
            StoreError::Conflict { .. } => Self::Raced,
            StoreError::Closed => Self::Unavailable(e.to_string()),
            other => Self::Internal(other.to_string()),
        }
    }
}

impl From<PortError> for Error {
    fn from(e: PortError) -> Self {
        match e {
            PortError::Temporary(text) => Self::Unavailable(text),
            PortError::Permanent(text) => Self::Conflict(text),
        }
    }
}

/// Up to three names near `name`, nearest first.
pub(crate) fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let name = name.to_lowercase();
    let mut near: Vec<(f64, &str)> = names
        .into_iter()
        .map(|known| {
            let lower = known.to_lowercase();
            let prefix = !name.is_empty() && (lower.starts_with(&name) || name.starts_with(&lower));
            (if prefix { 1.0 } else { strsim::jaro_winkler(&name, &lower) }, known)
        })
        .filter(|(likeness, _)| *likeness >= 0.75)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    near.into_iter().take(3).map(|(_, known)| known.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_offered_and_far_ones_are_not() {
        assert_eq!(nearest("taem-x", ["team-x", "blank"]), ["team-x"]);
        assert_eq!(nearest("team", ["team-x", "team-y", "blank"]), ["team-x", "team-y"]);
        assert!(nearest("zzz", ["team-x", "blank"]).is_empty());
        assert!(nearest("", ["team-x"]).is_empty());
    }
}
