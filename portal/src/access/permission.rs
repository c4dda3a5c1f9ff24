//! Permissions: `resource.verb`.

/// Makes the enum, its texts and its list from one table, so that they cannot disagree.
macro_rules! permissions {
    ($($name:ident = $text:literal, $help:literal;)*) => {
        /// Something that somebody may or may not do.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Permission {
            $(#[doc = $help] $name,)*
        }

        impl Permission {
            /// All of them, by resource.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// As roles and documentation write it: `environments.create`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What it allows, for people.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$name => $help,)* }
            }
        }
    };
}

permissions! {
    EnvironmentsList = "environments.list", "See environments in lists.";
    EnvironmentsGet = "environments.get", "See one environment, with its parameters but never its passwords.";
    EnvironmentsCreate = "environments.create", "Create environments; who creates one is its owner.";
    EnvironmentsUpdate = "environments.update", "Change an environment: its parameters, its version, whose tokens count in it.";
    EnvironmentsDelete = "environments.delete", "Delete an environment with everything in it.";
    EnvironmentsConnect = "environments.connect", "Get credentials of an environment's administrator.";
    EnvironmentsConnectReadOnly = "environments.connectReadOnly", "Get credentials that read what is in an environment.";
    EnvironmentsShare = "environments.share", "Share an environment with others.";
    EnvironmentsSleep = "environments.sleep", "Put an environment to sleep, and wake it.";
    EnvironmentsExtend = "environments.extend", "Put off the end of an environment.";
    EnvironmentsRotateCa = "environments.rotateCa", "Give an environment another certificate authority.";
    EnvironmentsCompact = "environments.compact", "Drop the history of an environment.";
    EnvironmentsAudit = "environments.audit", "Set what is recorded of the requests to an environment.";
    EnvironmentsSnapshot = "environments.snapshot", "Take an environment out as a file, with its keys.";
    EnvironmentsRestore = "environments.restore", "Put an environment back from a file.";
    TemplatesList = "templates.list", "See the templates that a project allows.";
    TemplatesGet = "templates.get", "See one template with its parameters.";
    TemplatesPublish = "templates.publish", "Publish versions of templates.";
    TemplatesDelete = "templates.delete", "Yank versions of templates, so that they are offered no more, and take that back.";
    ProjectsList = "projects.list", "See projects in lists.";
    ProjectsGet = "projects.get", "See one project: its members, limits and usage.";
    ProjectsCreate = "projects.create", "Create projects.";
    ProjectsUpdate = "projects.update", "Change a project: its members and what is allowed in it.";
    ProjectsQuota = "projects.quota", "Change what a project may use.";
    ProjectsDelete = "projects.delete", "Delete a project that has no environments.";
    TeamsList = "teams.list", "See all teams; your own are always seen.";
    TeamsUpdate = "teams.update", "Create, change and delete teams.";
    RolesList = "roles.list", "See all roles.";
    RolesUpdate = "roles.update", "Create, change and delete roles.";
    JobsList = "jobs.list", "See jobs in lists.";
    JobsGet = "jobs.get", "See one job with its log.";
    JobsCancel = "jobs.cancel", "Stop a job.";
    AuditList = "audit.list", "Read the audit trail.";
    AuditExport = "audit.export", "Take the audit trail out as a file.";
    AuditVerify = "audit.verify", "Check that nobody has changed the audit trail.";
    ApprovalsList = "approvals.list", "See requests for approval.";
    ApprovalsCreate = "approvals.create", "Ask for approval.";
    ApprovalsDecide = "approvals.decide", "Approve and refuse requests of others.";
    ApprovalsRules = "approvals.rules", "Set what needs approval in a project.";
    ApprovalsBreakGlass = "approvals.breakGlass", "Take a role at once, to be reviewed afterwards.";
    WorkersList = "workers.list", "See workers.";
    WorkersUpdate = "workers.update", "Add and remove workers.";
    PlatformGet = "platform.get", "See the server's state, its metrics and its members.";
    PlatformUpdate = "platform.update", "Change the server's members and settings.";
    PlatformBackup = "platform.backup", "Take out everything that the server keeps.";
    PlatformReencrypt = "platform.reencrypt", "Encrypt everything that the server keeps anew.";
    UsersList = "users.list", "See who signs in, and their sessions and API keys.";
    UsersUpdate = "users.update", "End sessions of others and revoke their API keys.";
}

const _: () = assert!(Permission::ALL.len() <= 64, "a set of permissions is one number of 64 bits");

impl Permission {
    /// The permission of this text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|p| p.as_str() == text)
    }

    const fn bit(self) -> u64 {
        1 << self as u64
    }
}

impl std::fmt::Display for Permission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of permissions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PermissionSet(u64);

impl PermissionSet {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Everything.
    pub const ALL: Self = Self::of(Permission::ALL);

    /// These.
    pub const fn of(permissions: &[Permission]) -> Self {
        let (mut bits, mut i) = (0, 0);
        while i < permissions.len() {
            bits |= permissions[i].bit();
            i += 1;
        }
        Self(bits)
    }

    /// What a rule of a role names: `environments.get`, all verbs of a resource (`environments.*`), one verb of all resources (`*.list`) or
    /// everything (`*`). None when it names nothing.
    pub fn of_rule(rule: &str) -> Option<Self> {
        if rule == "*" {
            return Some(Self::ALL);
        }
        let (resource, verb) = rule.split_once('.')?;
        let named = |p: &&Permission| {
            let (r, v) = p.as_str().split_once('.').unwrap_or_default();
            (resource == "*" || resource == r) && (verb == "*" || verb == v)
        };
        let set = Permission::ALL.iter().filter(named).fold(Self::NONE, |set, p| set.with(*p));
        (!set.is_empty()).then_some(set)
    }

    /// With one more.
    #[must_use]
    pub const fn with(self, permission: Permission) -> Self {
        Self(self.0 | permission.bit())
    }

    /// What is in one or the other.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is in this one but not in the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether it is in.
    pub const fn contains(self, permission: Permission) -> bool {
        self.0 & permission.bit() != 0
    }

    /// Whether all of the other are in.
    pub const fn includes(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// Whether there is nothing in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that are in, in the order of [`Permission::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.iter().copied().filter(move |p| self.contains(*p))
    }

    /// Their texts with commas between them.
    pub fn to_text(self) -> String {
        self.iter().map(Permission::as_str).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_unique_and_read_back() {
        for permission in Permission::ALL {
            assert_eq!(Permission::parse(permission.as_str()), Some(*permission));
            assert!(permission.help().ends_with('.'), "{permission}");
        }
    }

    #[test]
    fn rules_name_what_they_say() {
        let set = |rule: &str| PermissionSet::of_rule(rule);
        assert_eq!(set("*"), Some(PermissionSet::ALL));
        assert_eq!(set("*.*"), Some(PermissionSet::ALL));
        assert_eq!(set("jobs.get"), Some(PermissionSet::of(&[Permission::JobsGet])));
        let jobs = PermissionSet::of(&[Permission::JobsList, Permission::JobsGet, Permission::JobsCancel]);
        assert_eq!(set("jobs.*"), Some(jobs));
        let lists = set("*.list").expect("some");
        assert!(lists.contains(Permission::AuditList) && !lists.contains(Permission::JobsGet));
        for wrong in ["", "jobs", "jobs.", "jobs.g*", "pods.get", ".", "**"] {
            assert_eq!(set(wrong), None, "{wrong}");
        }
    }
}
