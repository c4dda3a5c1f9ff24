//! What virtual control planes record of requests, on its way to the portal's audit trail.

use std::{path::Path, sync::OnceLock};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use vctl_portal::{Portal, RequestEvent};
use vctl_vcluster::audit::{AuditBackend, AuditEvent, AuditPolicy};

/// When a change inside of an environment is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditMode {
    /// When it is made
    Batch,
    /// When its entry is in the audit trail
    Blocking,
}

/// Reads an audit policy.
pub(crate) fn policy(file: &Path) -> Result<AuditPolicy> {
    let text = std::fs::read_to_string(file).with_context(|| format!("--audit-policy-file {}", file.display()))?;
    let document: serde_json::Value =
        serde_yaml::from_str(&text).with_context(|| format!("--audit-policy-file {} is no YAML", file.display()))?;
    AuditPolicy::new(&document).with_context(|| format!("--audit-policy-file {}", file.display()))
}

/// The portal, once there is one: it needs the control planes first. Until then nothing is served.
#[derive(Default)]
pub(crate) struct ToPortal(OnceLock<Portal>);

impl ToPortal {
    pub(crate) fn connect(&self, portal: Portal) {
        // Connected once, by the one place that makes both.
        let _ = self.0.set(portal);
    }

    fn portal(&self) -> Option<&Portal> {
        let portal = self.0.get();
        if portal.is_none() {
            tracing::error!("a request came before there was an audit trail: it is not recorded");
        }
        portal
    }
}

fn event(of: AuditEvent) -> RequestEvent {
    // Sessions have no verb of their own in Kubernetes: `get` of `pods/exec`.
    let session = of.event.pointer("/objectRef/subresource").and_then(serde_json::Value::as_str);
    let session = session.filter(|s| matches!(*s, "exec" | "attach" | "portforward" | "proxy")).map(str::to_owned);
    RequestEvent {
        environment: of.environment,
        at: of.at,
        user: of.user,
        impersonated: of.impersonated,
        verb: session.unwrap_or(of.verb),
        source: of.source,
        id: of.id,
        changes: of.changes,
        size: of.size,
        event: of.event,
    }
}

#[async_trait::async_trait]
impl AuditBackend for ToPortal {
    async fn process(&self, of: AuditEvent) {
        if let Some(portal) = self.portal() {
            portal.record_request(event(of)).await;
        }
    }

    fn offer(&self, of: AuditEvent) {
        if let Some(portal) = self.portal() {
            portal.offer_request(event(of));
        }
    }
}
