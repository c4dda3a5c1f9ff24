//! Real containers on a Podman worker.

mod streams;

use std::{process::Stdio, time::Duration};

use anyhow::{Context, Result, ensure};
use vctl_tests::{
    image,
    kubectl::Kubectl,
    platform::{Platform, Workers},
    wait,
};

const LIMIT: Duration = Duration::from_mins(1);

/// A platform with real containers and the image `vctl-busybox`.
pub(crate) fn platform() -> Result<Platform> {
    let platform = Platform::start(Workers::Podman)?;
    image::build(&platform.data_dir().join("worker"), &["vctl-busybox"])?;
    Ok(platform)
}

/// A pod that runs a shell script.
pub(crate) fn pod(name: &str, script: &str) -> String {
    serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "main", "image": "localhost/vctl-busybox:latest", "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c", script],
            }],
        },
    })
    .to_string()
}

/// Waits until a pod is ready; else says what `describe` says.
pub(crate) fn ready(k: &Kubectl, pod: &str) -> Result<()> {
    k.ok(&["wait", "--for=condition=Ready", &format!("pod/{pod}"), "--timeout=60s"])
        .map(drop)
        .with_context(|| k.run(&["describe", "pod", pod]).map(|o| o.stdout).unwrap_or_default())
}

#[test]
fn podman_services_names_and_isolation() -> Result<()> {
    let platform = platform()?;
    image::build(&platform.data_dir().join("worker"), &["vctl-curl"])?;
    for environment in ["left", "right"] {
        platform.create(environment, "blank", &[])?;
        let k = platform.kubectl("1.33", environment)?;
        k.apply(&pod(
            "server",
            &format!("mkdir -p /tmp/w; echo {environment} > /tmp/w/index.html; exec httpd -f -p 8080 -h /tmp/w"),
        ))?;
        k.ok(&["expose", "pod", "server", "--port=80", "--target-port=8080", "--name=web"])?;
        // busybox-static cannot look names up in an image without libraries.
        k.apply(&pod("client", "exec sleep 100000").replace("vctl-busybox", "vctl-curl"))?;
        ready(&k, "server")?;
        ready(&k, "client")?;
    }
    for environment in ["left", "right"] {
        let k = platform.kubectl("1.33", environment)?;
        for name in ["web", "web.default", "web.default.svc.cluster.local"] {
            let url = format!("http://{name}/");
            wait::until(&format!("{url} in {environment}"), LIMIT, || {
                let output = k
                    .run(&["exec", "client", "--", "curl", "-sS", "--max-time", "5", &url])
                    .map_err(|e| e.to_string())?;
                if output.stdout.trim() == environment { Ok(()) } else { Err(format!("{output:?}")) }
            })?;
        }
        let unknown = k.run(&[
            "exec",
            "client",
            "--",
            "curl",
            "-sS",
            "--max-time",
            "5",
            "http://nobody.default.svc.cluster.local/",
        ])?;
        ensure!(unknown.code == 6, "an unknown name must not resolve: {unknown:?}");
    }
    // Service ranges overlap: the same address leads each environment to its own pod, and an address that only one has leads nowhere in
    // the other, as no pod of one environment reaches a pod of the other.
    for environment in ["left", "right"] {
        let k = platform.kubectl("1.33", environment)?;
        k.apply(&service("same", SAME))?;
        k.apply(&service("own", if environment == "left" { LEFT } else { RIGHT }))?;
    }
    for (environment, other, own, others) in [("left", "right", LEFT, RIGHT), ("right", "left", RIGHT, LEFT)] {
        let (k, other) = (platform.kubectl("1.33", environment)?, platform.kubectl("1.33", other)?);
        let fetch = |address: &str| {
            k.run(&["exec", "client", "--", "curl", "-sS", "--max-time", "5", &format!("http://{address}/")])
        };
        let pod = |k: &Kubectl| k.ok(&["get", "pod", "server", "-o", "jsonpath={.status.podIP}:8080"]);
        for address in [SAME, own, &pod(&k)?] {
            wait::until(&format!("{address} in {environment}"), LIMIT, || {
                let output = fetch(address).map_err(|e| e.to_string())?;
                if output.stdout.trim() == environment { Ok(()) } else { Err(format!("{output:?}")) }
            })?;
        }
        for address in [others, &pod(&other)?] {
            let across = fetch(address)?;
            ensure!(across.code != 0 && across.stdout.is_empty(), "reached {address} from {environment}: {across:?}");
        }
    }
    Ok(())
}

/// An address that both environments have given to a Service.
const SAME: &str = "10.96.77.1";
/// Addresses that only one has.
const LEFT: &str = "10.96.77.2";
const RIGHT: &str = "10.96.77.3";

fn service(name: &str, address: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\n\
         spec: {{clusterIP: {address}, selector: {{app: server}}, ports: [{{port: 80, targetPort: 8080}}]}}\n"
    )
}

#[test]
fn podman_volumes_probes_and_restarts() -> Result<()> {
    let platform = platform()?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    k.ok(&["create", "configmap", "settings", "--from-literal=color=blue"])?;
    k.ok(&["create", "secret", "generic", "password", "--from-literal=word=hush"])?;
    k.apply(VOLUMES)?;
    ready(&k, "volumes")?;
    let cat = |path: &str| k.ok(&["exec", "volumes", "-c", "main", "--", "cat", path]);
    assert_eq!(cat("/settings/color")?, "blue");
    assert_eq!(cat("/password/word")?, "hush");
    assert_eq!(cat("/shared/from-init")?, "prepared\n");
    assert_eq!(cat("/info/name")?, "volumes");
    // One file of a volume, and a directory in one.
    assert_eq!(cat("/etc/color")?, "blue");
    k.ok(&["exec", "volumes", "-c", "main", "--", "sh", "-c", "echo written > /part/file"])?;
    assert_eq!(cat("/shared/volumes/part/file")?, "written\n");
    let env = k.ok(&["exec", "volumes", "-c", "main", "--", "env"])?;
    for expected in ["COLOR=blue", "GREETING=blue sky", "LITERAL=$(COLOR)", "POD=volumes", "KUBERNETES_SERVICE_HOST="] {
        ensure!(env.contains(expected), "lacks {expected}:\n{env}");
    }
    let ip = k.ok(&["get", "pod", "volumes", "-o", "jsonpath={.status.podIP}"])?;
    ensure!(env.contains(&format!("IP={ip}")), "{env}");
    // A changed ConfigMap reaches the running pod.
    k.ok(&["create", "configmap", "settings", "--from-literal=color=red", "--dry-run=client", "-o", "yaml"])
        .and_then(|yaml| k.apply(&yaml))?;
    wait::until("the volume follows", Duration::from_secs(90), || {
        let now = cat("/settings/color").map_err(|e| format!("{e:#}"))?;
        if now == "red" { Ok(()) } else { Err(now) }
    })?;
    // As on a real cluster, one that is mounted alone does not follow.
    assert_eq!(cat("/etc/color")?, "blue");
    // A container that fails is started again, with the previous log kept.
    k.apply(&pod("failing", "echo run; sleep 1; exit 4"))?;
    wait::until("a restart", LIMIT, || {
        let status = k.ok(&["get", "pod", "failing", "-o", "jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].lastState.terminated.exitCode}"]).map_err(|e| format!("{e:#}"))?;
        let (count, code) = status.split_once(' ').unwrap_or_default();
        if count.parse::<u32>().unwrap_or_default() >= 1 && code == "4" { Ok(()) } else { Err(status) }
    })?;
    wait::until("back-off", LIMIT, || {
        let table = k.ok(&["get", "pod", "failing"]).map_err(|e| format!("{e:#}"))?;
        if table.contains("CrashLoopBackOff") { Ok(()) } else { Err(table) }
    })?;
    assert_eq!(k.ok(&["logs", "failing", "--previous"])?, "run\n");
    Ok(())
}

/// An image that does not exist: the error first, then the wait, then both again, with the reason; everything else goes on.
#[test]
fn podman_image_that_does_not_exist() -> Result<()> {
    use std::io::{BufRead as _, BufReader};
    let platform = platform()?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    // What is shown from one moment to the next: the reason of each change of the pod.
    let mut command =
        k.command(&["get", "pod", "-w", "-o", "jsonpath={.status.containerStatuses[0].state.waiting.reason}{'\\n'}"]);
    let mut watch = command.stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(watch.stdout.take().context("piped")?).lines();
    k.ok(&["run", "absent", "--image=localhost/absent:1", "--image-pull-policy=IfNotPresent"])?;
    let mut seen: Vec<String> = Vec::new();
    let wanted = ["ErrImagePull", "ImagePullBackOff", "ErrImagePull", "ImagePullBackOff"];
    for line in lines.by_ref() {
        let line = line?;
        if !line.is_empty() && line != "ContainerCreating" && seen.last() != Some(&line) {
            seen.push(line);
        }
        if seen.len() == wanted.len() {
            break;
        }
    }
    watch.kill()?;
    watch.wait()?;
    assert_eq!(seen, wanted);
    let table = k.ok(&["get", "pod", "absent", "--no-headers"])?;
    ensure!(table.contains("0/1") && table.contains("ImagePullBackOff"), "{table}");
    let message =
        k.ok(&["get", "pod", "absent", "-o", "jsonpath={.status.containerStatuses[0].state.waiting.message}"])?;
    ensure!(message.contains("Back-off pulling image \"localhost/absent:1\""), "{message}");
    let described = k.ok(&["describe", "pod", "absent"])?;
    for expected in ["Failed to pull image \"localhost/absent:1\":", "Error: ErrImagePull", "Back-off pulling image"] {
        ensure!(described.contains(expected), "describe lacks {expected:?}:\n{described}");
    }
    let logs = k.run(&["logs", "absent"])?.refused()?;
    ensure!(logs.contains("is waiting to start: trying and failing to pull image"), "{logs}");
    // The worker does other things meanwhile, and the pod goes when it is told to.
    k.apply(&pod("fine", "exec sleep 100000"))?;
    ready(&k, "fine")?;
    k.ok(&["delete", "pod", "absent", "--timeout=30s"])?;
    // As soon as there is the image, the pod runs: after the back-off.
    k.ok(&[
        "run",
        "late",
        "--image=localhost/vctl-curl:latest",
        "--image-pull-policy=IfNotPresent",
        "--",
        "sleep",
        "1000",
    ])?;
    wait::until("the reason is shown", LIMIT, || {
        let table = k.ok(&["get", "pod", "late"]).map_err(|e| format!("{e:#}"))?;
        if table.contains("ImagePull") { Ok(()) } else { Err(table) }
    })?;
    image::build(&platform.worker(), &["vctl-curl"])?;
    ready(&k, "late")
}

const VOLUMES: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: volumes, labels: {app: volumes}}
spec:
  terminationGracePeriodSeconds: 1
  initContainers:
  - name: prepare
    image: localhost/vctl-busybox:latest
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "echo prepared > /shared/from-init"]
    volumeMounts: [{name: shared, mountPath: /shared}]
  containers:
  - name: main
    image: localhost/vctl-busybox:latest
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "touch /tmp/ready; exec httpd -f -p 8080 -h /tmp"]
    env:
    - {name: COLOR, valueFrom: {configMapKeyRef: {name: settings, key: color}}}
    - {name: GREETING, value: "$(COLOR) sky"}
    - {name: LITERAL, value: "$$(COLOR)"}
    - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    resources: {limits: {memory: 64Mi, cpu: 500m}}
    readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}
    livenessProbe: {tcpSocket: {port: 8080}, periodSeconds: 5}
    startupProbe: {exec: {command: [test, -e, /tmp/ready]}, periodSeconds: 1}
    volumeMounts:
    - {name: shared, mountPath: /shared}
    - {name: settings, mountPath: /settings}
    - {name: password, mountPath: /password}
    - {name: info, mountPath: /info}
    - {name: settings, mountPath: /etc/color, subPath: color}
    - {name: shared, mountPath: /part, subPathExpr: $(POD)/part}
  - name: second
    image: localhost/vctl-busybox:latest
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "wget -q -O - http://127.0.0.1:8080/ready; exec sleep 100000"]
  volumes:
  - {name: shared, emptyDir: {}}
  - {name: settings, configMap: {name: settings}}
  - {name: password, secret: {secretName: password}}
  - name: info
    downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}
"#;

/// A pod lists pods at `https://kubernetes.default` with its mounted token and CA; without the role it is refused.
#[test]
fn podman_pod_uses_its_token() -> Result<()> {
    let platform = platform()?;
    image::build(&platform.data_dir().join("worker"), &["vctl-curl"])?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    k.apply(&pod("inside", "exec sleep 100000").replace("vctl-busybox", "vctl-curl"))?;
    ready(&k, "inside")?;
    let script = "d=/var/run/secrets/kubernetes.io/serviceaccount; exec curl --silent --show-error --max-time 10 \
                  --cacert $d/ca.crt -H \"Authorization: Bearer $(cat $d/token)\" \
                  https://kubernetes.default/api/v1/namespaces/$(cat $d/namespace)/pods";
    let ask = || k.run(&["exec", "inside", "--", "sh", "-c", script])?.ok();
    let refused = wait::until("the API server answers inside", LIMIT, || ask().map_err(|e| format!("{e:#}")))?;
    ensure!(
        refused.contains("403") && refused.contains("system:serviceaccount:default:default"),
        "without a role: {refused}"
    );
    k.ok(&["create", "rolebinding", "reader", "--clusterrole=view", "--serviceaccount=default:default"])?;
    wait::until("the role takes effect", LIMIT, || {
        let list = ask().map_err(|e| format!("{e:#}"))?;
        let parsed: serde_json::Value = serde_json::from_str(&list).map_err(|e| e.to_string())?;
        if parsed["kind"] == "PodList" && parsed["items"][0]["metadata"]["name"] == "inside" {
            Ok(())
        } else {
            Err(list)
        }
    })
}

/// The shipped template, as `make demo` shows it.
#[test]
fn podman_team_x() -> Result<()> {
    let platform = platform()?;
    image::build(&platform.data_dir().join("worker"), &["vctl-demo-web", "vctl-demo-redis"])?;
    platform.create("demo", "team-x", &[])?;
    let k = platform.kubectl("1.33", "demo")?;
    let pods = k.ok(&["get", "pods"])?;
    ensure!(pods.contains("web-") && pods.contains("redis-"), "{pods}");
    Ok(())
}
