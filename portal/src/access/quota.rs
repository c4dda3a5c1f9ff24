//! What a project, its members, a user or a team may have.
//!
//! What is used is counted from the environments themselves, so that no counter can be wrong. Whoever adds to it also writes a document of
//! each quota that applies, with the revision from before the count: of two that count at the same moment one has to count again, and
//! together they never exceed. Where nothing is limited nothing is counted or written.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use vctl_api::rest::{LimitHolder, LimitUnit, LimitUsage, Phase, Quota, Usage};
use vctl_store::{Expect, Write};

use super::{Access, policy::Policy};
use crate::{
    auth::UserDoc,
    documents::{Document, EnvironmentDoc, put},
    error::Error,
    size::{self, Size},
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
    /// What becomes more.
    pub(crate) adds: Adds,
}

/// What becomes more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Adds {
    /// The environment is new.
    New,
    /// It is there already, and asleep: what is awake becomes more.
    Wakes,
    /// It is awake, and requested so much until now.
    Grows(Size),
}

/// What is used, or added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    environments: u64,
    awake: u64,
    size: Size,
    templates: BTreeMap<String, u64>,
}

impl Counted {
    fn add(&mut self, environment: &EnvironmentDoc) {
        let awake = environment.phase != Phase::Sleeping;
        let size = environment.size.unwrap_or_default();
        self.environments += 1;
        self.awake += u64::from(awake);
        self.size = self.size.plus(if awake { size } else { Size { cpu: 0, memory: 0, ..size } });
        *self.templates.entry(environment.template.clone()).or_default() += 1;
    }

    fn usage(self) -> Usage {
        let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        Usage {
            environments: count(self.environments),
            awake: count(self.awake),
            cpu: size::millis(self.size.cpu),
            memory: size::bytes(self.size.memory),
            storage: size::bytes(self.size.storage),
            templates: self.templates.into_iter().map(|(name, n)| (name, count(n))).collect(),
        }
    }
}

impl Demand<'_> {
    fn counted(self) -> Counted {
        let mut counted = Counted::default();
        counted.add(self.environment);
        match self.adds {
            Adds::New => {}
            Adds::Wakes => {
                counted = Counted {
                    awake: 1,
                    size: Size { storage: 0, ..self.environment.size.unwrap_or_default() },
                    ..Counted::default()
                };
            }
            Adds::Grows(before) => {
                let size = self.environment.size.unwrap_or_default().minus(before);
                counted = Counted { size, ..Counted::default() };
            }
        }
        counted
    }
}

/// Something that a quota limits.
struct Line {
    what: String,
    unit: LimitUnit,
    limit: u64,
    used: u64,
    added: u64,
}

impl Line {
    fn shown(&self, amount: u64) -> String {
        match self.unit {
            LimitUnit::Count => amount.to_string(),
            LimitUnit::Millicores => size::millis(amount),
            LimitUnit::Bytes => size::bytes(amount),
        }
    }
}

/// Everything that a quota limits.
fn lines(quota: &Quota, used: &Counted, added: &Counted) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut line = |what: &str, unit, limit: Option<u64>, used: u64, added: u64| {
        lines.extend(limit.map(|limit| Line { what: what.to_owned(), unit, limit, used, added }));
    };
    // They were read when the quota was set.
    let millis = |text: &Option<String>| text.as_deref().and_then(size::parse_millis);
    let bytes = |text: &Option<String>| text.as_deref().and_then(size::parse_bytes);
    line("environments", LimitUnit::Count, quota.environments.map(u64::from), used.environments, added.environments);
    line("awake", LimitUnit::Count, quota.awake.map(u64::from), used.awake, added.awake);
    line("cpu", LimitUnit::Millicores, millis(&quota.cpu), used.size.cpu, added.size.cpu);
    line("memory", LimitUnit::Bytes, bytes(&quota.memory), used.size.memory, added.size.memory);
    line("storage", LimitUnit::Bytes, bytes(&quota.storage), used.size.storage, added.size.storage);
    for (name, limit) in &quota.templates {
        let of = |counted: &Counted| counted.templates.get(name).copied().unwrap_or_default();
        let what = format!("template {name}");
        line(&what, LimitUnit::Count, Some(u64::from(*limit)), of(used), of(added));
    }
    lines
}

/// A quota that makes sense.
///
/// # Errors
/// [`Error::Invalid`] for an amount that is no quantity.
pub(crate) fn check(quota: &Quota) -> Result<(), Error> {
    let wrong = [("cpu", &quota.cpu), ("memory", &quota.memory), ("storage", &quota.storage)].into_iter().find(
        |(name, text)| {
            let read = if *name == "cpu" { size::parse_millis } else { size::parse_bytes };
            text.as_deref().is_some_and(|text| read(text).is_none())
        },
    );
    match wrong {
        Some((name, text)) => Err(Error::invalid(
            "invalid-quota",
            format!(
                "{name}: {:?} is no quantity: write it as Kubernetes does, such as 500m, 4 or 16Gi",
                text.as_deref().unwrap_or_default()
            ),
        )),
        None => Ok(()),
    }
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

    fn used<'e>(&self, environments: impl Iterator<Item = &'e EnvironmentDoc>) -> Counted {
        let mut used = Counted::default();
        environments.filter(|e| self.has(e)).for_each(|e| used.add(e));
        used
    }

    /// Why it would be too much: what is used, what is allowed, and who can allow more.
    fn check(&self, quota: &Quota, used: &Counted, demand: Demand<'_>) -> Result<(), Error> {
        let lines = lines(quota, used, &demand.counted());
        let exceeded = lines.into_iter().find(|l| l.added > 0 && l.used.saturating_add(l.added) > l.limit);
        let Some(line) = exceeded else { return Ok(()) };
        let (whose, who) = match self {
            Self::Project(name) => (format!("project {name:?}"), "an administrator of the platform".to_owned()),
            Self::Member { project, .. } => {
                (format!("each member of project {project:?}"), format!("an administrator of project {project:?}"))
            }
            Self::User(_) => ("each user".to_owned(), "an administrator of the platform".to_owned()),
            Self::Team { name, .. } => (format!("team {name:?}"), "whoever has teams.update".to_owned()),
        };
        let instead = match demand.adds {
            Adds::New => "delete one",
            Adds::Wakes => "put one to sleep",
            Adds::Grows(_) => "ask for less",
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

    fn limit(&self) -> (LimitHolder, &str) {
        match self {
            Self::Project(name) => (LimitHolder::Project, *name),
            Self::Member { user, .. } => (LimitHolder::Member, *user),
            Self::User(user) => (LimitHolder::User, *user),
            Self::Team { name, .. } => (LimitHolder::Team, *name),
        }
    }
}

/// The quotas that apply to environments of somebody in a project.
fn holders<'a>(
    policy: &'a Policy,
    project: &str,
    owner: &'a str,
    groups: &HashMap<String, Vec<String>>,
) -> Vec<(Holder<'a>, &'a Quota)> {
    let mut holders = Vec::new();
    if let Some(project) = policy.projects.get(project) {
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
        if demand.counted() == Counted::default() {
            return Ok(Vec::new());
        }
        let policy = self.policy().await?;
        let groups = self.groups(&policy).await?;
        let holders = holders(&policy, &demand.environment.project, &demand.environment.owner_id, &groups);
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

    /// Groups of users, where the quota of a team needs them.
    async fn groups(&self, policy: &Policy) -> Result<HashMap<String, Vec<String>>, Error> {
        if policy.teams.values().all(|t| t.value.settings.quota == Quota::default()) {
            return Ok(HashMap::new());
        }
        let (users, _) = self.documents.list::<UserDoc>().await?;
        Ok(users.into_iter().map(|u| (u.value.id, u.value.groups)).collect())
    }

    /// What all environments of a project together are, and what is limited there for a user.
    pub(crate) async fn usage(&self, project: &str, user: &str) -> Result<(Usage, Vec<LimitUsage>), Error> {
        let (environments, _) = self.documents.list::<EnvironmentDoc>().await?;
        let environments = || environments.iter().map(|e| &e.value);
        let policy = self.policy().await?;
        let groups = self.groups(&policy).await?;
        let mut limits = Vec::new();
        for (holder, quota) in holders(&policy, project, user, &groups) {
            let (kind, name) = holder.limit();
            for line in lines(quota, &holder.used(environments()), &Counted::default()) {
                let Line { what, unit, limit, used, .. } = line;
                limits.push(LimitUsage { holder: kind, name: name.to_owned(), what, unit, used, limit });
            }
        }
        Ok((Holder::Project(project).used(environments()).usage(), limits))
    }
}
