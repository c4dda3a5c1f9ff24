mod refusals;
mod resources;

use serde_json::json;

use super::*;
use crate::{defaults, selector::testing::descriptor};

fn object(resource: &str, mut value: Value) -> Value {
    if value["metadata"].is_null() {
        value["metadata"] = json!({ "name": "x", "namespace": "default" });
    }
    defaults::apply(&descriptor(resource), &mut value).unwrap();
    value
}

fn created(resource: &str, value: Value) -> Vec<String> {
    create(&descriptor(resource), &object(resource, value)).iter().map(ToString::to_string).collect()
}

fn changed(resource: &str, old: Value, new: Value) -> Vec<String> {
    update(&descriptor(resource), "", &object(resource, new), &object(resource, old))
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn deployment() -> Value {
    json!({ "spec": {
        "selector": { "matchLabels": { "a": "b" } },
        "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } },
    } })
}

#[test]
fn what_is_right_passes() {
    let pod = json!({ "spec": {
        "containers": [{ "name": "c", "image": "i", "ports": [{ "containerPort": 80, "name": "http" }],
            "env": [{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }],
            "volumeMounts": [{ "name": "v", "mountPath": "/v" }],
            "resources": { "requests": { "cpu": "100m" }, "limits": { "cpu": 1 } },
            "readinessProbe": { "httpGet": { "port": "http" } } }],
        "volumes": [{ "name": "v" }],
    } });
    for (resource, value) in [
        ("pods", pod),
        ("deployments.apps", deployment()),
        ("services", json!({ "spec": { "ports": [{ "port": 80 }] } })),
        ("services", json!({ "spec": { "clusterIP": "None" } })),
        ("configmaps", json!({ "data": { "a.b": "c" } })),
        (
            "persistentvolumeclaims",
            json!({ "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } }),
        ),
        (
            "roles.rbac.authorization.k8s.io",
            json!({ "metadata": { "name": "system:x", "namespace": "a" }, "rules": [{ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] }] }),
        ),
    ] {
        assert_eq!(created(resource, value.clone()), Vec::<String>::new(), "{resource}");
        assert_eq!(changed(resource, value.clone(), value), Vec::<String>::new(), "{resource}");
    }
}

#[test]
fn wrong_objects_are_refused_in_upstreams_words() {
    let container = |c: Value| json!({ "spec": { "containers": [c] } });
    let cases = [
        (
            "configmaps",
            json!({ "metadata": { "name": "A", "namespace": "a" } }),
            "metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist",
        ),
        (
            "configmaps",
            json!({ "metadata": { "namespace": "a" } }),
            "metadata.name: Required value: name or generateName is required",
        ),
        (
            "configmaps",
            json!({ "metadata": { "name": "a", "namespace": "a", "labels": { "a b": "c" } } }),
            "metadata.labels: Invalid value: \"a b\": name part must consist",
        ),
        (
            "configmaps",
            json!({ "data": { "a b": "" } }),
            "data[a b]: Invalid value: \"a b\": a valid config key must consist",
        ),
        ("pods", json!({ "spec": {} }), "spec.containers: Required value"),
        ("pods", container(json!({ "name": "c" })), "spec.containers[0].image: Required value"),
        (
            "pods",
            container(json!({ "name": "C", "image": "i" })),
            "spec.containers[0].name: Invalid value: \"C\": a lowercase RFC 1123 label must",
        ),
        (
            "pods",
            container(json!({ "name": "c", "image": "i", "imagePullPolicy": "X" })),
            "spec.containers[0].imagePullPolicy: Unsupported value: \"X\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
        ),
        (
            "pods",
            container(json!({ "name": "c", "image": "i", "volumeMounts": [{ "name": "v", "mountPath": "/" }] })),
            "spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
        ),
        (
            "pods",
            container(json!({ "name": "c", "image": "i", "ports": [{ "containerPort": 70000 }] })),
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            "pods",
            container(
                json!({ "name": "c", "image": "i", "resources": { "requests": { "cpu": "2" }, "limits": { "cpu": "1" } } }),
            ),
            "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ),
        (
            "deployments.apps",
            json!({ "spec": { "template": { "spec": { "containers": [{ "name": "c", "image": "i" }] } } } }),
            "spec.selector: Required value",
        ),
        ("services", json!({ "spec": {} }), "spec.ports: Required value"),
        (
            "services",
            json!({ "spec": { "type": "X", "ports": [{ "port": 1 }] } }),
            "spec.type: Unsupported value: \"X\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
        ),
        (
            "jobs.batch",
            json!({ "spec": { "selector": {}, "template": { "spec": { "containers": [{ "name": "c", "image": "i" }] } } } }),
            "spec.template.spec.restartPolicy: Unsupported value: \"Always\": supported values: \"OnFailure\", \"Never\"",
        ),
        (
            "persistentvolumeclaims",
            json!({ "spec": {} }),
            "spec.accessModes: Required value: at least 1 access mode is required",
        ),
    ];
    for (resource, value, expected) in cases {
        let errors = created(resource, value.clone());
        assert!(errors.iter().any(|e| e.starts_with(expected)), "{resource} {value}: {errors:#?}");
    }
    let mut wrong = deployment();
    wrong["spec"]["template"]["metadata"]["labels"] = json!({ "a": "c" });
    assert_eq!(
        created("deployments.apps", wrong),
        ["spec.template.metadata.labels: Invalid value: {\"a\":\"c\"}: `selector` does not match template `labels`"]
    );
}

#[test]
fn what_is_immutable_stays() {
    let mut new = deployment();
    new["spec"]["selector"] = json!({ "matchLabels": { "a": "c" } });
    new["spec"]["template"]["metadata"]["labels"] = json!({ "a": "c" });
    assert_eq!(
        changed("deployments.apps", deployment(), new),
        ["spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable"]
    );
    let pod = |image: &str, node: &str| json!({ "spec": { "nodeName": node, "containers": [{ "name": "c", "image": image, "imagePullPolicy": "Always" }] } });
    assert_eq!(changed("pods", pod("a", "n"), pod("b", "n")), Vec::<String>::new());
    assert!(
        changed("pods", pod("a", "n"), pod("a", "m"))[0]
            .starts_with("spec: Forbidden: pod updates may not change fields")
    );
    let frozen = |v: &str| json!({ "immutable": true, "data": { "a": v } });
    assert_eq!(
        changed("configmaps", frozen("1"), frozen("2")),
        ["data: Forbidden: field is immutable when `immutable` is set"]
    );
    let role = |n: &str| json!({ "roleRef": { "kind": "Role", "name": n } });
    assert!(
        changed("rolebindings.rbac.authorization.k8s.io", role("a"), role("b"))[0].contains("cannot change roleRef")
    );
}

#[test]
fn finalizers_cannot_be_added_while_an_object_goes() {
    let going = |f: Value| json!({ "metadata": { "name": "x", "namespace": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": f } });
    assert_eq!(
        changed("configmaps", going(json!(["a/b"])), going(json!(["a/b", "c/d"]))),
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"c/d\"}"
        ]
    );
    assert_eq!(changed("configmaps", going(json!(["a/b"])), going(json!([]))), Vec::<String>::new());
}

#[test]
fn schedules_and_zones_are_read() {
    let cron = |schedule: &str, zone: Value| {
        created(
            "cronjobs.batch",
            json!({ "spec": { "schedule": schedule, "timeZone": zone, "jobTemplate": { "spec": { "template": {
            "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } } } } } }),
        )
    };
    assert_eq!(cron("*/5 9-17 * * MON-FRI", json!("Europe/Berlin")), [""; 0]);
    assert_eq!(
        cron("0 25 * * *", json!("Mars/Olympus")),
        [
            "spec.schedule: Invalid value: \"0 25 * * *\": end of range (25) above maximum (23): 25",
            "spec.timeZone: Invalid value: \"Mars/Olympus\": unknown time zone Mars/Olympus",
        ]
    );
}

#[test]
fn containers_of_a_stateful_set_mount_its_claims() {
    let set = json!({ "spec": { "serviceName": "s", "selector": { "matchLabels": { "a": "b" } },
        "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [
            { "name": "c", "image": "i", "volumeMounts": [{ "name": "data", "mountPath": "/data" }] }] } },
        "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {} }] } });
    assert_eq!(created("statefulsets.apps", set), [""; 0]);
}
