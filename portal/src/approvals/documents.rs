//! Requests and rules as they are kept.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vctl_api::rest::{
    ApprovalKind, ApprovalRule, ApprovalRuleSettings, ApprovalState, CreateEnvironment, Decision, HoldingRule, Period,
    Review, UpdateEnvironment,
};

use super::rules::Facts;
use crate::documents::{Document, Stored};

/// A request. Passwords that belong to it are in [`ApprovalSecretsDoc`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApprovalDoc {
    /// Sorts by time.
    pub(crate) id: String,
    pub(crate) kind: ApprovalKind,
    pub(crate) state: ApprovalState,
    pub(crate) message: String,
    pub(crate) project: String,
    pub(crate) environment: Option<String>,
    /// Of an update: the environment that is meant, and not a later one of its name.
    pub(crate) environment_uid: Option<String>,
    pub(crate) requested_by: String,
    pub(crate) requested_by_id: String,
    /// Id of the HTTP request by which it was asked for.
    pub(crate) request_id: String,
    pub(crate) reason: String,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) granted_until: Option<Timestamp>,
    pub(crate) closed_at: Option<Timestamp>,
    /// It is not tried again before that.
    pub(crate) next_try: Option<Timestamp>,
    pub(crate) decisions: Vec<Decision>,
    /// Approvals from this one on count: those before were given under other rules.
    pub(crate) counted_from: usize,
    /// Whose approvals count no more because they may not decide any more: names by id. None of those who have approved it again since.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) uncounted: BTreeMap<String, String>,
    pub(crate) approvals_needed: u32,
    pub(crate) rules: Vec<HoldingRule>,
    /// What the rules are asked about.
    pub(crate) facts: Option<Facts>,
    pub(crate) create: Option<CreateEnvironment>,
    pub(crate) update: Option<UpdateEnvironment>,
    pub(crate) template_version: Option<String>,
    pub(crate) template_digest: Option<String>,
    pub(crate) role: Option<String>,
    pub(crate) period: Option<Period>,
    pub(crate) job: Option<String>,
    pub(crate) review: Option<Review>,
}

impl ApprovalDoc {
    /// The approvals that count.
    pub(crate) fn approvals(&self) -> impl Iterator<Item = &Decision> {
        self.decisions.iter().skip(self.counted_from)
    }

    /// What it is about, for people: `environment big`, `role maintainer in project web`.
    pub(crate) fn about(&self) -> String {
        match (&self.environment, &self.role) {
            (Some(environment), _) => format!("environment {environment:?}"),
            (None, Some(role)) => format!("role {role:?} in project {:?}", self.project),
            (None, None) => format!("project {:?}", self.project),
        }
    }
}

/// Passwords of a request; removed when it comes to its end.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ApprovalSecretsDoc {
    pub(crate) id: String,
    pub(crate) parameters: BTreeMap<String, Value>,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RuleDoc {
    /// `NAME`, or `PROJECT/NAME`.
    pub(crate) key: String,
    pub(crate) name: String,
    pub(crate) project: Option<String>,
    pub(crate) settings: ApprovalRuleSettings,
}

impl RuleDoc {
    /// The key of a rule of a project, or of the platform.
    pub(crate) fn key(project: Option<&str>, name: &str) -> String {
        project.map_or_else(|| name.to_owned(), |project| format!("{project}/{name}"))
    }
}

impl Document for ApprovalDoc {
    const RESOURCE: &'static str = "approvals.vctl.dev";
    fn name(&self) -> &str {
        &self.id
    }
}

impl Document for ApprovalSecretsDoc {
    const RESOURCE: &'static str = "approvalsecrets.vctl.dev";
    fn name(&self) -> &str {
        &self.id
    }
}

impl Document for RuleDoc {
    const RESOURCE: &'static str = "approvalrules.vctl.dev";
    #[expect(clippy::misnamed_getters, reason = "a rule of a project is named by both")]
    fn name(&self) -> &str {
        &self.key
    }
}

/// What people see of a rule.
pub(crate) fn rule(stored: Stored<RuleDoc>) -> ApprovalRule {
    let RuleDoc { name, project, settings, .. } = stored.value;
    ApprovalRule { name, project, settings, revision: stored.revision }
}
