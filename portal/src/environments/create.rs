//! New environments: checked first, then written, so that whoever asks for one can be told to wait for approval in between.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vctl_api::{
    names::EnvironmentName,
    rest::{CreateEnvironment, CreatePreview, Environment, Operation, Phase, PodCounts},
};
use vctl_machinery::version::MinorVersion;
use vctl_store::{Expect, StoreError, Write};

use super::{Caller, Environments};
use crate::{
    access::{
        documents::ProjectDoc,
        limits,
        quota::{Adds, Demand},
    },
    audit::{Subject, entry},
    documents::{EnvironmentDoc, JobDoc, SecretsDoc, Stored, put},
    error::Error,
    jobs, size, sleep,
    templates::{Manifest, Template, diff, parameters},
};

/// An environment that was asked for and checked, and is not written yet.
pub(crate) struct NewEnvironment {
    pub(crate) environment: EnvironmentDoc,
    pub(crate) job: JobDoc,
    pub(crate) template: Template,
    secrets: BTreeMap<String, String>,
    /// What the template makes.
    objects: Vec<Value>,
}

/// What is written together with a new environment.
#[derive(Debug, Default)]
pub(crate) struct Besides {
    /// Further writes of the same transaction.
    pub(crate) writes: Vec<Write>,
    /// Further fields of the audit entry.
    pub(crate) detail: BTreeMap<&'static str, Value>,
}

impl Environments {
    /// Checks what is asked for. `template`: the content to make it from, when it is not what the request's reference means now.
    ///
    /// # Errors
    /// [`Error::Invalid`] for the name, the template, a parameter, or something that the project does not allow;
    /// [`Error::AlreadyExists`].
    pub(crate) async fn prepare_new(
        &self,
        caller: Caller<'_>,
        project: &ProjectDoc,
        request: CreateEnvironment,
        template: Option<Template>,
    ) -> Result<NewEnvironment, Error> {
        let name = EnvironmentName::new(request.name.clone()).map_err(|e| Error::Invalid {
            kind: "invalid-name",
            detail: e.to_string(),
            nearest: vec![e.suggestion],
        })?;
        let template = match template {
            Some(template) => {
                self.registry.check_offered(&template).await?;
                template
            }
            None => self.registry.find(&request.template).await.map_err(unknown_template)?,
        };
        let given = request.kubernetes_version.map(|text| text.parse::<MinorVersion>()).transpose();
        let given = given.map_err(|e| Error::Invalid {
            kind: "unknown-kubernetes-version",
            detail: e.to_string(),
            nearest: Vec::new(),
        })?;
        let authentication = request.authentication.or_else(|| template.manifest.authentication.clone());
        if let Some(configuration) = &authentication {
            self.check_authentication(configuration)?;
        }
        if let Some(policy) = &template.manifest.audit_policy {
            self.check_audit_policy(policy)?;
        }
        limits::check_template(project, &template.manifest.name)?;
        let resolved = parameters::resolve(&template.manifest.parameters, &request.parameters)?;
        let all = jobs::create::all_parameters(&resolved.public, &resolved.secret);
        self.check_bindings(&template, request.kind, &request.bindings, project).await?;
        self.check_references(&template, &resolved.public, &BTreeMap::new(), (&project.name, Some(project))).await?;

        let now = self.clock.now();
        let Manifest { sleep, expiry, .. } = &template.manifest;
        let times = sleep::of_new(sleep.clone(), expiry.clone(), request.expires_after, now)?;
        let uid = uuid::Uuid::new_v4().to_string();
        let mut job = jobs::new(now, &name, &uid, Operation::Create, None);
        job.project.clone_from(&project.name);
        caller.actor.clone_into(&mut job.requested_by);
        caller.request_id.clone_into(&mut job.request_id);
        if template.charts(request.kind).next().is_some() {
            jobs::with_charts(&mut job);
        }
        let mut environment = EnvironmentDoc {
            name,
            uid,
            template: template.manifest.name.clone(),
            template_version: template.manifest.version.clone(),
            template_digest: Some(template.digest.clone()),
            given: Some(request.parameters.keys().cloned().collect()),
            previous: None,
            kind: request.kind,
            bindings: request.bindings,
            parameters: resolved.public,
            kubernetes_version: given.or(template.manifest.kubernetes_version).unwrap_or_default(),
            authentication,
            audit_policy: template.manifest.audit_policy.clone(),
            phase: Phase::Creating,
            message: String::new(),
            created_at: now,
            ready_at: None,
            project: project.name.clone(),
            owner: caller.actor.to_owned(),
            owner_id: caller.user.to_owned(),
            shares: BTreeMap::new(),
            job: job.id.clone(),
            size: None,
            times,
            restoring: None,
        };
        let mut documents = self.documents_of(&template, &environment, &all).await?;
        documents.extend(self.charted(&template, &environment, &all).await?);
        limits::check_images(project, &documents)?;
        environment.size = Some(size::of(&documents));
        Ok(NewEnvironment { environment, job, template, secrets: resolved.secret, objects: documents })
    }

    /// Checks everything, quotas too, and writes nothing. Says what would be made.
    ///
    /// # Errors
    /// As [`Environments::prepare_new`] and [`Environments::commit_new`].
    pub(crate) async fn try_new(
        &self,
        caller: Caller<'_>,
        project: &ProjectDoc,
        request: CreateEnvironment,
    ) -> Result<CreatePreview, Error> {
        let new = self.prepare_new(caller, project, request, None).await?;
        let NewEnvironment { environment, secrets, objects, .. } = new;
        if self.documents.get::<EnvironmentDoc>(environment.name.as_str()).await?.is_some() {
            return Err(self.taken(&environment.name).await);
        }
        self.access.charge(Demand { environment: &environment, adds: Adds::New }).await?;
        let hidden: Vec<String> = secrets.into_values().collect();
        let stored = Stored { value: environment, revision: 0, created: 0 };
        let environment = self.view(stored, PodCounts::default(), String::new());
        Ok(CreatePreview { environment, changes: diff::changes(&[], &objects, &hidden) })
    }

    /// Writes a new environment with its job and audit entry, and what else belongs to it.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`]; [`Error::QuotaExceeded`]; [`Error::Conflict`] when something of `besides` does not hold any more.
    pub(crate) async fn commit_new(
        &self,
        caller: Caller<'_>,
        new: NewEnvironment,
        besides: Besides,
    ) -> Result<Environment, Error> {
        let NewEnvironment { environment, job, template, secrets, objects: _ } = new;
        let mut detail = json!({
            "kind": environment.kind, "bindings": environment.bindings,
            "template": environment.template, "templateVersion": environment.template_version,
            "parameters": environment.parameters, "kubernetesVersion": environment.kubernetes_version, "job": job.id,
        });
        for (name, value) in besides.detail {
            detail[name] = value;
        }
        let mut writes = vec![
            put(&environment, Expect::Absent)?,
            put(&job, Expect::Absent)?,
            entry(environment.created_at, caller, "environment.create", Subject::environment(&environment), detail)?,
        ];
        if !secrets.is_empty() {
            let secrets = SecretsDoc { name: environment.name.clone(), parameters: secrets, previous: None };
            writes.push(put(&secrets, Expect::Any)?);
        }
        writes.extend(self.registry.pin(&template).await?);
        writes.extend(besides.writes);
        match self.transact_charged(Demand { environment: &environment, adds: Adds::New }, writes).await? {
            Ok(revisions) => {
                let revision = revisions.first().copied().unwrap_or_default();
                let stored = Stored { value: environment, revision, created: revision };
                Ok(self.view(stored, PodCounts::default(), String::new()))
            }
            Err(StoreError::Conflict { index: 0, .. }) => Err(self.taken(&environment.name).await),
            Err(e) => Err(e.into()),
        }
    }

    /// Why a name cannot be had.
    pub(crate) async fn taken(&self, name: &EnvironmentName) -> Error {
        match self.stored(name.as_str()).await {
            Ok(stored) if stored.value.phase == Phase::Deleting => Error::AlreadyExists(format!(
                "environment {name:?} is being deleted: wait for it (`vctl delete {name} --wait`) or take another name",
                name = name.as_str()
            )),
            _ => Error::AlreadyExists(format!(
                "environment {name:?} exists already: take another name, or delete it with `vctl delete {name}`",
                name = name.as_str()
            )),
        }
    }
}

fn unknown_template(e: Error) -> Error {
    match e {
        Error::NotFound { ref nearest, .. } => {
            Error::Invalid { kind: "unknown-template", detail: e.to_string(), nearest: nearest.clone() }
        }
        other => other,
    }
}
