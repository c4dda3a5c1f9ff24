//! What environments are held to inside: which images and workers their project allows, and how much they may request.
//!
//! The virtual control planes ask for every pod and claim, so that what is set counts from the next one on.

use super::{
    Access,
    quota::{Adds, Demand},
    turns::Turn,
};
use crate::{Portal, documents::EnvironmentDoc, environments::CONFLICT_TRIES, error::Error};
use vctl_machinery::requests::Requests;

/// What an environment is held to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterRules {
    /// Its project.
    pub project: String,
    /// Patterns of images; empty: all.
    pub images: Vec<String>,
    /// Patterns of names of workers; empty: all.
    pub workers: Vec<String>,
    /// The first quota that limits processors, by name.
    pub cpu: Option<String>,
    /// The same of memory.
    pub memory: Option<String>,
    /// The same of storage.
    pub storage: Option<String>,
}

/// Whether an environment may request more.
#[derive(Debug)]
pub enum Taken {
    /// It may. Whoever shares a quota with it waits until this is dropped: when what it requests is counted.
    Yes(Turn),
    /// It may not: Kubernetes' sentence about a quota that is exceeded.
    Exceeded(String),
}

impl Portal {
    /// What a virtual cluster is held to; none for one that is no environment.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn cluster_rules(&self, cluster: &str) -> Result<Option<ClusterRules>, Error> {
        self.inner().access.cluster_rules(cluster).await
    }

    /// Whether so much more may be requested in a virtual cluster than is counted there.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn take(&self, cluster: &str, more: Requests) -> Result<Taken, Error> {
        self.inner().access.take(cluster, more).await
    }
}

impl Access {
    async fn cluster_rules(&self, cluster: &str) -> Result<Option<ClusterRules>, Error> {
        let Some(environment) = self.documents.get::<EnvironmentDoc>(cluster).await? else { return Ok(None) };
        let limited = self.limited(&environment.value).await?;
        let policy = self.policy().await?;
        let project = policy.projects.get(&environment.value.project);
        let settings = project.map(|p| &p.value.settings);
        let [cpu, memory, storage] = limited;
        Ok(Some(ClusterRules {
            project: environment.value.project,
            images: settings.map(|s| s.allowed_images.clone()).unwrap_or_default(),
            workers: settings.map(|s| s.allowed_workers.clone()).unwrap_or_default(),
            cpu,
            memory,
            storage,
        }))
    }

    async fn take(&self, cluster: &str, more: Requests) -> Result<Taken, Error> {
        let mut known = self.documents.get::<EnvironmentDoc>(cluster).await?;
        for _ in 0..CONFLICT_TRIES {
            let Some(environment) = known else {
                return Ok(Taken::Yes(self.turns.of(Default::default()).await));
            };
            let demand = Demand { environment: &environment.value, adds: Adds::Requests(more) };
            let taken = match self.charge(demand).await {
                Ok(charge) => Taken::Yes(charge.turn),
                Err(Error::QuotaExceeded(why)) => Taken::Exceeded(why),
                Err(e) => return Err(e),
            };
            // While it waited for its turn somebody else may have had theirs: woken the environment, or made it larger. Whoever does that
            // now waits for this turn.
            known = self.documents.get::<EnvironmentDoc>(cluster).await?;
            if known.as_ref().is_some_and(|k| k.revision == environment.revision) {
                return Ok(taken);
            }
        }
        Err(Error::Unavailable(format!("environment {cluster:?} is changing all the time")))
    }
}
