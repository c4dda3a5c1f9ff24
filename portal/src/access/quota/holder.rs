//! Whose quotas they are, and which of them apply.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
};

use vctl_api::rest::{LimitHolder, Quota};

use super::{
    counted::Counted,
    demand::Adds,
    line::{lines, upstream},
};
use crate::{access::policy::Policy, documents::EnvironmentDoc, error::Error};

/// Whose quota it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Holder<'a> {
    Project(&'a str),
    Member { project: &'a str, user: &'a str },
    User(&'a str),
    Team { name: &'a str, users: BTreeSet<String> },
    Environment { project: &'a str, name: &'a str },
}

impl Holder<'_> {
    pub(super) fn key(&self) -> String {
        match self {
            Self::Project(name) => format!("project:{name}"),
            Self::Member { project, user } => format!("member:{project}:{user}"),
            Self::User(user) => format!("user:{user}"),
            Self::Team { name, .. } => format!("team:{name}"),
            Self::Environment { name, .. } => format!("environment:{name}"),
        }
    }

    pub(super) fn has(&self, environment: &EnvironmentDoc) -> bool {
        match self {
            Self::Project(name) => environment.project == *name,
            Self::Member { project, user } => environment.project == *project && environment.owner_id == *user,
            Self::User(user) => environment.owner_id == *user,
            Self::Team { users, .. } => users.contains(&environment.owner_id),
            Self::Environment { name, .. } => environment.name.as_str() == *name,
        }
    }

    /// As a quota is named inside of environments.
    pub(super) fn label(&self) -> String {
        match self {
            Self::Project(name) => format!("project/{name}"),
            Self::Member { project, .. } => format!("member/{project}"),
            Self::User(user) => format!("user/{user}"),
            Self::Team { name, .. } => format!("team/{name}"),
            Self::Environment { name, .. } => format!("environment/{name}"),
        }
    }

    /// Why it would be too much: what is used, what is allowed, and who can allow more.
    pub(super) fn check(&self, quota: &Quota, used: &Counted, adds: Adds, added: &Counted) -> Result<(), Error> {
        let mut exceeded = lines(quota, used, added);
        exceeded.retain(|l| l.added > 0 && l.used.saturating_add(l.added) > l.limit);
        if exceeded.is_empty() {
            return Ok(());
        }
        if matches!(adds, Adds::Requests(_)) {
            return Err(Error::QuotaExceeded(upstream(&self.label(), &exceeded)));
        }
        let line = exceeded.remove(0);
        let (whose, who) = match self {
            Self::Project(name) => (format!("project {name:?}"), "an administrator of the platform".to_owned()),
            Self::Member { project, .. } => {
                (format!("each member of project {project:?}"), format!("an administrator of project {project:?}"))
            }
            Self::Environment { project, .. } => {
                (format!("each environment of project {project:?}"), format!("an administrator of project {project:?}"))
            }
            Self::User(_) => ("each user".to_owned(), "an administrator of the platform".to_owned()),
            Self::Team { name, .. } => (format!("team {name:?}"), "whoever has teams.update".to_owned()),
        };
        let instead = match adds {
            Adds::New => "delete one",
            Adds::Wakes => "put one to sleep",
            Adds::Grows(_) | Adds::Requests(_) => "ask for less",
            Adds::Restores { .. } => "delete what is not needed",
        };
        let (limit, used) = (line.shown(line.limit), line.shown(line.used));
        let what = match line.what.as_str() {
            "environments" => "environments".to_owned(),
            "awake" => "environments awake".to_owned(),
            amount @ ("cpu" | "memory" | "storage") => {
                return Err(Error::QuotaExceeded(format!(
                    "{whose} may have {limit} of {amount}, {used} are taken and this asks for {}: {instead}, or ask {who} for more",
                    line.shown(line.added)
                )));
            }
            template => {
                let name = template.strip_prefix("template ").unwrap_or(template);
                format!("environments of template {name:?}")
            }
        };
        Err(Error::QuotaExceeded(format!(
            "{whose} may have {limit} {what}, and {used} are there: {instead}, or ask {who} for more"
        )))
    }

    pub(super) fn limit(&self) -> (LimitHolder, &str) {
        match self {
            Self::Project(name) => (LimitHolder::Project, *name),
            Self::Member { user, .. } => (LimitHolder::Member, *user),
            Self::User(user) => (LimitHolder::User, *user),
            Self::Team { name, .. } => (LimitHolder::Team, *name),
            Self::Environment { name, .. } => (LimitHolder::Environment, *name),
        }
    }
}

/// The quotas that apply to environments of somebody in a project, and to one of them where it is named.
pub(super) fn holders<'a>(
    policy: &'a Policy,
    project: &str,
    owner: &'a str,
    environment: Option<&'a str>,
    groups: &HashMap<String, Vec<String>>,
) -> Vec<(Holder<'a>, Cow<'a, Quota>)> {
    let mut holders = Vec::new();
    if let Some(project) = policy.projects.get(project) {
        let name = project.value.name.as_str();
        holders.extend(environment.map(|environment| {
            let holder = Holder::Environment { project: name, name: environment };
            (holder, Cow::Owned(Quota::from(&project.value.settings.environment_quota)))
        }));
        holders.push((Holder::Project(name), Cow::Borrowed(&project.value.settings.quota)));
        holders
            .push((Holder::Member { project: name, user: owner }, Cow::Borrowed(&project.value.settings.member_quota)));
    }
    holders.push((Holder::User(owner), Cow::Borrowed(&policy.platform.value.settings.user_quota)));
    for team in policy.teams.values() {
        let settings = &team.value.settings;
        let by_group = groups.iter().filter(|(_, of)| settings.groups.iter().any(|g| of.contains(g)));
        let users: BTreeSet<String> =
            by_group.map(|(user, _)| user.clone()).chain(settings.users.iter().cloned()).collect();
        if users.contains(owner) {
            holders.push((Holder::Team { name: &team.value.name, users }, Cow::Borrowed(&settings.quota)));
        }
    }
    holders.retain(|(holder, quota)| {
        let nobody = matches!(holder, Holder::Member { user, .. } | Holder::User(user) if user.is_empty());
        **quota != Quota::default() && !nobody
    });
    holders
}

/// The quotas that apply to an environment.
pub(super) fn of_environment<'a>(
    policy: &'a Policy,
    environment: &'a EnvironmentDoc,
    groups: &HashMap<String, Vec<String>>,
) -> Vec<(Holder<'a>, Cow<'a, Quota>)> {
    holders(policy, &environment.project, &environment.owner_id, Some(environment.name.as_str()), groups)
}
