//! Node selectors, required node affinity, taints and tolerations.

use serde_json::Value;

use crate::controllers::object::{condition, flag, labels, list, name, text};

/// `nodeSelector` and the required terms of `nodeAffinity`.
pub(in crate::controllers) fn selects(pod: &Value, node: &Value) -> bool {
    let node_labels = labels(node);
    if let Some(selector) = pod.pointer("/spec/nodeSelector").and_then(Value::as_object)
        && !selector.iter().all(|(k, v)| node_labels.get(k) == Some(v))
    {
        return false;
    }
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    match pod.pointer(required).filter(|r| !r.is_null()) {
        None => true,
        Some(required) => matches_terms(required, node),
    }
}

/// Whether a node matches a node selector. Terms are alternatives; a term without requirements matches nothing.
pub(in crate::controllers) fn matches_terms(selector: &Value, node: &Value) -> bool {
    let node_labels = labels(node);
    list(selector, "/nodeSelectorTerms").iter().any(|term| {
        let (expressions, fields) = (list(term, "/matchExpressions"), list(term, "/matchFields"));
        !(expressions.is_empty() && fields.is_empty())
            && expressions.iter().all(|e| holds(e, node_labels.get(text(e, "/key")).and_then(Value::as_str)))
            && fields.iter().all(|e| holds(e, (text(e, "/key") == "metadata.name").then(|| name(node))))
    })
}

/// One requirement of a node selector on the value a node has.
fn holds(requirement: &Value, value: Option<&str>) -> bool {
    let values = || list(requirement, "/values").iter().filter_map(Value::as_str);
    let number = |text: &str| text.parse::<i64>().ok();
    match text(requirement, "/operator") {
        "In" => value.is_some_and(|v| values().any(|x| x == v)),
        "NotIn" => value.is_none_or(|v| values().all(|x| x != v)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        operator @ ("Gt" | "Lt") => match (value.and_then(number), values().next().and_then(number)) {
            (Some(value), Some(bound)) => {
                if operator == "Gt" {
                    value > bound
                } else {
                    value < bound
                }
            }
            _ => false,
        },
        _ => false,
    }
}

/// The first taint with an effect on scheduling that the pod does not tolerate, as (key, value). A node that is not ready counts as
/// tainted `node.kubernetes.io/not-ready`, which upstream's node controller would write.
pub(in crate::controllers) fn untolerated(pod: &Value, node: &Value) -> Option<(String, String)> {
    let not_ready = condition(node, "Ready").is_none_or(|c| text(c, "/status") != "True");
    let implied = serde_json::json!({ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" });
    list(node, "/spec/taints")
        .iter()
        .chain(not_ready.then_some(&implied))
        .filter(|t| matches!(text(t, "/effect"), "NoSchedule" | "NoExecute"))
        .find(|t| !tolerates(pod, t))
        .map(|t| (text(t, "/key").to_owned(), text(t, "/value").to_owned()))
}

/// Whether one of the pod's tolerations covers a taint.
pub(in crate::controllers) fn tolerates(pod: &Value, taint: &Value) -> bool {
    list(pod, "/spec/tolerations").iter().any(|t| {
        let effect = text(t, "/effect");
        let key = text(t, "/key");
        (effect.is_empty() || effect == text(taint, "/effect"))
            && (key.is_empty() || key == text(taint, "/key"))
            && match text(t, "/operator") {
                "Exists" => true,
                "" | "Equal" => !key.is_empty() && text(t, "/value") == text(taint, "/value"),
                _ => false,
            }
    })
}

/// `spec.unschedulable`, unless the pod tolerates it.
pub(super) fn is_cordoned(pod: &Value, node: &Value) -> bool {
    flag(node, "/spec/unschedulable")
        && !tolerates(pod, &serde_json::json!({ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn required_affinity_is_an_or_of_ands() {
        let node = json!({ "metadata": { "name": "n1", "labels": { "zone": "a", "size": "4" } } });
        let pod = |terms: Value| {
            json!({ "spec": { "affinity": { "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } } } })
        };
        let term = |key: &str, operator: &str, values: Value| json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
        for (terms, expected) in [
            (json!([term("zone", "In", json!(["a", "b"]))]), true),
            (json!([term("zone", "NotIn", json!(["a"]))]), false),
            (json!([term("zone", "In", json!(["x"])), term("size", "Gt", json!(["3"]))]), true),
            (json!([term("size", "Lt", json!(["4"]))]), false),
            (json!([term("none", "DoesNotExist", json!([]))]), true),
            (json!([{}]), false),
            (json!([]), false),
            (json!([{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n1"] }] }]), true),
            (json!([{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n2"] }] }]), false),
        ] {
            assert_eq!(selects(&pod(terms.clone()), &node), expected, "{terms}");
        }
    }
}
