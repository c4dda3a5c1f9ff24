//! What is held, and what is asked for.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vctl_api::rest::{
    Approval, ApprovalKind, ApprovalOperation, ApprovalState, CreateEnvironment, Environment, HoldingRule, Job,
    ParameterType, Period, RequestRole, UpdateEnvironment,
};
use vctl_store::{Expect, Revision, Write};

use super::{
    Approvals, BREAK_GLASS, LONGEST_BREAK_GLASS, LONGEST_ROLE, OPEN_LIMIT,
    documents::{ApprovalDoc, ApprovalSecretsDoc, RuleDoc},
    is_open,
    rules::{self, Facts},
    text,
};
use crate::{
    access::{
        documents::{GrantDoc, ProjectDoc},
        policy::Permit,
        role,
    },
    audit::{Subject, entry},
    documents::{EnvironmentDoc, Stored, put, unchanged},
    environments::{Besides, Caller, NewEnvironment},
    error::{Error, nearest},
    jobs, size,
    templates::Template,
    update::Prepared,
};

/// What came of asking.
pub(crate) enum Asked<T> {
    /// Nothing holds it: it was done.
    Done(T),
    /// It waits for approval.
    Waits(Box<Approval>),
}

pub(super) fn facts_of_new(new: &NewEnvironment) -> Facts {
    Facts {
        operation: ApprovalOperation::Create,
        template: new.environment.template.clone(),
        kind: new.environment.kind,
        size: new.environment.size.unwrap_or_default(),
        before: None,
    }
}

pub(super) fn facts_of_update(prepared: &Prepared) -> Facts {
    Facts {
        operation: ApprovalOperation::Update,
        template: prepared.of.value.template.clone(),
        kind: prepared.of.value.kind,
        size: size::of(&prepared.after),
        before: Some(size::of(&prepared.before)),
    }
}

/// Takes the passwords out of parameters.
fn take_secrets(template: &Template, parameters: &mut BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let is_password = |name: &String| {
        let declared = template.manifest.parameters.iter().find(|p| p.name == *name);
        // What is not declared was refused before.
        declared.is_none_or(|p| p.kind == ParameterType::Password)
    };
    let names: Vec<String> = parameters.keys().filter(|name| is_password(name)).cloned().collect();
    names.into_iter().filter_map(|name| parameters.remove_entry(&name)).collect()
}

impl Approvals {
    /// Creates an environment, unless rules hold it.
    ///
    /// # Errors
    /// As of creating; [`Error::ApprovalRequired`] where rules hold it and no reason is given.
    pub(crate) async fn create(
        &self,
        caller: Caller<'_>,
        permit: &Permit,
        project: &ProjectDoc,
        request: CreateEnvironment,
    ) -> Result<Asked<Environment>, Error> {
        let reason = text("reason", &request.reason, false)?;
        let new = self.environments.prepare_new(caller, project, request.clone(), None).await?;
        let facts = facts_of_new(&new);
        let rules = self.rules().await?;
        // Held until it is written, so that those who come at the same moment are counted.
        let counts = rules::counts_environments(rules.values(), &project.name, &facts);
        let _turn = if counts { Some(self.counting.lock().await) } else { None };
        let held = self.holding(&rules, &project.name, &facts, caller.user).await?;
        let mut besides = Besides::default();
        if !held.is_empty() {
            if let Some(id) = permit.break_glass(&project.name) {
                besides.detail.insert("breakGlass", id.into());
            } else {
                if self.environments.stored(new.environment.name.as_str()).await.is_ok() {
                    return Err(self.environments.taken(&new.environment.name).await);
                }
                let mut doc = self.draft(caller, ApprovalKind::Create, &project.name, &reason, &held)?;
                let mut request = request;
                let secrets = take_secrets(&new.template, &mut request.parameters);
                doc.environment = Some(request.name.clone());
                doc.template_version = Some(new.template.manifest.version.clone());
                doc.template_digest = Some(new.template.digest.clone());
                doc.facts = Some(facts);
                doc.create = Some(request);
                return self.hold(caller, permit, doc, secrets, &new.template).await.map(Asked::Waits);
            }
        }
        self.environments.commit_new(caller, new, besides).await.map(Asked::Done)
    }

    /// Updates an environment, unless rules hold it.
    ///
    /// # Errors
    /// As of updating; [`Error::ApprovalRequired`] where rules hold it and no reason is given.
    pub(crate) async fn update(
        &self,
        caller: Caller<'_>,
        permit: &Permit,
        name: &str,
        request: UpdateEnvironment,
        if_revision: Option<Revision>,
    ) -> Result<Asked<Job>, Error> {
        let reason = text("reason", &request.reason, false)?;
        let prepared = self.environments.prepare_update(name, &request, None).await?;
        unchanged(prepared.of.revision, if_revision)?;
        let facts = facts_of_update(&prepared);
        let project = prepared.of.value.project.clone();
        let held = self.holding(&self.rules().await?, &project, &facts, caller.user).await?;
        let mut besides = Besides::default();
        if !held.is_empty() {
            if let Some(id) = permit.break_glass(&project) {
                besides.detail.insert("breakGlass", id.into());
            } else {
                let mut doc = self.draft(caller, ApprovalKind::Update, &project, &reason, &held)?;
                let mut request = request;
                let secrets = take_secrets(&prepared.template, &mut request.parameters);
                doc.environment = Some(name.to_owned());
                doc.environment_uid = Some(prepared.of.value.uid.clone());
                doc.template_version = Some(prepared.template.manifest.version.clone());
                doc.template_digest = Some(prepared.template.digest.clone());
                doc.facts = Some(facts);
                doc.update = Some(request);
                return self.hold(caller, permit, doc, secrets, &prepared.template).await.map(Asked::Waits);
            }
        }
        let job = jobs::new_id(self.now());
        self.environments.commit_update(caller, &prepared, &request, &job, &besides).await.map(Asked::Done)
    }

    /// The rules that hold something at this moment.
    pub(super) async fn holding(
        &self,
        rules: &BTreeMap<String, Stored<RuleDoc>>,
        project: &str,
        facts: &Facts,
        user: &str,
    ) -> Result<Vec<HoldingRule>, Error> {
        let mut environments = 0;
        if rules::counts_environments(rules.values(), project, facts) {
            let (all, _) = self.environments.documents.list::<EnvironmentDoc>().await?;
            let theirs = all.iter().filter(|e| e.value.project == project && e.value.owner_id == user).count();
            environments = u32::try_from(theirs).unwrap_or(u32::MAX).saturating_add(1);
        }
        Ok(rules::holding(rules.values(), project, facts, environments))
    }

    fn draft(
        &self,
        caller: Caller<'_>,
        kind: ApprovalKind,
        project: &str,
        reason: &str,
        held: &[HoldingRule],
    ) -> Result<ApprovalDoc, Error> {
        if reason.is_empty() {
            let rules: Vec<String> = held.iter().map(|h| format!("{} ({})", h.rule, h.why)).collect();
            return Err(Error::ApprovalRequired(format!(
                "this needs approval by {}: say why you want it (`--reason TEXT`), and it waits for an answer",
                rules.join(", ")
            )));
        }
        let now = self.now();
        Ok(ApprovalDoc {
            id: jobs::new_id(now),
            kind,
            state: ApprovalState::Pending,
            message: String::new(),
            project: project.to_owned(),
            environment: None,
            environment_uid: None,
            requested_by: caller.actor.to_owned(),
            requested_by_id: caller.user.to_owned(),
            request_id: caller.request_id.to_owned(),
            reason: reason.to_owned(),
            created_at: now,
            expires_at: None,
            granted_until: None,
            closed_at: None,
            next_try: None,
            decisions: Vec::new(),
            counted_from: 0,
            uncounted: BTreeMap::new(),
            approvals_needed: 1,
            rules: held.to_vec(),
            facts: None,
            create: None,
            update: None,
            template_version: None,
            template_digest: None,
            role: None,
            period: None,
            job: None,
            review: None,
        })
    }

    /// Keeps a request until it is answered, with the content of the template that it is about.
    async fn hold(
        &self,
        caller: Caller<'_>,
        permit: &Permit,
        doc: ApprovalDoc,
        secrets: BTreeMap<String, Value>,
        template: &Template,
    ) -> Result<Box<Approval>, Error> {
        let mut writes: Vec<Write> = self.environments.registry.pin(template).await?.into_iter().collect();
        if !secrets.is_empty() {
            writes.push(put(&ApprovalSecretsDoc { id: doc.id.clone(), parameters: secrets }, Expect::Absent)?);
        }
        self.ask(caller, permit, doc, writes).await.map(Box::new)
    }

    async fn ask(
        &self,
        caller: Caller<'_>,
        permit: &Permit,
        mut doc: ApprovalDoc,
        more: Vec<Write>,
    ) -> Result<Approval, Error> {
        let rules = self.rules().await?;
        super::deciding::terms(&mut doc, &rules, self.now());
        let _turn = self.asking.lock().await;
        let (all, _) = self.environments.documents.list::<ApprovalDoc>().await?;
        let mut open = all.iter().map(|a| &a.value).filter(|a| is_open(a.state));
        let same = |a: &&ApprovalDoc| {
            a.kind == doc.kind
                && a.state != ApprovalState::Active
                && a.project == doc.project
                && a.environment == doc.environment
                && a.role == doc.role
                && (doc.role.is_none() || a.requested_by_id == doc.requested_by_id)
        };
        if let Some(same) = open.clone().find(same) {
            return Err(Error::AlreadyExists(format!(
                "request {0} for {1} waits for approval already: `vctl approval get {0}` shows it, `vctl approval withdraw {0}` ends it",
                same.id,
                same.about()
            )));
        }
        if open.by_ref().filter(|a| a.requested_by_id == doc.requested_by_id).count() >= OPEN_LIMIT {
            return Err(Error::QuotaExceeded(format!("you have {OPEN_LIMIT} open requests: withdraw some first")));
        }
        let detail = detail(&doc);
        let mut writes = vec![
            put(&doc, Expect::Absent)?,
            entry(doc.created_at, caller, "approval.request", Subject::of_project(&doc.id, &doc.project), detail)?,
        ];
        writes.extend(more);
        writes.extend(self.tell("approval.requested", &doc).await?);
        let revisions = self.environments.documents.transact(writes).await?;
        let revision = revisions.first().copied().unwrap_or_default();
        self.shown(permit, Stored { value: doc, revision, created: revision }).await
    }

    /// Asks for a role in a project for a time.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a role or time that there is not; [`Error::AlreadyExists`].
    pub(crate) async fn request_role(
        &self,
        caller: Caller<'_>,
        permit: &Permit,
        request: RequestRole,
    ) -> Result<Approval, Error> {
        let RequestRole { project, role, period, reason } = request;
        let reason = text("reason", &reason, true)?;
        let role =
            role.ok_or_else(|| Error::invalid("invalid-role", "say which role you want, such as `maintainer`"))?;
        let period =
            period.ok_or_else(|| Error::invalid("invalid-period", "say for how long you want the role, such as 4h"))?;
        self.check_role(&role).await?;
        check_period(period, LONGEST_ROLE)?;
        let mut doc = self.draft(caller, ApprovalKind::Role, &project, &reason, &[])?;
        doc.role = Some(role);
        doc.period = Some(period);
        self.ask(caller, permit, doc, Vec::new()).await
    }

    /// Takes a role in a project at once. It is told loudly, and to be reviewed afterwards.
    ///
    /// # Errors
    /// [`Error::Invalid`] without a reason, and for a role or time that there is not; [`Error::AlreadyExists`] while one counts.
    pub(crate) async fn break_glass(
        &self,
        caller: Caller<'_>,
        permit: &Permit,
        request: RequestRole,
    ) -> Result<Approval, Error> {
        let RequestRole { project, role, period, reason } = request;
        let reason = text("reason", &reason, true)?;
        let role = role.unwrap_or_else(|| "admin".to_owned());
        self.check_role(&role).await?;
        let period = match period {
            Some(period) => period,
            None => Period::from_seconds(BREAK_GLASS).ok_or_else(|| Error::Internal("no period".to_owned()))?,
        };
        check_period(period, LONGEST_BREAK_GLASS)?;
        let _turn = self.asking.lock().await;
        let now = self.now();
        if let Some(id) =
            self.environments.access.permit(permit.subject.clone(), permit.limit.clone()).await?.break_glass(&project)
        {
            return Err(Error::AlreadyExists(format!(
                "you have broken glass in project {project:?} already: `vctl approval get {id}` shows until when, \
                 `vctl approval withdraw {id}` gives it back"
            )));
        }
        let mut doc = self.draft(caller, ApprovalKind::BreakGlass, &project, &reason, &[])?;
        let until = period.after(now);
        doc.state = ApprovalState::Active;
        doc.role = Some(role.clone());
        doc.period = Some(period);
        doc.granted_until = Some(until);
        doc.approvals_needed = 0;
        let grant =
            GrantDoc { id: doc.id.clone(), user: caller.user.to_owned(), project, role, until, break_glass: true };
        let mut writes = vec![
            put(&doc, Expect::Absent)?,
            put(&grant, Expect::Absent)?,
            entry(now, caller, "break-glass.begin", Subject::of_project(&doc.id, &doc.project), detail(&doc))?,
        ];
        writes.extend(self.tell("breakGlass.begun", &doc).await?);
        let revisions = self.environments.access.change(writes).await?;
        tracing::warn!(request = doc.id, project = doc.project, role = grant.role, %until, "somebody has broken glass");
        let revision = revisions.first().copied().unwrap_or_default();
        self.shown(permit, Stored { value: doc, revision, created: revision }).await
    }

    async fn check_role(&self, name: &str) -> Result<(), Error> {
        let policy = self.environments.access.policy().await?;
        if role::built_in(name).is_some_and(|r| r.platform) {
            return Err(Error::invalid(
                "invalid-role",
                format!("role {name:?} is for the platform as a whole, not for a project: take viewer to admin"),
            ));
        }
        policy.role(name).map(|_| ()).ok_or_else(|| Error::Invalid {
            kind: "unknown-role",
            detail: format!("there is no role {name:?}; `vctl role list` shows those there are"),
            nearest: nearest(name, policy.role_names()),
        })
    }
}

fn check_period(period: Period, longest: u64) -> Result<(), Error> {
    if period.seconds() > longest {
        let longest = Period::from_seconds(longest).map(|p| p.to_string()).unwrap_or_default();
        return Err(Error::invalid("invalid-period", format!("{period} is too long: ask for {longest} at most")));
    }
    Ok(())
}

/// What the audit trail says of a request.
pub(super) fn detail(doc: &ApprovalDoc) -> Value {
    let rules: Vec<&str> = doc.rules.iter().map(|r| r.rule.as_str()).collect();
    let mut detail =
        json!({"kind": doc.kind, "about": doc.about(), "reason": doc.reason, "requestedBy": doc.requested_by});
    if !rules.is_empty() {
        detail["rules"] = rules.into();
    }
    if let Some(period) = doc.period {
        detail["period"] = period.to_string().into();
    }
    if let Some(until) = doc.granted_until {
        detail["grantedUntil"] = until.to_string().into();
    }
    detail
}
