//! Fields of a Service that mean something for some types only. Whoever changes the type need not clear them: they are dropped, unless they were
//! changed in the same breath (upstream: `dropTypeDependentFields` of `pkg/registry/core/service`).

use serde_json::Value;

fn kind(service: &Value) -> &str {
    service["spec"]["type"].as_str().unwrap_or("ClusterIP")
}

/// Whether clients outside of the cluster can reach it, so that `externalTrafficPolicy` means something.
fn is_external(service: &Value) -> bool {
    let addresses = service["spec"]["externalIPs"].as_array().is_some_and(|all| !all.is_empty());
    matches!(kind(service), "NodePort" | "LoadBalancer") || (kind(service) == "ClusterIP" && addresses)
}

fn is_balanced(service: &Value) -> bool {
    kind(service) == "LoadBalancer"
}

fn has_health_port(service: &Value) -> bool {
    is_balanced(service) && service["spec"]["externalTrafficPolicy"] == "Local"
}

/// Drops what the old type needed and the new one does not.
pub(super) fn drop_type_dependent_fields(new: &mut Value, old: &Value) {
    type Needs = fn(&Value) -> bool;
    let fields: [(&str, Needs); 4] = [
        ("externalTrafficPolicy", is_external),
        ("healthCheckNodePort", has_health_port),
        ("allocateLoadBalancerNodePorts", is_balanced),
        ("loadBalancerClass", is_balanced),
    ];
    let dropped: Vec<&str> = fields
        .into_iter()
        .filter(|(field, needed)| needed(old) && !needed(new) && new["spec"][*field] == old["spec"][*field])
        .map(|(field, _)| field)
        .collect();
    if let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|field, _| !dropped.contains(&field.as_str()));
    }
    if !is_balanced(new)
        && let Some(status) = new.get_mut("status").and_then(Value::as_object_mut)
    {
        status.insert("loadBalancer".into(), serde_json::json!({}));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn after(new: &Value) -> Value {
        let old = json!({
            "spec": { "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30_001,
                      "allocateLoadBalancerNodePorts": true, "loadBalancerClass": "example.com/a" },
            "status": { "loadBalancer": { "ingress": [{ "ip": "203.0.113.1" }] } },
        });
        let mut object = old.clone();
        for (field, value) in new.as_object().expect("fields") {
            object["spec"][field] = value.clone();
        }
        drop_type_dependent_fields(&mut object, &old);
        object
    }

    #[test]
    fn another_type_needs_other_fields() {
        assert_eq!(
            after(&json!({ "type": "ClusterIP" })),
            json!({ "spec": { "type": "ClusterIP" }, "status": { "loadBalancer": {} } })
        );
        let node_port = after(&json!({ "type": "NodePort" }));
        assert_eq!(node_port["spec"], json!({ "type": "NodePort", "externalTrafficPolicy": "Local" }));
        // What was changed at the same time stays, for validation to refuse.
        let changed = after(&json!({ "type": "ClusterIP", "externalTrafficPolicy": "Cluster" }));
        assert_eq!(changed["spec"]["externalTrafficPolicy"], "Cluster");
        let same = after(&json!({}));
        assert_eq!(same["spec"]["healthCheckNodePort"], 30_001);
        assert_eq!(same["status"]["loadBalancer"]["ingress"][0]["ip"], "203.0.113.1");
    }
}
