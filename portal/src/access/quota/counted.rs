//! What environments take of quotas.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use vctl_api::rest::{Phase, Usage};
use vctl_machinery::requests::Requests;

use super::holder::Holder;
use crate::{
    access::Access,
    documents::{EnvironmentDoc, Stored},
    error::Error,
    size,
};

/// What an environment takes of quotas while it is awake: what its template requests is set aside for it, and what is requested in it
/// counts where that is more.
pub(super) fn taken(environment: &EnvironmentDoc, requested: Requests) -> Requests {
    environment.size.unwrap_or_default().max(requested)
}

/// What is used, or added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) environments: u64,
    pub(super) awake: u64,
    pub(super) size: Requests,
    pub(super) templates: BTreeMap<String, u64>,
}

impl Counted {
    /// Of one environment, in which so much is requested.
    pub(super) fn of(environment: &EnvironmentDoc, requested: Requests) -> Self {
        let mut counted = Self::default();
        counted.add(environment, requested);
        counted
    }

    pub(super) fn add(&mut self, environment: &EnvironmentDoc, requested: Requests) {
        let awake = is_awake(environment);
        let size = taken(environment, requested);
        self.environments += 1;
        self.awake += u64::from(awake);
        self.size = self.size.plus(if awake { size } else { size.asleep() });
        *self.templates.entry(environment.template.clone()).or_default() += 1;
    }

    pub(super) fn usage(self) -> Usage {
        let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        Usage {
            environments: count(self.environments),
            awake: count(self.awake),
            cpu: size::millis(self.size.cpu),
            memory: size::bytes(self.size.memory),
            storage: size::bytes(self.size.storage),
            templates: self.templates.into_iter().map(|(name, n)| (name, count(n))).collect(),
        }
    }
}

/// Whether an environment counts as awake.
pub(crate) fn is_awake(environment: &EnvironmentDoc) -> bool {
    environment.phase != Phase::Sleeping
}

/// What is requested in environments: each is asked once.
pub(super) struct Requested<'a> {
    access: &'a Access,
    known: HashMap<String, Requests>,
}

impl<'a> Requested<'a> {
    pub(super) fn new(access: &'a Access) -> Self {
        Self { access, known: HashMap::new() }
    }

    pub(super) async fn of(&mut self, environment: &EnvironmentDoc) -> Result<Requests, Error> {
        let name = environment.name.as_str();
        if let Some(known) = self.known.get(name) {
            return Ok(*known);
        }
        let size = self.access.planes.requested(&environment.name).await?;
        self.known.insert(name.to_owned(), size);
        Ok(size)
    }

    /// What the environments of somebody take. Without `amounts` only the environments themselves are counted.
    pub(super) async fn used(
        &mut self,
        holder: &Holder<'_>,
        amounts: bool,
        environments: &[Stored<Arc<EnvironmentDoc>>],
    ) -> Result<Counted, Error> {
        let mut used = Counted::default();
        for environment in environments.iter().map(|e| &*e.value).filter(|e| holder.has(e)) {
            let requested = if amounts { self.of(environment).await? } else { Requests::NONE };
            used.add(environment, requested);
        }
        Ok(used)
    }
}
