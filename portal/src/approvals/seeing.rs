//! What somebody sees of requests, and what they may do with them.

use std::collections::BTreeMap;

use vctl_api::rest::{Approval, ApprovalActions, ApprovalKind, ApprovalState, Approvers};

use super::{
    Approvals,
    documents::{ApprovalDoc, RuleDoc},
    is_open,
};
use crate::{
    access::{
        decide::Scope,
        permission::Permission,
        policy::{Permit, Policy},
        role,
    },
    documents::Stored,
    error::Error,
    size,
};

/// Which requests are wanted.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// The caller's own.
    pub(crate) mine: bool,
    /// Those that the caller can decide now.
    pub(crate) decidable: bool,
    /// Break-glass that nobody has looked at.
    pub(crate) unreviewed: bool,
}

/// What decisions hang on, at one moment.
pub(super) struct Moment<'a> {
    pub(super) permit: &'a Permit,
    pub(super) policy: &'a Policy,
    pub(super) rules: &'a BTreeMap<String, Stored<RuleDoc>>,
}

impl Moment<'_> {
    /// Why the caller may not decide about a request that is held by the rules that it names.
    pub(super) fn may_decide(&self, doc: &ApprovalDoc) -> Result<(), String> {
        self.is_among_those_who_decide(doc)?;
        if doc.approvals().any(|d| d.by_id == self.permit.subject.user) {
            return Err("you have approved it already; it waits for somebody else".to_owned());
        }
        Ok(())
    }

    /// The same, whether or not they have approved it already.
    pub(super) fn is_among_those_who_decide(&self, doc: &ApprovalDoc) -> Result<(), String> {
        let (permit, project) = (self.permit, doc.project.as_str());
        // A rule that is gone asks for nothing any more.
        let mut rules = doc.rules.iter().filter_map(|held| self.rules.get(&held.rule)).map(|r| &r.value.settings);
        let platform = rules.clone().any(|r| r.approvers == Approvers::Platform);
        let scope = if platform { Scope::Platform } else { Scope::Project(project) };
        if !permit.allows(Permission::ApprovalsDecide, scope) {
            let place = if platform { "on the platform".to_owned() } else { format!("in project {project:?}") };
            return Err(format!("you need {} {place}", Permission::ApprovalsDecide));
        }
        let of_environment = matches!(doc.kind, ApprovalKind::Create | ApprovalKind::Update);
        let own = doc.requested_by_id == permit.subject.user;
        if own && !(of_environment && rules.all(|r| r.allow_own)) {
            return Err("nobody decides about their own request: ask somebody else".to_owned());
        }
        let given = doc.role.as_deref().and_then(|name| self.policy.role(name)).unwrap_or_default();
        let missing = given.without(role::OUTLASTING).without(permit.lasting_at(Scope::Project(project)));
        if !missing.is_empty() {
            return Err(format!("the role would give what you do not have yourself for good ({})", missing.to_text()));
        }
        Ok(())
    }

    fn actions(&self, doc: &ApprovalDoc) -> ApprovalActions {
        let own = doc.requested_by_id == self.permit.subject.user;
        let decides = self.permit.allows(Permission::ApprovalsDecide, Scope::Project(&doc.project));
        let active = doc.state == ApprovalState::Active;
        let decision = if doc.state == ApprovalState::Pending { self.may_decide(doc) } else { Err(String::new()) };
        ApprovalActions {
            decide: decision.is_ok(),
            withdraw: own && is_open(doc.state),
            revoke: active && decides && !own,
            review: doc.kind == ApprovalKind::BreakGlass && doc.review.is_none() && decides && !own,
            why_not: decision.err().unwrap_or_default(),
        }
    }

    /// What the caller sees of a request.
    pub(super) fn view(&self, stored: Stored<ApprovalDoc>) -> Approval {
        let actions = self.actions(&stored.value);
        view(stored, actions)
    }
}

/// What people see of a request.
pub(super) fn view(stored: Stored<ApprovalDoc>, actions: ApprovalActions) -> Approval {
    let doc = stored.value;
    Approval {
        id: doc.id,
        kind: doc.kind,
        state: doc.state,
        message: doc.message,
        project: doc.project,
        environment: doc.environment,
        requested_by: doc.requested_by,
        requested_by_id: doc.requested_by_id,
        reason: doc.reason,
        created_at: doc.created_at,
        expires_at: doc.expires_at,
        granted_until: doc.granted_until,
        closed_at: doc.closed_at,
        decisions: doc.decisions,
        approvals_needed: doc.approvals_needed,
        rules: doc.rules,
        create: doc.create,
        update: doc.update,
        template_version: doc.template_version,
        size: doc.facts.map(|facts| size::amounts(facts.size)),
        role: doc.role,
        period: doc.period,
        job: doc.job,
        review: doc.review,
        actions,
        revision: stored.revision,
    }
}

impl Approvals {
    /// The requests that somebody may see.
    pub(crate) async fn list(&self, permit: &Permit, wanted: &Wanted) -> Result<Vec<Stored<ApprovalDoc>>, Error> {
        let (mut all, _) = self.environments.documents.list::<ApprovalDoc>().await?;
        let (policy, rules) = (self.environments.access.policy().await?, self.rules().await?);
        let moment = Moment { permit, policy: &policy, rules: &rules };
        all.retain(|stored| {
            let doc = &stored.value;
            permit.on_approval(doc).contains(Permission::ApprovalsList)
                && (!wanted.mine || doc.requested_by_id == permit.subject.user)
                && (!wanted.unreviewed || doc.kind == ApprovalKind::BreakGlass && doc.review.is_none())
                && (!wanted.decidable || doc.state == ApprovalState::Pending && moment.may_decide(doc).is_ok())
        });
        Ok(all)
    }

    /// What somebody sees of them.
    pub(crate) async fn views(&self, permit: &Permit, all: Vec<Stored<ApprovalDoc>>) -> Result<Vec<Approval>, Error> {
        let (policy, rules) = (self.environments.access.policy().await?, self.rules().await?);
        let moment = Moment { permit, policy: &policy, rules: &rules };
        Ok(all.into_iter().map(|stored| moment.view(stored)).collect())
    }

    /// One request that somebody may see.
    ///
    /// # Errors
    /// [`Error::NotFound`], also for one that they may not see.
    pub(crate) async fn seen(&self, permit: &Permit, id: &str) -> Result<Stored<ApprovalDoc>, Error> {
        let stored = self.environments.documents.get::<ApprovalDoc>(id).await?;
        stored
            .filter(|s| permit.on_approval(&s.value).contains(Permission::ApprovalsList))
            .ok_or_else(|| Error::NotFound { what: "request", name: id.to_owned(), nearest: Vec::new() })
    }

    /// The same, with what they may do with it.
    ///
    /// # Errors
    /// As [`Approvals::seen`].
    pub(crate) async fn get(&self, permit: &Permit, id: &str) -> Result<Approval, Error> {
        let stored = self.seen(permit, id).await?;
        self.shown(permit, stored).await
    }

    pub(super) async fn shown(&self, permit: &Permit, stored: Stored<ApprovalDoc>) -> Result<Approval, Error> {
        let (policy, rules) = (self.environments.access.policy().await?, self.rules().await?);
        Ok(Moment { permit, policy: &policy, rules: &rules }.view(stored))
    }
}
