//! One refusal a line: what is wrong, and what upstream's validation says of it.

use serde_json::{Value, json};

use super::{changed, created};

fn pod(mut spec: Value) -> Value {
    if spec["containers"].is_null() {
        spec["containers"] = json!([{ "name": "c", "image": "i" }]);
    }
    json!({ "spec": spec })
}

fn container(mut container: Value) -> Value {
    container["name"] = "c".into();
    container["image"] = "i".into();
    pod(json!({ "containers": [container] }))
}

fn volume(source: Value) -> Value {
    let mut source = source;
    source["name"] = "v".into();
    pod(json!({ "volumes": [source] }))
}

fn check(resource: &str, cases: &[(Value, &str)]) {
    for (object, expected) in cases {
        let errors = created(resource, object.clone());
        if expected.is_empty() {
            assert_eq!(errors, Vec::<String>::new(), "{resource} {object}");
        } else {
            assert!(errors.iter().any(|e| e.starts_with(expected)), "{resource} {object}: {errors:#?}");
        }
    }
}

#[test]
fn volumes() {
    let items = |path: &str| json!({ "configMap": { "name": "m", "items": [{ "key": "k", "path": path }] } });
    let downward = |item: Value| json!({ "downwardAPI": { "items": [item] } });
    check(
        "pods",
        &[
            (
                volume(json!({ "hostPath": { "path": "/a/../b" } })),
                "spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
            ),
            (
                volume(json!({ "hostPath": { "path": "/a", "type": "X" } })),
                "spec.volumes[0].hostPath.type: Unsupported value: \"X\": supported values: \"\", \"BlockDevice\", ",
            ),
            (volume(json!({ "secret": {} })), "spec.volumes[0].secret.secretName: Required value"),
            (
                volume(json!({ "secret": { "secretName": "s", "defaultMode": 512 } })),
                "spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
            ),
            (
                volume(items("/x")),
                "spec.volumes[0].configMap.items[0].path: Invalid value: \"/x\": must be a relative path",
            ),
            (
                volume(items("../x")),
                "spec.volumes[0].configMap.items[0].path: Invalid value: \"../x\": must not contain '..'",
            ),
            (
                volume(items("..x")),
                "spec.volumes[0].configMap.items[0].path: Invalid value: \"..x\": must not start with '..'",
            ),
            (volume(json!({ "configMap": {} })), "spec.volumes[0].configMap.name: Required value"),
            (
                volume(json!({ "nfs": { "server": "s", "path": "p" } })),
                "spec.volumes[0].nfs.path: Invalid value: \"p\": must be an absolute path",
            ),
            (
                volume(json!({ "persistentVolumeClaim": {} })),
                "spec.volumes[0].persistentVolumeClaim.claimName: Required value",
            ),
            (volume(json!({ "csi": {} })), "spec.volumes[0].csi.driver: Required value"),
            (
                volume(downward(json!({ "path": "p" }))),
                "spec.volumes[0].downwardAPI.items[0]: Required value: one of fieldRef and resourceFieldRef is required",
            ),
            (
                volume(downward(json!({ "path": "p", "fieldRef": { "fieldPath": "spec.nodeName" } }))),
                "spec.volumes[0].downwardAPI.items[0].fieldRef.fieldPath: Unsupported value: \"spec.nodeName\": supported values: \"metadata.annotations\", ",
            ),
            (
                volume(downward(json!({ "path": "p", "resourceFieldRef": { "resource": "limits.cpu" } }))),
                "spec.volumes[0].downwardAPI.items[0].resourceFieldRef.containerName: Required value",
            ),
            (volume(downward(json!({ "path": "p", "fieldRef": { "fieldPath": "metadata.labels['a/b']" } }))), ""),
            (
                volume(
                    json!({ "projected": { "sources": [{ "serviceAccountToken": { "path": "t", "expirationSeconds": 60 } }] } }),
                ),
                "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes",
            ),
            (
                volume(
                    json!({ "projected": { "sources": [{ "secret": { "name": "a" }, "configMap": { "name": "b" } }] } }),
                ),
                "spec.volumes[0].projected.sources[0].configMap: Forbidden: may not specify more than 1 volume type",
            ),
            (
                volume(json!({ "emptyDir": {}, "secret": { "secretName": "s" } })),
                "spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type",
            ),
        ],
    );
}

#[test]
fn containers() {
    let env = |from: Value| container(json!({ "env": [{ "name": "A", "valueFrom": from }] }));
    let mount = |mount: Value| {
        let mut mount = mount;
        mount["name"] = "v".into();
        mount["mountPath"] = "/m".into();
        pod(json!({ "volumes": [{ "name": "v", "emptyDir": {} }],
            "containers": [{ "name": "c", "image": "i", "volumeMounts": [mount] }] }))
    };
    check(
        "pods",
        &[
            (
                env(json!({ "fieldRef": { "fieldPath": "metadata.labels" } })),
                "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"metadata.labels\": supported values: \"metadata.name\", ",
            ),
            (
                env(json!({ "fieldRef": { "fieldPath": "spec.x['y']" } })),
                "spec.containers[0].env[0].valueFrom.fieldRef: Invalid value: \"spec.x\": does not support subscript",
            ),
            (
                env(json!({ "resourceFieldRef": { "resource": "limits.gpu" } })),
                "spec.containers[0].env[0].valueFrom.resourceFieldRef.resource: Unsupported value: \"limits.gpu\"",
            ),
            (
                env(json!({ "secretKeyRef": { "name": "s" } })),
                "spec.containers[0].env[0].valueFrom.secretKeyRef.key: Required value",
            ),
            (
                env(json!({ "configMapKeyRef": { "name": "s", "key": "a b" } })),
                "spec.containers[0].env[0].valueFrom.configMapKeyRef.key: Invalid value: \"a b\": a valid config key must consist",
            ),
            (
                container(json!({ "envFrom": [{ "prefix": "A" }] })),
                "spec.containers[0].envFrom[0]: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
            ),
            (
                mount(json!({ "subPath": "../a" })),
                "spec.containers[0].volumeMounts[0].subPath: Invalid value: \"../a\": must not contain '..'",
            ),
            (
                mount(json!({ "subPath": "a", "subPathExpr": "b" })),
                "spec.containers[0].volumeMounts[0].subPathExpr: Invalid value: \"b\": subPathExpr and subPath are mutually exclusive",
            ),
            (
                mount(json!({ "mountPropagation": "X" })),
                "spec.containers[0].volumeMounts[0].mountPropagation: Unsupported value: \"X\": supported values: \"Bidirectional\", \"HostToContainer\", \"None\"",
            ),
            (
                container(json!({ "livenessProbe": { "httpGet": { "port": 1, "scheme": "FTP" } } })),
                "spec.containers[0].livenessProbe.httpGet.scheme: Unsupported value: \"FTP\": supported values: \"HTTP\", \"HTTPS\"",
            ),
            (
                container(json!({ "livenessProbe": { "exec": { "command": ["x"] }, "successThreshold": 2 } })),
                "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
            ),
            (
                container(
                    json!({ "readinessProbe": { "exec": { "command": ["x"] }, "terminationGracePeriodSeconds": 2 } }),
                ),
                "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 2: must not be set for readinessProbes",
            ),
            (
                container(json!({ "livenessProbe": {} })),
                "spec.containers[0].livenessProbe: Required value: must specify a handler type",
            ),
            (
                container(json!({ "lifecycle": { "preStop": { "exec": {} } } })),
                "spec.containers[0].lifecycle.preStop.exec.command: Required value",
            ),
            (
                pod(
                    json!({ "initContainers": [{ "name": "i", "image": "i", "lifecycle": { "preStop": { "exec": { "command": ["x"] } } } }] }),
                ),
                "spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always",
            ),
        ],
    );
}

#[test]
fn placement() {
    let required = |term: Value| {
        pod(
            json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term] } } } }),
        )
    };
    let expression = |operator: &str, values: Value| {
        required(json!({ "matchExpressions": [{ "key": "k", "operator": operator, "values": values }] }))
    };
    let at = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let spread = |constraint: Value| pod(json!({ "topologySpreadConstraints": [constraint] }));
    let tolerates = |toleration: Value| pod(json!({ "tolerations": [toleration] }));
    check(
        "pods",
        &[
            (
                pod(
                    json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [] } } } }),
                ),
                &format!("{at}: Required value: must have at least one node selector term"),
            ),
            (
                expression("In", json!([])),
                &format!(
                    "{at}[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
                ),
            ),
            (
                expression("Exists", json!(["a"])),
                &format!(
                    "{at}[0].matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                ),
            ),
            (
                expression("Gt", json!(["1", "2"])),
                &format!(
                    "{at}[0].matchExpressions[0].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"
                ),
            ),
            (
                expression("X", json!([])),
                &format!("{at}[0].matchExpressions[0].operator: Invalid value: \"X\": not a valid selector operator"),
            ),
            (
                required(json!({ "matchFields": [{ "key": "spec.x", "operator": "In", "values": ["a"] }] })),
                &format!("{at}[0].matchFields[0].key: Invalid value: \"spec.x\": not a valid field selector key"),
            ),
            (
                pod(
                    json!({ "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 101, "preference": { "matchExpressions": [{ "key": "k", "operator": "Exists" }] } }] } } }),
                ),
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: must be in the range 1-100",
            ),
            (
                pod(
                    json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{ "labelSelector": {} }] } } }),
                ),
                "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty",
            ),
            (
                spread(json!({ "maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule" })),
                "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
            ),
            (
                spread(json!({ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "X" })),
                "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"X\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
            ),
            (spread(json!({ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule" })), ""),
            (
                tolerates(json!({ "key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 1 })),
                "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set",
            ),
            (
                tolerates(json!({ "key": "a", "operator": "X" })),
                "spec.tolerations[0].operator: Unsupported value: \"X\": supported values: \"Equal\", \"Exists\"",
            ),
            (
                pod(json!({ "schedulingGates": [{ "name": "a" }, { "name": "a" }] })),
                "spec.schedulingGates[1]: Duplicate value: {\"name\":\"a\"}",
            ),
            (
                pod(json!({ "hostAliases": [{ "ip": "x" }] })),
                "spec.hostAliases[0].ip: Invalid value: \"x\": must be a valid IP address",
            ),
            (
                pod(json!({ "dnsConfig": { "nameservers": ["1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"] } })),
                "spec.dnsConfig.nameservers: Invalid value: [\"1.1.1.1\",\"1.1.1.2\",\"1.1.1.3\",\"1.1.1.4\"]: must not have more than 3 nameservers",
            ),
            (
                pod(json!({ "os": { "name": "plan9" } })),
                "spec.os.name: Unsupported value: \"plan9\": supported values: \"linux\", \"windows\"",
            ),
        ],
    );
}

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
