//! ResourceQuota: what a write costs is charged in the same transaction, by compare-and-swap on the quota's `status.used`. Two
//! requests can therefore never both take the last of it.

use serde_json::Value;
use vctl_machinery::{
    amounts::{Amounts, Quantity, add, amounts, document as to_document, listed},
    status::ApiError,
};
use vctl_store::{Expect, Key, ListOptions, Scope, Write};

use crate::{
    document,
    objects::{Call, Target},
    quota::{self, QUOTAS},
    storage,
};

/// What is to be written to the quotas of the namespace, or 403. `old` is the object before an update.
pub(super) async fn charge(
    call: &Call,
    target: &Target,
    old: Option<&Value>,
    new: &Value,
) -> Result<Vec<Write>, ApiError> {
    let resource = target.resource();
    if !target.descriptor.namespaced
        || !target.subresource.is_empty()
        || matches!(&*resource, "events" | "events.events.k8s.io")
        || (old.is_some() && !quota::grows(&resource))
    {
        return Ok(Vec::new());
    }
    let scope = Scope { resource: QUOTAS.into(), namespace: Some(target.namespace.as_str().into()) };
    let options = ListOptions { scope, at: None, after: None, limit: 0 };
    let quotas = call.plane.store().list(call.plane.tenant, options).await.map_err(storage::error)?.entries;
    let mut writes = Vec::new();
    for entry in quotas {
        let mut object = document::decode(&call.plane.keys.origin, &entry.key, &entry.value, entry.revision)?;
        let Some(used) = evaluate(call, target, &resource, &object, old, new)? else { continue };
        object["status"]["used"] = to_document(&used);
        let value = document::encode(&object)?;
        let key = Key::new(QUOTAS, &entry.key.namespace, &entry.key.name);
        writes.push(Write { key, expect: Expect::Revision(entry.revision), value: Some(value) });
    }
    Ok(writes)
}

/// The quota's new `status.used`, or none when the request costs nothing of it.
fn evaluate(
    call: &Call,
    target: &Target,
    resource: &str,
    object: &Value,
    old: Option<&Value>,
    new: &Value,
) -> Result<Option<Amounts>, ApiError> {
    let name = document::meta(object, "name");
    let status = &object["status"];
    let (hard, used) = (amounts(&status["hard"]), amounts(&status["used"]));
    let tracked: Vec<&String> = hard.keys().filter(|n| quota::concerns(resource, n)).collect();
    // Before the controller has looked at a new quota for the first time, what it will track is not known from its status.
    let unseen = status["hard"].as_object().is_none_or(serde_json::Map::is_empty)
        && amounts(&object["spec"]["hard"]).keys().any(|n| quota::concerns(resource, n));
    if (tracked.is_empty() && !unseen) || !quota::in_scope(object, resource, new) {
        return Ok(None);
    }
    let refuse = |why: String| Err(target.forbidden(super::name_of(new), &why));
    if resource == "pods"
        && let Some(why) = quota::missing(new, &tracked)
    {
        return refuse(format!("failed quota: {name}: {why}"));
    }
    if unseen || tracked.iter().any(|n| !used.contains_key(*n)) {
        let names: Vec<String> = if unseen {
            amounts(&object["spec"]["hard"]).into_keys().filter(|n| quota::concerns(resource, n)).collect()
        } else {
            tracked.iter().map(|n| (*n).clone()).collect()
        };
        return refuse(format!("status unknown for quota: {name}, resources: {}", names.join(",")));
    }
    let now = call.plane.now();
    let mut cost = quota::usage(resource, new, now);
    let negative: Vec<&str> = cost.iter().filter(|(_, a)| a.is_negative()).map(|(n, _)| n.as_str()).collect();
    if !negative.is_empty() {
        return refuse(format!("quota usage is negative for resource(s): {}", negative.join(",")));
    }
    if let Some(old) = old.filter(|old| quota::in_scope(object, resource, old)) {
        let before = quota::usage(resource, old, now);
        for (name, amount) in &mut cost {
            *amount = amount.minus(before.get(name).copied().unwrap_or(Quantity::ZERO));
        }
    }
    cost.retain(|n, amount| !amount.is_zero() && hard.contains_key(n));
    if cost.is_empty() {
        return Ok(None);
    }
    let mut after = used.clone();
    add(&mut after, &cost);
    let exceeded = |n: &String| matches!((after.get(n), hard.get(n)), (Some(after), Some(hard)) if after > hard);
    let over: Vec<&String> = cost.keys().filter(|n| exceeded(n)).collect();
    if !over.is_empty() {
        let only =
            |of: &Amounts| listed(&of.iter().filter(|(n, _)| over.contains(n)).map(|(n, a)| (n.clone(), *a)).collect());
        return refuse(format!(
            "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
            only(&cost),
            only(&used),
            only(&hard)
        ));
    }
    Ok(Some(after))
}
