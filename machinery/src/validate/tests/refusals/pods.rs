//! Pods.

use serde_json::{Value, json};

use super::check;

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
