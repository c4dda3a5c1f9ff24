//! Restorations that ended with the process that did them.

use std::time::Duration;

use serde_json::json;
use vctl_api::rest::Phase;
use vctl_store::{Expect, StoreError};

use super::{
    Caller, Environments,
    restore::{Replaced, Restoring, awake},
};
use crate::{
    audit::{Subject, entry_for},
    documents::{EnvironmentDoc, Stored, put},
    error::Error,
};

/// Who the audit trail names.
const ACTOR: Caller<'static> = Caller { actor: "server", user: "", request_id: "" };
/// Pause after the store has failed.
const PAUSE: Duration = Duration::from_secs(1);

impl Environments {
    /// Ends every restoration that a former process had begun: a virtual cluster is put back whole or not at all, so a new environment is
    /// ready when its cluster is there; else it has failed. One that was to be replaced is what it was, and awake. All say what to do.
    pub(crate) async fn end_interrupted(&self) {
        loop {
            match self.try_end_interrupted().await {
                Ok(()) => return,
                Err(_) if self.documents.is_closed().await => return,
                Err(error) => tracing::error!(%error, "interrupted restorations cannot be ended; trying again"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn try_end_interrupted(&self) -> Result<(), Error> {
        let (all, _) = self.documents.list::<EnvironmentDoc>().await?;
        for stored in all {
            match &stored.value.restoring {
                Some(restoring) if restoring.process != *self.process => {
                    let restoring = restoring.clone();
                    self.end_one(stored, restoring).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn end_one(&self, stored: Stored<EnvironmentDoc>, restoring: Restoring) -> Result<(), Error> {
        let now = self.now();
        let doc = EnvironmentDoc { restoring: None, ..stored.value };
        let name = doc.name.clone();
        let Restoring { requested_by, replaces, .. } = restoring;
        let is_there = self.planes.exists(&name).await?;
        if is_there {
            // What was to be replaced may sleep, and what took its place does not: now neither does.
            self.planes.wake(&name).await?;
        }
        let (ended, action) = match replaces {
            _ if !is_there => {
                let message = format!(
                    "the server was stopped while this was restored from a backup, and nothing of it was written: restore it again \
                     (`vctl restore FILE --as {name} --replace`), or delete it (`vctl delete {name}`)"
                );
                (EnvironmentDoc { phase: Phase::Failed, message, ..doc }, "environment.restore-failed")
            }
            None => {
                let (ready_at, times) = (doc.ready_at.or(Some(now)), awake(doc.times, now));
                let message = String::new();
                (EnvironmentDoc { phase: Phase::Ready, message, ready_at, times, ..doc }, "environment.restore")
            }
            Some(Replaced { phase, .. }) => {
                let message = format!(
                    "the server was stopped while this was replaced by a backup: it is whole, either as it was or as in the backup. To be \
                     sure, restore it again (`vctl restore FILE --as {name} --replace`)"
                );
                let phase = if phase == Phase::Sleeping { Phase::Ready } else { phase };
                let times = awake(doc.times, now);
                (EnvironmentDoc { phase, message, times, ..doc }, "environment.restore-failed")
            }
        };
        let detail = json!({ "interrupted": true });
        let writes = vec![
            put(&ended, Expect::Revision(stored.revision))?,
            entry_for(&requested_by, now, ACTOR, action, Subject::environment(&ended), detail)?,
        ];
        match self.documents.transact(writes).await {
            Ok(_) => Ok(()),
            // Somebody shares it at this moment: it is looked at anew.
            Err(StoreError::Conflict { .. }) => Err(Error::Unavailable(format!("environment {name} was changed"))),
            Err(e) => Err(e.into()),
        }
    }
}
