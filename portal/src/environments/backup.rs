//! Environments taken out as a file, and put back.
//!
//! The file holds the environment's own document (in the part of the system tenant) and its virtual cluster.

use bytes::Bytes;
use serde_json::json;
use vctl_api::{
    names::EnvironmentName,
    rest::{DEFAULT_PROJECT, Environment, Phase, PodCounts},
};
use vctl_machinery::requests::Requests;
use vctl_store::{Backup, Entry, Expect, Export, StoreError, Tenant, TenantBackup};

use super::{Caller, Environments};
use crate::{
    access::{
        quota::{Adds, Charge, Demand},
        turns::Turn,
    },
    audit::{Subject, entry},
    documents::{Document, EnvironmentDoc, JobDoc, Stored, decode, put, remove},
    error::Error,
    jobs,
    sleep::Times,
};

/// What an environment says of itself while it is made from a backup.
const RESTORING: &str = "restoring from a backup";

impl Environments {
    /// An environment as the parts of a backup, while it goes on.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Conflict`] before it is there and while it is deleted.
    pub async fn snapshot(&self, caller: Caller<'_>, name: &str) -> Result<Vec<TenantBackup>, Error> {
        let stored = self.stored(name).await?;
        let cluster = self.planes.snapshot(&stored.value.name).await?;
        let detail = json!({ "documents": cluster.export.entries.len(), "revision": cluster.export.revision });
        let subject = Subject::environment(&stored.value);
        let entry = entry(self.clock.now(), caller, "environment.snapshot", subject, detail)?;
        self.documents.transact(vec![entry]).await?;
        let write = put(&stored.value, Expect::Any)?;
        let own = Entry {
            key: write.key,
            revision: stored.revision,
            created: stored.created,
            value: write.value.unwrap_or_default(),
        };
        let system =
            TenantBackup { name: String::new(), export: Export { revision: stored.revision, entries: vec![own] } };
        Ok(vec![system, cluster])
    }

    /// Puts an environment back from a whole backup: under a new name, or with `replace` in place of the one that has the name.
    /// Whole, or nothing changes. What is in it counts for quotas as if it were created now.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name or backup that cannot be used, [`Error::AlreadyExists`] without `replace`, [`Error::Conflict`]
    /// while the environment is created or deleted, [`Error::QuotaExceeded`].
    pub async fn restore(
        &self,
        caller: Caller<'_>,
        name: &str,
        backup: &Bytes,
        replace: bool,
    ) -> Result<Environment, Error> {
        let name = EnvironmentName::new(name.to_owned()).map_err(|e| Error::Invalid {
            kind: "invalid-name",
            detail: e.to_string(),
            nearest: vec![e.suggestion],
        })?;
        let invalid = |detail: String| Error::invalid("invalid-backup", detail);
        let backup = Backup::decode(backup).map_err(|e| invalid(e.to_string()))?;
        let (document, cluster) = parts(&backup)?;
        let requests = self.planes.requested_by(cluster).await;
        // The turn is kept until the cluster is there and counts: who shares a quota with it waits.
        let (stored, _turn) = match self.documents.get::<EnvironmentDoc>(name.as_str()).await? {
            None => self.announce(&name, document, requests, caller).await?,
            Some(_) if !replace => return Err(self.not_replaced(&name).await),
            Some(stored) => {
                self.check_at_rest(&stored).await?;
                let adds = Adds::Restores { requests, replaces: true };
                let turn = self.access.charge(Demand { environment: &stored.value, adds }).await?.turn;
                (stored, turn)
            }
        };
        let existed = stored.value.message != RESTORING;
        if let Err(error) = self.planes.restore(&name, cluster).await {
            if !existed {
                // Nothing of it is left; when this fails too, its message says what to do.
                let gone = remove::<EnvironmentDoc>(name.as_str(), Expect::Revision(stored.revision));
                if let Err(error) = self.documents.transact(vec![gone]).await {
                    tracing::warn!(environment = name.as_str(), %error, "what was announced could not be removed");
                }
            }
            return Err(error.into());
        }
        self.restored(stored, cluster, caller).await
    }

    /// A new environment, announced before its cluster is there: from now on the name is taken.
    async fn announce(
        &self,
        name: &EnvironmentName,
        document: EnvironmentDoc,
        requests: Requests,
        caller: Caller<'_>,
    ) -> Result<(Stored<EnvironmentDoc>, Turn), Error> {
        let announced = EnvironmentDoc {
            name: name.clone(),
            uid: uuid::Uuid::new_v4().to_string(),
            phase: Phase::Creating,
            message: RESTORING.to_owned(),
            created_at: self.clock.now(),
            ready_at: None,
            // What the file says of them may be of another server.
            project: DEFAULT_PROJECT.to_owned(),
            owner: caller.actor.to_owned(),
            owner_id: caller.user.to_owned(),
            shares: std::collections::BTreeMap::new(),
            job: String::new(),
            times: restarted(document.times, self.clock.now()),
            ..document
        };
        let adds = Adds::Restores { requests, replaces: false };
        let Charge { writes, turn } = self.access.charge(Demand { environment: &announced, adds }).await?;
        let mut all = vec![put(&announced, Expect::Absent)?];
        all.extend(writes);
        match self.documents.transact(all).await {
            Ok(revisions) => {
                let revision = revisions.first().copied().unwrap_or_default();
                Ok((Stored { value: announced, revision, created: revision }, turn))
            }
            Err(StoreError::Conflict { .. }) => Err(self.not_replaced(name).await),
            Err(e) => Err(e.into()),
        }
    }

    /// The name is taken, and nobody said that what has it may go.
    async fn not_replaced(&self, name: &EnvironmentName) -> Error {
        match self.stored(name.as_str()).await {
            Ok(stored) if stored.value.phase != Phase::Deleting => Error::AlreadyExists(format!(
                "environment {:?} exists already: take another name for --as, or say --replace to put the backup in its place",
                name.as_str()
            )),
            _ => self.taken(name).await,
        }
    }

    /// Nothing else works on the environment.
    async fn check_at_rest(&self, stored: &Stored<EnvironmentDoc>) -> Result<(), Error> {
        let name = stored.value.name.as_str();
        if stored.value.phase == Phase::Deleting {
            return Err(Error::Conflict(format!(
                "environment {name:?} is being deleted: wait for it, or restore --as another name"
            )));
        }
        let job = self.documents.get::<JobDoc>(&stored.value.job).await?;
        if job.is_some_and(|job| !jobs::ended(job.value.state)) {
            return Err(Error::Conflict(format!("environment {name:?} is being worked on: wait until it is ready")));
        }
        Ok(())
    }

    /// The cluster is there: the environment says so.
    async fn restored(
        &self,
        stored: Stored<EnvironmentDoc>,
        cluster: &TenantBackup,
        caller: Caller<'_>,
    ) -> Result<Environment, Error> {
        let now = self.clock.now();
        let ready = EnvironmentDoc {
            phase: Phase::Ready,
            message: String::new(),
            ready_at: stored.value.ready_at.or(Some(now)),
            // What is restored is awake.
            times: Times { asleep_since: None, schedule_from: Some(now), ..stored.value.times },
            ..stored.value
        };
        let detail = json!({
            "from": cluster.name, "documents": cluster.export.entries.len(), "revision": cluster.export.revision,
        });
        let writes = vec![
            put(&ready, Expect::Revision(stored.revision))?,
            entry(now, caller, "environment.restore", Subject::environment(&ready), detail)?,
        ];
        let revisions = self.documents.transact(writes).await?;
        let revision = revisions.first().copied().unwrap_or_default();
        Ok(self.view(Stored { value: ready, revision, created: stored.created }, PodCounts::default(), String::new()))
    }

    /// The tenants of a backup of everything, one after the other; the system tenant first.
    pub(crate) async fn begin_backup(&self, caller: Caller<'_>) -> Result<Vec<(Tenant, String)>, Error> {
        let nothing = serde_json::Value::Null;
        let entry = entry(self.clock.now(), caller, "store.backup", Subject::platform(""), nothing)?;
        self.documents.transact(vec![entry]).await?;
        let infos = self.documents.store().tenants().await?;
        let others = infos.into_iter().map(|info| (info.tenant, info.name));
        Ok(std::iter::once((Tenant::SYSTEM, String::new())).chain(others).collect())
    }

    /// One of them; none when it was deleted meanwhile.
    pub(crate) async fn exported(&self, tenant: Tenant, name: String) -> Result<Option<TenantBackup>, Error> {
        match self.documents.store().export(tenant).await {
            Ok(export) => Ok(Some(TenantBackup { name, export })),
            Err(StoreError::NoTenant(_)) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Drops the history of an environment before this moment; the revision that is its oldest from now on.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn compact(&self, caller: Caller<'_>, name: &str) -> Result<u64, Error> {
        let stored = self.stored(name).await?;
        let revision = self.planes.compact(&stored.value.name).await?;
        let detail = json!({ "revision": revision });
        let subject = Subject::environment(&stored.value);
        let entry = entry(self.clock.now(), caller, "environment.compact", subject, detail)?;
        self.documents.transact(vec![entry]).await?;
        Ok(revision)
    }

    /// Encrypts everything that is kept with the first of the server's keys.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the server has no key.
    pub async fn reencrypt(&self, caller: Caller<'_>) -> Result<u64, Error> {
        let changed = self.documents.store().reencrypt().await.map_err(|e| match e {
            StoreError::Unusable(why) => Error::Conflict(why),
            other => other.into(),
        })?;
        let detail = json!({ "values": changed });
        let entry = entry(self.clock.now(), caller, "store.reencrypt", Subject::platform(""), detail)?;
        self.documents.transact(vec![entry]).await?;
        Ok(changed)
    }
}

/// The times of a new environment: its life begins now.
fn restarted(times: Times, now: jiff::Timestamp) -> Times {
    let expires_at = times.expiry.as_ref().map(|expiry| expiry.after.after(now));
    Times { sleep: times.sleep, expiry: times.expiry, expires_at, ..Times::default() }
}

/// The environment's document and its virtual cluster.
fn parts(backup: &Backup) -> Result<(EnvironmentDoc, &TenantBackup), Error> {
    let invalid = |detail: &str| Error::invalid("invalid-backup", detail);
    let mut clusters = backup.tenants.iter().filter(|t| !t.name.is_empty());
    let cluster = clusters.next().ok_or_else(|| invalid("there is no environment in this backup: take another one"))?;
    if clusters.next().is_some() {
        return Err(invalid(
            "there are several environments in this backup: say which one (`vctl restore FILE --from NAME`)",
        ));
    }
    let own = backup.tenants.iter().filter(|t| t.name.is_empty()).flat_map(|t| &t.export.entries);
    let mut own = own.filter(|e| &*e.key.resource == EnvironmentDoc::RESOURCE && *e.key.name == *cluster.name);
    let own =
        own.next().ok_or_else(|| invalid("the environment's own document is not in this backup: take another one"))?;
    let document = decode(&own.value).map_err(|e| invalid(&e.to_string()))?;
    Ok((document, cluster))
}
