//! What a project, its members, a user or a team may have.
//!
//! What is used is counted from the environments themselves, so that no counter can be wrong. Whoever adds to it also writes a document of
//! each quota that applies, with the revision from before the count: of two that count at the same moment one has to count again, and
//! together they never exceed. Where nothing is limited nothing is counted or written.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use vctl_api::rest::{Phase, Quota, Usage};
use vctl_store::{Expect, Write};

use super::{Access, policy::Policy};
use crate::{
    auth::UserDoc,
    documents::{Document, EnvironmentDoc, put},
    error::Error,
};

/// Written by everything that adds to what a quota limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct QuotaDoc {
    /// Whose quota.
    holder: String,
    /// What added to it last.
    environment: String,
}

impl Document for QuotaDoc {
    const RESOURCE: &'static str = "quotas.vctl.dev";
    fn name(&self) -> &str {
        &self.holder
    }
}

/// What is about to be added.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand<'a> {
    /// The environment.
    pub(crate) environment: &'a EnvironmentDoc,
    /// It is there already, and asleep: only what is awake becomes more.
    pub(crate) wakes: bool,
}

/// Whose quota it is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Holder<'a> {
    Project(&'a str),
    Member { project: &'a str, user: &'a str },
    User(&'a str),
    Team { name: &'a str, users: BTreeSet<String> },
}

impl Holder<'_> {
    fn key(&self) -> String {
        match self {
            Self::Project(name) => format!("project:{name}"),
            Self::Member { project, user } => format!("member:{project}:{user}"),
            Self::User(user) => format!("user:{user}"),
            Self::Team { name, .. } => format!("team:{name}"),
        }
    }

    fn has(&self, environment: &EnvironmentDoc) -> bool {
        match self {
            Self::Project(name) => environment.project == *name,
            Self::Member { project, user } => environment.project == *project && environment.owner_id == *user,
            Self::User(user) => environment.owner_id == *user,
            Self::Team { users, .. } => users.contains(&environment.owner_id),
        }
    }

    fn used<'e>(&self, environments: impl Iterator<Item = &'e EnvironmentDoc>) -> Usage {
        let mut used = Usage::default();
        for environment in environments.filter(|e| self.has(e)) {
            used.environments += 1;
            used.awake += u32::from(environment.phase != Phase::Sleeping);
            *used.templates.entry(environment.template.clone()).or_default() += 1;
        }
        used
    }

    /// Why one more would be too much: what is used, what is allowed, and who can allow more.
    fn check(&self, quota: &Quota, used: &Usage, demand: Demand<'_>) -> Result<(), Error> {
        let template = &demand.environment.template;
        let of_template = used.templates.get(template).copied().unwrap_or_default();
        let limit = |limit: Option<u32>, used: u32, what: String| limit.filter(|l| used >= *l).map(|l| (l, used, what));
        let awake = limit(quota.awake, used.awake, "environments awake".to_owned());
        let exceeded = if demand.wakes {
            awake
        } else {
            limit(quota.environments, used.environments, "environments".to_owned()).or(awake).or_else(|| {
                let allowed = quota.templates.get(template).copied();
                limit(allowed, of_template, format!("environments of template {template:?}"))
            })
        };
        let Some((allowed, used, what)) = exceeded else { return Ok(()) };
        let (whose, who) = match self {
            Self::Project(name) => (format!("project {name:?}"), "an administrator of the platform".to_owned()),
            Self::Member { project, .. } => {
                (format!("each member of project {project:?}"), format!("an administrator of project {project:?}"))
            }
            Self::User(_) => ("each user".to_owned(), "an administrator of the platform".to_owned()),
            Self::Team { name, .. } => (format!("team {name:?}"), "whoever has teams.update".to_owned()),
        };
        let instead = if demand.wakes { "put one to sleep" } else { "delete one" };
        Err(Error::QuotaExceeded(format!(
            "{whose} may have {allowed} {what}, and {used} are there: {instead}, or ask {who} for more"
        )))
    }
}

/// The quotas that apply to an environment.
fn holders<'a>(
    policy: &'a Policy,
    environment: &'a EnvironmentDoc,
    groups: &HashMap<String, Vec<String>>,
) -> Vec<(Holder<'a>, &'a Quota)> {
    let mut holders = Vec::new();
    let owner = environment.owner_id.as_str();
    if let Some(project) = policy.projects.get(&environment.project) {
        let name = project.value.name.as_str();
        holders.push((Holder::Project(name), &project.value.settings.quota));
        holders.push((Holder::Member { project: name, user: owner }, &project.value.settings.member_quota));
    }
    holders.push((Holder::User(owner), &policy.platform.value.settings.user_quota));
    for team in policy.teams.values() {
        let settings = &team.value.settings;
        let by_group = groups.iter().filter(|(_, of)| settings.groups.iter().any(|g| of.contains(g)));
        let users: BTreeSet<String> =
            by_group.map(|(user, _)| user.clone()).chain(settings.users.iter().cloned()).collect();
        if users.contains(owner) {
            holders.push((Holder::Team { name: &team.value.name, users }, &settings.quota));
        }
    }
    holders.retain(|(holder, quota)| {
        let nobody = matches!(holder, Holder::Member { user, .. } | Holder::User(user) if user.is_empty());
        **quota != Quota::default() && !nobody
    });
    holders
}

impl Access {
    /// Checks that every quota allows one more, and returns what must be written together with it.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`] with what is used, what is allowed, and who can allow more.
    pub(crate) async fn charge(&self, demand: Demand<'_>) -> Result<Vec<Write>, Error> {
        let policy = self.policy().await?;
        let mut groups = HashMap::new();
        if policy.teams.values().any(|t| t.value.settings.quota != Quota::default()) {
            let (users, _) = self.documents.list::<UserDoc>().await?;
            groups.extend(users.into_iter().map(|u| (u.value.id, u.value.groups)));
        }
        let holders = holders(&policy, demand.environment, &groups);
        let mut writes = Vec::with_capacity(holders.len());
        // Before the count: whoever adds in between makes the write fail.
        for (holder, _) in &holders {
            let holder = holder.key();
            let stored = self.documents.get::<QuotaDoc>(&holder).await?;
            let expect = stored.map_or(Expect::Absent, |s| Expect::Revision(s.revision));
            writes.push(put(&QuotaDoc { holder, environment: demand.environment.name.to_string() }, expect)?);
        }
        if !holders.is_empty() {
            let (environments, _) = self.documents.list::<EnvironmentDoc>().await?;
            for (holder, quota) in &holders {
                holder.check(quota, &holder.used(environments.iter().map(|e| &e.value)), demand)?;
            }
        }
        Ok(writes)
    }

    /// What all environments of a project together are.
    pub(crate) async fn usage(&self, project: &str) -> Result<Usage, Error> {
        let (environments, _) = self.documents.list::<EnvironmentDoc>().await?;
        Ok(Holder::Project(project).used(environments.iter().map(|e| &e.value)))
    }
}
