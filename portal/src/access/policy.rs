//! The bindings as they stand, made of the documents of projects, teams, roles and the platform.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use vctl_api::rest::{self, DEFAULT_PROJECT, KeyVerb, MemberKind, ShareAccess};

use super::{
    decide::{self, Binding, Grants, Member, Place, Scope, Subject},
    documents::{GrantDoc, PLATFORM, PlatformDoc, ProjectDoc, RoleDoc, TeamDoc},
    permission::{Permission, PermissionSet},
    role,
};
use crate::{
    approvals::documents::ApprovalDoc,
    auth::Credential,
    documents::{Documents, EnvironmentDoc, Stored},
    error::Error,
};

/// Everything that decisions are made of, at one moment.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) projects: BTreeMap<String, Stored<ProjectDoc>>,
    pub(crate) teams: BTreeMap<String, Stored<TeamDoc>>,
    pub(crate) roles: BTreeMap<String, Stored<RoleDoc>>,
    pub(crate) platform: Stored<PlatformDoc>,
    by_user: HashMap<String, Vec<Binding>>,
    by_group: HashMap<String, Vec<Binding>>,
    /// Roles for a time, by user.
    timed: HashMap<String, Vec<GrantDoc>>,
}

fn by_name<T>(all: Vec<Stored<T>>, name: impl Fn(&T) -> &String) -> BTreeMap<String, Stored<T>> {
    all.into_iter().map(|one| (name(&one.value).clone(), one)).collect()
}

impl Policy {
    pub(super) async fn read(documents: &Documents) -> Result<Self, Error> {
        let mut projects = by_name(documents.list::<ProjectDoc>().await?.0, |p| &p.name);
        let untouched = Stored { value: ProjectDoc::untouched_default(), revision: 0, created: 0 };
        projects.entry(DEFAULT_PROJECT.to_owned()).or_insert(untouched);
        let teams = by_name(documents.list::<TeamDoc>().await?.0, |t| &t.name);
        let roles = by_name(documents.list::<RoleDoc>().await?.0, |r| &r.name);
        let platform = documents.get::<PlatformDoc>(PLATFORM).await?;
        let platform = platform.unwrap_or_else(|| Stored { value: PlatformDoc::default(), revision: 0, created: 0 });
        let mut timed: HashMap<String, Vec<GrantDoc>> = HashMap::new();
        for grant in documents.list::<GrantDoc>().await?.0 {
            timed.entry(grant.value.user.clone()).or_default().push(grant.value);
        }
        let (by_user, by_group) = (HashMap::new(), HashMap::new());
        let mut policy = Self { projects, teams, roles, platform, by_user, by_group, timed };
        for binding in policy.bindings() {
            match &binding.member {
                Member::User(name) => policy.by_user.entry(name.clone()).or_default().push(binding),
                Member::Group(name) => policy.by_group.entry(name.clone()).or_default().push(binding),
            }
        }
        Ok(policy)
    }

    /// All bindings, with teams resolved to their users and groups.
    fn bindings(&self) -> Vec<Binding> {
        let platform = self.platform.value.settings.members.iter().map(|member| (member, Place::Platform));
        let projects = self.projects.values().flat_map(|project| {
            let place = Place::Project(project.value.name.clone());
            project.value.settings.members.iter().map(move |member| (member, place.clone()))
        });
        let mut bindings = Vec::new();
        for (member, place) in platform.chain(projects) {
            // A role that is gone gives nothing.
            let permissions = self.role(&member.role).unwrap_or_default();
            for member in self.people(member) {
                bindings.push(Binding { member, place: place.clone(), permissions });
            }
        }
        bindings
    }

    fn people(&self, member: &rest::Member) -> Vec<Member> {
        match member.kind {
            MemberKind::User => vec![Member::User(member.name.clone())],
            MemberKind::Group => vec![Member::Group(member.name.clone())],
            MemberKind::Team => {
                let Some(team) = self.teams.get(&member.name) else { return Vec::new() };
                let settings = &team.value.settings;
                let users = settings.users.iter().cloned().map(Member::User);
                users.chain(settings.groups.iter().cloned().map(Member::Group)).collect()
            }
        }
    }

    /// What a role allows; none when there is no such role.
    pub(crate) fn role(&self, name: &str) -> Option<PermissionSet> {
        if let Some(built_in) = role::built_in(name) {
            return Some(built_in.permissions);
        }
        let rules = &self.roles.get(name)?.value.settings.rules;
        Some(rules.iter().filter_map(|rule| PermissionSet::of_rule(rule)).fold(PermissionSet::NONE, PermissionSet::or))
    }

    /// Names of all roles.
    pub(crate) fn role_names(&self) -> impl Iterator<Item = &str> {
        role::BUILT_IN.iter().map(|r| r.name).chain(self.roles.keys().map(String::as_str))
    }

    /// What somebody may do at a moment.
    pub(crate) fn held(&self, subject: &Subject, now: Timestamp) -> Held {
        let users = self.by_user.get(&subject.user).into_iter().flatten();
        let groups = subject.groups.iter().filter_map(|group| self.by_group.get(group)).flatten();
        let lasting = decide::grants(subject, users.chain(groups));
        let mut held = Held { grants: lasting.clone(), lasting, break_glass: BTreeMap::new() };
        for grant in self.timed.get(&subject.user).into_iter().flatten().filter(|g| now < g.until) {
            let permissions = self.role(&grant.role).unwrap_or_default().without(role::OUTLASTING);
            held.grants.add(&Place::Project(grant.project.clone()), permissions);
            if grant.break_glass {
                held.break_glass.insert(grant.project.clone(), grant.id.clone());
            }
        }
        held
    }

    /// Teams that somebody is in.
    pub(crate) fn teams_of(&self, subject: &Subject) -> impl Iterator<Item = &Stored<TeamDoc>> {
        self.teams.values().filter(|team| {
            let settings = &team.value.settings;
            settings.users.contains(&subject.user) || settings.groups.iter().any(|g| subject.groups.contains(g))
        })
    }

    /// Where a team or role is used: `project web`, `the platform`.
    pub(crate) fn uses(&self, used: impl Fn(&rest::Member) -> bool) -> Vec<(Place, &rest::Member)> {
        let platform = self.platform.value.settings.members.iter().map(|m| (Place::Platform, m));
        let projects = self
            .projects
            .values()
            .flat_map(|p| p.value.settings.members.iter().map(|m| (Place::Project(p.value.name.clone()), m)));
        platform.chain(projects).filter(|(_, member)| used(member)).collect()
    }
}

/// What a subject may do at a moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held {
    grants: Grants,
    /// The same without what they have for a time only.
    lasting: Grants,
    /// Requests by which they have broken glass, by project.
    break_glass: BTreeMap<String, String>,
}

/// What the caller of a request may do.
#[derive(Debug, Clone)]
pub(crate) struct Permit {
    pub(crate) subject: Subject,
    held: Held,
    pub(crate) limit: Limit,
}

/// What a credential may be used for, within what its owner may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limit {
    /// Nothing but these permissions.
    pub(crate) permissions: PermissionSet,
    /// Only in this project.
    pub(crate) project: Option<String>,
    /// Only with this environment.
    pub(crate) environment: Option<String>,
}

impl Limit {
    /// Everything that its owner may.
    pub(crate) const NONE: Self = Self { permissions: PermissionSet::ALL, project: None, environment: None };

    /// What a credential may be used for.
    pub(crate) fn of(credential: &Credential) -> Self {
        match credential {
            Credential::ApiKey { scopes, .. } => {
                let verbs = scopes.verbs.iter().map(|verb| match verb {
                    KeyVerb::Read => role::READING,
                    KeyVerb::Write => PermissionSet::ALL.without(role::READING),
                });
                Self {
                    permissions: verbs.fold(PermissionSet::NONE, PermissionSet::or),
                    project: scopes.project.clone(),
                    environment: scopes.environment.clone(),
                }
            }
            _ => Self::NONE,
        }
    }

    /// What is left of permissions at a place.
    fn cut(&self, set: PermissionSet, scope: Scope<'_>) -> PermissionSet {
        let (project, environment) = match scope {
            Scope::Platform => (None, None),
            Scope::Project(project) => (Some(project), None),
            Scope::Environment { project, name } => (Some(project), Some(name)),
        };
        let outside = |wanted: &Option<String>, place: Option<&str>| wanted.is_some() && wanted.as_deref() != place;
        if outside(&self.project, project) || outside(&self.environment, environment) {
            return PermissionSet::NONE;
        }
        set.and(self.permissions)
    }
}

impl Permit {
    pub(crate) fn new(subject: Subject, held: Held, limit: Limit) -> Self {
        Self { subject, held, limit }
    }

    /// What is allowed at a place.
    pub(crate) fn at(&self, scope: Scope<'_>) -> PermissionSet {
        self.limit.cut(self.held.grants.at(scope), scope)
    }

    /// What is allowed at a place for good: what may be given to others there.
    pub(crate) fn lasting_at(&self, scope: Scope<'_>) -> PermissionSet {
        self.limit.cut(self.held.lasting.at(scope), scope)
    }

    /// The request by which they have broken glass in a project, while that counts.
    pub(crate) fn break_glass(&self, project: &str) -> Option<&str> {
        self.held.break_glass.get(project).map(String::as_str)
    }

    /// Whether it is allowed at a place.
    pub(crate) fn allows(&self, permission: Permission, scope: Scope<'_>) -> bool {
        self.at(scope).contains(permission)
    }

    /// What is allowed with an environment: by its project, to its owner, and to those with whom it is shared.
    pub(crate) fn on(&self, environment: &EnvironmentDoc) -> PermissionSet {
        self.on_by(&self.held.grants, environment)
    }

    /// The same for good: what may be given to others.
    pub(crate) fn lasting_on(&self, environment: &EnvironmentDoc) -> PermissionSet {
        self.on_by(&self.held.lasting, environment)
    }

    fn on_by(&self, grants: &Grants, environment: &EnvironmentDoc) -> PermissionSet {
        let scope = Scope::Environment { project: &environment.project, name: environment.name.as_str() };
        let mut set = grants.at(scope);
        if !self.subject.user.is_empty() && environment.owner_id == self.subject.user {
            set = set.or(role::OWNER);
        }
        let shared = match environment.shares.get(&self.subject.user) {
            Some(ShareAccess::Admin) => role::SHARED,
            Some(ShareAccess::ReadOnly) => role::READER,
            None => PermissionSet::NONE,
        };
        self.limit.cut(set.or(shared), scope)
    }

    /// What is allowed with a request for approval: by its project, and to whoever asked.
    pub(crate) fn on_approval(&self, approval: &ApprovalDoc) -> PermissionSet {
        let scope = Scope::Project(&approval.project);
        let mut set = self.held.grants.at(scope);
        if !self.subject.user.is_empty() && approval.requested_by_id == self.subject.user {
            set = set.or(role::REQUESTER);
        }
        self.limit.cut(set, scope)
    }

    /// Whether it is allowed with this environment.
    pub(crate) fn allows_on(&self, permission: Permission, environment: &EnvironmentDoc) -> bool {
        self.on(environment).contains(permission)
    }

    /// Whether it is allowed everywhere.
    pub(crate) fn allows_everywhere(&self, permission: Permission) -> bool {
        self.allows(permission, Scope::Platform)
    }
}
