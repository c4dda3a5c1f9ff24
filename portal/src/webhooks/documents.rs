//! Webhooks and deliveries as they are kept.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vctl_api::rest::{DeliveryState, WebhookSettings};

use crate::documents::Document;

/// A webhook. Its secret is in [`WebhookSecretDoc`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WebhookDoc {
    pub(super) name: String,
    pub(super) settings: WebhookSettings,
}

/// What bodies are signed with; sealed as everything is, when the server has a key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WebhookSecretDoc {
    pub(super) name: String,
    pub(super) secret: String,
}

/// A notification on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeliveryDoc {
    /// Sorts by time.
    pub(super) id: String,
    pub(super) webhook: String,
    pub(super) event: String,
    /// Exactly what is sent, and signed.
    pub(super) body: String,
    pub(super) created_at: Timestamp,
    pub(super) state: DeliveryState,
    pub(super) attempts: u32,
    pub(super) next_at: Option<Timestamp>,
    pub(super) message: String,
}

impl Document for WebhookDoc {
    const RESOURCE: &'static str = "webhooks.vctl.dev";
    fn name(&self) -> &str {
        &self.name
    }
}

impl Document for WebhookSecretDoc {
    const RESOURCE: &'static str = "webhooksecrets.vctl.dev";
    fn name(&self) -> &str {
        &self.name
    }
}

impl Document for DeliveryDoc {
    const RESOURCE: &'static str = "webhookdeliveries.vctl.dev";
    fn name(&self) -> &str {
        &self.id
    }
}
