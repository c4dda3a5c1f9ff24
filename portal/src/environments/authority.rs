//! Another certificate authority for an environment.

use serde_json::json;
use vctl_api::rest::{Job, Operation, Phase, RotateCa};
use vctl_store::{Expect, Revision, StoreError};

use super::{CONFLICT_TRIES, Caller, Environments};
use crate::{
    audit::{Subject, entry},
    documents::{EnvironmentDoc, JobDoc, Stored, put},
    error::Error,
    jobs,
};

/// How long the old authority counts unless something else is said: a day.
const OVERLAP_SECONDS: u64 = 24 * 3600;
/// The longest time that it may: 90 days.
const OVERLAP_LIMIT: u64 = 90 * 24 * 3600;

impl Environments {
    /// Asks for another certificate authority; the job does it while the environment goes on.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Conflict`] unless the environment is ready and nothing else works on it; [`Error::Invalid`] for a
    /// time that is none.
    pub async fn rotate_ca(&self, caller: Caller<'_>, name: &str, request: RotateCa) -> Result<Job, Error> {
        let overlap = match (request.now, request.overlap_seconds) {
            (true, None) => 0,
            (false, given) => given.unwrap_or(OVERLAP_SECONDS),
            (true, Some(_)) => {
                return Err(Error::invalid("invalid-overlap", "say either now or overlapSeconds, not both"));
            }
        };
        if overlap > OVERLAP_LIMIT || (overlap == 0 && !request.now) {
            return Err(Error::invalid(
                "invalid-overlap",
                format!("overlapSeconds must be 1 to {OVERLAP_LIMIT}; to drop the old authority at once, say now"),
            ));
        }
        for _ in 0..CONFLICT_TRIES {
            let stored = self.stored(name).await?;
            self.check_free(&stored).await?;
            let Stored { value: environment, revision, .. } = stored;
            let now = self.now();
            let mut job = jobs::new(now, &environment.name, &environment.uid, Operation::RotateCa, None);
            job.overlap_seconds = Some(overlap);
            let detail = json!({ "job": job.id, "overlapSeconds": overlap });
            job.project.clone_from(&environment.project);
            caller.actor.clone_into(&mut job.requested_by);
            caller.request_id.clone_into(&mut job.request_id);
            let environment = EnvironmentDoc { job: job.id.clone(), ..environment };
            let writes = vec![
                put(&job, Expect::Absent)?,
                put(&environment, Expect::Revision(revision))?,
                entry(now, caller, "environment.rotate-ca", Subject::environment(&environment), detail)?,
            ];
            match self.documents.transact(writes).await {
                Ok(revisions) => {
                    let revision: Revision = revisions.first().copied().unwrap_or_default();
                    return Ok(jobs::view(Stored { value: job, revision, created: revision }));
                }
                Err(StoreError::Conflict { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Err(Error::Unavailable(format!("environment {name:?} is changing all the time")))
    }

    /// The environment is ready, and no job works on it.
    pub(super) async fn check_free(&self, stored: &Stored<EnvironmentDoc>) -> Result<(), Error> {
        let name = stored.value.name.as_str();
        let job = self.documents.get::<JobDoc>(&stored.value.job).await?;
        let busy = job.is_some_and(|job| !jobs::ended(job.value.state));
        if stored.value.phase != Phase::Ready || busy {
            return Err(Error::Conflict(format!(
                "environment {name:?} is being worked on, or not ready: wait until `vctl get {name}` says Ready"
            )));
        }
        Ok(())
    }
}
