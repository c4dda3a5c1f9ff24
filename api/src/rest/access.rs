//! Projects, teams, roles, members, quotas and shares.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::PATTERN;

/// Text without control characters, for JSON Schema.
pub(super) const ONE_LINE: &str = "^[^\\x00-\\x1f\\x7f-\\x9f]*$";
/// A quantity of Kubernetes that is not negative, for JSON Schema; how large it can be is more than a pattern says.
pub(super) const QUANTITY: &str =
    "^\\+?([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][-+]?[0-9]+)?$";

/// Name of the project that always exists, and that environments belong to unless another is named.
pub const DEFAULT_PROJECT: &str = "default";

/// What environments are grouped by: who works in it, and what they may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Project {
    /// Unique name.
    pub name: String,
    /// What can be set.
    #[serde(flatten)]
    pub settings: ProjectSettings,
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// Revision for conditional requests (`ETag`); 0 for the project `default` before anybody has changed it.
    pub revision: u64,
}

/// Body of `POST /api/v1/projects`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
#[schemars(extend("examples" = [{"name": "web", "title": "The web team", "quota": {"environments": 10}}]))]
pub struct CreateProject {
    /// The name asked for: a DNS-1123 label.
    #[schemars(regex(pattern = PATTERN))]
    pub name: String,
    /// What can be set.
    #[serde(flatten)]
    pub settings: ProjectSettings,
}

/// What can be set of a project; body of `PUT /api/v1/projects/NAME`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct ProjectSettings {
    /// One line for lists.
    #[serde(default)]
    pub title: String,
    /// Who has which role in it.
    #[serde(default)]
    #[schemars(extend("uniqueItems" = true))]
    pub members: Vec<Member>,
    /// Templates that environments may be made from; empty: all.
    #[serde(default)]
    #[schemars(inner(length(min = 1, max = 256)))]
    pub allowed_templates: Vec<String>,
    /// Patterns of container images that pods of its environments may use, with `*` for any text: `docker.io/library/*`, `registry.example.com/team/*`;
    /// empty: all.
    #[serde(default)]
    #[schemars(inner(length(min = 1, max = 256)))]
    pub allowed_images: Vec<String>,
    /// Patterns of names of the workers that pods of its environments may be on, with `*` for any text; empty: all.
    #[serde(default)]
    #[schemars(inner(length(min = 1, max = 256)))]
    pub allowed_workers: Vec<String>,
    /// Registered resources that its environments may be bound to, or name in parameters; empty: all.
    #[serde(default)]
    #[schemars(inner(length(min = 1, max = 256)))]
    pub allowed_resources: Vec<String>,
    /// What all its environments together may be.
    #[serde(default)]
    pub quota: Quota,
    /// What each of its members may have in it.
    #[serde(default)]
    pub member_quota: Quota,
    /// What each of its environments may request.
    #[serde(default)]
    pub environment_quota: EnvironmentQuota,
}

/// Somebody with a role.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Member {
    /// What the name is a name of.
    pub kind: MemberKind,
    /// Name of the user, group or team.
    #[schemars(length(min = 1, max = 256), regex(pattern = ONE_LINE))]
    pub name: String,
    /// Name of the role.
    pub role: String,
}

/// What can be a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MemberKind {
    /// A user.
    User,
    /// A group of the identity provider.
    Group,
    /// A team.
    Team,
}

/// How much there may be; what is not named is not limited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Quota {
    /// Environments, asleep or awake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environments: Option<u32>,
    /// Environments that are not asleep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awake: Option<u32>,
    /// Processors that pods request in environments that are awake (their template's where that is more), as a quantity of Kubernetes: `4`, `500m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = QUANTITY))]
    pub cpu: Option<String>,
    /// Memory that they request in environments that are awake: `16Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = QUANTITY))]
    pub memory: Option<String>,
    /// Storage that they claim, asleep or awake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = QUANTITY))]
    pub storage: Option<String>,
    /// Environments by template.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub templates: BTreeMap<String, u32>,
}

/// How much one environment may request; what is not named is not limited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnvironmentQuota {
    /// Processors while it is awake, as a quantity of Kubernetes: `4`, `500m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = QUANTITY))]
    pub cpu: Option<String>,
    /// Memory while it is awake: `16Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = QUANTITY))]
    pub memory: Option<String>,
    /// Storage that is claimed, asleep or awake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = QUANTITY))]
    pub storage: Option<String>,
}

impl From<&EnvironmentQuota> for Quota {
    fn from(of: &EnvironmentQuota) -> Self {
        let EnvironmentQuota { cpu, memory, storage } = of.clone();
        Self { cpu, memory, storage, ..Self::default() }
    }
}

/// What is used of a quota.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Environments, asleep or awake.
    pub environments: u32,
    /// Environments that are not asleep.
    pub awake: u32,
    /// Processors that pods request in environments that are awake (their template's where that is more), as a quantity of Kubernetes.
    #[serde(default)]
    pub cpu: String,
    /// Memory that they request in environments that are awake.
    #[serde(default)]
    pub memory: String,
    /// Storage that they claim, asleep or awake.
    #[serde(default)]
    pub storage: String,
    /// Environments by template.
    #[serde(default)]
    pub templates: BTreeMap<String, u32>,
}

/// Answer of `GET /api/v1/projects/NAME/usage`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaUsage {
    /// What may be used.
    pub quota: Quota,
    /// What is used.
    pub used: Usage,
    /// Everything that is limited for the caller in this project, by whichever quota: for bars.
    #[serde(default)]
    pub limits: Vec<LimitUsage>,
}

/// Whose limit it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LimitHolder {
    /// All environments of the project.
    Project,
    /// Those of the caller in the project.
    Member,
    /// Those of the caller in all projects.
    User,
    /// Those of a team of the caller's.
    Team,
    /// Each environment of the project.
    Environment,
}

/// The unit of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LimitUnit {
    /// A number.
    Count,
    /// Thousandths of processors.
    Millicores,
    /// Bytes.
    Bytes,
}

/// How much of a limit is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitUsage {
    /// Whose it is.
    pub holder: LimitHolder,
    /// Name of the project or team; id of the user.
    pub name: String,
    /// What is limited: `environments`, `awake`, `cpu`, `memory`, `storage`, or `template NAME`.
    pub what: String,
    /// The unit of the next two.
    pub unit: LimitUnit,
    /// So much is used.
    pub used: u64,
    /// So much may be.
    pub limit: u64,
}

/// People who are named together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Team {
    /// Unique name.
    pub name: String,
    /// What can be set.
    #[serde(flatten)]
    pub settings: TeamSettings,
    /// Revision for conditional requests.
    pub revision: u64,
}

/// What can be set of a team; body of `PUT /api/v1/teams/NAME`, which makes it when it is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
#[schemars(extend("examples" = [{"title": "Shop", "users": [], "groups": ["shop"]}]))]
pub struct TeamSettings {
    /// One line for lists.
    #[serde(default)]
    pub title: String,
    /// Users in it.
    #[serde(default)]
    pub users: Vec<String>,
    /// Groups of the identity provider whose people are in it.
    #[serde(default)]
    pub groups: Vec<String>,
    /// What its users may have together, over all projects.
    #[serde(default)]
    pub quota: Quota,
}

/// A named list of permissions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Role {
    /// Unique name.
    pub name: String,
    /// What can be set.
    #[serde(flatten)]
    pub settings: RoleSettings,
    /// It always exists and cannot be changed.
    pub built_in: bool,
    /// Revision for conditional requests; 0 for built-in ones.
    pub revision: u64,
}

/// What can be set of a role; body of `PUT /api/v1/roles/NAME`, which makes it when it is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
#[schemars(extend("examples" = [{"title": "Looks on", "rules": ["environments.list", "environments.get"]}]))]
pub struct RoleSettings {
    /// One line for lists.
    #[serde(default)]
    pub title: String,
    /// What it allows: `environments.create`, `environments.*`, `*.list` or `*`.
    pub rules: Vec<String>,
}

/// The platform as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Platform {
    /// What can be set.
    #[serde(flatten)]
    pub settings: PlatformSettings,
    /// Revision for conditional requests; 0 before anybody has changed it.
    pub revision: u64,
}

/// What can be set of the platform; body of `PUT /api/v1/platform`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct PlatformSettings {
    /// Who has which role everywhere.
    #[serde(default)]
    #[schemars(extend("uniqueItems" = true))]
    pub members: Vec<Member>,
    /// What each user may have, over all projects.
    #[serde(default)]
    pub user_quota: Quota,
}

/// How an environment is shared with somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ShareAccess {
    /// They work in it as its administrator.
    Admin,
    /// They see what is in it.
    ReadOnly,
}

/// Body of `PUT /api/v1/environments/NAME/shares/USER`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("examples" = [{"access": "readOnly"}]))]
pub struct Share {
    /// What they may do.
    pub access: ShareAccess,
}

/// Answer of `GET /api/v1/permissions`: what the caller may do at a place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Permissions {
    /// As `resource.verb`.
    pub permissions: Vec<String>,
}
