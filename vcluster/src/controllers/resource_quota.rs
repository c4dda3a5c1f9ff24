//! `status` of ResourceQuotas: what is limited, and how much of it is used. Admission charges what is created; this counts anew when
//! something has gone, ended or changed, and when a quota is new or changed.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use vctl_machinery::amounts::{Amounts, Quantity, add, amounts, document};

use super::context::{Context, Failure};
use crate::quota::{self, QUOTAS};

/// What a quota's status must be, from the objects that it may count, by resource; none when it is so already.
fn plan(quota: &Value, objects: &[(String, Vec<Value>)], now: Timestamp) -> Option<Value> {
    let hard = amounts(&quota["spec"]["hard"]);
    let mut counted = Amounts::new();
    for (resource, objects) in objects {
        for object in objects.iter().filter(|o| quota::in_scope(quota, resource, o)) {
            add(&mut counted, &quota::usage(resource, object, now));
        }
    }
    let used: Amounts = hard
        .keys()
        .filter(|n| quota::resource_of(n).is_some())
        .map(|n| (n.clone(), counted.get(n).copied().unwrap_or(Quantity::ZERO)))
        .collect();
    let status = &quota["status"];
    if status["hard"].is_object() && amounts(&status["hard"]) == hard && amounts(&status["used"]) == used {
        return None;
    }
    let mut quota = quota.clone();
    quota["status"] = json!({ "hard": quota["spec"]["hard"], "used": document(&used) });
    Some(quota)
}

/// Counts for all quotas of a namespace.
pub(super) async fn reconcile(cx: &Context<'_>, namespace: &str) -> Result<Option<Timestamp>, Failure> {
    // The quotas are read first: a charge in between changes their version, and the write below fails and is repeated.
    let quotas = cx.stored(QUOTAS, Some(namespace)).await?;
    cx.hints.set_quotas(cx.tenant, namespace, !quotas.is_empty());
    for entry in quotas {
        let Some(quota) = cx.find(QUOTAS, namespace, &entry.key.name).await? else { continue };
        let hard = amounts(&quota["spec"]["hard"]);
        let resources: BTreeSet<&str> = hard.keys().filter_map(|n| quota::resource_of(n)).collect();
        let mut objects = Vec::new();
        for resource in resources {
            let stored = cx.stored(resource, Some(namespace)).await?;
            let read = stored.iter().filter_map(|e| serde_json::from_slice(&e.value).ok()).collect();
            objects.push((resource.to_owned(), read));
        }
        if let Some(wanted) = plan(&quota, &objects, cx.now) {
            cx.client.update(QUOTAS, namespace, &entry.key.name, "status", wanted).await?;
        }
    }
    Ok(None)
}

/// Whether a change of a stored object (of pods: other than ending) can make a quota count too much.
pub(super) fn concerns(resource: &str, old: Option<&[u8]>, new: Option<&[u8]>) -> bool {
    match (resource, old, new) {
        ("events" | "events.events.k8s.io" | "leases.coordination.k8s.io" | QUOTAS, ..) => false,
        (_, Some(_), None) => true,
        ("services" | "persistentvolumeclaims", Some(old), Some(new)) => !same_spec(old, new),
        _ => false,
    }
}

/// Whether a quota is new or limits something else.
pub(super) fn is_to_be_counted(old: Option<&[u8]>, new: Option<&[u8]>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => !same_spec(old, new),
        (old, new) => old.is_some() || new.is_some(),
    }
}

fn same_spec(old: &[u8], new: &[u8]) -> bool {
    let spec = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok().map(|o| o["spec"].clone());
    spec(old) == spec(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_quota_names_is_counted() {
        let quota = json!({ "spec": { "hard": { "pods": "5", "count/configmaps": "2", "requests.cpu": "1", "other.io/x": "1" } } });
        let pod = |cpu: &str| json!({ "spec": { "containers": [{ "resources": { "requests": { "cpu": cpu } } }] } });
        let objects = [("configmaps".to_owned(), vec![json!({})]), ("pods".to_owned(), vec![pod("100m"), pod("250m")])];
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        let planned = plan(&quota, &objects, now).unwrap();
        assert_eq!(planned["status"]["hard"], quota["spec"]["hard"]);
        assert_eq!(planned["status"]["used"], json!({ "pods": "2", "count/configmaps": "1", "requests.cpu": "350m" }));
        assert_eq!(plan(&planned, &objects, now), None);
    }
}
