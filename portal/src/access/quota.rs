//! What a project, its members, a user or a team may have.
//!
//! What is used is counted from the environments themselves, so that no counter can be wrong: what each one's template requests, or what is
//! requested in it where that is more. Whoever adds to it, by a request to the portal or by a pod inside of an environment, waits for its
//! turn ([`super::turns`]) and then counts. Environments also write a document of each quota that applies, with the revision from before
//! the count. Where nothing is limited nothing is counted or written.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use vctl_api::rest::{LimitHolder, LimitUnit, LimitUsage, Phase, Quota, Usage};
use vctl_machinery::requests::Requests;
use vctl_store::{Expect, Write};

use super::{Access, policy::Policy, turns::Turn};
use crate::{
    documents::{Document, EnvironmentDoc, Stored, put},
    error::Error,
    size,
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
    /// It is awake, and its template requested so much until now.
    Grows(Requests),
    /// So much more is requested in it than is counted there.
    Requests(Requests),
}

/// What must happen together with what was counted for.
#[derive(Debug)]
pub(crate) struct Charge {
    /// To be written in the same transaction.
    pub(crate) writes: Vec<Write>,
    /// To be kept until it is written.
    pub(crate) turn: Turn,
}

/// What an environment takes of quotas while it is awake: what its template requests is set aside for it, and what is requested in it
/// counts where that is more.
fn taken(environment: &EnvironmentDoc, requested: Requests) -> Requests {
    environment.size.unwrap_or_default().max(requested)
}

/// What is used, or added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    environments: u64,
    awake: u64,
    size: Requests,
    templates: BTreeMap<String, u64>,
}

impl Counted {
    fn add(&mut self, environment: &EnvironmentDoc, requested: Requests) {
        let awake = is_awake(environment);
        let size = taken(environment, requested);
        self.environments += 1;
        self.awake += u64::from(awake);
        self.size = self.size.plus(if awake { size } else { size.asleep() });
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

fn is_awake(environment: &EnvironmentDoc) -> bool {
    environment.phase != Phase::Sleeping
}

impl Demand<'_> {
    /// What becomes more, when so much is requested in the environment now.
    fn counted(self, requested: Requests) -> Counted {
        let environment = self.environment;
        let grown = |size: Requests| Counted { size, ..Counted::default() };
        match self.adds {
            Adds::New => {
                let mut counted = Counted::default();
                counted.add(environment, requested);
                counted
            }
            Adds::Wakes => Counted { awake: 1, ..grown(Requests { storage: 0, ..taken(environment, requested) }) },
            Adds::Grows(before) => grown(taken(environment, requested).minus(before.max(requested))),
            Adds::Requests(more) => {
                let more = taken(environment, requested.plus(more)).minus(taken(environment, requested));
                grown(if is_awake(environment) { more } else { more.asleep() })
            }
        }
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
    Environment { project: &'a str, name: &'a str },
}

impl Holder<'_> {
    fn key(&self) -> String {
        match self {
            Self::Project(name) => format!("project:{name}"),
            Self::Member { project, user } => format!("member:{project}:{user}"),
            Self::User(user) => format!("user:{user}"),
            Self::Team { name, .. } => format!("team:{name}"),
            Self::Environment { name, .. } => format!("environment:{name}"),
        }
    }

    fn has(&self, environment: &EnvironmentDoc) -> bool {
        match self {
            Self::Project(name) => environment.project == *name,
            Self::Member { project, user } => environment.project == *project && environment.owner_id == *user,
            Self::User(user) => environment.owner_id == *user,
            Self::Team { users, .. } => users.contains(&environment.owner_id),
            Self::Environment { name, .. } => environment.name.as_str() == *name,
        }
    }

    /// As a quota is named inside of environments.
    fn label(&self) -> String {
        match self {
            Self::Project(name) => format!("project/{name}"),
            Self::Member { project, .. } => format!("member/{project}"),
            Self::User(user) => format!("user/{user}"),
            Self::Team { name, .. } => format!("team/{name}"),
            Self::Environment { name, .. } => format!("environment/{name}"),
        }
    }

    /// Why it would be too much: what is used, what is allowed, and who can allow more.
    fn check(&self, quota: &Quota, used: &Counted, adds: Adds, added: &Counted) -> Result<(), Error> {
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
            Self::Environment { name, .. } => (LimitHolder::Environment, *name),
        }
    }
}

/// Upstream's sentence about a ResourceQuota that is exceeded.
fn upstream(name: &str, exceeded: &[Line]) -> String {
    let all = |amount: fn(&Line) -> u64| {
        exceeded.iter().map(|l| format!("{}={}", l.what, l.shown(amount(l)))).collect::<Vec<_>>().join(",")
    };
    let (requested, used, limited) = (all(|l| l.added), all(|l| l.used), all(|l| l.limit));
    format!("exceeded quota: {name}, requested: {requested}, used: {used}, limited: {limited}")
}

/// Whether a quota limits what is requested.
fn limits_amounts(quota: &Quota) -> bool {
    quota.cpu.is_some() || quota.memory.is_some() || quota.storage.is_some()
}

/// The quotas that apply to environments of somebody in a project, and to one of them where it is named.
fn holders<'a>(
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
fn of_environment<'a>(
    policy: &'a Policy,
    environment: &'a EnvironmentDoc,
    groups: &HashMap<String, Vec<String>>,
) -> Vec<(Holder<'a>, Cow<'a, Quota>)> {
    holders(policy, &environment.project, &environment.owner_id, Some(environment.name.as_str()), groups)
}

impl Access {
    /// Checks that every quota allows one more, and returns what must be written together with it.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`] with what is used, what is allowed, and who can allow more.
    pub(crate) async fn charge(&self, demand: Demand<'_>) -> Result<Charge, Error> {
        let policy = self.policy().await?;
        let groups = self.groups(&policy).await?;
        let mut holders = of_environment(&policy, demand.environment, &groups);
        let inside = matches!(demand.adds, Adds::Requests(_));
        holders.retain(|(_, quota)| !inside || limits_amounts(quota));
        let turn = self.turns.of(holders.iter().map(|(holder, _)| holder.key()).collect()).await;
        let mut writes = Vec::with_capacity(holders.len());
        if holders.is_empty() {
            return Ok(Charge { writes, turn });
        }
        let mut requested = Requested::new(self);
        let added = demand.counted(requested.of(demand.environment).await?);
        if added == Counted::default() {
            return Ok(Charge { writes, turn });
        }
        // Before the count: whoever adds in between makes the write fail.
        for (holder, _) in holders.iter().filter(|_| !inside) {
            let holder = holder.key();
            let stored = self.documents.get::<QuotaDoc>(&holder).await?;
            let expect = stored.map_or(Expect::Absent, |s| Expect::Revision(s.revision));
            writes.push(put(&QuotaDoc { holder, environment: demand.environment.name.to_string() }, expect)?);
        }
        let environments = self.environments.list(&self.documents).await?;
        for (holder, quota) in &holders {
            let used = requested.used(holder, limits_amounts(quota), &environments).await?;
            holder.check(quota, &used, demand.adds, &added)?;
        }
        Ok(Charge { writes, turn })
    }

    /// The quotas that limit processors, memory and storage of an environment, the first of each, by name.
    pub(super) async fn limited(&self, environment: &EnvironmentDoc) -> Result<[Option<String>; 3], Error> {
        let policy = self.policy().await?;
        let groups = self.groups(&policy).await?;
        let holders = of_environment(&policy, environment, &groups);
        let first = |limits: fn(&Quota) -> bool| {
            holders.iter().find(|(_, quota)| limits(quota)).map(|(holder, _)| holder.label())
        };
        Ok([first(|q| q.cpu.is_some()), first(|q| q.memory.is_some()), first(|q| q.storage.is_some())])
    }

    /// Groups of users, where the quota of a team needs them.
    async fn groups(&self, policy: &Policy) -> Result<HashMap<String, Vec<String>>, Error> {
        if policy.teams.values().all(|t| t.value.settings.quota == Quota::default()) {
            return Ok(HashMap::new());
        }
        let users = self.users.list(&self.documents).await?;
        Ok(users.into_iter().map(|u| (u.value.id.clone(), u.value.groups.clone())).collect())
    }

    /// What all environments of a project together are, and what is limited there for a user.
    pub(crate) async fn usage(&self, project: &str, user: &str) -> Result<(Usage, Vec<LimitUsage>), Error> {
        let environments = self.environments.list(&self.documents).await?;
        let policy = self.policy().await?;
        let groups = self.groups(&policy).await?;
        let mut requested = Requested::new(self);
        let mut limits = Vec::new();
        for (holder, quota) in holders(&policy, project, user, None, &groups) {
            let (kind, name) = holder.limit();
            let used = requested.used(&holder, limits_amounts(&quota), &environments).await?;
            for line in lines(&quota, &used, &Counted::default()) {
                let Line { what, unit, limit, used, .. } = line;
                limits.push(LimitUsage { holder: kind, name: name.to_owned(), what, unit, used, limit });
            }
        }
        let used = requested.used(&Holder::Project(project), true, &environments).await?;
        Ok((used.usage(), limits))
    }
}

/// What is requested in environments: each is asked once.
struct Requested<'a> {
    access: &'a Access,
    known: HashMap<String, Requests>,
}

impl<'a> Requested<'a> {
    fn new(access: &'a Access) -> Self {
        Self { access, known: HashMap::new() }
    }

    async fn of(&mut self, environment: &EnvironmentDoc) -> Result<Requests, Error> {
        let name = environment.name.as_str();
        if let Some(known) = self.known.get(name) {
            return Ok(*known);
        }
        let size = self.access.planes.requested(&environment.name).await?;
        self.known.insert(name.to_owned(), size);
        Ok(size)
    }

    /// What the environments of somebody take. Without `amounts` only the environments themselves are counted.
    async fn used(
        &mut self,
        holder: &Holder<'_>,
        amounts: bool,
        environments: &[Stored<Arc<EnvironmentDoc>>],
    ) -> Result<Counted, Error> {
        let mut used = Counted::default();
        for environment in environments.iter().map(|e| &*e.value).filter(|e| holder.has(e)) {
            let requested = if amounts { self.of(environment).await? } else { Requests::NONE };
            used.add(environment, requested);
        }
        Ok(used)
    }
}
