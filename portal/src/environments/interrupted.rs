//! Restorations that ended with the process that did them.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use vctl_api::rest::Phase;
use vctl_store::{Expect, StoreError};

use super::{Caller, Environments};
use crate::{
    audit::{Subject, entry},
    documents::{EnvironmentDoc, Stored, put},
    error::Error,
    sleep::Times,
};

/// Who the audit trail names.
const ACTOR: Caller<'static> = Caller { actor: "server", user: "", request_id: "" };
/// Pause after the store has failed.
const PAUSE: Duration = Duration::from_secs(1);

impl Environments {
    /// Ends every restoration that a former process had begun: a virtual cluster is put back whole or not at all, so the environment is
    /// ready when its cluster is there; else it has failed, and says what to do.
    pub(crate) async fn end_interrupted(&self, started_at: Timestamp) {
        loop {
            match self.try_end_interrupted(started_at).await {
                Ok(()) => return,
                Err(_) if self.documents.is_closed().await => return,
                Err(error) => tracing::error!(%error, "interrupted restorations cannot be ended; trying again"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn try_end_interrupted(&self, started_at: Timestamp) -> Result<(), Error> {
        let (all, _) = self.documents.list::<EnvironmentDoc>().await?;
        let interrupted = |doc: &EnvironmentDoc| {
            // What is created by a job has one.
            doc.phase == Phase::Creating && doc.job.is_empty() && doc.created_at < started_at
        };
        for stored in all.into_iter().filter(|s| interrupted(&s.value)) {
            self.end_one(stored).await?;
        }
        Ok(())
    }

    async fn end_one(&self, stored: Stored<EnvironmentDoc>) -> Result<(), Error> {
        let now = self.now();
        let doc = stored.value;
        let name = doc.name.clone();
        let (ended, action) = if self.planes.exists(&name).await? {
            let times = Times { asleep_since: None, schedule_from: Some(now), ..doc.times };
            let ready =
                EnvironmentDoc { phase: Phase::Ready, message: String::new(), ready_at: Some(now), times, ..doc };
            (ready, "environment.restore")
        } else {
            let message = format!(
                "the server was stopped while this was restored from a backup, and nothing of it was written: restore it again \
                 (`vctl restore FILE --as {name} --replace`), or delete it (`vctl delete {name}`)"
            );
            (EnvironmentDoc { phase: Phase::Failed, message, ..doc }, "environment.restore-failed")
        };
        let detail = json!({ "interrupted": true });
        let writes = vec![
            put(&ended, Expect::Revision(stored.revision))?,
            entry(now, ACTOR, action, Subject::environment(&ended), detail)?,
        ];
        match self.documents.transact(writes).await {
            // Somebody deletes it at this moment, or restores it again.
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}
