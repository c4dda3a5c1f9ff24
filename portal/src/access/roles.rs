//! Roles: those that are built in, and those that people wrote.

use vctl_api::rest::{Role, RoleSettings};
use vctl_store::{Expect, Revision};

use super::{
    Access, check_escalation, check_name,
    decide::Scope,
    documents::RoleDoc,
    expected, expected_or_new,
    permission::PermissionSet,
    policy::{Permit, Policy},
    role::{self, BUILT_IN},
    teams::still_used,
};
use crate::{
    audit::{Subject, entry, record::changes},
    documents::{Stored, put, remove},
    environments::Caller,
    error::{Error, nearest},
};

fn built_in(role: &role::BuiltIn) -> Role {
    let rules = role.permissions.iter().map(|p| p.as_str().to_owned()).collect();
    let settings = RoleSettings { title: role.title.to_owned(), rules };
    Role { name: role.name.to_owned(), settings, built_in: true, revision: 0 }
}

fn own(stored: &Stored<RoleDoc>) -> Role {
    let RoleDoc { name, settings } = stored.value.clone();
    Role { name, settings, built_in: false, revision: stored.revision }
}

impl Access {
    /// All roles. They are no secret: whoever chooses one has to know what it allows.
    pub(crate) async fn roles(&self) -> Result<Vec<Role>, Error> {
        let policy = self.policy().await?;
        Ok(BUILT_IN.iter().map(built_in).chain(policy.roles.values().map(own)).collect())
    }

    /// Makes or changes a role.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a rule that names nothing; [`Error::Conflict`] for a built-in role; [`Error::Forbidden`] for a role with
    /// more than the caller has everywhere; [`Error::Changed`].
    pub(crate) async fn put_role(
        &self,
        caller: Caller<'_>,
        permit: &Permit,
        name: &str,
        settings: RoleSettings,
        if_revision: Option<Revision>,
    ) -> Result<Role, Error> {
        check_name(name)?;
        check_not_built_in(name)?;
        let mut permissions = PermissionSet::NONE;
        for rule in &settings.rules {
            let set = PermissionSet::of_rule(rule).ok_or_else(|| Error::Invalid {
                kind: "invalid-role",
                detail: format!(
                    "the rule {rule:?} names no permission: write `resource.verb`, `resource.*`, `*.verb` or `*`; docs/access.md has the list"
                ),
                nearest: nearest(rule, PermissionSet::ALL.iter().map(super::permission::Permission::as_str)),
            })?;
            permissions = permissions.or(set);
        }
        check_escalation(permit, Scope::Platform, permissions)?;
        let policy = self.policy().await?;
        let stored = policy.roles.get(name);
        let before = stored.map(|s| s.value.settings.clone()).unwrap_or_default();
        let expect = expected_or_new(stored.map(|s| s.revision), if_revision)?;
        let document = RoleDoc { name: name.to_owned(), settings };
        let detail = changes(&before, &document.settings)?;
        let action = if stored.is_some() { "role.update" } else { "role.create" };
        let writes =
            vec![put(&document, expect)?, entry(self.clock.now(), caller, action, Subject::platform(name), detail)?];
        let revisions = self.change(writes).await?;
        let revision = revisions.first().copied().unwrap_or_default();
        Ok(own(&Stored { value: document, revision, created: revision }))
    }

    /// One role.
    ///
    /// # Errors
    /// [`Error::NotFound`] with near names.
    pub(crate) async fn role(&self, name: &str) -> Result<Role, Error> {
        let mut all = self.roles().await?;
        match all.iter().position(|role| role.name == name) {
            Some(found) => Ok(all.swap_remove(found)),
            None => Err(Error::NotFound {
                what: "role",
                name: name.to_owned(),
                nearest: nearest(name, all.iter().map(|r| r.name.as_str())),
            }),
        }
    }

    /// Deletes a role that nobody has.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Conflict`] for a built-in role, and with where somebody has it; [`Error::Changed`].
    pub(crate) async fn delete_role(
        &self,
        caller: Caller<'_>,
        name: &str,
        if_revision: Option<Revision>,
    ) -> Result<(), Error> {
        check_not_built_in(name)?;
        let policy: std::sync::Arc<Policy> = self.policy().await?;
        let stored = policy.roles.get(name).ok_or_else(|| Error::NotFound {
            what: "role",
            name: name.to_owned(),
            nearest: nearest(name, policy.role_names()),
        })?;
        expected(stored.revision, if_revision)?;
        let uses = policy.uses(|m| m.role == name);
        if let Some(why) = still_used("role", name, uses.iter().map(|(place, _)| place)) {
            return Err(why);
        }
        let detail = changes(&stored.value.settings, &RoleSettings::default())?;
        let writes = vec![
            remove::<RoleDoc>(name, Expect::Revision(stored.revision)),
            entry(self.clock.now(), caller, "role.delete", Subject::platform(name), detail)?,
        ];
        self.change(writes).await?;
        Ok(())
    }
}

fn check_not_built_in(name: &str) -> Result<(), Error> {
    if role::built_in(name).is_some() {
        return Err(Error::Conflict(format!("role {name:?} is built in and cannot be changed: take another name")));
    }
    Ok(())
}
