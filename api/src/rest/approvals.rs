//! Approvals: rules for what needs one, requests, roles for a time, break-glass.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CreateEnvironment, EnvironmentKind, Period, UpdateEnvironment, access::QUANTITY};

/// Text with something in it to read, for JSON Schema.
const SAYS_SOMETHING: &str = "[^\\s\\x85]";

/// Amounts of resources as Kubernetes writes quantities: `500m`, `8Gi`. What is not named is not said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Amounts {
    /// Processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Bytes of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Bytes of PersistentVolumeClaims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<String>,
}

/// What is done with an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ApprovalOperation {
    /// It is created.
    Create,
    /// It gets other parameters or another version, or goes back.
    Update,
}

/// Where somebody must have `approvals.decide` to decide.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Approvers {
    /// In the project of the environment.
    #[default]
    Project,
    /// On the platform as a whole.
    Platform,
}

/// How large something must be for a rule to count. One of what is named is enough.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LargerThan {
    /// More processors than that are requested by what the template makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = QUANTITY))]
    pub cpu: Option<String>,
    /// More memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = QUANTITY))]
    pub memory: Option<String>,
    /// More storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = QUANTITY))]
    pub storage: Option<String>,
    /// Whoever asks would have more environments than that in the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environments: Option<u32>,
}

/// What can be set of a rule: everything that is said must hold for it to count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct ApprovalRuleSettings {
    /// One line for lists, and for those who have to wait.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub title: String,
    /// In these projects; empty: in all. A rule of a project counts in that one alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200), inner(length(min = 1, max = 256)))]
    pub projects: Vec<String>,
    /// Of these templates; empty: of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200), inner(length(min = 1, max = 256)))]
    pub templates: Vec<String>,
    /// Of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<EnvironmentKind>,
    /// For these operations; empty: for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<ApprovalOperation>,
    /// If it is larger than this. An update only counts where it makes the environment larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub larger_than: Option<LargerThan>,
    /// Who decides.
    #[serde(default)]
    pub approvers: Approvers,
    /// So many different people have to approve: 1 to 5.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 5))]
    pub approvals: u32,
    /// Whoever asks may approve it themselves, if they are among those who decide.
    #[serde(default)]
    pub allow_own: bool,
    /// A request that is not answered for so long ends; 7 days unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_within: Option<Period>,
    /// So long after it was approved it can be carried out; a day unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Period>,
}

fn one() -> u32 {
    1
}

/// A rule for what needs approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRule {
    /// Name, unique among the platform's rules, or among those of its project.
    pub name: String,
    /// The project that it belongs to; none: the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// What can be set.
    #[serde(flatten)]
    pub settings: ApprovalRuleSettings,
    /// Revision for conditional requests.
    pub revision: u64,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ApprovalKind {
    /// An environment.
    Create,
    /// A change of one.
    Update,
    /// A role in a project for a time.
    Role,
    /// The same, taken at once: it is to be reviewed afterwards.
    BreakGlass,
}

/// Where a request is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ApprovalState {
    /// It waits for an answer.
    Pending,
    /// It is about to be carried out; `message` says what it waits for.
    Approved,
    /// Of a role: it counts.
    Active,
    /// It was carried out.
    Fulfilled,
    /// The answer was no.
    Denied,
    /// Whoever asked does not want it any more.
    Withdrawn,
    /// Nobody answered in time, or it could not be carried out in time.
    Expired,
    /// It could not be carried out; `message` says why.
    Failed,
    /// Of a role: its time is over, or it was given back.
    Ended,
    /// Of a role: it was taken away before its time was over.
    Revoked,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// Yes.
    Approve,
    /// No.
    Deny,
}

/// Somebody's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// Who.
    pub by: String,
    /// Their id.
    pub by_id: String,
    /// When.
    pub at: Timestamp,
    /// What.
    pub verdict: Verdict,
    /// Why; may be empty.
    #[serde(default)]
    pub comment: String,
}

/// A rule that a request is held by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HoldingRule {
    /// `NAME`, or `PROJECT/NAME`.
    pub rule: String,
    /// The state of the rule that is meant.
    pub revision: u64,
    /// Why it counts: `cpu 6 is more than 4`.
    pub why: String,
}

/// What the caller may do with a request; [`ApprovalActions::why_not`] says why they may not decide.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalActions {
    /// Approve and deny it.
    pub decide: bool,
    /// Withdraw it, or give the role back.
    pub withdraw: bool,
    /// Take the role away.
    pub revoke: bool,
    /// Say that they have looked at what was done under break-glass.
    pub review: bool,
    /// Why they may not decide; empty when they may, or nothing is to be decided.
    #[serde(default)]
    pub why_not: String,
}

/// A request for approval, with what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Unique; sorts by time.
    pub id: String,
    /// What is asked for.
    pub kind: ApprovalKind,
    /// Where it is in its life.
    pub state: ApprovalState,
    /// What that is about, for people; empty when there is nothing to say.
    #[serde(default)]
    pub message: String,
    /// The project it is about.
    pub project: String,
    /// The environment it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// Who asks.
    pub requested_by: String,
    /// Their id.
    pub requested_by_id: String,
    /// Why.
    pub reason: String,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// It ends then if nobody answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// What was granted counts until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_until: Option<Timestamp>,
    /// When it came to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// The answers so far.
    #[serde(default)]
    pub decisions: Vec<Decision>,
    /// So many approvals of different people are needed.
    pub approvals_needed: u32,
    /// The rules that hold it.
    #[serde(default)]
    pub rules: Vec<HoldingRule>,
    /// The environment that is asked for; passwords are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<CreateEnvironment>,
    /// The change that is asked for; passwords are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<UpdateEnvironment>,
    /// Version of the template that it was asked for with: it is carried out with just that content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_version: Option<String>,
    /// What the environment would request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Amounts>,
    /// The role that is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// For how long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// The job that carries it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Of break-glass: who has looked at what was done; none: nobody yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,
    /// What the caller may do with it. Not in notifications.
    #[serde(default)]
    pub actions: ApprovalActions,
    /// Revision of its document.
    pub revision: u64,
}

/// Somebody has looked at what was done under break-glass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// What they say of it.
    #[serde(default)]
    pub comment: String,
}

/// Body of `POST /api/v1/approvals`: asks for a role in a project for a time. Of `POST /api/v1/break-glass`: takes it at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestRole {
    /// The project.
    pub project: String,
    /// The role; `admin` for break-glass unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// For how long; at most 30 days, for break-glass an hour unless it is said, and 8 hours at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// Why.
    #[schemars(length(max = 2000), regex(pattern = SAYS_SOMETHING))]
    pub reason: String,
}

/// Body of what is done with a request: `approve`, `deny`, `withdraw`, `revoke`, `review`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Decide {
    /// Why. A denial, a revocation and a review must say it.
    #[serde(default)]
    #[schemars(length(max = 2000))]
    pub comment: String,
    /// With `approve`: shorter than was asked for, or than the rule says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
}
