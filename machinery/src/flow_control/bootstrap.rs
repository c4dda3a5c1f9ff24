//! The objects that every cluster has from its first moment: upstream's mandatory and suggested ones.

use serde_json::{Value, json};

use super::{CATCH_ALL, EXEMPT, dangling};

/// API version of both kinds.
pub const API_VERSION: &str = "flowcontrol.apiserver.k8s.io/v1";

/// Suggested levels: name, shares, percent that is lent, queues, queues of a hand.
const LEVELS: &[(&str, u32, u32, u32, u32)] = &[
    ("global-default", 20, 50, 128, 6),
    ("leader-election", 10, 0, 16, 4),
    ("node-high", 40, 25, 64, 6),
    ("system", 30, 33, 64, 6),
    ("workload-high", 40, 50, 128, 6),
    ("workload-low", 100, 90, 128, 6),
];

const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const NODES: &str = "system:nodes";
const MANAGER: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";

fn metadata(name: &str) -> Value {
    json!({ "name": name, "annotations": { "apf.kubernetes.io/autoupdate-spec": "true" }, "generation": 1 })
}

fn level(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "PriorityLevelConfiguration", "metadata": metadata(name), "spec": spec,
        "status": {},
    })
}

/// The levels without which there is no classification.
pub fn mandatory_levels() -> [Value; 2] {
    [
        level(EXEMPT, json!({ "type": "Exempt", "exempt": { "nominalConcurrencyShares": 0, "lendablePercent": 0 } })),
        level(
            CATCH_ALL,
            json!({ "type": "Limited", "limited": {
                "nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": { "type": "Reject" },
            } }),
        ),
    ]
}

/// The schemas without which there is no classification.
pub fn mandatory_schemas() -> [Value; 2] {
    [
        schema(EXEMPT, EXEMPT, 1, "", everything(&[group("system:masters")])),
        schema(CATCH_ALL, CATCH_ALL, 10_000, "ByUser", everything(&anyone())),
    ]
}

/// All PriorityLevelConfigurations of a new cluster.
pub fn levels() -> Vec<Value> {
    let suggested = LEVELS.iter().map(|(name, shares, lendable, queues, hand)| {
        level(
            name,
            json!({ "type": "Limited", "limited": {
                "nominalConcurrencyShares": shares,
                "lendablePercent": lendable,
                "limitResponse": {
                    "type": "Queue", "queuing": { "queues": queues, "handSize": hand, "queueLengthLimit": 50 },
                },
            } }),
        )
    });
    mandatory_levels().into_iter().chain(suggested).collect()
}

/// All FlowSchemas of a new cluster.
pub fn schemas() -> Vec<Value> {
    let kube_system = || account("kube-system", "*");
    let leases = |verbs: &[&str]| resource(verbs, "coordination.k8s.io", &["leases"], false);
    let suggested = [
        schema(
            "probes",
            EXEMPT,
            2,
            "",
            json!({ "subjects": anyone(), "nonResourceRules": [paths(&["get"], &["/healthz", "/readyz", "/livez"])] }),
        ),
        schema(
            "system-leader-election",
            "leader-election",
            100,
            "ByUser",
            json!({
                "subjects": [user(MANAGER), user(SCHEDULER), kube_system()],
                "resourceRules": [leases(&["get", "create", "update"])],
            }),
        ),
        schema(
            "system-node-high",
            "node-high",
            400,
            "ByUser",
            json!({
                "subjects": [group(NODES)],
                "resourceRules": [resource(&["*"], "", &["nodes", "nodes/status"], true), leases(&["*"])],
            }),
        ),
        schema("system-nodes", "system", 500, "ByUser", everything(&[group(NODES)])),
        schema("kube-controller-manager", "workload-high", 800, "ByNamespace", everything(&[user(MANAGER)])),
        schema("kube-scheduler", "workload-high", 800, "ByNamespace", everything(&[user(SCHEDULER)])),
        schema("kube-system-service-accounts", "workload-high", 900, "ByNamespace", everything(&[kube_system()])),
        schema("service-accounts", "workload-low", 9000, "ByUser", everything(&[group("system:serviceaccounts")])),
        schema("global-default", "global-default", 9900, "ByUser", everything(&anyone())),
    ];
    mandatory_schemas().into_iter().chain(suggested).collect()
}

fn schema(name: &str, level: &str, precedence: u32, distinguisher: &str, rule: Value) -> Value {
    let mut schema = json!({
        "apiVersion": API_VERSION, "kind": "FlowSchema", "metadata": metadata(name),
        "spec": {
            "priorityLevelConfiguration": { "name": level }, "matchingPrecedence": precedence, "rules": [rule],
        },
        // The time is filled in when it is read: it is that of the cluster.
        "status": { "conditions": [dangling(level, true, "")] },
    });
    if let Some(condition) = schema["status"]["conditions"][0].as_object_mut() {
        condition.remove("lastTransitionTime");
    }
    if !distinguisher.is_empty() {
        schema["spec"]["distinguisherMethod"] = json!({ "type": distinguisher });
    }
    schema
}

fn everything(subjects: &[Value]) -> Value {
    json!({
        "subjects": subjects,
        "resourceRules": [resource(&["*"], "*", &["*"], true)],
        "nonResourceRules": [paths(&["*"], &["*"])],
    })
}

fn resource(verbs: &[&str], group: &str, resources: &[&str], cluster: bool) -> Value {
    let mut rule = json!({ "verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"] });
    if cluster {
        rule["clusterScope"] = true.into();
    }
    rule
}

fn paths(verbs: &[&str], paths: &[&str]) -> Value {
    json!({ "verbs": verbs, "nonResourceURLs": paths })
}

fn anyone() -> [Value; 2] {
    [group(UNAUTHENTICATED), group(AUTHENTICATED)]
}

fn group(name: &str) -> Value {
    json!({ "kind": "Group", "group": { "name": name } })
}

fn user(name: &str) -> Value {
    json!({ "kind": "User", "user": { "name": name } })
}

fn account(namespace: &str, name: &str) -> Value {
    json!({ "kind": "ServiceAccount", "serviceAccount": { "namespace": namespace, "name": name } })
}
