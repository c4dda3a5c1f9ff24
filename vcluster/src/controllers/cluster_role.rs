//! ClusterRoles that take their rules from others (`pkg/controller/clusterroleaggregation` upstream).

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use vctl_machinery::selector::LabelSelector;

use super::{
    context::{Context, Failure},
    object::{labels, list, name},
    queue::{Controller, Key},
};

/// The resource.
pub(super) const RESOURCE: &str = "clusterroles.rbac.authorization.k8s.io";
/// After a start tenants are looked at this much later, one second each: their roles are read for that.
const LATER: i64 = 30;
const SPREAD: u32 = 300;

/// The rules that an aggregated role has by now: those of all roles that one of its selectors finds, in order of their names, each
/// once. None for a role that does not aggregate.
pub(crate) fn aggregated(role: &Value, all: &[Value]) -> Option<Vec<Value>> {
    let selectors = role.get("aggregationRule").filter(|r| !r.is_null())?;
    let selectors: Vec<LabelSelector> =
        list(selectors, "/clusterRoleSelectors").iter().filter_map(|s| LabelSelector::from_object(s).ok()).collect();
    let mut sources: Vec<&Value> =
        all.iter().filter(|r| name(r) != name(role) && selectors.iter().any(|s| s.matches(labels(r)))).collect();
    sources.sort_by_key(|r| name(r));
    let mut rules: Vec<Value> = Vec::new();
    for rule in sources.into_iter().flat_map(|r| list(r, "/rules")) {
        if !rules.contains(rule) {
            rules.push(rule.clone());
        }
    }
    Some(rules)
}

/// Looks at a tenant again some time after a start, should a change have been stored and not aggregated.
pub(super) fn later(cx: &Context<'_>) {
    let seconds = LATER + i64::from(cx.tenant.0 % SPREAD);
    if let Ok(at) = cx.now.checked_add(SignedDuration::from_secs(seconds)) {
        cx.queue.add_at(Key::tenant(cx.tenant, Controller::ClusterRole), at);
    }
}

/// Brings all aggregated roles up to date; a role that aggregates aggregated ones is done when they have changed.
pub(super) async fn reconcile(cx: &Context<'_>) -> Result<Option<Timestamp>, Failure> {
    let constants = crate::bootstrap::constants();
    if cx.stored(RESOURCE, None).await?.iter().all(|e| constants.rules(&e.value).is_some()) {
        // As at bootstrap, where they are aggregated already.
        return Ok(None);
    }
    let roles = cx.list(RESOURCE, "").await?;
    for role in &roles {
        let Some(rules) = aggregated(role, &roles) else { continue };
        if rules != list(role, "/rules") {
            let patch =
                json!({ "rules": rules, "metadata": { "resourceVersion": role["metadata"]["resourceVersion"] } });
            cx.client.merge_patch(RESOURCE, "", name(role), "", patch).await?;
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_come_from_the_selected_roles_in_order_and_once() {
        let role = |name: &str, label: &str, rules: Value| json!({ "metadata": { "name": name, "labels": { label: "true" } }, "rules": rules });
        let mut target = role("all", "x", json!([]));
        target["aggregationRule"] =
            json!({ "clusterRoleSelectors": [{ "matchLabels": { "x": "true" } }, { "matchLabels": { "y": "true" } }] });
        let all = [
            role("b", "y", json!([{ "verbs": ["get"] }, { "verbs": ["list"] }])),
            role("a", "x", json!([{ "verbs": ["list"] }])),
            role("c", "z", json!([{ "verbs": ["delete"] }])),
            target.clone(),
        ];
        assert_eq!(json!(aggregated(&target, &all)), json!([{ "verbs": ["list"] }, { "verbs": ["get"] }]));
        assert_eq!(aggregated(&all[0], &all), None);
    }
}
