//! The decision: pure, and the only one there is.
//!
//! Permissions come by bindings: a member (a user, a group of the identity provider, a team) has a set of permissions at a place (the
//! platform, a project, an environment). A binding counts at its place and everywhere below: there is no rule that takes away. What an
//! API key may do is cut down to its scopes afterwards ([`super::policy`]), so that it never does more than its owner.

use std::collections::{BTreeMap, BTreeSet};

use super::permission::{Permission, PermissionSet};
use crate::auth::Identity;

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// Their name.
    pub user: String,
    /// Groups that the identity provider says they are in.
    pub groups: BTreeSet<String>,
    /// This is the local administrator, who may do everything.
    pub administrator: bool,
}

impl From<&Identity> for Subject {
    fn from(identity: &Identity) -> Self {
        Self {
            user: identity.user.clone(),
            groups: identity.groups.iter().cloned().collect(),
            administrator: identity.is_local_admin(),
        }
    }
}

/// Who has a binding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Member {
    /// A user by name.
    User(String),
    /// A group of the identity provider.
    Group(String),
}

impl Member {
    fn is(&self, subject: &Subject) -> bool {
        match self {
            Self::User(name) => *name == subject.user,
            Self::Group(name) => subject.groups.contains(name),
        }
    }
}

/// Where something is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
    /// The platform as a whole.
    Platform,
    /// A project.
    Project(&'a str),
    /// An environment of a project.
    Environment {
        /// Its project.
        project: &'a str,
        /// Its name.
        name: &'a str,
    },
}

/// Where a binding counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Everywhere.
    Platform,
    /// In a project and its environments.
    Project(String),
    /// In one environment; their names are unique over all projects.
    Environment(String),
}

/// Somebody has permissions somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Who.
    pub member: Member,
    /// Where.
    pub place: Place,
    /// What.
    pub permissions: PermissionSet,
}

/// What one subject may do, by place: the bindings of theirs, added up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    platform: PermissionSet,
    projects: BTreeMap<String, PermissionSet>,
    environments: BTreeMap<String, PermissionSet>,
}

impl Grants {
    /// What is allowed at a place.
    pub fn at(&self, scope: Scope<'_>) -> PermissionSet {
        let of_project = |name: &str| self.projects.get(name).copied().unwrap_or_default();
        let of_environment = |name: &str| self.environments.get(name).copied().unwrap_or_default();
        let below = match scope {
            Scope::Platform => PermissionSet::NONE,
            Scope::Project(project) => of_project(project),
            Scope::Environment { project, name } => of_project(project).or(of_environment(name)),
        };
        self.platform.or(below)
    }

    /// Whether it is allowed at a place.
    pub fn allow(&self, permission: Permission, scope: Scope<'_>) -> bool {
        self.at(scope).contains(permission)
    }

    /// Adds permissions at a place.
    pub fn add(&mut self, place: &Place, permissions: PermissionSet) {
        let set = match place {
            Place::Platform => &mut self.platform,
            Place::Project(name) => self.projects.entry(name.clone()).or_default(),
            Place::Environment(name) => self.environments.entry(name.clone()).or_default(),
        };
        *set = set.or(permissions);
    }
}

/// Adds up what a subject has.
pub fn grants<'a>(subject: &Subject, bindings: impl IntoIterator<Item = &'a Binding>) -> Grants {
    let mut grants = Grants::default();
    if subject.administrator {
        grants.add(&Place::Platform, PermissionSet::ALL);
    }
    for binding in bindings {
        if binding.member.is(subject) {
            grants.add(&binding.place, binding.permissions);
        }
    }
    grants
}

/// Whether a subject may do something at a place.
pub fn decide(subject: &Subject, bindings: &[Binding], permission: Permission, scope: Scope<'_>) -> bool {
    grants(subject, bindings).allow(permission, scope)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAMES: [&str; 3] = ["a", "b", "c"];

    fn subject() -> impl Strategy<Value = Subject> {
        let groups =
            proptest::collection::btree_set(proptest::sample::select(&NAMES[..]).prop_map(str::to_owned), 0..3);
        (proptest::sample::select(&NAMES[..]), groups).prop_map(|(user, groups)| Subject {
            user: user.to_owned(),
            groups,
            administrator: false,
        })
    }

    fn binding() -> impl Strategy<Value = Binding> {
        let name = || proptest::sample::select(&NAMES[..]).prop_map(str::to_owned);
        let member = prop_oneof![name().prop_map(Member::User), name().prop_map(Member::Group)];
        let place =
            prop_oneof![Just(Place::Platform), name().prop_map(Place::Project), name().prop_map(Place::Environment)];
        let permissions = proptest::collection::vec(proptest::sample::select(Permission::ALL), 1..4);
        (member, place, permissions).prop_map(|(member, place, permissions)| Binding {
            member,
            place,
            permissions: PermissionSet::of(&permissions),
        })
    }

    fn scope() -> impl Strategy<Value = Scope<'static>> {
        let name = || proptest::sample::select(&NAMES[..]);
        prop_oneof![
            Just(Scope::Platform),
            name().prop_map(Scope::Project),
            (name(), name()).prop_map(|(project, name)| Scope::Environment { project, name }),
        ]
    }

    /// The rule again, told in the plainest way: some binding of theirs, at that place or above, has the permission.
    fn plain(subject: &Subject, bindings: &[Binding], permission: Permission, scope: Scope<'_>) -> bool {
        bindings.iter().any(|b| {
            let theirs = match &b.member {
                Member::User(name) => subject.user == *name,
                Member::Group(name) => subject.groups.contains(name),
            };
            let counts = match (&b.place, scope) {
                (Place::Platform, _) => true,
                (Place::Project(p), Scope::Project(project) | Scope::Environment { project, .. }) => p == project,
                (Place::Environment(e), Scope::Environment { name, .. }) => e == name,
                _ => false,
            };
            theirs && counts && b.permissions.contains(permission)
        })
    }

    proptest! {
        #[test]
        fn nothing_is_allowed_but_by_a_binding(
            subject in subject(), bindings in proptest::collection::vec(binding(), 0..6),
            permission in proptest::sample::select(Permission::ALL), scope in scope(),
        ) {
            prop_assert!(!decide(&subject, &[], permission, scope));
            prop_assert_eq!(decide(&subject, &bindings, permission, scope), plain(&subject, &bindings, permission, scope));
        }

        #[test]
        fn more_bindings_never_allow_less(
            subject in subject(), bindings in proptest::collection::vec(binding(), 0..6), more in binding(),
            permission in proptest::sample::select(Permission::ALL), scope in scope(),
        ) {
            let before = decide(&subject, &bindings, permission, scope);
            let after = decide(&subject, &[bindings, vec![more]].concat(), permission, scope);
            prop_assert!(!before || after);
        }

        #[test]
        fn what_counts_above_counts_below(
            subject in subject(), bindings in proptest::collection::vec(binding(), 0..6),
            permission in proptest::sample::select(Permission::ALL),
            project in proptest::sample::select(&NAMES[..]), name in proptest::sample::select(&NAMES[..]),
        ) {
            let platform = decide(&subject, &bindings, permission, Scope::Platform);
            let in_project = decide(&subject, &bindings, permission, Scope::Project(project));
            let in_environment = decide(&subject, &bindings, permission, Scope::Environment { project, name });
            prop_assert!((!platform || in_project) && (!in_project || in_environment));
        }
    }

    #[test]
    fn the_administrator_may_do_everything() {
        let subject = Subject { administrator: true, ..Subject::default() };
        for permission in Permission::ALL {
            assert!(decide(&subject, &[], *permission, Scope::Platform));
        }
    }
}
