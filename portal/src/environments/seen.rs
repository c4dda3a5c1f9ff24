//! What somebody sees of environments and jobs: lists hold only that, and the rest is not there.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use vctl_api::rest::Environment;

use super::Environments;
use crate::{
    access::{decide::Scope, permission::Permission, policy::Permit},
    documents::{EnvironmentDoc, JobDoc, Stored},
    error::{Error, nearest},
};

impl Environments {
    /// The environments that somebody may see, by name, as they are kept.
    pub(crate) async fn listed(&self, permit: &Permit) -> Result<Vec<Stored<Arc<EnvironmentDoc>>>, Error> {
        let mut stored = self.read.list(&self.documents).await?;
        stored.retain(|one| permit.allows_on(Permission::EnvironmentsList, &one.value));
        Ok(stored)
    }

    /// Environments as people see them.
    pub(crate) async fn views(&self, stored: Vec<Stored<Arc<EnvironmentDoc>>>) -> Result<Vec<Environment>, Error> {
        let newest = self.registry.newest().await?;
        let mut items = Vec::with_capacity(stored.len());
        for Stored { value, revision, created } in stored {
            items.push(self.live(Stored { value: Arc::unwrap_or_clone(value), revision, created }, &newest).await?);
        }
        Ok(items)
    }

    /// How many of them there are.
    pub(crate) async fn count(&self, permit: &Permit) -> Result<usize, Error> {
        Ok(self.listed(permit).await?.len())
    }

    /// One environment that somebody may see.
    ///
    /// # Errors
    /// [`Error::NotFound`], also for one that they may not see; near names are of those that they may.
    pub(crate) async fn seen(&self, permit: &Permit, name: &str) -> Result<Stored<EnvironmentDoc>, Error> {
        let seen = |environment: &EnvironmentDoc| permit.allows_on(Permission::EnvironmentsGet, environment);
        if let Some(stored) = self.documents.get::<EnvironmentDoc>(name).await?
            && seen(&stored.value)
        {
            return Ok(stored);
        }
        let all = self.read.list(&self.documents).await?;
        let names = all.iter().filter(|e| seen(&e.value)).map(|e| e.value.name.as_str());
        Err(Error::NotFound { what: "environment", name: name.to_owned(), nearest: nearest(name, names) })
    }

    /// The jobs that somebody may see, oldest first.
    pub(crate) async fn jobs(&self, permit: &Permit) -> Result<Vec<Stored<JobDoc>>, Error> {
        let (mut jobs, _) = self.documents.list::<JobDoc>().await?;
        if !permit.allows_everywhere(Permission::JobsList) {
            let environments = self.read.list(&self.documents).await?;
            let by_uid: HashMap<&str, &EnvironmentDoc> =
                environments.iter().map(|e| (e.value.uid.as_str(), &*e.value)).collect();
            jobs.retain(|job| {
                let environment = by_uid.get(job.value.environment_uid.as_str()).copied();
                job_allowed(permit, Permission::JobsList, &job.value, environment)
            });
        }
        Ok(jobs)
    }

    /// Whether somebody may do something with a job: what they may with its environment, or, when that is gone, in its project.
    pub(crate) async fn allows_job(&self, permit: &Permit, permission: Permission, id: &str) -> Result<bool, Error> {
        let Some(job) = self.documents.get::<JobDoc>(id).await? else { return Ok(false) };
        let environment = self.documents.get::<EnvironmentDoc>(job.value.environment.as_str()).await?;
        let environment = environment.filter(|e| e.value.uid == job.value.environment_uid);
        Ok(job_allowed(permit, permission, &job.value, environment.as_ref().map(|e| &e.value)))
    }

    /// The environments that somebody may see, by name.
    pub(crate) async fn seen_by_name(&self, permit: &Permit) -> Result<BTreeMap<String, EnvironmentDoc>, Error> {
        let (all, _) = self.documents.list::<EnvironmentDoc>().await?;
        let seen = all.into_iter().map(|e| e.value).filter(|e| permit.allows_on(Permission::EnvironmentsGet, e));
        Ok(seen.map(|e| (e.name.to_string(), e)).collect())
    }
}

fn job_allowed(permit: &Permit, permission: Permission, job: &JobDoc, environment: Option<&EnvironmentDoc>) -> bool {
    match environment {
        Some(environment) => permit.allows_on(permission, environment),
        None => permit.allows(permission, Scope::Project(&job.project)),
    }
}
