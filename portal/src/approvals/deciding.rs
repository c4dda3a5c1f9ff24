//! Approve, deny, withdraw, revoke, review.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use vctl_api::rest::{Approval, ApprovalKind, ApprovalState, Decide, Decision, Period, Review, Verdict};
use vctl_store::{Expect, StoreError, Write};

use super::{
    ANSWER_WITHIN, Approvals, GRANT,
    asking::detail,
    documents::{ApprovalDoc, ApprovalSecretsDoc, RuleDoc},
    seeing::Moment,
    text,
    uncounted::said_of,
};
use crate::{
    access::{documents::GrantDoc, policy::Permit},
    audit::{Subject, entry},
    documents::{Stored, put, remove},
    environments::{CONFLICT_TRIES, Caller},
    error::Error,
};

/// Sets what the rules that hold a request ask of its answer.
pub(super) fn terms(doc: &mut ApprovalDoc, rules: &BTreeMap<String, Stored<RuleDoc>>, now: Timestamp) {
    let held: Vec<&RuleDoc> = doc.rules.iter().filter_map(|h| rules.get(&h.rule)).map(|r| &r.value).collect();
    doc.approvals_needed = held.iter().map(|r| r.settings.approvals).max().unwrap_or(1).max(1);
    doc.expires_at = Some(answer_by(&held, now));
}

/// When a request ends that nobody answers.
fn answer_by(rules: &[&RuleDoc], now: Timestamp) -> Timestamp {
    let within =
        rules.iter().filter_map(|r| r.settings.answer_within).map(Period::seconds).min().unwrap_or(ANSWER_WITHIN);
    Period::from_seconds(within).map_or(now, |within| within.after(now))
}

impl Approvals {
    /// Approves a request. With the last approval that is needed it is granted: a role counts at once, an environment is carried out.
    ///
    /// # Errors
    /// [`Error::Forbidden`] with why the caller may not; [`Error::Conflict`] when it does not wait for an answer any more.
    pub(crate) async fn approve(
        &self,
        caller: Caller<'_>,
        permit: &Permit,
        id: &str,
        decide: &Decide,
    ) -> Result<Approval, Error> {
        let comment = text("comment", &decide.comment, false)?;
        for _ in 0..CONFLICT_TRIES {
            let mut stored = self.pending(id).await?;
            let now = self.now();
            let (policy, rules) = (self.environments.access.policy().await?, self.rules().await?);
            let doc = &mut stored.value;
            // By the rules as they are now. What was approved under others does not count.
            if let Some(facts) = &doc.facts {
                let held = self.holding(&rules, &doc.project, facts, &doc.requested_by_id).await?;
                if held.iter().map(|h| (&h.rule, h.revision)).ne(doc.rules.iter().map(|h| (&h.rule, h.revision))) {
                    let expires_at = doc.expires_at;
                    doc.rules = held;
                    doc.counted_from = doc.decisions.len();
                    doc.uncounted.clear();
                    terms(doc, &rules, now);
                    doc.expires_at = expires_at;
                }
            }
            Moment { permit, policy: &policy, rules: &rules }.may_decide(doc).map_err(Error::Forbidden)?;
            let dropped = self.drop_what_counts_no_more(doc, &policy, &rules).await?;
            let again = doc.uncounted.remove(caller.user).is_some();
            doc.uncounted.extend(dropped.clone());
            doc.decisions.push(decision(caller, now, Verdict::Approve, &comment));
            let granted = doc.approvals().count() >= usize::try_from(doc.approvals_needed).unwrap_or(usize::MAX);
            if granted {
                doc.uncounted.clear();
            }
            // What was said of it before is over when it is granted.
            if granted || again || !dropped.is_empty() {
                doc.message = said_of(&doc.uncounted);
            }
            let mut more = Vec::new();
            let mut event = None;
            if granted {
                let until = granted_until(doc, &rules, decide.period, now);
                doc.granted_until = Some(until);
                doc.expires_at = None;
                match (&doc.role, doc.kind) {
                    (Some(role), ApprovalKind::Role) => {
                        doc.state = ApprovalState::Active;
                        let grant = GrantDoc {
                            id: doc.id.clone(),
                            user: doc.requested_by_id.clone(),
                            project: doc.project.clone(),
                            role: role.clone(),
                            until,
                            break_glass: false,
                        };
                        more.push(put(&grant, Expect::Absent)?);
                        event = Some("approval.active");
                    }
                    _ => {
                        doc.state = ApprovalState::Approved;
                        event = Some("approval.approved");
                    }
                }
            }
            let mut said = detail(doc);
            said["comment"] = comment.clone().into();
            if !dropped.is_empty() {
                said["noLongerCounted"] = dropped.into_values().collect();
            }
            if let Some(approval) = self.step(caller, permit, stored, "approval.approve", said, event, more).await? {
                return Ok(approval);
            }
        }
        Err(changing(id))
    }

    /// Refuses a request.
    ///
    /// # Errors
    /// As [`Approvals::approve`]; [`Error::Invalid`] without a comment.
    pub(crate) async fn deny(
        &self,
        caller: Caller<'_>,
        permit: &Permit,
        id: &str,
        decide: &Decide,
    ) -> Result<Approval, Error> {
        let comment = text("comment", &decide.comment, true)?;
        for _ in 0..CONFLICT_TRIES {
            let mut stored = self.pending(id).await?;
            let now = self.now();
            let (policy, rules) = (self.environments.access.policy().await?, self.rules().await?);
            let doc = &mut stored.value;
            Moment { permit, policy: &policy, rules: &rules }.may_decide(doc).map_err(Error::Forbidden)?;
            doc.decisions.push(decision(caller, now, Verdict::Deny, &comment));
            close(doc, ApprovalState::Denied, now);
            let more = self.forget_secrets(id).await?;
            let mut said = detail(doc);
            said["comment"] = comment.clone().into();
            let event = Some("approval.denied");
            if let Some(approval) = self.step(caller, permit, stored, "approval.deny", said, event, more).await? {
                return Ok(approval);
            }
        }
        Err(changing(id))
    }

    /// Ends a request of the caller's own that has not been carried out; a role that counts is given back.
    ///
    /// # Errors
    /// [`Error::Forbidden`] for somebody else's; [`Error::Conflict`] when it has come to its end.
    pub(crate) async fn withdraw(
        &self,
        caller: Caller<'_>,
        permit: &Permit,
        id: &str,
        decide: &Decide,
    ) -> Result<Approval, Error> {
        let comment = text("comment", &decide.comment, false)?;
        for _ in 0..CONFLICT_TRIES {
            let mut stored = self.stored(id).await?;
            let doc = &mut stored.value;
            if doc.requested_by_id != caller.user {
                return Err(Error::Forbidden(
                    "only whoever asked withdraws a request: `deny` or `revoke` it".to_owned(),
                ));
            }
            let now = self.now();
            let mut more = self.forget_secrets(id).await?;
            let event = match doc.state {
                ApprovalState::Pending | ApprovalState::Approved => {
                    close(doc, ApprovalState::Withdrawn, now);
                    "approval.withdrawn"
                }
                ApprovalState::Active => {
                    more.extend(self.forget_grant(id).await?);
                    close(doc, ApprovalState::Ended, now);
                    "it was given back".clone_into(&mut doc.message);
                    ended(doc.kind)
                }
                _ => return Err(over(doc)),
            };
            let mut said = detail(doc);
            said["comment"] = comment.clone().into();
            let done = self.step(caller, permit, stored, "approval.withdraw", said, Some(event), more).await?;
            if let Some(approval) = done {
                return Ok(approval);
            }
        }
        Err(changing(id))
    }

    /// Takes a role away before its time is over.
    ///
    /// # Errors
    /// [`Error::Conflict`] when it does not count; [`Error::Invalid`] without a comment.
    pub(crate) async fn revoke(
        &self,
        caller: Caller<'_>,
        permit: &Permit,
        id: &str,
        decide: &Decide,
    ) -> Result<Approval, Error> {
        let comment = text("comment", &decide.comment, true)?;
        for _ in 0..CONFLICT_TRIES {
            let mut stored = self.stored(id).await?;
            let doc = &mut stored.value;
            if doc.state != ApprovalState::Active {
                return Err(over(doc));
            }
            close(doc, ApprovalState::Revoked, self.now());
            doc.message.clone_from(&comment);
            let mut said = detail(doc);
            said["comment"] = comment.clone().into();
            let event = if doc.kind == ApprovalKind::BreakGlass { "breakGlass.revoked" } else { "approval.revoked" };
            let more = self.forget_grant(id).await?;
            let done = self.step(caller, permit, stored, "approval.revoke", said, Some(event), more).await?;
            if let Some(approval) = done {
                return Ok(approval);
            }
        }
        Err(changing(id))
    }

    /// Says that the caller has looked at what was done under break-glass.
    ///
    /// # Errors
    /// [`Error::Conflict`] for anything else, and when it was reviewed; [`Error::Forbidden`] for one's own.
    pub(crate) async fn review(
        &self,
        caller: Caller<'_>,
        permit: &Permit,
        id: &str,
        decide: &Decide,
    ) -> Result<Approval, Error> {
        let comment = text("comment", &decide.comment, true)?;
        for _ in 0..CONFLICT_TRIES {
            let mut stored = self.stored(id).await?;
            let doc = &mut stored.value;
            if doc.kind != ApprovalKind::BreakGlass {
                return Err(Error::Conflict(format!("request {id} is not break-glass: there is nothing to review")));
            }
            if let Some(review) = &doc.review {
                return Err(Error::Conflict(format!("request {id} was reviewed already, by {}", review.by)));
            }
            if doc.requested_by_id == caller.user {
                return Err(Error::Forbidden("nobody reviews their own break-glass: ask somebody else".to_owned()));
            }
            let now = self.now();
            doc.review = Some(Review { by: caller.actor.to_owned(), at: now, comment: comment.clone() });
            let mut said = detail(doc);
            said["comment"] = comment.clone().into();
            let event = Some("breakGlass.reviewed");
            let done = self.step(caller, permit, stored, "break-glass.review", said, event, Vec::new()).await?;
            if let Some(approval) = done {
                return Ok(approval);
            }
        }
        Err(changing(id))
    }

    async fn pending(&self, id: &str) -> Result<Stored<ApprovalDoc>, Error> {
        let stored = self.stored(id).await?;
        if stored.value.state != ApprovalState::Pending {
            return Err(over(&stored.value));
        }
        if stored.value.expires_at.is_some_and(|at| at <= self.now()) {
            return Err(Error::Conflict(format!("request {id} was not answered in time: it has to be made anew")));
        }
        Ok(stored)
    }

    /// Writes a step of somebody's; none when the request was changed at the same moment.
    async fn step(
        &self,
        caller: Caller<'_>,
        permit: &Permit,
        stored: Stored<ApprovalDoc>,
        action: &str,
        detail: Value,
        event: Option<&'static str>,
        more: Vec<Write>,
    ) -> Result<Option<Approval>, Error> {
        let Stored { value: doc, revision, created } = stored;
        let subject = Subject::of_project(&doc.id, &doc.project);
        let mut writes =
            vec![put(&doc, Expect::Revision(revision))?, entry(self.now(), caller, action, subject, detail)?];
        writes.extend(more);
        if let Some(event) = event {
            writes.extend(self.tell(event, &doc).await?);
        }
        // A role may be among it.
        match self.environments.access.change(writes).await {
            Ok(revisions) => {
                let revision = revisions.first().copied().unwrap_or_default();
                self.shown(permit, Stored { value: doc, revision, created }).await.map(Some)
            }
            Err(StoreError::Conflict { .. }) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// The writes that remove the passwords of a request.
    pub(super) async fn forget_secrets(&self, id: &str) -> Result<Vec<Write>, Error> {
        let stored = self.environments.documents.get::<ApprovalSecretsDoc>(id).await?;
        Ok(stored.map(|s| remove::<ApprovalSecretsDoc>(id, Expect::Revision(s.revision))).into_iter().collect())
    }

    /// The writes that take a role away.
    pub(super) async fn forget_grant(&self, id: &str) -> Result<Vec<Write>, Error> {
        let stored = self.environments.documents.get::<GrantDoc>(id).await?;
        Ok(stored.map(|s| remove::<GrantDoc>(id, Expect::Revision(s.revision))).into_iter().collect())
    }
}

/// Brings a request to its end.
pub(super) fn close(doc: &mut ApprovalDoc, state: ApprovalState, now: Timestamp) {
    doc.state = state;
    doc.closed_at = Some(now);
    doc.expires_at = None;
    doc.next_try = None;
}

/// The event that a role has ended.
pub(super) fn ended(kind: ApprovalKind) -> &'static str {
    if kind == ApprovalKind::BreakGlass { "breakGlass.ended" } else { "approval.ended" }
}

fn granted_until(
    doc: &ApprovalDoc,
    rules: &BTreeMap<String, Stored<RuleDoc>>,
    shorter: Option<Period>,
    now: Timestamp,
) -> Timestamp {
    let held = doc.rules.iter().filter_map(|h| rules.get(&h.rule)).filter_map(|r| r.value.settings.grant);
    let usual = if doc.kind == ApprovalKind::Role { doc.period } else { held.min() };
    let usual = usual.or_else(|| Period::from_seconds(GRANT));
    usual.into_iter().chain(shorter).min().map_or(now, |period| period.after(now))
}

fn decision(caller: Caller<'_>, at: Timestamp, verdict: Verdict, comment: &str) -> Decision {
    let (by, by_id) = (caller.actor.to_owned(), caller.user.to_owned());
    Decision { by, by_id, at, verdict, comment: comment.to_owned() }
}

fn over(doc: &ApprovalDoc) -> Error {
    let last = doc.decisions.last().map(|d| format!(" by {}", d.by)).unwrap_or_default();
    let how = match doc.state {
        ApprovalState::Pending => "waits for an answer".to_owned(),
        ApprovalState::Approved => format!("was approved already{last}"),
        ApprovalState::Active => format!("counts already{last}"),
        ApprovalState::Fulfilled => "was carried out already".to_owned(),
        ApprovalState::Denied => format!("was refused already{last}"),
        ApprovalState::Withdrawn => "was withdrawn".to_owned(),
        ApprovalState::Expired => "was not answered, or not carried out, in time".to_owned(),
        ApprovalState::Failed => format!("has failed: {}", doc.message),
        ApprovalState::Ended | ApprovalState::Revoked => "has ended already".to_owned(),
    };
    Error::Conflict(format!("request {} {how}", doc.id))
}

fn changing(id: &str) -> Error {
    Error::Unavailable(format!("request {id} is changing all the time"))
}

/// What the audit trail says of what happened to a request by itself.
pub(super) fn by_itself(doc: &ApprovalDoc) -> Value {
    let mut said = detail(doc);
    if !doc.message.is_empty() {
        said["message"] = json!(doc.message);
    }
    said
}
