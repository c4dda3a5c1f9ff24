//! What a person can do with environments. Every change writes intent, audit entry and job in one transaction.

mod audit_policy;
mod authentication;
mod authority;
mod backup;
pub(crate) mod changes;
mod create;
mod interrupted;
mod kubernetes;
pub(crate) mod restore;
mod seen;
mod shares;

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde_json::json;
use vctl_api::rest::{Environment, Job, JobState, Operation, Phase, PodCounts};
use vctl_runtime::clock::Clock;
use vctl_store::{Expect, Revision, StoreError, Write};

pub(crate) use self::{
    create::{Besides, NewEnvironment},
    kubernetes::KubernetesRequest,
};
use crate::{
    access::{Access, quota::Demand},
    audit::{Subject, entry},
    documents::{Documents, EnvironmentDoc, JobDoc, Read, Stored, put, unchanged},
    error::Error,
    helm::Helm,
    jobs,
    ports::ControlPlanes,
    sleep,
    templates::{catalog::Catalog, registry::Registry, renderer::Renderer},
};

/// How often a change that met another one at the same moment is tried anew.
pub(crate) const CONFLICT_TRIES: usize = 20;

/// Who asks for a change, and in which request.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// As the audit trail says it.
    pub actor: &'a str,
    /// Id of the user: what rights hang on.
    pub user: &'a str,
    /// Id of the request.
    pub request_id: &'a str,
}

/// The environments. Cheap to clone.
#[derive(Clone)]
pub struct Environments {
    pub(crate) documents: Documents,
    pub(crate) registry: Registry,
    pub(crate) planes: Arc<dyn ControlPlanes>,
    pub(crate) clock: Clock,
    pub(crate) access: Access,
    pub(crate) renderer: Renderer,
    pub(crate) helm: Helm,
    /// Those who add to what a quota limits go one after the other: they would only meet each other's writes.
    counting: Arc<tokio::sync::Mutex<()>>,
    /// What lists have read.
    pub(crate) read: Arc<Read<EnvironmentDoc>>,
    /// This process, among all that there ever were.
    process: Arc<str>,
}

impl Environments {
    pub(crate) fn new(
        documents: Documents,
        catalog: Catalog,
        planes: Arc<dyn ControlPlanes>,
        clock: Clock,
        access: Access,
        renderer: Renderer,
        helm: Helm,
    ) -> Self {
        let registry = Registry::new(catalog, documents.clone());
        let (counting, read) = (Arc::default(), access.environments.clone());
        let process = uuid::Uuid::new_v4().to_string().into();
        Self { documents, registry, planes, clock, access, renderer, helm, counting, read, process }
    }

    /// One environment, which the caller may see.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn get(&self, name: &str) -> Result<Environment, Error> {
        let stored = self.stored(name).await?;
        let newest = self.registry.newest().await?;
        self.live(stored, &newest).await
    }

    /// Writes what adds to what quotas limit, if they all allow it. The inner error is that of the writes themselves.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`].
    pub(crate) async fn transact_charged(
        &self,
        demand: Demand<'_>,
        writes: Vec<Write>,
    ) -> Result<Result<Vec<Revision>, StoreError>, Error> {
        if self.access.charge(demand).await?.writes.is_empty() {
            return Ok(self.documents.transact(writes).await);
        }
        let _turn = self.counting.lock().await;
        for _ in 0..CONFLICT_TRIES {
            let mut all = writes.clone();
            let charge = self.access.charge(demand).await?;
            all.extend(charge.writes);
            // Until it is written nobody else counts for the same quotas.
            match self.access.transact_in_turn(all, charge.turn).await {
                Err(StoreError::Conflict { index, .. }) if index >= writes.len() => {}
                done => return Ok(done),
            }
        }
        Err(Error::Unavailable("what a quota limits is changing all the time".to_owned()))
    }

    /// Asks for the end of an environment; an unfinished job of it is cancelled. Asking again returns the job that is at it.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Changed`] when `if_revision` is another one; [`Error::Conflict`] while it is restored.
    pub async fn delete(&self, caller: Caller<'_>, name: &str, if_revision: Option<Revision>) -> Result<Job, Error> {
        self.delete_with(caller, name, if_revision, &[]).await
    }

    /// [`Environments::delete`], with what else is to be written when the job is.
    pub(crate) async fn delete_with(
        &self,
        caller: Caller<'_>,
        name: &str,
        if_revision: Option<Revision>,
        besides: &[Write],
    ) -> Result<Job, Error> {
        for _ in 0..CONFLICT_TRIES {
            let stored = self.stored(name).await?;
            unchanged(stored.revision, if_revision)?;
            restore::check_not_restoring(&stored.value)?;
            let previous = self.documents.get::<JobDoc>(&stored.value.job).await?;
            if stored.value.phase == Phase::Deleting
                && let Some(job) = &previous
                && !jobs::ended(job.value.state)
            {
                return Ok(jobs::view(job.clone()));
            }
            let (mut writes, job) = self.delete_writes(caller, stored, previous)?;
            writes.extend_from_slice(besides);
            match self.documents.transact(writes).await {
                Ok(revisions) => {
                    let revision = revisions.get(1).copied().unwrap_or_default();
                    return Ok(jobs::view(Stored { value: job, revision, created: revision }));
                }
                Err(StoreError::Conflict { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Err(Error::Unavailable(format!("environment {name:?} is changing all the time")))
    }

    fn delete_writes(
        &self,
        caller: Caller<'_>,
        stored: Stored<EnvironmentDoc>,
        previous: Option<Stored<JobDoc>>,
    ) -> Result<(Vec<Write>, JobDoc), Error> {
        let now = self.clock.now();
        let Stored { value: environment, revision, .. } = stored;
        let unfinished = previous.filter(|job| !jobs::ended(job.value.state));
        let after = unfinished.as_ref().map(|job| job.value.id.clone());
        let mut job = jobs::new(now, &environment.name, &environment.uid, Operation::Delete, after);
        job.project.clone_from(&environment.project);
        caller.actor.clone_into(&mut job.requested_by);
        caller.request_id.clone_into(&mut job.request_id);
        let detail = json!({"job": job.id, "uid": environment.uid});
        let deleting =
            EnvironmentDoc { phase: Phase::Deleting, message: String::new(), job: job.id.clone(), ..environment };
        let mut writes = vec![
            put(&deleting, Expect::Revision(revision))?,
            put(&job, Expect::Absent)?,
            entry(now, caller, "environment.delete", Subject::environment(&deleting), detail)?,
        ];
        if let Some(unfinished) = unfinished {
            let cancelled = JobDoc { cancel: true, ..unfinished.value };
            writes.push(put(&cancelled, Expect::Revision(unfinished.revision))?);
        }
        Ok((writes, job))
    }

    /// A kubeconfig for an environment's administrator.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Unavailable`] while its control plane is not there yet.
    pub async fn kubeconfig(&self, caller: Caller<'_>, name: &str) -> Result<String, Error> {
        let stored = self.stored(name).await?;
        let name = &stored.value.name;
        if !self.planes.exists(name).await? {
            return Err(Error::Unavailable(format!("the control plane of {:?} is not there (yet)", name.as_str())));
        }
        let kubeconfig = self.planes.kubeconfig(name).await?;
        let subject = Subject::environment(&stored.value);
        let entry = entry(self.clock.now(), caller, "environment.kubeconfig", subject, serde_json::Value::Null)?;
        self.documents.transact(vec![entry]).await?;
        Ok(kubeconfig)
    }

    /// One job.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn job(&self, id: &str) -> Result<Job, Error> {
        let job = self.documents.get::<JobDoc>(id).await?;
        job.map(jobs::view).ok_or_else(|| Error::NotFound { what: "job", name: id.to_owned(), nearest: Vec::new() })
    }

    /// The job once its revision is greater than `after`. The caller sets the time limit.
    pub async fn job_after(&self, id: &str, after: Revision) -> Result<Job, Error> {
        loop {
            let revision = self.documents.revision().await?;
            let job = self.job(id).await?;
            if job.revision > after || jobs::ended(job.state) {
                return Ok(job);
            }
            // From before the job was read: a change in between is seen twice rather than never.
            let mut watch = self.documents.watch::<JobDoc>(revision).await?;
            loop {
                match watch.next().await {
                    Ok(events) if events.iter().any(|e| &*e.key.name == id && e.revision > after) => break,
                    Ok(_) => {}
                    Err(vctl_store::WatchError::Closed) => {
                        return Err(Error::Unavailable("the server is shutting down".to_owned()));
                    }
                    Err(_) => break,
                }
            }
        }
    }

    pub(crate) async fn stored(&self, name: &str) -> Result<Stored<EnvironmentDoc>, Error> {
        if let Some(stored) = self.documents.get::<EnvironmentDoc>(name).await? {
            return Ok(stored);
        }
        // Near names are told by `seen`, which knows who asks.
        Err(Error::NotFound { what: "environment", name: name.to_owned(), nearest: Vec::new() })
    }

    /// With pod counts, and with what its job is at.
    async fn live(
        &self,
        stored: Stored<EnvironmentDoc>,
        newest: &BTreeMap<String, String>,
    ) -> Result<Environment, Error> {
        let pods = self.planes.pods(&stored.value.name).await?;
        let last_request = match stored.value.times.sleep {
            Some(_) => self.planes.last_request(&stored.value.name).await?,
            None => None,
        };
        let lifecycle = sleep::lifecycle(&stored.value, last_request, self.now());
        let mut message = String::new();
        if stored.value.phase != Phase::Ready
            && let Some(job) = self.documents.get::<JobDoc>(&stored.value.job).await?
            && let Some(step) = job.value.steps.iter().find(|s| !jobs::ended(s.state))
        {
            message = if step.message.is_empty() || step.state == JobState::Pending && step.started_at.is_none() {
                step.name.clone()
            } else {
                format!("{}: {}", step.name, step.message)
            };
        }
        let newer_version = newest.get(&stored.value.template).filter(|n| is_newer(n, &stored.value.template_version));
        let newer_version = newer_version.cloned();
        Ok(Environment { lifecycle, newer_version, ..self.view(stored, pods, message) })
    }

    pub(crate) fn view(&self, stored: Stored<EnvironmentDoc>, pods: PodCounts, message: String) -> Environment {
        let doc = stored.value;
        let lifecycle = sleep::lifecycle(&doc, None, self.now());
        Environment {
            server: self.planes.server(&doc.name),
            kubernetes_version: doc.kubernetes_version.git_version(),
            name: doc.name,
            uid: doc.uid,
            template: doc.template,
            template_version: doc.template_version,
            parameters: doc.parameters,
            kind: doc.kind,
            bindings: doc.bindings,
            phase: doc.phase,
            message: if message.is_empty() { doc.message } else { message },
            created_at: doc.created_at,
            ready_at: doc.ready_at,
            project: doc.project,
            owner: doc.owner,
            shares: doc.shares,
            job: Some(doc.job).filter(|job| !job.is_empty()),
            pods,
            lifecycle,
            newer_version: None,
            revision: stored.revision,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// Whether a semantic version is newer than another one.
fn is_newer(version: &str, than: &str) -> bool {
    match (semver::Version::parse(version), semver::Version::parse(than)) {
        (Ok(version), Ok(than)) => version > than,
        _ => false,
    }
}
