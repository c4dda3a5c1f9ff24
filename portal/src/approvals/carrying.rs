//! What was approved is done, by itself and as whoever asked.

use jiff::SignedDuration;
use vctl_api::rest::{ApprovalKind, ApprovalState, HoldingRule};
use vctl_store::{Expect, StoreError, Write};

use super::{
    Approvals,
    asking::{facts_of_new, facts_of_update},
    deciding::{by_itself, close, terms},
    documents::{ApprovalDoc, ApprovalSecretsDoc},
    rules::{self, Facts},
};
use crate::{
    access::{decide::Scope, permission::Permission},
    audit::{Subject, entry_for},
    documents::{Stored, put},
    environments::{Besides, Caller},
    error::Error,
    jobs,
    templates::Template,
};

/// Who the audit trail names for what happens by itself.
pub(super) const ACTOR: Caller<'static> = Caller { actor: "approvals", user: "", request_id: "" };
/// What could not be done now is tried again after that.
const AGAIN: SignedDuration = SignedDuration::from_mins(1);

/// What came of carrying out.
enum Outcome {
    /// It was done, in one transaction with the request.
    Done,
    /// Rules hold it that were not there, or not so, when it was approved.
    Held(Vec<HoldingRule>, Box<Facts>),
}

impl Approvals {
    /// Carries out what was approved, if it still is; what may pass by itself is tried again later.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn carry_out(&self, id: &str) -> Result<(), Error> {
        let stored = self.stored(id).await?;
        if stored.value.state != ApprovalState::Approved {
            return Ok(());
        }
        let now = self.now();
        if stored.value.granted_until.is_none_or(|until| until <= now) {
            return self.expire(stored).await;
        }
        let outcome = match stored.value.kind {
            ApprovalKind::Create => self.create_approved(&stored).await,
            _ => self.update_approved(&stored).await,
        };
        let mut doc = stored.value.clone();
        let (action, event) = match outcome {
            Ok(Outcome::Done) => return Ok(()),
            Ok(Outcome::Held(rules, facts)) => {
                let names: Vec<&str> = rules.iter().map(|h| h.rule.as_str()).collect();
                doc.message = format!("approve it again: since then it is held by {}", names.join(", "));
                doc.rules = rules;
                doc.facts = Some(*facts);
                doc.counted_from = doc.decisions.len();
                doc.uncounted.clear();
                doc.state = ApprovalState::Pending;
                doc.granted_until = None;
                doc.next_try = None;
                terms(&mut doc, &self.rules().await?, now);
                ("approval.hold", "approval.requested")
            }
            Err(
                e @ (Error::Unavailable(_)
                | Error::Internal(_)
                | Error::QuotaExceeded(_)
                | Error::Conflict(_)
                | Error::Raced),
            ) => {
                doc.message = format!("not carried out yet: {e}");
                doc.next_try = now.checked_add(AGAIN).ok();
                // Nothing has become of it: this is no step of its life.
                return self.write(&doc, stored.revision, Vec::new()).await;
            }
            Err(e) => {
                doc.message = e.to_string();
                close(&mut doc, ApprovalState::Failed, now);
                ("approval.fail", "approval.failed")
            }
        };
        let more = if doc.state == ApprovalState::Failed { self.forget_secrets(id).await? } else { Vec::new() };
        self.happened(stored.revision, &doc, action, event, more).await
    }

    async fn create_approved(&self, stored: &Stored<ApprovalDoc>) -> Result<Outcome, Error> {
        let doc = &stored.value;
        let mut request = doc.create.clone().ok_or_else(|| broken(doc))?;
        request.parameters.extend(self.secrets(&doc.id).await?);
        let access = &self.environments.access;
        self.still_may(doc).await?;
        let policy = access.policy().await?;
        let project = policy.projects.get(&doc.project).ok_or_else(|| {
            Error::invalid("unknown-project", format!("there is no project {:?} any more", doc.project))
        })?;
        let caller = requester(doc);
        let template = self.pinned(doc).await?;
        let new = self.environments.prepare_new(caller, &project.value, request, Some(template)).await?;
        let facts = facts_of_new(&new);
        let all = self.rules().await?;
        let counts = rules::counts_environments(all.values(), &doc.project, &facts);
        let _turn = if counts { Some(self.counting.lock().await) } else { None };
        let held = self.holding(&all, &doc.project, &facts, &doc.requested_by_id).await?;
        if let Some(held) = held_anew(doc, held, &facts) {
            return Ok(held);
        }
        let besides = self.fulfilled(stored, &new.job.id).await?;
        self.environments.commit_new(caller, new, besides).await.map(|_| Outcome::Done)
    }

    async fn update_approved(&self, stored: &Stored<ApprovalDoc>) -> Result<Outcome, Error> {
        let doc = &stored.value;
        let (Some(name), Some(mut request)) = (doc.environment.as_deref(), doc.update.clone()) else {
            return Err(broken(doc));
        };
        request.parameters.extend(self.secrets(&doc.id).await?);
        self.still_may(doc).await?;
        let template = if request.rollback { None } else { Some(self.pinned(doc).await?) };
        let prepared = self.environments.prepare_update(name, &request, template).await?;
        if Some(&prepared.of.value.uid) != doc.environment_uid.as_ref() {
            return Err(Error::NotFound { what: "environment", name: name.to_owned(), nearest: Vec::new() });
        }
        if Some(&prepared.template.digest) != doc.template_digest.as_ref() {
            return Err(Error::invalid("invalid-update", "the environment was updated since: ask for it again"));
        }
        let facts = facts_of_update(&prepared);
        let held = self.holding(&self.rules().await?, &doc.project, &facts, &doc.requested_by_id).await?;
        if let Some(held) = held_anew(doc, held, &facts) {
            return Ok(held);
        }
        let job = jobs::new_id(self.now());
        let besides = self.fulfilled(stored, &job).await?;
        let done = self.environments.commit_update(requester(doc), &prepared, &request, &job, &besides).await;
        done.map(|_| Outcome::Done)
    }

    /// What is written together with what was asked for: in the same transaction, so that it happens once.
    async fn fulfilled(&self, stored: &Stored<ApprovalDoc>, job: &str) -> Result<Besides, Error> {
        let mut doc = stored.value.clone();
        close(&mut doc, ApprovalState::Fulfilled, self.now());
        doc.message.clear();
        doc.job = Some(job.to_owned());
        let mut writes = vec![put(&doc, Expect::Revision(stored.revision))?];
        writes.extend(self.forget_secrets(&doc.id).await?);
        writes.extend(self.tell("approval.fulfilled", &doc).await?);
        Ok(Besides { writes, detail: [("approval", doc.id.into())].into() })
    }

    /// Whoever asked must still be allowed to.
    async fn still_may(&self, doc: &ApprovalDoc) -> Result<(), Error> {
        let permit = self.environments.access.permit_of(&doc.requested_by_id).await?;
        let allowed = match (permit, doc.kind) {
            (None, _) => false,
            (Some(permit), ApprovalKind::Create) => {
                permit.allows(Permission::EnvironmentsCreate, Scope::Project(&doc.project))
            }
            (Some(permit), _) => {
                let environment = self.environments.stored(doc.environment.as_deref().unwrap_or_default()).await?;
                permit.allows_on(Permission::EnvironmentsUpdate, &environment.value)
            }
        };
        if allowed {
            return Ok(());
        }
        Err(Error::Forbidden(format!("{} may not do this any more", doc.requested_by)))
    }

    async fn pinned(&self, doc: &ApprovalDoc) -> Result<Template, Error> {
        let template = self.environments.registry.pinned(doc.template_digest.as_deref().unwrap_or_default()).await?;
        template.ok_or_else(|| broken(doc))
    }

    async fn secrets(&self, id: &str) -> Result<std::collections::BTreeMap<String, serde_json::Value>, Error> {
        let stored = self.environments.documents.get::<ApprovalSecretsDoc>(id).await?;
        Ok(stored.map(|s| s.value.parameters).unwrap_or_default())
    }

    /// Writes what has happened to a request by itself. That somebody has changed it at the same moment is told by the watch.
    pub(super) async fn happened(
        &self,
        revision: u64,
        doc: &ApprovalDoc,
        action: &str,
        event: &'static str,
        more: Vec<Write>,
    ) -> Result<(), Error> {
        let subject = Subject::of_project(&doc.id, &doc.project);
        let mut writes = vec![entry_for(&doc.requested_by, self.now(), ACTOR, action, subject, by_itself(doc))?];
        writes.extend(more);
        writes.extend(self.tell(event, doc).await?);
        self.write(doc, revision, writes).await
    }

    async fn write(&self, doc: &ApprovalDoc, revision: u64, more: Vec<Write>) -> Result<(), Error> {
        let mut writes = vec![put(doc, Expect::Revision(revision))?];
        writes.extend(more);
        match self.environments.access.change(writes).await {
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

/// What rules hold that was not approved under them as they are, or when it would come out larger than what was approved.
fn held_anew(doc: &ApprovalDoc, held: Vec<HoldingRule>, facts: &Facts) -> Option<Outcome> {
    let approved = |h: &HoldingRule| doc.rules.iter().any(|r| r.rule == h.rule && r.revision == h.revision);
    let same_size = doc.facts.as_ref().is_some_and(|f| f.size == facts.size);
    let holds = !held.is_empty() && (!same_size || !held.iter().all(approved));
    holds.then(|| Outcome::Held(held, Box::new(facts.clone())))
}

/// Whoever asked, in the request by which they did.
fn requester(doc: &ApprovalDoc) -> Caller<'_> {
    Caller { actor: &doc.requested_by, user: &doc.requested_by_id, request_id: &doc.request_id }
}

fn broken(doc: &ApprovalDoc) -> Error {
    Error::invalid(
        "invalid-update",
        format!("what request {} is about is not there any more: ask for it again", doc.id),
    )
}
