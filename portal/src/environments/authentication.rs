//! Whose tokens count in an environment.

use serde_json::{Value, json};
use vctl_store::{Expect, Revision, StoreError};

use super::{CONFLICT_TRIES, Caller, Environments};
use crate::{
    audit::{Subject, entry},
    documents::{EnvironmentDoc, put, unchanged},
    error::Error,
};

impl Environments {
    pub(super) fn check_authentication(&self, configuration: &Value) -> Result<(), Error> {
        let checked = self.planes.check_authentication(configuration);
        checked.map_err(|why| Error::invalid("invalid-authentication", why))
    }

    /// The AuthenticationConfiguration of an environment, if it has one.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn authentication(&self, name: &str) -> Result<Option<Value>, Error> {
        Ok(self.stored(name).await?.value.authentication)
    }

    /// Sets the AuthenticationConfiguration of an environment, or takes it away. Counts from the next request on.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Invalid`] with everything that is wrong with it; [`Error::Conflict`] unless the environment is
    /// ready; [`Error::Changed`].
    pub async fn set_authentication(
        &self,
        caller: Caller<'_>,
        name: &str,
        configuration: Option<Value>,
        if_revision: Option<Revision>,
    ) -> Result<(), Error> {
        if let Some(configuration) = &configuration {
            self.check_authentication(configuration)?;
        }
        for _ in 0..CONFLICT_TRIES {
            let stored = self.stored(name).await?;
            unchanged(stored.revision, if_revision)?;
            self.check_free(&stored).await?;
            // The cluster first: what the environment says is then never more than what counts. Repeating it mends what was cut off.
            self.planes.set_authentication(&stored.value.name, configuration.clone()).await?;
            let issuers: Vec<&Value> = configuration
                .iter()
                .flat_map(|c| c["jwt"].as_array().into_iter().flatten())
                .map(|jwt| &jwt["issuer"]["url"])
                .collect();
            let detail = json!({ "issuers": issuers });
            let document = EnvironmentDoc { authentication: configuration.clone(), ..stored.value };
            let writes = vec![
                put(&document, Expect::Revision(stored.revision))?,
                entry(self.now(), caller, "environment.authentication", Subject::environment(&document), detail)?,
            ];
            match self.documents.transact(writes).await {
                Ok(_) => return Ok(()),
                Err(StoreError::Conflict { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Err(Error::Unavailable(format!("environment {name:?} is changing all the time")))
    }
}
