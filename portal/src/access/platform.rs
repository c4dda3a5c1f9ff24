//! The members and limits of the platform as a whole.

use vctl_api::rest::{Platform, PlatformSettings};
use vctl_store::Revision;

use super::{Access, decide::Scope, documents::PlatformDoc, expected, members, policy::Permit, quota};
use crate::{
    audit::{Subject, entry, record::changes},
    documents::put,
    environments::Caller,
    error::Error,
};

impl Access {
    /// Its members and limits.
    pub(crate) async fn platform(&self) -> Result<Platform, Error> {
        let policy = self.policy().await?;
        Ok(Platform { settings: policy.platform.value.settings.clone(), revision: policy.platform.revision })
    }

    /// Changes them. The local administrator is always an administrator of the platform.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Forbidden`] for giving more than one has, [`Error::Changed`].
    pub(crate) async fn put_platform(
        &self,
        caller: Caller<'_>,
        permit: &Permit,
        mut settings: PlatformSettings,
        if_revision: Option<Revision>,
    ) -> Result<Platform, Error> {
        self.name_by_id(&mut settings.members).await?;
        let policy = self.policy().await?;
        let before = policy.platform.value.settings.clone();
        let expect = expected(policy.platform.revision, if_revision)?;
        members::check(permit, &policy, Scope::Platform, &before.members, &settings.members)?;
        quota::check(&settings.user_quota)?;
        let document = PlatformDoc { settings };
        let detail = changes(&before, &document.settings)?;
        let writes = vec![
            put(&document, expect)?,
            entry(self.clock.now(), caller, "platform.update", Subject::platform(""), detail)?,
        ];
        let revisions = self.change(writes).await?;
        Ok(Platform { settings: document.settings, revision: revisions.first().copied().unwrap_or_default() })
    }
}
