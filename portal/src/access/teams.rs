//! Teams.

use vctl_api::rest::{MemberKind, Team, TeamSettings};
use vctl_store::{Expect, Revision};

use super::{
    Access, check_escalation, check_name,
    decide::{Place, Scope},
    documents::{TeamDoc, team},
    expected, expected_or_new,
    permission::Permission,
    policy::{Permit, Policy},
    quota,
};
use crate::{
    audit::{Subject, entry, record::changes},
    documents::{Stored, put, remove},
    environments::Caller,
    error::{Error, nearest},
};

/// Most names in a team.
const NAMES_LIMIT: usize = 1000;

impl Access {
    /// The teams that somebody may see: with `teams.list` all of them, else those they are in.
    pub(crate) async fn teams(&self, permit: &Permit) -> Result<Vec<Team>, Error> {
        let policy = self.policy().await?;
        if permit.allows_everywhere(Permission::TeamsList) {
            return Ok(policy.teams.values().cloned().map(team).collect());
        }
        Ok(policy.teams_of(&permit.subject).cloned().map(team).collect())
    }

    /// One team that may be seen.
    ///
    /// # Errors
    /// [`Error::NotFound`] with near names of those that may be seen.
    pub(crate) async fn team(&self, permit: &Permit, name: &str) -> Result<Team, Error> {
        let mut seen = self.teams(permit).await?;
        match seen.iter().position(|team| team.name == name) {
            Some(found) => Ok(seen.swap_remove(found)),
            None => Err(Error::NotFound {
                what: "team",
                name: name.to_owned(),
                nearest: nearest(name, seen.iter().map(|t| t.name.as_str())),
            }),
        }
    }

    /// Makes or changes a team.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Changed`]; [`Error::Forbidden`] when the team has rights that the caller does not have: who
    /// decides who is in it, gives them.
    pub(crate) async fn put_team(
        &self,
        caller: Caller<'_>,
        permit: &Permit,
        name: &str,
        mut settings: TeamSettings,
        if_revision: Option<Revision>,
    ) -> Result<Team, Error> {
        check_name(name)?;
        for user in &mut settings.users {
            *user = self.user_id(user).await?;
        }
        if settings.users.len() + settings.groups.len() > NAMES_LIMIT {
            return Err(Error::invalid("invalid-team", format!("a team names at most {NAMES_LIMIT} users and groups")));
        }
        quota::check(&settings.quota)?;
        let policy = self.policy().await?;
        check_uses(permit, &policy, name)?;
        let stored = policy.teams.get(name);
        let before = stored.map(|s| s.value.settings.clone()).unwrap_or_default();
        let expect = expected_or_new(stored.map(|s| s.revision), if_revision)?;
        let document = TeamDoc { name: name.to_owned(), settings };
        let detail = changes(&before, &document.settings)?;
        let action = if stored.is_some() { "team.update" } else { "team.create" };
        let writes =
            vec![put(&document, expect)?, entry(self.clock.now(), caller, action, Subject::platform(name), detail)?];
        let revisions = self.change(writes).await?;
        let revision = revisions.first().copied().unwrap_or_default();
        Ok(team(Stored { value: document, revision, created: revision }))
    }

    /// Deletes a team that is a member of nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Conflict`] with where it is a member; [`Error::Changed`].
    pub(crate) async fn delete_team(
        &self,
        caller: Caller<'_>,
        permit: &Permit,
        name: &str,
        if_revision: Option<Revision>,
    ) -> Result<(), Error> {
        let seen = self.team(permit, name).await?;
        expected(seen.revision, if_revision)?;
        let policy = self.policy().await?;
        let uses = policy.uses(|m| m.kind == MemberKind::Team && m.name == name);
        if let Some(why) = still_used("team", name, uses.iter().map(|(place, _)| place)) {
            return Err(why);
        }
        let detail = changes(&seen.settings, &TeamSettings::default())?;
        let writes = vec![
            remove::<TeamDoc>(name, Expect::Revision(seen.revision)),
            entry(self.clock.now(), caller, "team.delete", Subject::platform(name), detail)?,
        ];
        self.change(writes).await?;
        Ok(())
    }
}

fn check_uses(permit: &Permit, policy: &Policy, name: &str) -> Result<(), Error> {
    for (place, member) in policy.uses(|m| m.kind == MemberKind::Team && m.name == name) {
        let given = policy.role(&member.role).unwrap_or_default();
        let scope = match &place {
            Place::Project(project) => Scope::Project(project),
            _ => Scope::Platform,
        };
        check_escalation(permit, scope, given)?;
    }
    Ok(())
}

/// Why something cannot be deleted: it is named in these places.
pub(super) fn still_used<'a>(what: &str, name: &str, places: impl Iterator<Item = &'a Place>) -> Option<Error> {
    let places: Vec<String> = places
        .map(|place| match place {
            Place::Platform => "the platform".to_owned(),
            Place::Project(name) => format!("project {name}"),
            Place::Environment(name) => format!("environment {name}"),
        })
        .collect();
    (!places.is_empty()).then(|| {
        Error::Conflict(format!(
            "{what} {name:?} is still named by the members of {}: take it out there first",
            places.join(", ")
        ))
    })
}
