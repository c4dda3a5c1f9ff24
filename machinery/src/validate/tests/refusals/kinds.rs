//! Kinds other than pods.

use serde_json::{Value, json};

use super::{super::changed, check};

#[test]
fn services() {
    let service = |mut spec: Value| {
        if spec["ports"].is_null() {
            spec["ports"] = json!([{ "port": 80 }]);
        }
        json!({ "spec": spec })
    };
    check(
        "services",
        &[
            (service(json!({ "type": "LoadBalancer", "externalTrafficPolicy": "Local" })), ""),
            (
                service(json!({ "externalTrafficPolicy": "Local" })),
                "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services",
            ),
            (
                service(json!({ "healthCheckNodePort": 30_001 })),
                "spec.healthCheckNodePort: Invalid value: 30001: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
            ),
            (
                service(json!({ "loadBalancerSourceRanges": ["10.0.0.0/8"] })),
                "spec.loadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'",
            ),
            (
                service(json!({ "type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0"] })),
                "spec.loadBalancerSourceRanges[0]: Invalid value: \"10.0.0.0\": must be a valid CIDR value",
            ),
            (
                service(json!({ "allocateLoadBalancerNodePorts": false })),
                "spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'",
            ),
            (
                service(
                    json!({ "sessionAffinity": "ClientIP", "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 90_000 } } }),
                ),
                "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 90000: must be greater than 0 and less than 86400",
            ),
            (
                service(json!({ "externalIPs": ["127.0.0.1"] })),
                "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
            ),
            (
                service(json!({ "internalTrafficPolicy": "X" })),
                "spec.internalTrafficPolicy: Unsupported value: \"X\": supported values: \"Cluster\", \"Local\"",
            ),
            (
                service(json!({ "ipFamilyPolicy": "RequireDualStack" })),
                "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
            ),
            (
                service(json!({ "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.8"] })),
                "spec.clusterIPs: Invalid value: [\"10.96.0.8\"]: first value must match `clusterIP`",
            ),
            (
                service(json!({ "type": "ExternalName", "externalName": "a.b", "ipFamilyPolicy": "SingleStack" })),
                "spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services",
            ),
        ],
    );
    let balanced = |class: &str| service(json!({ "type": "LoadBalancer", "loadBalancerClass": class }));
    assert_eq!(
        changed("services", balanced("a/b"), balanced("a/c")),
        ["spec.loadBalancerClass: Invalid value: \"a/c\": may not change once set"]
    );
}

#[test]
fn networks() {
    let ingress = |path: Value| json!({ "spec": { "rules": [{ "http": { "paths": [path] } }] } });
    let backend = json!({ "service": { "name": "s", "port": { "number": 80 } } });
    check(
        "ingresses.networking.k8s.io",
        &[
            (ingress(json!({ "path": "/", "pathType": "Prefix", "backend": backend })), ""),
            (
                ingress(json!({ "path": "/a//b", "pathType": "Exact", "backend": backend })),
                "spec.rules[0].http.paths[0].path: Invalid value: \"/a//b\": must not contain '//'",
            ),
            (
                ingress(json!({ "path": "/", "pathType": "Exact", "backend": { "service": { "name": "s" } } })),
                "spec.rules[0].http.paths[0].backend.service.port: Required value: port name or number is required",
            ),
            (
                ingress(
                    json!({ "path": "/", "pathType": "Exact", "backend": { "service": { "name": "s", "port": { "name": "a", "number": 1 } } } }),
                ),
                "spec.rules[0].http.paths[0].backend.service.port: Invalid value: \"\": cannot set both port name & port number",
            ),
            (
                json!({ "spec": { "defaultBackend": { "service": { "name": "s", "port": { "number": 1 } }, "resource": { "kind": "K", "name": "n" } } } }),
                "spec.defaultBackend: Invalid value: \"\": cannot set both resource and service backends",
            ),
            (
                json!({ "spec": { "defaultBackend": backend, "tls": [{ "hosts": ["A"] }] } }),
                "spec.tls[0].hosts[0]: Invalid value: \"A\": a lowercase RFC 1123 subdomain",
            ),
        ],
    );
    let ingress_rule = |rule: Value| json!({ "spec": { "podSelector": {}, "ingress": [rule] } });
    let block = |block: Value| ingress_rule(json!({ "from": [{ "ipBlock": block }] }));
    check(
        "networkpolicies.networking.k8s.io",
        &[
            (block(json!({ "cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"] })), ""),
            (
                block(json!({ "cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"] })),
                "spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
            ),
            (
                block(json!({ "cidr": "10.0.0.0/8", "except": ["10.0.0.0/8"] })),
                "spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`",
            ),
            (
                block(json!({ "cidr": "x" })),
                "spec.ingress[0].from[0].ipBlock.cidr: Invalid value: \"x\": must be a valid CIDR value",
            ),
            (
                ingress_rule(json!({ "ports": [{ "port": 80, "endPort": 79 }] })),
                "spec.ingress[0].ports[0].endPort: Invalid value: 79: must be greater than or equal to `port`: 80",
            ),
            (
                ingress_rule(json!({ "ports": [{ "endPort": 79 }] })),
                "spec.ingress[0].ports[0].endPort: Invalid value: 79: may not be specified when `port` is not specified",
            ),
            (ingress_rule(json!({ "from": [{}] })), "spec.ingress[0].from[0]: Required value: must specify a peer"),
        ],
    );
    check(
        "endpointslices.discovery.k8s.io",
        &[
            (
                json!({ "addressType": "IPv4", "endpoints": [{ "addresses": [] }] }),
                "endpoints[0].addresses: Required value: must contain at least 1 address",
            ),
            (
                json!({ "addressType": "IPv4", "endpoints": [{ "addresses": ["::1"] }] }),
                "endpoints[0].addresses[0]: Invalid value: \"::1\": must be a valid IPv4 address",
            ),
            (
                json!({ "addressType": "IPv4", "endpoints": [{ "addresses": ["127.0.0.1"] }] }),
                "endpoints[0].addresses[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range",
            ),
            (
                json!({ "addressType": "IPv4", "endpoints": [], "ports": [{ "name": "a", "protocol": "TCP" }, { "name": "a", "protocol": "TCP" }] }),
                "ports[1].name: Duplicate value: \"a\"",
            ),
        ],
    );
}

#[test]
fn autoscalers() {
    let hpa = |metrics: Value, behavior: Value| json!({ "spec": { "maxReplicas": 3, "scaleTargetRef": { "kind": "Deployment", "name": "d" }, "metrics": metrics, "behavior": behavior } });
    let cpu = |target: Value| {
        hpa(json!([{ "type": "Resource", "resource": { "name": "cpu", "target": target } }]), Value::Null)
    };
    check(
        "horizontalpodautoscalers.autoscaling",
        &[
            (cpu(json!({ "type": "Utilization", "averageUtilization": 50 })), ""),
            (
                cpu(json!({ "type": "Utilization" })),
                "spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization",
            ),
            (
                cpu(json!({ "type": "Utilization", "averageUtilization": 50, "averageValue": "1" })),
                "spec.metrics[0].resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization",
            ),
            (
                hpa(json!([{ "type": "Pods" }]), Value::Null),
                "spec.metrics[0].pods: Required value: must populate information for the given metric source",
            ),
            (
                hpa(json!([{ "type": "X" }]), Value::Null),
                "spec.metrics[0].type: Unsupported value: \"X\": supported values: \"ContainerResource\", \"External\", \"Object\", \"Pods\", \"Resource\"",
            ),
            (
                hpa(
                    Value::Null,
                    json!({ "scaleDown": { "stabilizationWindowSeconds": 4000, "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 1 }] } }),
                ),
                "spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: 4000: must be less than or equal to 3600",
            ),
            (
                hpa(
                    Value::Null,
                    json!({ "scaleUp": { "policies": [{ "type": "Pods", "value": 0, "periodSeconds": 1 }] } }),
                ),
                "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
            ),
        ],
    );
}

#[test]
fn storage() {
    let pv = |mut spec: Value| {
        for (field, value) in [("capacity", json!({ "storage": "1Gi" })), ("accessModes", json!(["ReadWriteOnce"]))] {
            if spec[field].is_null() {
                spec[field] = value;
            }
        }
        json!({ "spec": spec })
    };
    check(
        "persistentvolumes",
        &[
            (pv(json!({ "hostPath": { "path": "/a" } })), ""),
            (pv(json!({})), "spec: Required value: must specify a volume type"),
            (pv(json!({ "csi": { "driver": "d" } })), "spec.csi.volumeHandle: Required value"),
            (
                pv(json!({ "hostPath": { "path": "/a" }, "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"] })),
                "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
            ),
            (
                pv(json!({ "hostPath": { "path": "/a" }, "nodeAffinity": {} })),
                "spec.nodeAffinity.required: Required value: must specify required node constraints",
            ),
        ],
    );
    let claim = |size: &str| json!({ "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": size } } } });
    check(
        "persistentvolumeclaims",
        &[(claim("0"), "spec.resources[storage]: Invalid value: \"0\": must be greater than zero"), (claim("1Gi"), "")],
    );
    let attachment = |source: Value| json!({ "spec": { "attacher": "a", "nodeName": "n", "source": source } });
    check(
        "volumeattachments.storage.k8s.io",
        &[
            (
                attachment(json!({})),
                "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
            ),
            (attachment(json!({ "persistentVolumeName": "p" })), ""),
        ],
    );
}

#[test]
fn quotas_limits_nodes_and_events() {
    let quota = |hard: Value, scopes: Value| json!({ "spec": { "hard": hard, "scopes": scopes } });
    check(
        "resourcequotas",
        &[
            (quota(json!({ "pods": "5", "count/jobs.batch": "3", "requests.nvidia.com/gpu": "1" }), Value::Null), ""),
            (
                quota(json!({ "gadgets": "5" }), Value::Null),
                "spec.hard[gadgets]: Invalid value: \"gadgets\": must be a standard resource for quotas",
            ),
            (
                quota(json!({ "pods": "500m" }), Value::Null),
                "spec.hard[pods]: Invalid value: \"500m\": must be an integer",
            ),
            (quota(json!({ "pods": "5" }), json!(["X"])), "spec.scopes: Invalid value: [\"X\"]: unsupported scope"),
            (
                quota(json!({ "services": "5" }), json!(["BestEffort"])),
                "spec.scopes: Invalid value: [\"BestEffort\"]: unsupported scope applied to resource",
            ),
            (
                quota(json!({ "pods": "5" }), json!(["BestEffort", "NotBestEffort"])),
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: conflicting scopes",
            ),
        ],
    );
    let limits = |limit: Value| json!({ "spec": { "limits": [limit] } });
    check(
        "limitranges",
        &[
            (
                limits(json!({ "type": "X" })),
                "spec.limits[0].type: Invalid value: \"X\": must be a standard limit type or fully qualified",
            ),
            (
                limits(json!({ "type": "Pod", "default": { "cpu": "1" } })),
                "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
            ),
            (
                limits(json!({ "type": "Container", "maxLimitRequestRatio": { "cpu": "500m" } })),
                "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"500m\": ratio 500m is less than 1",
            ),
        ],
    );
    let taint = |taint: Value| json!({ "spec": { "taints": [taint] } });
    check(
        "nodes",
        &[
            (taint(json!({ "key": "a", "effect": "NoSchedule" })), ""),
            (
                taint(json!({ "key": "a", "effect": "X" })),
                "spec.taints[0].effect: Unsupported value: \"X\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
            ),
            (taint(json!({ "key": "a" })), "spec.taints[0].effect: Required value"),
        ],
    );
    let node = |cidr: &str| json!({ "spec": { "podCIDR": cidr } });
    assert_eq!(
        changed("nodes", node("10.0.0.0/24"), node("10.0.1.0/24")),
        ["spec.podCIDR: Forbidden: node updates may not change podCIDR except from \"\" to valid"]
    );
    check(
        "events",
        &[
            (
                json!({ "metadata": { "name": "e", "namespace": "a" }, "involvedObject": { "namespace": "b" } }),
                "involvedObject.namespace: Invalid value: \"b\": does not match event.namespace",
            ),
            (json!({ "metadata": { "name": "e", "namespace": "default" }, "involvedObject": { "kind": "Node" } }), ""),
        ],
    );
    check(
        "events.events.k8s.io",
        &[
            (
                json!({ "metadata": { "name": "e", "namespace": "a" }, "regarding": { "namespace": "a" } }),
                "eventTime: Required value",
            ),
            (
                json!({ "metadata": { "name": "e", "namespace": "a" }, "regarding": { "namespace": "a" }, "type": "Odd" }),
                "type: Invalid value: \"\": has invalid value: Odd",
            ),
        ],
    );
}

#[test]
fn workloads() {
    let template =
        json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    let daemons = |rolling: Value| {
        json!({ "spec": { "selector": { "matchLabels": { "a": "b" } }, "template": template,
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": rolling } } })
    };
    check(
        "daemonsets.apps",
        &[
            (
                daemons(json!({ "maxUnavailable": 1, "maxSurge": 1 })),
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is set",
            ),
            (
                daemons(json!({ "maxUnavailable": 0 })),
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
            ),
        ],
    );
    let job = |restart: &str, policy: Value| {
        json!({ "spec": { "selector": {}, "podFailurePolicy": policy,
            "template": { "spec": { "restartPolicy": restart, "containers": [{ "name": "c", "image": "i" }] } } } })
    };
    let exits = |values: Value| json!({ "rules": [{ "action": "FailJob", "onExitCodes": { "operator": "In", "values": values } }] });
    check(
        "jobs.batch",
        &[
            (job("Never", exits(json!([3]))), ""),
            (
                job("OnFailure", exits(json!([3]))),
                "spec.template.spec.restartPolicy: Invalid value: \"OnFailure\": only \"Never\" is supported when podFailurePolicy is specified",
            ),
            (
                job("Never", exits(json!([0]))),
                "spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
            ),
            (
                job("Never", json!({ "rules": [{ "action": "Ignore" }] })),
                "spec.podFailurePolicy.rules[0]: Invalid value: ",
            ),
        ],
    );
    check(
        "poddisruptionbudgets.policy",
        &[
            (
                json!({ "spec": { "minAvailable": "half" } }),
                "spec.minAvailable: Invalid value: \"half\": a valid percent string must be",
            ),
            (
                json!({ "spec": { "minAvailable": 1, "unhealthyPodEvictionPolicy": "X" } }),
                "spec.unhealthyPodEvictionPolicy: Unsupported value: \"X\": supported values: \"AlwaysAllow\", \"IfHealthyBudget\"",
            ),
        ],
    );
}
