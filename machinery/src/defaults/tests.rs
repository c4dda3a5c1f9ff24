use serde_json::json;

use super::*;
use crate::selector::testing::descriptor;

fn defaulted(resource: &str, version: &str, object: Value) -> Value {
    let mut d = descriptor(resource);
    d.version = version.into();
    let mut once = object;
    apply(&d, &mut once).unwrap();
    let mut twice = once.clone();
    apply(&d, &mut twice).unwrap();
    assert_eq!(once, twice, "{resource} is not idempotent");
    once
}

#[test]
fn a_pod_is_what_kubectl_shows() {
    let pod = defaulted(
        "pods",
        "v1",
        json!({ "spec": {
            "serviceAccountName": "x",
            "containers": [{
                "name": "c", "image": "nginx",
                "ports": [{ "containerPort": 80 }],
                "resources": { "limits": { "cpu": "1" } },
                "livenessProbe": { "httpGet": { "port": 80 }, "timeoutSeconds": 0 },
            }],
            "volumes": [{ "name": "a" }, { "name": "b", "configMap": { "name": "x" } }],
        } }),
    );
    assert_eq!(
        pod,
        json!({
            "spec": {
                "serviceAccountName": "x", "serviceAccount": "x",
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
                "schedulerName": "default-scheduler", "securityContext": {}, "enableServiceLinks": true,
                "containers": [{
                    "name": "c", "image": "nginx", "imagePullPolicy": "Always",
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                    "ports": [{ "containerPort": 80, "protocol": "TCP" }],
                    "resources": { "limits": { "cpu": "1" }, "requests": { "cpu": "1" } },
                    "livenessProbe": {
                        "httpGet": { "port": 80, "path": "/", "scheme": "HTTP" },
                        "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
                    },
                }],
                "volumes": [
                    { "name": "a", "emptyDir": {} },
                    { "name": "b", "configMap": { "name": "x", "defaultMode": 420 } },
                ],
            },
            "status": { "phase": "Pending" },
        })
    );
}

#[test]
fn pull_policies_follow_the_tag() {
    for (image, policy) in [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("host:5000/nginx", "Always"),
        ("host:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:00", "IfNotPresent"),
    ] {
        let pod = defaulted("pods", "v1", json!({ "spec": { "containers": [{ "image": image }] } }));
        assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], policy, "{image}");
    }
}

#[test]
fn kinds_have_their_defaults() {
    let cases = [
        (
            "deployments.apps",
            "v1",
            json!({}),
            "/spec/strategy",
            json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" } }),
        ),
        (
            "deployments.apps",
            "v1",
            json!({ "spec": { "strategy": { "type": "Recreate" } } }),
            "/spec/strategy",
            json!({ "type": "Recreate" }),
        ),
        ("deployments.apps", "v1", json!({ "spec": { "replicas": 0 } }), "/spec/replicas", json!(0)),
        (
            "statefulsets.apps",
            "v1",
            json!({}),
            "/spec/updateStrategy",
            json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } }),
        ),
        (
            "daemonsets.apps",
            "v1",
            json!({}),
            "/spec/updateStrategy/rollingUpdate",
            json!({ "maxUnavailable": 1, "maxSurge": 0 }),
        ),
        ("jobs.batch", "v1", json!({ "spec": { "parallelism": 2 } }), "/spec/completions", Value::Null),
        ("jobs.batch", "v1", json!({}), "/spec/backoffLimit", json!(6)),
        ("cronjobs.batch", "v1", json!({}), "/spec/concurrencyPolicy", json!("Allow")),
        (
            "services",
            "v1",
            json!({ "spec": { "ports": [{ "port": 80 }] } }),
            "/spec/ports/0",
            json!({ "port": 80, "protocol": "TCP", "targetPort": 80 }),
        ),
        ("services", "v1", json!({ "spec": { "type": "ExternalName" } }), "/spec/internalTrafficPolicy", Value::Null),
        (
            "services",
            "v1",
            json!({ "spec": { "type": "LoadBalancer" } }),
            "/spec/allocateLoadBalancerNodePorts",
            json!(true),
        ),
        (
            "services",
            "v1",
            json!({ "spec": { "sessionAffinity": "ClientIP" } }),
            "/spec/sessionAffinityConfig/clientIP/timeoutSeconds",
            json!(10800),
        ),
        ("secrets", "v1", json!({}), "/type", json!("Opaque")),
        (
            "namespaces",
            "v1",
            json!({ "metadata": { "name": "x" } }),
            "/metadata/labels",
            json!({ "kubernetes.io/metadata.name": "x" }),
        ),
        (
            "networkpolicies.networking.k8s.io",
            "v1",
            json!({ "spec": { "egress": [{}] } }),
            "/spec/policyTypes",
            json!(["Ingress", "Egress"]),
        ),
        (
            "rolebindings.rbac.authorization.k8s.io",
            "v1",
            json!({ "subjects": [{ "kind": "User" }, { "kind": "ServiceAccount" }] }),
            "/subjects",
            json!([{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io" }, { "kind": "ServiceAccount" }]),
        ),
        (
            "horizontalpodautoscalers.autoscaling",
            "v2",
            json!({}),
            "/spec/metrics/0/resource/target/averageUtilization",
            json!(80),
        ),
        ("horizontalpodautoscalers.autoscaling", "v1", json!({}), "/spec/metrics", Value::Null),
        (
            "customresourcedefinitions.apiextensions.k8s.io",
            "v1",
            json!({ "spec": { "names": { "kind": "Foo" } } }),
            "/spec/names",
            json!({ "kind": "Foo", "singular": "foo", "listKind": "FooList" }),
        ),
        (
            "limitranges",
            "v1",
            json!({ "spec": { "limits": [{ "type": "Container", "max": { "cpu": "2" } }] } }),
            "/spec/limits/0/defaultRequest",
            json!({ "cpu": "2" }),
        ),
    ];
    for (resource, version, object, path, expected) in cases {
        let result = defaulted(resource, version, object);
        assert_eq!(result.pointer(path).cloned().unwrap_or_default(), expected, "{resource} {path}");
    }
}

#[test]
fn documents_of_a_wrong_shape_are_left_alone() {
    for object in
        [json!(null), json!([]), json!({ "spec": 1 }), json!({ "spec": { "containers": "x", "template": [] } })]
    {
        for resource in ["pods", "deployments.apps", "services", "jobs.batch"] {
            defaulted(resource, "v1", object.clone());
        }
    }
}
