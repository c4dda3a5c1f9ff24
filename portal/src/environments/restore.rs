//! Environments put back from backups: announced in the environment's document first, so that nothing else is done with it meanwhile.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use vctl_api::{
    names::EnvironmentName,
    rest::{DEFAULT_PROJECT, Environment, Phase, PodCounts},
};
use vctl_machinery::requests::Requests;
use vctl_store::{Backup, Expect, StoreError, TenantBackup, Write};

use super::{CONFLICT_TRIES, Caller, Environments};
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

/// What an environment says of itself while it is put back.
const RESTORING: &str = "restoring from a backup";
/// Pause after the store has failed.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// The environment as it is when its restoration has ended, and the writes that make it so.
type Ended = (EnvironmentDoc, Vec<Write>);

/// A restoration that is under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Restoring {
    /// The process that does it: those of another process have ended with it.
    pub(super) process: String,
    /// Who asked for it, as the audit trail says it.
    pub(super) requested_by: String,
    /// What is replaced; none of a new environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) replaces: Option<Replaced>,
}

/// What the environment is again when nothing comes of its restoration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Replaced {
    pub(super) phase: Phase,
    pub(super) message: String,
}

/// That an environment is not being restored.
///
/// # Errors
/// [`Error::Conflict`].
pub(crate) fn check_not_restoring(doc: &EnvironmentDoc) -> Result<(), Error> {
    if doc.restoring.is_none() {
        return Ok(());
    }
    Err(Error::Conflict(format!(
        "environment {:?} is being restored from a backup: wait until `vctl get {}` says how that ended",
        doc.name.as_str(),
        doc.name
    )))
}

/// The times of an environment that is awake from now on.
pub(super) fn awake(times: Times, now: Timestamp) -> Times {
    Times { asleep_since: None, schedule_from: Some(now), ..times }
}

impl Environments {
    /// Puts an environment back from a whole backup: under a new name, or with `replace` in place of the one that has the name.
    /// Whole, or nothing changes. What is in it counts for quotas as if it were created now.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name or backup that cannot be used, [`Error::AlreadyExists`] without `replace`, [`Error::Conflict`]
    /// while something else is done with the environment, [`Error::QuotaExceeded`].
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
        let backup = Backup::decode(backup).map_err(|e| Error::invalid("invalid-backup", e.to_string()))?;
        let (document, cluster) = parts(&backup)?;
        let requests = self.planes.requested_by(cluster).await;
        // The turn is kept until the cluster is there and counts: who shares a quota with it waits.
        let (announced, _turn) = self.announce(caller, &name, &document, requests, replace).await?;
        if let Err(error) = self.planes.restore(&name, cluster).await {
            // When this fails too, the server says what became of it when it is started the next time.
            if let Err(error) = self.called_off(&announced).await {
                tracing::warn!(environment = name.as_str(), %error, "that nothing was restored could not be written");
            }
            return Err(error.into());
        }
        let ready = self.restored(&announced, cluster, caller).await?;
        Ok(self.view(ready, PodCounts::default(), String::new()))
    }

    /// Says in the environment's document that it is put back, before its cluster is touched: from now on the name is taken, and nothing
    /// else is done with it. Whoever has changed it since it was looked at, above all while this waited for its turn at a quota, has changed
    /// that document: then all is looked at anew.
    async fn announce(
        &self,
        caller: Caller<'_>,
        name: &EnvironmentName,
        document: &EnvironmentDoc,
        requests: Requests,
        replace: bool,
    ) -> Result<(EnvironmentDoc, Turn), Error> {
        for _ in 0..CONFLICT_TRIES {
            let known = self.documents.get::<EnvironmentDoc>(name.as_str()).await?;
            let (announced, expect) = match &known {
                None => (self.new_of(caller, name, document.clone()), Expect::Absent),
                Some(_) if !replace => return Err(self.not_replaced(name).await),
                Some(stored) => {
                    self.check_at_rest(&stored.value).await?;
                    (self.replacing(caller, stored.value.clone()), Expect::Revision(stored.revision))
                }
            };
            // What is there counts as it is: asleep, perhaps.
            let environment = known.as_ref().map_or(&announced, |stored| &stored.value);
            let adds = Adds::Restores { requests, replaces: known.is_some() };
            let Charge { writes, turn } = self.access.charge(Demand { environment, adds }).await?;
            let all: Vec<Write> = std::iter::once(put(&announced, expect)?).chain(writes).collect();
            match self.documents.transact(all).await {
                Ok(_) => return Ok((announced, turn)),
                Err(StoreError::Conflict { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Err(Error::Unavailable(format!("environment {:?} is changing all the time", name.as_str())))
    }

    fn restoring(&self, caller: Caller<'_>, replaces: Option<Replaced>) -> Option<Restoring> {
        let (process, requested_by) = (self.process.to_string(), caller.actor.to_owned());
        Some(Restoring { process, requested_by, replaces })
    }

    /// A new environment, as it was when the backup was made.
    fn new_of(&self, caller: Caller<'_>, name: &EnvironmentName, document: EnvironmentDoc) -> EnvironmentDoc {
        EnvironmentDoc {
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
            restoring: self.restoring(caller, None),
            ..document
        }
    }

    /// An environment that is there. It counts as awake from now on.
    fn replacing(&self, caller: Caller<'_>, document: EnvironmentDoc) -> EnvironmentDoc {
        let replaces = Replaced { phase: document.phase, message: document.message };
        EnvironmentDoc {
            phase: Phase::Updating,
            message: RESTORING.to_owned(),
            restoring: self.restoring(caller, Some(replaces)),
            ..document
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
    async fn check_at_rest(&self, doc: &EnvironmentDoc) -> Result<(), Error> {
        let name = doc.name.as_str();
        if doc.phase == Phase::Deleting {
            return Err(Error::Conflict(format!(
                "environment {name:?} is being deleted: wait for it, or restore --as another name"
            )));
        }
        check_not_restoring(doc)?;
        let job = self.documents.get::<JobDoc>(&doc.job).await?;
        if job.is_some_and(|job| !jobs::ended(job.value.state)) {
            return Err(Error::Conflict(format!("environment {name:?} is being worked on: wait until it is ready")));
        }
        Ok(())
    }

    /// The cluster is there: the environment says so.
    async fn restored(
        &self,
        announced: &EnvironmentDoc,
        cluster: &TenantBackup,
        caller: Caller<'_>,
    ) -> Result<Stored<EnvironmentDoc>, Error> {
        let detail = json!({
            "from": cluster.name, "documents": cluster.export.entries.len(), "revision": cluster.export.revision,
        });
        self.end_restoring(announced, |stored, now| {
            let doc = stored.value.clone();
            let ready = EnvironmentDoc {
                phase: Phase::Ready,
                message: String::new(),
                ready_at: doc.ready_at.or(Some(now)),
                // What is restored is awake.
                times: awake(doc.times, now),
                restoring: None,
                ..doc
            };
            let writes = vec![
                put(&ready, Expect::Revision(stored.revision))?,
                entry(now, caller, "environment.restore", Subject::environment(&ready), detail.clone())?,
            ];
            Ok((ready, writes))
        })
        .await
    }

    /// Nothing has changed: the environment is again what it was, if it was there.
    async fn called_off(&self, announced: &EnvironmentDoc) -> Result<(), Error> {
        let ended = self.end_restoring(announced, |stored, _| {
            let (mut doc, expect) = (stored.value.clone(), Expect::Revision(stored.revision));
            let write = match doc.restoring.take().and_then(|restoring| restoring.replaces) {
                None => remove::<EnvironmentDoc>(doc.name.as_str(), expect),
                Some(Replaced { phase, message }) => {
                    (doc.phase, doc.message) = (phase, message);
                    put(&doc, expect)?
                }
            };
            Ok((doc, vec![write]))
        });
        ended.await.map(drop)
    }

    /// Writes how a restoration has ended into the document as it is now: what has nothing to do with it, such as with whom it is shared,
    /// may have changed meanwhile. A store that fails for a moment is waited for.
    async fn end_restoring(
        &self,
        announced: &EnvironmentDoc,
        end: impl Fn(&Stored<EnvironmentDoc>, Timestamp) -> Result<Ended, Error> + Send + Sync,
    ) -> Result<Stored<EnvironmentDoc>, Error> {
        let mut failed = None;
        for _ in 0..CONFLICT_TRIES {
            match self.try_end_restoring(announced, &end).await {
                Ok(Some(ended)) => return Ok(ended),
                Ok(None) => {}
                Err(error @ Error::Internal(_)) => {
                    tracing::error!(%error, "how a restoration has ended cannot be written; trying again");
                    failed = Some(error);
                    tokio::time::sleep(STORE_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
        let changing =
            || Error::Unavailable(format!("environment {:?} is changing all the time", announced.name.as_str()));
        Err(failed.unwrap_or_else(changing))
    }

    /// One try; none when the document was changed at the same moment.
    async fn try_end_restoring(
        &self,
        announced: &EnvironmentDoc,
        end: &(impl Fn(&Stored<EnvironmentDoc>, Timestamp) -> Result<Ended, Error> + Send + Sync),
    ) -> Result<Option<Stored<EnvironmentDoc>>, Error> {
        let stored = self.stored(announced.name.as_str()).await?;
        let (value, writes) = end(&stored, self.now())?;
        match self.documents.transact(writes).await {
            Ok(revisions) => {
                let revision = revisions.first().copied().unwrap_or_default();
                Ok(Some(Stored { value, revision, created: stored.created }))
            }
            Err(StoreError::Conflict { .. }) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}

/// The times of a new environment: its life begins now.
fn restarted(times: Times, now: Timestamp) -> Times {
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
