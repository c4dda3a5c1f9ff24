//! What workers call pods.

use serde_json::Value;
use vctl_api::agent;
use vctl_store::Tenant;

use super::state::PodKey;
use crate::{
    json::Json,
    translate::{Context, translate},
};

/// `NUMBER.UID`. No virtual cluster ever has another one's number, while a copy of a virtual cluster has pods of the same UIDs, perhaps on
/// the same workers; and UIDs, as all that is in a backup, are said by whoever restores it.
pub(super) fn on_worker(tenant: Tenant, uid: &str) -> String {
    format!("{}.{uid}", tenant.0)
}

/// What is expected of a pod's worker.
pub(super) fn expected(key: &PodKey, pod: &Value, context: &Context) -> agent::Pod {
    let uid = on_worker(key.tenant, pod.text("/metadata/uid"));
    agent::Pod { uid, ..translate(pod, context) }
}
