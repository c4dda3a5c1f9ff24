//! What every virtual cluster contains from its first moment.
//!
//! Roles, bindings and priority classes are constants: serialized once per process, shared by all clusters.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use serde_json::{Value, json};
use vctl_machinery::status::ApiError;
use vctl_store::{Expect, Key, Write};

use crate::{
    authorization::rules::{Rule, compile},
    config::{Config, KUBERNETES_IP, SERVICE_RANGE},
    controllers::cluster_role::aggregated,
    document, fairness,
    keys::{self, KeysDocument},
};

const RBAC: &str = "rbac.authorization.k8s.io";
/// Namespaces that are there from the start and cannot be deleted (kube-node-lease can).
pub(crate) const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The constant documents, with the compiled rules of the roles among them.
pub(crate) struct Constants {
    documents: Vec<(Key, Bytes)>,
    rules: HashMap<Bytes, Arc<[Rule]>>,
}

/// The constant documents.
pub(crate) fn constants() -> &'static Constants {
    static CONSTANTS: OnceLock<Constants> = OnceLock::new();
    CONSTANTS.get_or_init(|| {
        let mut objects = cluster_roles(include_str!("bootstrap/roles.txt"));
        objects.extend(roles());
        objects.extend(cluster_role_bindings());
        objects.extend(role_bindings());
        objects.extend(priority_classes());
        objects.extend(flow_control());
        let mut rules: HashMap<Bytes, Arc<[Rule]>> = HashMap::new();
        let documents = objects
            .into_iter()
            .map(|(key, object)| {
                let bytes = Bytes::from(object.to_string());
                if matches!(
                    &*key.resource,
                    "clusterroles.rbac.authorization.k8s.io" | "roles.rbac.authorization.k8s.io"
                ) {
                    rules.insert(bytes.clone(), compile(&object["rules"]));
                }
                (key, bytes)
            })
            .collect();
        Constants { documents, rules }
    })
}

impl Constants {
    /// The compiled rules of a role that is unchanged since bootstrap.
    pub(crate) fn rules(&self, document: &Bytes) -> Option<Arc<[Rule]>> {
        self.rules.get(document).cloned()
    }
}

/// All first documents of a virtual cluster, with the Nodes given.
pub(crate) fn documents(keys: &KeysDocument, config: &Config, nodes: Vec<Value>) -> Result<Vec<Write>, ApiError> {
    let mut writes = vec![write(keys::key(), Bytes::from(serde_json::to_vec(keys).map_err(ApiError::internal)?))];
    writes.extend(constants().documents.iter().map(|(key, bytes)| write(key.clone(), bytes.clone())));
    let created = keys.created.as_str();
    let nodes = nodes.into_iter().map(|node| ("nodes", "", node));
    for (resource, namespace, mut object) in own_objects(keys, config).into_iter().chain(nodes) {
        object["metadata"]["uid"] = uuid::Uuid::new_v4().to_string().into();
        object["metadata"]["creationTimestamp"] = created.into();
        let name = document::meta(&object, "name").to_owned();
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = namespace.into();
        }
        writes.push(write(Key::new(resource, namespace, &name), document::encode(&object)?));
    }
    Ok(writes)
}

fn write(key: Key, value: Bytes) -> Write {
    Write { key, expect: Expect::Absent, value: Some(value) }
}

/// Objects with something of the cluster in them.
fn own_objects(keys: &KeysDocument, config: &Config) -> Vec<(&'static str, &'static str, Value)> {
    let mut objects = Vec::new();
    for name in NAMESPACES {
        objects.push((
            "namespaces",
            "",
            json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": { "name": name, "labels": { "kubernetes.io/metadata.name": name } },
                "spec": { "finalizers": ["kubernetes"] }, "status": { "phase": "Active" },
            }),
        ));
        objects.push((
            "serviceaccounts",
            name,
            json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" } }),
        ));
        objects.push(("configmaps", name, root_ca(&config.server_ca_pem)));
    }
    objects.push((
        "configmaps",
        "kube-system",
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "extension-apiserver-authentication" },
            "data": authentication(keys),
        }),
    ));
    objects.push(("servicecidrs.networking.k8s.io", "", json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": { "name": "kubernetes", "finalizers": ["networking.k8s.io/service-cidr-finalizer"], "generation": 1 },
        "spec": { "cidrs": [SERVICE_RANGE] },
        "status": { "conditions": [{
            "type": "Ready", "status": "True", "reason": "", "message": "Kubernetes Service CIDR is ready",
            "lastTransitionTime": keys.created,
        }] },
    })));
    objects.push((
        "ipaddresses.networking.k8s.io",
        "",
        crate::admission::service::ip_address(KUBERNETES_IP, "default", "kubernetes"),
    ));
    let labels = json!({ "component": "apiserver", "provider": "kubernetes" });
    objects.push((
        "services",
        "default",
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "kubernetes", "labels": labels },
            "spec": {
                "clusterIP": KUBERNETES_IP, "clusterIPs": [KUBERNETES_IP], "internalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "type": "ClusterIP",
                "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": config.advertise_port }],
            },
            "status": { "loadBalancer": {} },
        }),
    ));
    let address = config.advertise_address.to_string();
    objects.push((
        "endpoints",
        "default",
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": { "name": "kubernetes", "labels": { "endpointslice.kubernetes.io/skip-mirror": "true" } },
            "subsets": [{
                "addresses": [{ "ip": address }],
                "ports": [{ "name": "https", "port": config.advertise_port, "protocol": "TCP" }],
            }],
        }),
    ));
    objects.push(("endpointslices.discovery.k8s.io", "default", json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": if config.advertise_address.is_ipv4() { "IPv4" } else { "IPv6" },
        "metadata": { "name": "kubernetes", "generation": 1, "labels": { "kubernetes.io/service-name": "kubernetes" } },
        "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
        "ports": [{ "name": "https", "port": config.advertise_port, "protocol": "TCP" }],
    })));
    objects
}

/// Whom servers in the cluster are to believe.
fn authentication(keys: &KeysDocument) -> Value {
    let mut data = json!({ "client-ca-file": keys.client_ca_certificate });
    if let Some(proxy) = &keys.front_proxy {
        proxy.describe(&mut data);
    }
    data
}

/// ConfigMap kube-root-ca.crt, without a namespace.
pub(crate) fn root_ca(server_ca_pem: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "kube-root-ca.crt",
            "annotations": { "kubernetes.io/description":
                "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal \
                 service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters." },
        },
        "data": { "ca.crt": server_ca_pem },
    })
}

fn bootstrap_metadata(name: &str) -> Value {
    json!({
        "name": name,
        "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
        "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
    })
}

fn words(list: &str) -> Vec<String> {
    let mut out = Vec::new();
    for word in list.split(',') {
        match word {
            "read" => out.extend(["get", "list", "watch"].map(String::from)),
            "write" => out.extend(["create", "delete", "deletecollection", "patch", "update"].map(String::from)),
            "-" => out.push(String::new()),
            _ => out.push(word.to_owned()),
        }
    }
    out.sort();
    out
}

/// One rule of the table.
fn rule(line: &str) -> Value {
    let mut columns = line.split_whitespace();
    let mut next = || words(columns.next().unwrap_or_default());
    let (verbs, groups) = (next(), next());
    if groups == ["@"] {
        return json!({ "nonResourceURLs": next(), "verbs": verbs });
    }
    let (resources, names) = (next(), next());
    let mut rule = json!({ "apiGroups": groups, "resources": resources, "verbs": verbs });
    if names != [""] {
        rule["resourceNames"] = names.into();
    }
    rule
}

fn cluster_roles(table: &str) -> Vec<(Key, Value)> {
    let label = |to: &str| format!("rbac.authorization.k8s.io/aggregate-to-{to}");
    let mut roles: Vec<Value> = Vec::new();
    for line in table.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        if !line.starts_with('[') {
            if let Some(rules) = roles.last_mut().and_then(|r| r["rules"].as_array_mut()) {
                rules.push(rule(line));
            }
            continue;
        }
        let mut columns = line.split_whitespace();
        let name = columns.next().unwrap_or_default().trim_matches(['[', ']']);
        let mut role = json!({ "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": bootstrap_metadata(name), "rules": [] });
        for column in columns {
            if let Some(to) = column.strip_prefix('+') {
                role["metadata"]["labels"][label(to)] = "true".into();
            } else {
                let from = label(column.trim_matches(['{', '}']));
                role["aggregationRule"] = json!({ "clusterRoleSelectors": [{ "matchLabels": { from: "true" } }] });
            }
        }
        roles.push(role);
    }
    aggregate(&mut roles);
    roles.into_iter().map(|role| keyed("clusterroles", "", role)).collect()
}

/// Fills in the rules of aggregated roles, as the aggregation controller does; `view` first, since `edit` takes from it.
fn aggregate(roles: &mut [Value]) {
    for target in ["view", "edit", "admin"] {
        let Some(at) = roles.iter().position(|r| r["metadata"]["name"] == target) else { continue };
        if let Some(rules) = aggregated(&roles[at], roles) {
            roles[at]["rules"] = rules.into();
        }
    }
}

fn keyed(plural: &str, namespace: &str, mut object: Value) -> (Key, Value) {
    let name = document::meta(&object, "name").to_owned();
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    (Key::new(&format!("{plural}.{RBAC}"), namespace, &name), object)
}

fn user(name: &str) -> Value {
    json!({ "apiGroup": RBAC, "kind": "User", "name": name })
}

fn group(name: &str) -> Value {
    json!({ "apiGroup": RBAC, "kind": "Group", "name": name })
}

fn service_account(namespace: &str, name: &str) -> Value {
    json!({ "kind": "ServiceAccount", "name": name, "namespace": namespace })
}

fn cluster_role_bindings() -> Vec<(Key, Value)> {
    let authenticated = || group("system:authenticated");
    let mut bindings = vec![
        ("cluster-admin".to_owned(), vec![group("system:masters")]),
        ("system:monitoring".to_owned(), vec![group("system:monitoring")]),
        ("system:discovery".to_owned(), vec![authenticated()]),
        ("system:basic-user".to_owned(), vec![authenticated()]),
        ("system:public-info-viewer".to_owned(), vec![authenticated(), group("system:unauthenticated")]),
        ("system:node-proxier".to_owned(), vec![user("system:kube-proxy")]),
        ("system:kube-controller-manager".to_owned(), vec![user("system:kube-controller-manager")]),
        ("system:kube-dns".to_owned(), vec![service_account("kube-system", "kube-dns")]),
        ("system:kube-scheduler".to_owned(), vec![user("system:kube-scheduler")]),
        ("system:volume-scheduler".to_owned(), vec![user("system:kube-scheduler")]),
        ("system:service-account-issuer-discovery".to_owned(), vec![group("system:serviceaccounts")]),
        ("system:node".to_owned(), vec![]),
    ];
    for line in include_str!("bootstrap/roles.txt").lines() {
        if let Some(name) = line.strip_prefix("[system:controller:") {
            let name = name.trim_end_matches(']');
            bindings.push((format!("system:controller:{name}"), vec![service_account("kube-system", name)]));
        }
    }
    bindings
        .into_iter()
        .map(|(name, subjects)| {
            let mut binding = json!({
                "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": bootstrap_metadata(&name),
                "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": name },
            });
            if !subjects.is_empty() {
                binding["subjects"] = subjects.into();
            }
            keyed("clusterrolebindings", "", binding)
        })
        .collect()
}

/// Roles in kube-system and kube-public: namespace, name, rules, subjects of the binding of the same name.
fn namespaced() -> Vec<(&'static str, &'static str, Vec<&'static str>, Vec<Value>)> {
    let (manager, scheduler) = (user("system:kube-controller-manager"), user("system:kube-scheduler"));
    let controller = |name: &str| service_account("kube-system", name);
    vec![
        (
            "kube-system",
            "extension-apiserver-authentication-reader",
            vec!["read - configmaps extension-apiserver-authentication"],
            vec![manager.clone(), scheduler.clone()],
        ),
        (
            "kube-system",
            "system:controller:bootstrap-signer",
            vec!["read - secrets"],
            vec![controller("bootstrap-signer")],
        ),
        (
            "kube-system",
            "system:controller:cloud-provider",
            vec!["create,get,list,update,watch - configmaps"],
            vec![controller("cloud-provider")],
        ),
        (
            "kube-system",
            "system:controller:token-cleaner",
            vec!["delete,get,list,watch - secrets", "create,patch,update -,events.k8s.io events"],
            vec![controller("token-cleaner")],
        ),
        (
            "kube-system",
            "system::leader-locking-kube-controller-manager",
            vec!["watch - configmaps", "get,update - configmaps kube-controller-manager"],
            vec![manager, controller("kube-controller-manager")],
        ),
        (
            "kube-system",
            "system::leader-locking-kube-scheduler",
            vec!["watch - configmaps", "get,update - configmaps kube-scheduler"],
            vec![scheduler, controller("kube-scheduler")],
        ),
        (
            "kube-public",
            "system:controller:bootstrap-signer",
            vec!["read - configmaps", "update - configmaps cluster-info", "create,patch,update -,events.k8s.io events"],
            vec![controller("bootstrap-signer")],
        ),
    ]
}

fn roles() -> Vec<(Key, Value)> {
    namespaced()
        .into_iter()
        .map(|(namespace, name, rules, _)| {
            let rules: Vec<Value> = rules.into_iter().map(rule).collect();
            let role = json!({ "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": bootstrap_metadata(name), "rules": rules });
            keyed("roles", namespace, role)
        })
        .collect()
}

fn role_bindings() -> Vec<(Key, Value)> {
    namespaced()
        .into_iter()
        .map(|(namespace, role, _, subjects)| {
            let name = if role == "extension-apiserver-authentication-reader" {
                "system::extension-apiserver-authentication-reader"
            } else {
                role
            };
            let binding = json!({
                "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": bootstrap_metadata(name),
                "roleRef": { "apiGroup": RBAC, "kind": "Role", "name": role }, "subjects": subjects,
            });
            keyed("rolebindings", namespace, binding)
        })
        .collect()
}

fn priority_classes() -> Vec<(Key, Value)> {
    [
        ("system-cluster-critical", 2_000_000_000, "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."),
        ("system-node-critical", 2_000_001_000, "Used for system critical pods that must not be moved from their current node."),
    ]
    .into_iter()
    .map(|(name, value, description)| {
        (Key::new("priorityclasses.scheduling.k8s.io", "", name), json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name, "generation": 1 },
            "description": description, "preemptionPolicy": "PreemptLowerPriority", "value": value,
        }))
    })
    .collect()
}

fn flow_control() -> Vec<(Key, Value)> {
    use vctl_machinery::flow_control::bootstrap;
    let of = |resource: &str, objects: Vec<Value>| -> Vec<(Key, Value)> {
        objects.into_iter().map(|object| (Key::new(resource, "", document::meta(&object, "name")), object)).collect()
    };
    [of(fairness::SCHEMAS, bootstrap::schemas()), of(fairness::LEVELS, bootstrap::levels())].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_has_rules_and_every_binding_a_role() {
        let documents: HashMap<_, Value> =
            constants().documents.iter().map(|(k, v)| (k.clone(), serde_json::from_slice(v).unwrap())).collect();
        for (key, object) in &documents {
            if object["kind"] == "ClusterRole" || object["kind"] == "Role" {
                assert!(object["rules"].as_array().is_some_and(|r| !r.is_empty()), "{key:?}");
            }
            if let Some(role) = object.get("roleRef") {
                let (plural, namespace) =
                    if role["kind"] == "Role" { ("roles", &*key.namespace) } else { ("clusterroles", "") };
                let role = Key::new(&format!("{plural}.{RBAC}"), namespace, role["name"].as_str().unwrap());
                assert!(documents.contains_key(&role), "{role:?}");
            }
        }
        assert!(documents.len() > 120);
    }
}
