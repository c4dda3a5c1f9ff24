//! What a project, its members, a user or a team may have.
//!
//! What is used is counted from the environments themselves, so that no counter can be wrong: what each one's template requests, or what is
//! requested in it where that is more. Whoever adds to it, by a request to the portal or by a pod inside of an environment, waits for its
//! turn ([`super::turns`]) and then counts. Environments also write a document of each quota that applies, with the revision from before
//! the count. Where nothing is limited nothing is counted or written.

mod counted;
mod demand;
mod holder;
mod line;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tracing::Instrument;
use vctl_api::rest::{LimitUsage, Quota, Usage};
use vctl_store::{Expect, Revision, StoreError, Write};

pub(crate) use self::{
    counted::is_awake,
    demand::{Adds, Demand},
    line::check,
};
use self::{
    counted::{Counted, Requested},
    holder::{Holder, holders, of_environment},
    line::{Line, limits_amounts, lines},
};
use super::{Access, policy::Policy, turns::Turn};
use crate::{
    audit::{from_source, source},
    documents::{Document, EnvironmentDoc, put},
    error::Error,
};

/// Written by everything that adds to what a quota limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct QuotaDoc {
    /// Whose quota.
    holder: String,
    /// What added to it last.
    environment: String,
}

impl Document for QuotaDoc {
    const RESOURCE: &'static str = "quotas.vctl.dev";
    fn name(&self) -> &str {
        &self.holder
    }
}

/// What must happen together with what was counted for.
#[derive(Debug)]
pub(crate) struct Charge {
    /// To be written in the same transaction.
    pub(crate) writes: Vec<Write>,
    /// To be kept until it is written.
    pub(crate) turn: Turn,
}

impl Access {
    /// Checks that every quota allows one more, and returns what must be written together with it.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`] with what is used, what is allowed, and who can allow more.
    pub(crate) async fn charge(&self, demand: Demand<'_>) -> Result<Charge, Error> {
        let policy = self.policy().await?;
        let groups = self.groups(&policy).await?;
        let mut holders = of_environment(&policy, demand.environment, &groups);
        let inside = matches!(demand.adds, Adds::Requests(_));
        holders.retain(|(_, quota)| !inside || limits_amounts(quota));
        let turn = self.turns.of(holders.iter().map(|(holder, _)| holder.key()).collect()).await;
        let mut writes = Vec::with_capacity(holders.len());
        if holders.is_empty() {
            return Ok(Charge { writes, turn });
        }
        let mut requested = Requested::new(self);
        let added = demand.counted(requested.of(demand.environment).await?);
        if added == Counted::default() {
            return Ok(Charge { writes, turn });
        }
        // Before the count: whoever adds in between makes the write fail.
        for (holder, _) in holders.iter().filter(|_| !inside) {
            let holder = holder.key();
            let stored = self.documents.get::<QuotaDoc>(&holder).await?;
            let expect = stored.map_or(Expect::Absent, |s| Expect::Revision(s.revision));
            writes.push(put(&QuotaDoc { holder, environment: demand.environment.name.to_string() }, expect)?);
        }
        let environments = self.environments.list(&self.documents).await?;
        for (holder, quota) in &holders {
            let used = requested.used(holder, limits_amounts(quota), &environments).await?;
            holder.check(quota, &used, demand.adds, &added)?;
        }
        Ok(Charge { writes, turn })
    }

    /// Writes in a task of its own, with a turn that ends when the outcome is known: whoever asks may go away before that.
    pub(crate) async fn transact_in_turn(&self, writes: Vec<Write>, turn: Turn) -> Result<Vec<Revision>, StoreError> {
        let documents = self.documents.clone();
        let (tell, told) = oneshot::channel();
        let write = async move {
            let done = documents.transact(writes).await;
            drop(turn);
            // Nobody may be left to be told.
            let _ = tell.send(done);
        };
        self.tasks.spawn("write that a quota waits for", from_source(source(), write).in_current_span());
        told.await.unwrap_or(Err(StoreError::Closed))
    }

    /// The quotas that limit processors, memory and storage of an environment, the first of each, by name.
    pub(super) async fn limited(&self, environment: &EnvironmentDoc) -> Result<[Option<String>; 3], Error> {
        let policy = self.policy().await?;
        let groups = self.groups(&policy).await?;
        let holders = of_environment(&policy, environment, &groups);
        let first = |limits: fn(&Quota) -> bool| {
            holders.iter().find(|(_, quota)| limits(quota)).map(|(holder, _)| holder.label())
        };
        Ok([first(|q| q.cpu.is_some()), first(|q| q.memory.is_some()), first(|q| q.storage.is_some())])
    }

    /// Groups of users, where the quota of a team needs them.
    async fn groups(&self, policy: &Policy) -> Result<HashMap<String, Vec<String>>, Error> {
        if policy.teams.values().all(|t| t.value.settings.quota == Quota::default()) {
            return Ok(HashMap::new());
        }
        let users = self.users.list(&self.documents).await?;
        Ok(users.into_iter().map(|u| (u.value.id.clone(), u.value.groups.clone())).collect())
    }

    /// What all environments of a project together are, and what is limited there for a user.
    pub(crate) async fn usage(&self, project: &str, user: &str) -> Result<(Usage, Vec<LimitUsage>), Error> {
        let environments = self.environments.list(&self.documents).await?;
        let policy = self.policy().await?;
        let groups = self.groups(&policy).await?;
        let mut requested = Requested::new(self);
        let mut limits = Vec::new();
        for (holder, quota) in holders(&policy, project, user, None, &groups) {
            let (kind, name) = holder.limit();
            let used = requested.used(&holder, limits_amounts(&quota), &environments).await?;
            for line in lines(&quota, &used, &Counted::default()) {
                let Line { what, unit, limit, used, .. } = line;
                limits.push(LimitUsage { holder: kind, name: name.to_owned(), what, unit, used, limit });
            }
        }
        let used = requested.used(&Holder::Project(project), true, &environments).await?;
        Ok((used.usage(), limits))
    }
}
