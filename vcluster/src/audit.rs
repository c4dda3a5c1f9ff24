//! Audit: what of which requests is recorded, by an `audit.k8s.io/v1` Policy, as upstream's API server does (`k8s.io/apiserver/pkg/audit`).
//!
//! * [`policy`]: which level a request has; pure.
//! * [`request`]: one request on its way, with what is noted of it.
//! * [`event`]: the `audit.k8s.io/v1` Event of a stage.
//! * [`capture`]: what was answered, for the level that wants it.
//!
//! Where events go is [`AuditBackend`]'s matter. Requests come here from outside of the process only: what the control plane's own controllers
//! and the template's job do goes past HTTP and is not recorded, and a request whose credentials are not known is counted (`/metrics`), not
//! recorded, for anybody could fill the trail with them.

mod capture;
mod event;
pub(crate) mod policy;
mod request;

pub use event::AuditEvent;
pub use policy::{AuditPolicy, InvalidAuditPolicy};
pub(crate) use request::{AUDIT_ID, Audit, id_of};

use vctl_runtime::metrics::{Counter, Exposition, Kind};

/// How many requests had which level.
#[derive(Default)]
pub(crate) struct Audited([Counter; 4]);

impl Audited {
    fn count(&self, level: policy::Level) {
        if let Some(counter) = self.0.get(level as usize) {
            counter.add_one();
        }
    }

    /// Writes the measurements, under upstream's name.
    pub(crate) fn write(&self, text: &mut Exposition) {
        use policy::Level::{Metadata, None, Request, RequestResponse};
        const NAME: &str = "apiserver_audit_level_total";
        text.family(NAME, Kind::Counter, "[ALPHA] Counter of policy levels for audit events (1 per request).");
        for (level, counter) in [None, Metadata, Request, RequestResponse].into_iter().zip(&self.0) {
            text.sample(NAME, &[("level", level.as_str())], counter.get());
        }
    }
}

/// Takes events. What it does with them must not hold up who asks for longer than it must.
#[async_trait::async_trait]
pub trait AuditBackend: Send + Sync {
    /// Takes an event. Waits for room where [`AuditEvent::changes`]; others are dropped, and counted, when there is none.
    async fn process(&self, event: AuditEvent);

    /// Takes an event of something that cannot wait; dropped, and counted, when there is no room.
    fn offer(&self, event: AuditEvent);
}
