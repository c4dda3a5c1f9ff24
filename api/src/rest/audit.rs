//! The audit trail.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One entry of the audit trail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// Position in the trail; grows by time.
    pub id: u64,
    /// Unique; a list goes on after it.
    #[serde(default)]
    pub key: String,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// For whom, when a program acts for somebody.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub on_behalf_of: String,
    /// Address from which the request came; empty for what the server does by itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// What: `environment.create`.
    pub action: String,
    /// To what: the environment's name.
    pub subject: String,
    /// Project of the subject; empty for what belongs to the platform.
    #[serde(default)]
    pub project: String,
    /// Request that caused it.
    pub request_id: String,
    /// Anything else that explains it; never a secret. What was changed is in `changes`, with the value before and after.
    pub detail: serde_json::Value,
    /// SHA-256 of the entry with that of the one before it in its chain; empty for entries from before there were chains.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hash: String,
}

/// Body of `PUT`, and answer of `GET /api/v1/environments/NAME/audit-policy`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditPolicy {
    /// What is recorded of requests: a Policy of `audit.k8s.io/v1`, or null for what the server's own policy says.
    #[serde(default)]
    pub policy: Option<serde_json::Value>,
}

/// Answer of `GET /api/v1/audit/verify`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditVerification {
    /// Entries that were looked at.
    pub entries: u64,
    /// Chains that they are in.
    pub chains: u64,
    /// Entries from before there were chains: nothing can be said of them.
    pub unchained: u64,
    /// Entries that were removed because they were old enough.
    pub removed: u64,
    /// Places at which something was changed; 0: the trail is whole.
    pub breaks: u64,
    /// The oldest of them.
    pub first: Option<AuditBreak>,
}

/// A place at which the audit trail was changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditBreak {
    /// Key of the entry; empty when it is about entries that are not there.
    pub key: String,
    /// What the entry says of its time.
    pub at: Option<Timestamp>,
    /// What it says of who.
    pub actor: String,
    /// What it says of what.
    pub action: String,
    /// What it says of to what.
    pub subject: String,
    /// What is wrong there.
    pub why: String,
}
