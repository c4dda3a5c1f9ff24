//! What is recorded of requests to an environment.

use serde_json::{Value, json};
use vctl_store::{Expect, Revision, StoreError};

use super::{CONFLICT_TRIES, Caller, Environments};
use crate::{
    audit::{Subject, entry},
    documents::{EnvironmentDoc, put, unchanged},
    error::Error,
};

impl Environments {
    pub(super) fn check_audit_policy(&self, policy: &Value) -> Result<(), Error> {
        self.planes.check_audit_policy(policy).map_err(|why| Error::invalid("invalid-audit-policy", why))
    }

    /// The audit Policy of an environment, if it has one.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub(crate) async fn audit_policy(&self, name: &str) -> Result<Option<Value>, Error> {
        Ok(self.stored(name).await?.value.audit_policy)
    }

    /// Sets the audit Policy of an environment, or takes it away, so that the server's counts. Counts from the next request on; the entry
    /// that says so is written whatever the policy says.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Invalid`] with everything that is wrong with it; [`Error::Conflict`] unless the environment is
    /// ready; [`Error::Changed`].
    pub(crate) async fn set_audit_policy(
        &self,
        caller: Caller<'_>,
        name: &str,
        policy: Option<Value>,
        if_revision: Option<Revision>,
    ) -> Result<(), Error> {
        if let Some(policy) = &policy {
            self.check_audit_policy(policy)?;
        }
        for _ in 0..CONFLICT_TRIES {
            let stored = self.stored(name).await?;
            unchanged(stored.revision, if_revision)?;
            self.check_free(&stored).await?;
            let detail = json!({ "before": stored.value.audit_policy, "after": policy });
            let document = EnvironmentDoc { audit_policy: policy.clone(), ..stored.value };
            let writes = vec![
                put(&document, Expect::Revision(stored.revision))?,
                entry(self.now(), caller, "environment.auditPolicy", Subject::environment(&document), detail)?,
            ];
            // The entry first: there is never less recorded than the trail tells. Repeating it mends what was cut off.
            match self.documents.transact(writes).await {
                Ok(_) => return Ok(self.planes.set_audit_policy(&document.name, policy).await?),
                Err(StoreError::Conflict { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Err(Error::Unavailable(format!("environment {name:?} is changing all the time")))
    }
}
