//! Webhooks: where requests for approval are told of.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where requests are told of; for administrators of the platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// Unique name.
    pub name: String,
    /// What can be set; the secret is never shown.
    #[serde(flatten)]
    pub settings: WebhookSettings,
    /// The last deliveries, newest first.
    #[serde(default)]
    pub deliveries: Vec<Delivery>,
    /// Revision for conditional requests.
    pub revision: u64,
}

/// What can be set of a webhook; body of `PUT /api/v1/webhooks/NAME`, which makes it when it is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct WebhookSettings {
    /// An address: `https://..`.
    #[schemars(length(max = 2000))]
    pub url: String,
    /// What it is told of: `approval.requested`, `approval.*`, `breakGlass.*`; empty: everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
    pub events: Vec<String>,
    /// Projects that it is told of; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
    pub projects: Vec<String>,
    /// Bodies are signed with it: `whsec_` and the base64 of 24 to 64 bytes. When none is given for a new one it is made up and shown once; left
    /// out later it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// A notification on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// Its id, the same in every try: the header `webhook-id`.
    pub id: String,
    /// What it tells.
    pub event: String,
    /// When that happened.
    pub created_at: Timestamp,
    /// Where it is.
    pub state: DeliveryState,
    /// Tries so far.
    pub attempts: u32,
    /// The next try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Timestamp>,
    /// What the last try came to.
    #[serde(default)]
    pub message: String,
}

/// Where a notification is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeliveryState {
    /// It is tried (again).
    Pending,
    /// The receiver has answered with success.
    Delivered,
    /// Given up.
    Failed,
}
