//! Tables: a piece of a pod, and what a worker gets.

use serde_json::{Value, json};
use vctl_api::agent::{handler::Handler, volume::Source};

use super::*;

fn context() -> Context {
    let map = json!({ "data": { "a": "1", "b.txt": "two" }, "binaryData": { "bin": "AAE=" } });
    let secret = json!({ "data": { "user": "YWRtaW4=", "pass": "JChBKQ==" } });
    let service = |ns: &str, name: &str, ip: &str, ports: Value| json!({ "metadata": { "name": name, "namespace": ns }, "spec": { "clusterIP": ip, "ports": ports } });
    Context {
        environment: "env".into(),
        config_maps: [("cm".to_owned(), map)].into(),
        secrets: [("s".to_owned(), secret)].into(),
        services: vec![
            service("default", "kubernetes", "10.96.0.1", json!([{ "name": "https", "port": 443, "protocol": "TCP" }])),
            service("team", "my-db", "10.96.0.9", json!([{ "port": 5432, "protocol": "TCP" }])),
            service("team", "headless", "None", json!([{ "port": 1 }])),
            service("other", "foreign", "10.96.0.10", json!([{ "port": 1 }])),
        ],
        node_cpu_millis: 4000,
        node_memory_bytes: 8 << 30,
        ..Context::default()
    }
}

fn pod(spec: Value) -> Value {
    json!({
        "metadata": {
            "name": "web-0", "namespace": "team", "uid": "u-1",
            "labels": { "app": "web", "q": "say \"hi\"" }, "annotations": { "note": "x" },
        },
        "spec": spec,
    })
}

fn with_container(container: Value) -> Value {
    let mut container = container;
    container["name"] = "c".into();
    container["image"] = "busybox".into();
    pod(json!({ "nodeName": "w1", "serviceAccountName": "sa", "containers": [container] }))
}

/// Variables of the only container without those of services: (name, value, field path, literal).
fn variables(container: Value) -> Result<Vec<(String, String, String, bool)>, String> {
    let mut pod = with_container(container);
    pod["spec"]["enableServiceLinks"] = false.into();
    let translated = translate(&pod, &context());
    let container = translated.containers.into_iter().next().unwrap();
    if !container.config_error.is_empty() {
        return Err(container.config_error);
    }
    let own = container.env.into_iter().filter(|e| !e.name.starts_with("KUBERNETES_"));
    Ok(own.map(|e| (e.name, e.value, e.field_path, e.literal)).collect())
}

#[test]
fn variables_come_from_everywhere() {
    let table = [
        (json!({ "name": "V", "value": "$(A)" }), ("$(A)", "", false)),
        (json!({ "name": "V" }), ("", "", false)),
        (json!({ "name": "V", "valueFrom": { "configMapKeyRef": { "name": "cm", "key": "a" } } }), ("1", "", true)),
        (json!({ "name": "V", "valueFrom": { "secretKeyRef": { "name": "s", "key": "pass" } } }), ("$(A)", "", true)),
        (json!({ "name": "V", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }), ("web-0", "", true)),
        (
            json!({ "name": "V", "valueFrom": { "fieldRef": { "fieldPath": "metadata.labels['app']" } } }),
            ("web", "", true),
        ),
        (
            json!({ "name": "V", "valueFrom": { "fieldRef": { "fieldPath": "metadata.annotations['no']" } } }),
            ("", "", true),
        ),
        (json!({ "name": "V", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }), ("w1", "", true)),
        (
            json!({ "name": "V", "valueFrom": { "fieldRef": { "fieldPath": "spec.serviceAccountName" } } }),
            ("sa", "", true),
        ),
        (
            json!({ "name": "V", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } }),
            ("", "status.podIP", true),
        ),
        (json!({ "name": "V", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } }), ("4", "", true)),
        (
            json!({ "name": "V", "valueFrom": { "resourceFieldRef": { "resource": "requests.memory", "divisor": "1Mi" } } }),
            ("0", "", true),
        ),
    ];
    for (variable, (value, path, literal)) in table {
        let got = variables(json!({ "env": [variable.clone()] }));
        assert_eq!(got, Ok(vec![("V".into(), value.into(), path.into(), literal)]), "{variable}");
    }
    let limited = json!({
        "resources": { "limits": { "cpu": "1500m", "memory": "64Mi" } },
        "env": [
            { "name": "CPU", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } },
            { "name": "MILLI", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu", "divisor": "1m" } } },
            { "name": "MEM", "valueFrom": { "resourceFieldRef": { "resource": "limits.memory", "divisor": "1Mi" } } },
        ],
    });
    let values: Vec<String> = variables(limited).unwrap().into_iter().map(|v| v.1).collect();
    assert_eq!(values, ["2", "1500", "64"]);
    let from =
        json!({ "envFrom": [{ "prefix": "P_", "configMapRef": { "name": "cm" } }, { "secretRef": { "name": "s" } }] });
    let names: Vec<String> = variables(from).unwrap().into_iter().map(|v| v.0).collect();
    assert_eq!(names, ["P_a", "P_b.txt", "P_bin", "pass", "user"]);
}

#[test]
fn what_is_missing_is_said_as_the_kubelet_says_it() {
    let key = |kind: &str, name: &str, key: &str, optional: bool| json!({ "env": [{ "name": "V", "valueFrom": { kind: { "name": name, "key": key, "optional": optional } } }] });
    let table = [
        (key("configMapKeyRef", "no", "a", false), Err("configmap \"no\" not found")),
        (key("configMapKeyRef", "cm", "no", false), Err("couldn't find key no in ConfigMap team/cm")),
        (key("secretKeyRef", "no", "a", false), Err("secret \"no\" not found")),
        (key("secretKeyRef", "s", "no", false), Err("couldn't find key no in Secret team/s")),
        (key("configMapKeyRef", "no", "a", true), Ok(())),
        (key("secretKeyRef", "s", "no", true), Ok(())),
        (json!({ "envFrom": [{ "configMapRef": { "name": "no" } }] }), Err("configmap \"no\" not found")),
        (json!({ "envFrom": [{ "secretRef": { "name": "no", "optional": true } }] }), Ok(())),
        (
            json!({ "env": [{ "name": "V", "valueFrom": { "fieldRef": { "fieldPath": "spec.bad" } } }] }),
            Err("unsupported fieldPath: spec.bad"),
        ),
    ];
    for (container, expected) in table {
        let got = variables(container.clone());
        assert_eq!(got.map(|v| assert!(v.is_empty())), expected.map_err(ToOwned::to_owned), "{container}");
    }
}

#[test]
fn services_come_before_the_users_variables() {
    let mut pod = with_container(json!({ "env": [{ "name": "URL", "value": "$(MY_DB_SERVICE_HOST)" }] }));
    let names = |pod: &Value| -> Vec<String> {
        translate(pod, &context()).containers[0].env.iter().map(|e| e.name.clone()).collect()
    };
    let all = names(&pod);
    let at = |name: &str| all.iter().position(|n| n == name);
    for name in [
        "KUBERNETES_SERVICE_HOST",
        "KUBERNETES_SERVICE_PORT",
        "KUBERNETES_SERVICE_PORT_HTTPS",
        "KUBERNETES_PORT",
        "KUBERNETES_PORT_443_TCP",
        "KUBERNETES_PORT_443_TCP_PROTO",
        "KUBERNETES_PORT_443_TCP_PORT",
        "KUBERNETES_PORT_443_TCP_ADDR",
        "MY_DB_SERVICE_HOST",
        "MY_DB_PORT_5432_TCP",
    ] {
        assert!(at(name) < at("URL") && at(name).is_some(), "{name} in {all:?}");
    }
    assert!(!all.iter().any(|n| n.starts_with("HEADLESS") || n.starts_with("FOREIGN")));
    pod["spec"]["enableServiceLinks"] = false.into();
    let few = names(&pod);
    assert!(few.contains(&"KUBERNETES_SERVICE_HOST".to_owned()) && !few.contains(&"MY_DB_SERVICE_HOST".to_owned()));
}

/// Files of a volume as (path, content, mode), or its error.
fn files(volume: Value, context: &Context) -> Result<Vec<(String, String, u32)>, String> {
    let mut volume = volume;
    volume["name"] = "v".into();
    let pod = pod(json!({ "serviceAccountName": "sa", "volumes": [volume], "containers": [] }));
    let volume = translate(&pod, context).volumes.into_iter().next().unwrap();
    match volume.source {
        Some(Source::Files(files)) => Ok(files
            .files
            .into_iter()
            .map(|f| (f.path, String::from_utf8_lossy(&f.content).into_owned(), f.mode))
            .collect()),
        Some(other) => Err(format!("{other:?}")),
        None => Err(volume.error),
    }
}

#[test]
fn volumes_hold_files() {
    let f = |path: &str, content: &str, mode: u32| (path.to_owned(), content.to_owned(), mode);
    let mut context = context();
    let spec = TokenSpec { service_account: "sa".into(), audience: String::new(), expiration_seconds: 3607 };
    let projected = json!({ "projected": { "defaultMode": 0o400, "sources": [
        { "serviceAccountToken": { "path": "token", "expirationSeconds": 3607 } },
        { "configMap": { "name": "cm", "items": [{ "key": "a", "path": "ca.crt" }] } },
        { "downwardAPI": { "items": [{ "path": "namespace", "fieldRef": { "fieldPath": "metadata.namespace" } }] } },
    ] } });
    let failed = |why: &str| Err(format!("MountVolume.SetUp failed for volume \"v\" : {why}"));
    assert_eq!(files(projected.clone(), &context), failed("failed to fetch token: it has not been issued yet"));
    context.tokens.insert(spec.clone(), Ok("jwt".into()));
    let table = [
        (
            json!({ "configMap": { "name": "cm" } }),
            Ok(vec![f("a", "1", 0o644), f("b.txt", "two", 0o644), f("bin", "\0\u{1}", 0o644)]),
        ),
        (
            json!({ "configMap": { "name": "cm", "items": [{ "key": "a", "path": "x/y", "mode": 0o600 }] } }),
            Ok(vec![f("x/y", "1", 0o600)]),
        ),
        (
            json!({ "secret": { "secretName": "s", "defaultMode": 0o400 } }),
            Ok(vec![f("pass", "$(A)", 0o400), f("user", "admin", 0o400)]),
        ),
        (projected, Ok(vec![f("token", "jwt", 0o400), f("ca.crt", "1", 0o400), f("namespace", "team", 0o400)])),
        (
            json!({ "downwardAPI": { "items": [{ "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } }] } }),
            Ok(vec![f("labels", "app=\"web\"\nq=\"say \\\"hi\\\"\"", 0o644)]),
        ),
        (json!({ "configMap": { "name": "no" } }), failed("configmap \"no\" not found")),
        (json!({ "configMap": { "name": "no", "optional": true } }), Ok(vec![])),
        (
            json!({ "configMap": { "name": "cm", "items": [{ "key": "no", "path": "p" }] } }),
            failed("references non-existent config key: no"),
        ),
        (
            json!({ "secret": { "secretName": "s", "items": [{ "key": "no", "path": "p" }] } }),
            failed("references non-existent secret key: no"),
        ),
        (
            json!({ "configMap": { "name": "cm", "items": [{ "key": "a", "path": "../x" }] } }),
            failed("invalid path \"../x\": it must be relative and without '..'"),
        ),
        (json!({ "persistentVolumeClaim": { "claimName": "no" } }), failed("persistentvolumeclaim \"no\" not found")),
    ];
    for (volume, expected) in table {
        assert_eq!(files(volume.clone(), &context), expected, "{volume}");
    }
    assert!(files(json!({ "hostPath": { "path": "/etc" } }), &context).unwrap_err().contains("not allowed"));
    context.allow_host_access = true;
    assert_eq!(files(json!({ "hostPath": { "path": "/etc" } }), &context).unwrap_err(), "HostPath(\"/etc\")");
    let memory = files(json!({ "emptyDir": { "medium": "Memory", "sizeLimit": "1Mi" } }), &context).unwrap_err();
    assert!(memory.contains("memory: true") && memory.contains("1048576"), "{memory}");
}

#[test]
fn what_is_the_worker_s_is_closed_to_pods() {
    let error = |pod: &Value, open: bool| {
        let translated = translate(pod, &Context { allow_host_access: open, ..context() });
        (translated.containers[0].config_error.clone(), translated.host_network)
    };
    let adding = |name: &str| with_container(json!({ "securityContext": { "capabilities": { "add": [name] } } }));
    let mut network = with_container(json!({}));
    network["spec"]["hostNetwork"] = true.into();
    for (pod, what) in [
        (with_container(json!({ "securityContext": { "privileged": true } })), "privileged is not allowed"),
        (network.clone(), "hostNetwork is not allowed"),
        (adding("SYS_ADMIN"), "the capability SYS_ADMIN is not allowed"),
        (adding("cap_net_admin"), "the capability cap_net_admin is not allowed"),
        (adding("ALL"), "the capability ALL is not allowed"),
    ] {
        let (why, host_network) = error(&pod, false);
        assert!(why.starts_with(what) && !host_network, "{why}");
        assert_eq!(error(&pod, true), (String::new(), pod == network), "{what}");
    }
    for what in ["hostPID", "hostIPC"] {
        let mut pod = with_container(json!({}));
        pod["spec"][what] = true.into();
        for open in [false, true] {
            assert!(error(&pod, open).0.starts_with(&format!("{what} is not allowed")), "{what} {open}");
        }
    }
    // What would be missed without anybody noticing is refused too.
    let mut sysctl = with_container(json!({}));
    let of = |name: &str| json!({ "sysctls": [{ "name": "net.core.somaxconn", "value": "1" }, { "name": name, "value": "1" }] });
    sysctl["spec"]["securityContext"] = of("kernel.msgmax");
    assert!(error(&sysctl, true).0.starts_with("forbidden sysctl: \"kernel.msgmax\" not allowlisted"));
    sysctl["spec"]["securityContext"] = of("net.ipv4.tcp_syncookies");
    let devices = with_container(json!({ "volumeDevices": [{ "name": "v", "devicePath": "/dev/x" }] }));
    assert!(error(&devices, true).0.starts_with("volumeDevices are not supported by this worker"));
    for pod in [adding("NET_BIND_SERVICE"), adding("CAP_CHOWN"), with_container(json!({})), sysctl] {
        assert_eq!(error(&pod, false), (String::new(), false));
    }
}

#[test]
fn claims_become_directories_of_the_environment() {
    let mut context = context();
    context.volumes_key = "env.12345678".into();
    context.claims.insert("data".into(), json!({ "spec": { "volumeName": "v" }, "status": { "phase": "Bound" } }));
    let csi = |driver: &str, handle: &str| json!({ "metadata": { "name": "v" }, "spec": { "csi": { "driver": driver, "volumeHandle": handle } } });
    let of = |volume: Value, read_only: bool, context: &Context| {
        let mut context = context.clone();
        context.volumes.insert("v".into(), volume);
        let pod = pod(json!({
            "containers": [{ "name": "c", "volumeMounts": [{ "name": "d", "mountPath": "/d" }] }],
            "volumes": [{ "name": "d", "persistentVolumeClaim": { "claimName": "data", "readOnly": read_only } }],
        }));
        let translated = translate(&pod, &context);
        let volume = translated.volumes[0].clone();
        (volume.source, volume.error, translated.containers[0].mounts[0].read_only)
    };
    let persistent = |id: &str| Some(Source::Persistent(id.to_owned()));
    let ours = || csi("volumes.vctl.dev", "pvc-1");
    assert_eq!(of(ours(), false, &context), (persistent("env.12345678/pvc-1"), String::new(), false));
    assert!(of(ours(), true, &context).2, "the claim is for reading only");
    let mut sealed = ours();
    sealed["spec"]["csi"]["readOnly"] = true.into();
    assert!(of(sealed, false, &context).2, "the volume is for reading only");
    for handle in ["", "..", "../x", "a/b", ".hidden", "a b"] {
        let (source, error, _) = of(csi("volumes.vctl.dev", handle), false, &context);
        assert!(source.is_none() && error.contains("volumeHandle"), "{handle}: {error}");
    }
    assert!(
        of(csi("disk.example.com", "x"), false, &context).1.contains("CSI driver disk.example.com is not supported")
    );
    let host = json!({ "metadata": { "name": "v" }, "spec": { "hostPath": { "path": "/etc" } } });
    assert!(of(host, false, &context).1.contains("hostPath \"/etc\" is not allowed"));
    let local = json!({ "metadata": { "name": "v" }, "spec": { "local": { "path": "/etc" } } });
    assert!(of(local, false, &context).1.contains("is not allowed"));
    context.claims.insert("data".into(), json!({ "status": { "phase": "Pending" } }));
    assert!(of(ours(), false, &context).1.contains("is not bound"));
}

#[test]
fn references_are_complete() {
    let pod = pod(json!({
        "initContainers": [{ "name": "i", "envFrom": [{ "secretRef": { "name": "s1" } }] }],
        "containers": [{ "name": "c", "env": [{ "name": "V", "valueFrom": { "configMapKeyRef": { "name": "c1", "key": "k" } } }] }],
        "volumes": [
            { "name": "a", "configMap": { "name": "c2" } },
            { "name": "b", "projected": { "sources": [
                { "secret": { "name": "s2" } },
                { "serviceAccountToken": { "path": "t", "audience": "vault", "expirationSeconds": 600 } },
            ] } },
            { "name": "p", "persistentVolumeClaim": { "claimName": "data" } },
        ],
    }));
    let found = references(&pod);
    assert_eq!(found.config_maps, ["c1", "c2"].map(String::from).into());
    assert_eq!(found.secrets, ["s1", "s2"].map(String::from).into());
    assert_eq!(found.claims, ["data"].map(String::from).into());
    let token = TokenSpec { service_account: "default".into(), audience: "vault".into(), expiration_seconds: 600 };
    assert_eq!(found.tokens, [token].into());
}

#[test]
fn dns_follows_the_policy() {
    let of = |spec: Value| translate(&pod(spec), &context()).dns.map(|d| (d.nameservers, d.searches, d.options));
    let s = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<String>>();
    let cluster = s(&["team.svc.cluster.local", "svc.cluster.local", "cluster.local"]);
    assert_eq!(of(json!({})), Some((vec![], cluster.clone(), s(&["ndots:5"]))));
    assert_eq!(of(json!({ "dnsPolicy": "Default" })), None);
    assert_eq!(of(json!({ "hostNetwork": true })), None);
    assert_eq!(of(json!({ "hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet" })).unwrap().1, cluster);
    let config = json!({ "nameservers": ["1.2.3.4"], "searches": ["x"], "options": [{ "name": "ndots", "value": "2" }, { "name": "edns0" }] });
    assert_eq!(
        of(json!({ "dnsPolicy": "None", "dnsConfig": config })),
        Some((s(&["1.2.3.4"]), s(&["x"]), s(&["ndots:2", "edns0"])))
    );
    assert_eq!(of(json!({ "dnsConfig": config })).unwrap().2, s(&["ndots:2", "edns0"]));
}

#[test]
fn probes_hooks_and_limits() {
    let pod = with_container(json!({
        "ports": [{ "name": "http", "containerPort": 8080 }],
        "readinessProbe": { "httpGet": { "port": "http", "path": "/ok" }, "periodSeconds": 2 },
        "livenessProbe": { "tcpSocket": { "port": 5432 } },
        "startupProbe": { "exec": { "command": ["true"] }, "failureThreshold": 30 },
        "lifecycle": { "preStop": { "sleep": { "seconds": 3 } } },
        "resources": { "requests": { "cpu": "0.1" }, "limits": { "memory": "64Mi" } },
        "securityContext": { "runAsUser": 7, "capabilities": { "drop": ["ALL"] } },
    }));
    let translated = translate(&pod, &context());
    let container = &translated.containers[0];
    let probe = |p: &Option<agent::Probe>| p.clone().unwrap();
    let handler = |p: &Option<agent::Probe>| probe(p).handler.unwrap().handler.unwrap();
    assert!(
        matches!(handler(&container.readiness), Handler::Http(h) if h.port == 8080 && h.path == "/ok" && h.scheme == "HTTP")
    );
    assert!(matches!(handler(&container.liveness), Handler::Tcp(t) if t.port == 5432));
    assert!(matches!(handler(&container.startup), Handler::Exec(e) if e.command == ["true"]));
    let readiness = probe(&container.readiness);
    assert_eq!((readiness.period_seconds, readiness.timeout_seconds, readiness.failure_threshold), (2, 1, 3));
    assert_eq!(container.pre_stop.as_ref().unwrap().handler, Some(Handler::SleepSeconds(3)));
    let resources = container.resources.as_ref().unwrap();
    assert_eq!((resources.cpu_request_millis, resources.memory_limit_bytes), (Some(100), Some(64 << 20)));
    assert_eq!(container.security.as_ref().unwrap().drop_capabilities, ["ALL"]);
    assert_eq!((translated.hostname.as_str(), translated.deletion_grace_seconds), ("web-0", None));
}
