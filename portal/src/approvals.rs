//! Approvals: what rules hold until somebody else has agreed, roles for a time, and break-glass.
//!
//! * [`documents`]: requests and rules as they are kept.
//! * [`rules`]: whether a rule counts: pure.
//! * `rule_set`: the rules of the platform and of projects.
//! * `asking`: what is held, and what is asked for.
//! * `deciding`: approve, deny, withdraw, revoke, review.
//! * `carrying`: what was approved is done, by itself.
//! * `uncounted`: approvals of those who may not decide any more.
//! * `times`: requests, grants and roles that come to their end.
//! * `seeing`: what somebody sees of requests, and may do with them.
//!
//! A request is one document; every step is a compare-and-swap of it, together with what it means and its audit entry. So of two who
//! decide at once one is told that it was decided, and what was withdrawn is never carried out.

mod asking;
mod carrying;
mod deciding;
pub(crate) mod documents;
mod rule_set;
pub(crate) mod rules;
mod seeing;
mod times;
mod uncounted;

use std::sync::Arc;

use jiff::Timestamp;
use vctl_api::rest::{ApprovalActions, ApprovalState};
use vctl_store::Write;

pub(crate) use self::{asking::Asked, seeing::Wanted};
use crate::{
    approvals::documents::ApprovalDoc, documents::Stored, environments::Environments, error::Error, webhooks::Webhooks,
};

/// Longest reason or comment in characters.
const TEXT_LIMIT: usize = 2000;
/// Open requests that somebody may have.
const OPEN_LIMIT: usize = 100;
/// A role is asked for at most for so long.
const LONGEST_ROLE: u64 = 30 * 86_400;
/// A role is taken at most for so long.
const LONGEST_BREAK_GLASS: u64 = 8 * 3600;
/// A role is taken for so long unless they say otherwise.
const BREAK_GLASS: u64 = 3600;
/// A request waits so long for an answer unless its rules say otherwise.
const ANSWER_WITHIN: u64 = 7 * 86_400;
/// What was approved can be carried out for so long unless its rules say otherwise.
const GRANT: u64 = 86_400;

/// Requests for approval. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Approvals {
    environments: Environments,
    webhooks: Webhooks,
    /// Those who ask go one after the other: how many open requests somebody has is counted.
    asking: Arc<tokio::sync::Mutex<()>>,
    /// Where a rule counts environments, those who create go one after the other from the count to the write. One process owns the store.
    counting: Arc<tokio::sync::Mutex<()>>,
}

impl Approvals {
    pub(crate) fn new(environments: Environments, webhooks: Webhooks) -> Self {
        Self { environments, webhooks, asking: Arc::default(), counting: Arc::default() }
    }

    fn now(&self) -> Timestamp {
        self.environments.now()
    }

    async fn stored(&self, id: &str) -> Result<Stored<ApprovalDoc>, Error> {
        let stored = self.environments.documents.get::<ApprovalDoc>(id).await?;
        stored.ok_or_else(|| Error::NotFound { what: "request", name: id.to_owned(), nearest: Vec::new() })
    }

    /// The writes that tell webhooks what has become of a request.
    async fn tell(&self, event: &'static str, doc: &ApprovalDoc) -> Result<Vec<Write>, Error> {
        let data = seeing::view(Stored { value: doc.clone(), revision: 0, created: 0 }, ApprovalActions::default());
        let data = serde_json::to_value(data).map_err(|e| Error::Internal(e.to_string()))?;
        self.webhooks.tell(event, &doc.project, data, self.now()).await
    }
}

/// Whether a request can still change by itself or by somebody's decision.
fn is_open(state: ApprovalState) -> bool {
    matches!(state, ApprovalState::Pending | ApprovalState::Approved | ApprovalState::Active)
}

/// A reason or comment as it is kept.
///
/// # Errors
/// [`Error::Invalid`] for one that is too long, and, where there has to be one, for none.
fn text(what: &str, given: &str, needed: bool) -> Result<String, Error> {
    // What nobody sees says nothing.
    let text = if given.chars().all(is_invisible) { "" } else { given.trim() };
    if needed && text.is_empty() {
        return Err(Error::invalid("invalid-reason", format!("say why: the {what} is empty")));
    }
    if text.chars().count() > TEXT_LIMIT {
        return Err(Error::invalid(
            "invalid-reason",
            format!("the {what} has more than {TEXT_LIMIT} characters: say less"),
        ));
    }
    Ok(text.to_owned())
}

/// Whether a character leaves no trace where it is shown: spaces, control and format characters, fillers.
fn is_invisible(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'
                | '\u{1160}'
                | '\u{17b4}'
                | '\u{17b5}'
                | '\u{3164}'
                | '\u{ffa0}'
        )
        || matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{2800}' | '\u{e0000}'..='\u{e0fff}')
}
