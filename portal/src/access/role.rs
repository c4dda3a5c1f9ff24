//! Roles that are built in.

use super::permission::{Permission as P, PermissionSet};

/// A role that always exists and cannot be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub title: &'static str,
    /// What it allows.
    pub permissions: PermissionSet,
    /// Makes sense for the platform only.
    pub platform: bool,
}

const VIEWER: PermissionSet = PermissionSet::of(&[
    P::EnvironmentsList,
    P::EnvironmentsGet,
    P::EnvironmentsConnectReadOnly,
    P::TemplatesList,
    P::TemplatesGet,
    P::ProjectsList,
    P::ProjectsGet,
    P::JobsList,
    P::JobsGet,
    P::WorkersList,
    P::ApprovalsCreate,
]);
const DEVELOPER: PermissionSet = VIEWER.or(PermissionSet::of(&[P::EnvironmentsCreate, P::ApprovalsList]));
const MAINTAINER: PermissionSet =
    DEVELOPER.or(OWNER).or(PermissionSet::of(&[P::AuditList, P::ApprovalsDecide, P::ApprovalsBreakGlass]));
const ADMIN: PermissionSet = MAINTAINER.or(PermissionSet::of(&[
    P::EnvironmentsAudit,
    P::EnvironmentsSnapshot,
    P::ProjectsUpdate,
    P::ProjectsDelete,
    P::AuditExport,
    P::ApprovalsRules,
]));

/// What the owner of an environment may do with it. A snapshot is not among it: it holds the environment's keys, which would let somebody in
/// long after they were shut out.
pub const OWNER: PermissionSet = READER.or(PermissionSet::of(&[
    P::EnvironmentsUpdate,
    P::EnvironmentsDelete,
    P::EnvironmentsConnect,
    P::EnvironmentsShare,
    P::EnvironmentsSleep,
    P::EnvironmentsExtend,
    P::EnvironmentsRotateCa,
    P::EnvironmentsCompact,
    P::JobsCancel,
]));

/// What somebody may do with an environment that is shared with them for working in it.
pub const SHARED: PermissionSet = READER.or(PermissionSet::of(&[P::EnvironmentsConnect, P::EnvironmentsSleep]));

/// What somebody may do with an environment that is shared with them for reading.
pub const READER: PermissionSet = PermissionSet::of(&[
    P::EnvironmentsList,
    P::EnvironmentsGet,
    P::EnvironmentsConnectReadOnly,
    P::JobsList,
    P::JobsGet,
]);

/// What somebody may do with what they have asked for themselves.
pub const REQUESTER: PermissionSet = PermissionSet::of(&[P::ApprovalsList, P::ApprovalsCreate]);

/// What no role for a time allows: it gives something away that outlasts the time.
pub const OUTLASTING: PermissionSet = PermissionSet::of(&[P::EnvironmentsSnapshot]);

/// What changes nothing: all that an API key for reading may be used for.
pub const READING: PermissionSet = AUDITOR.or(PermissionSet::of(&[P::EnvironmentsConnectReadOnly]));

/// Name of the role with every permission.
pub const PLATFORM_ADMIN: &str = "platform-admin";

/// All of them; each project role allows what those before it allow.
pub const BUILT_IN: [BuiltIn; 6] = [
    BuiltIn { name: "viewer", title: "sees what is in a project", permissions: VIEWER, platform: false },
    BuiltIn { name: "developer", title: "creates environments and owns them", permissions: DEVELOPER, platform: false },
    BuiltIn {
        name: "maintainer",
        title: "does everything with all environments of a project, and approves",
        permissions: MAINTAINER,
        platform: false,
    },
    BuiltIn {
        name: "admin",
        title: "decides who is in a project, and what is allowed",
        permissions: ADMIN,
        platform: false,
    },
    BuiltIn { name: "auditor", title: "sees everything, changes nothing", permissions: AUDITOR, platform: true },
    BuiltIn { name: PLATFORM_ADMIN, title: "does everything", permissions: PermissionSet::ALL, platform: true },
];

const AUDITOR: PermissionSet = PermissionSet::of(&[
    P::EnvironmentsList,
    P::EnvironmentsGet,
    P::TemplatesList,
    P::TemplatesGet,
    P::ProjectsList,
    P::ProjectsGet,
    P::TeamsList,
    P::RolesList,
    P::JobsList,
    P::JobsGet,
    P::AuditList,
    P::AuditExport,
    P::AuditVerify,
    P::ApprovalsList,
    P::WorkersList,
    P::PlatformGet,
    P::UsersList,
]);

/// The built-in role of this name.
pub fn built_in(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|role| role.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_project_role_allows_what_those_before_it_allow() {
        let project: Vec<_> = BUILT_IN.iter().filter(|r| !r.platform).collect();
        for pair in project.windows(2) {
            assert!(pair[1].permissions.includes(pair[0].permissions), "{} {}", pair[0].name, pair[1].name);
            assert_ne!(pair[1].permissions, pair[0].permissions);
        }
    }

    #[test]
    fn an_auditor_changes_nothing() {
        let auditor = built_in("auditor").expect("there").permissions;
        for permission in auditor.iter() {
            let verb = permission.as_str().split_once('.').expect("two parts").1;
            assert!(["list", "get", "export", "verify"].contains(&verb), "{permission}");
        }
    }
}
