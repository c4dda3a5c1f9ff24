//! kubectl 1.28, 1.31 and 1.33 against `vctl up` with a simulated worker: what people type every day, compared with what a
//! real cluster prints. Each expectation names where upstream decides it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use vctl_tests::{
    kubectl::Kubectl,
    platform::{Platform, Workers},
    text::normal,
    wait,
};

const LIMIT: Duration = Duration::from_secs(30);

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: registry.example/web:1
        ports: [{containerPort: 80, name: http}]
";

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: http}]
";

#[test]
fn kubectl_1_28() -> Result<()> {
    everyday("1.28")
}

#[test]
fn kubectl_1_31() -> Result<()> {
    everyday("1.31")
}

#[test]
fn kubectl_1_33() -> Result<()> {
    everyday("1.33")
}

fn everyday(minor: &str) -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl(minor, "dev")?;
    create_and_get(&k).context("create and get")?;
    describe(&k).context("describe")?;
    watch(&k).context("get -w")?;
    change(&k, platform.scratch()).context("change")?;
    roll_out(&k).context("roll-out")?;
    discover(&k).context("discovery")?;
    authorize(&k).context("authorization")?;
    refuse(&k).context("refusals")?;
    delete(&k).context("delete")
}

fn create_and_get(k: &Kubectl) -> Result<()> {
    // apply prints by pkg/cmd/apply: `<resource>.<group>/<name> created`.
    assert_eq!(k.apply(WEB)?, "deployment.apps/web created\n");
    assert_eq!(k.apply(SERVICE)?, "service/web created\n");
    assert_eq!(k.apply(SERVICE)?, "service/web unchanged\n");
    k.ok(&["wait", "--for=condition=Available", "deployment/web", "--timeout=30s"])?;
    k.ok(&["wait", "--for=condition=Ready", "pod", "-l", "app=web", "--timeout=30s"])?;

    // Columns: printers.go printDeployment, printReplicaSet, printPod, printService.
    assert_eq!(
        normal(&k.ok(&["get", "deployments"])?),
        "NAME  READY  UP-TO-DATE  AVAILABLE  AGE\nweb  2/2  2  2  <age>\n"
    );
    assert_eq!(
        normal(&k.ok(&["get", "deployments", "-o", "wide"])?),
        "NAME  READY  UP-TO-DATE  AVAILABLE  AGE  CONTAINERS  IMAGES  SELECTOR\n\
         web  2/2  2  2  <age>  web  registry.example/web:1  app=web\n"
    );
    let pods = normal(&k.ok(&["get", "pods"])?);
    assert_eq!(
        pods,
        "NAME  READY  STATUS  RESTARTS  AGE\n\
         web-<hash>-<id>  1/1  Running  0  <age>\n\
         web-<hash>-<id>  1/1  Running  0  <age>\n"
    );
    let wide = k.ok(&["get", "pods", "-o", "wide"])?;
    ensure!(
        normal(&wide).lines().skip(1).all(
            |l| l.starts_with("web-<hash>-<id>  1/1  Running  0  <age>  <ip>  ") && l.ends_with("  <none>  <none>")
        ),
        "{wide}"
    );
    let services = normal(&k.ok(&["get", "services"])?);
    assert_eq!(
        services,
        "NAME  TYPE  CLUSTER-IP  EXTERNAL-IP  PORT(S)  AGE\n\
         kubernetes  ClusterIP  <ip>  <none>  443/TCP  <age>\n\
         web  ClusterIP  <ip>  <none>  80/TCP  <age>\n"
    );
    assert_eq!(
        normal(&k.ok(&["get", "namespaces"])?),
        "NAME  STATUS  AGE\ndefault  Active  <age>\nkube-node-lease  Active  <age>\nkube-public  Active  <age>\n\
         kube-system  Active  <age>\n"
    );
    // -o name, jsonpath, custom-columns and go-template work on the typed object.
    assert_eq!(k.ok(&["get", "deploy", "-o", "name"])?, "deployment.apps/web\n");
    assert_eq!(k.ok(&["get", "svc", "web", "-o", "jsonpath={.spec.ports[0].targetPort}"])?, "http");
    let addresses = k.ok(&["get", "endpoints", "web", "-o", "jsonpath={.subsets[0].addresses[*].ip}"])?;
    ensure!(addresses.split_whitespace().count() == 2, "endpoints: {addresses}");
    let ready = k.ok(&[
        "get",
        "endpointslices",
        "-l",
        "kubernetes.io/service-name=web",
        "-o",
        "jsonpath={.items[0].endpoints[*].conditions.ready}",
    ])?;
    assert_eq!(ready, "true true");
    // Imperative commands; kubectl 1.32+ posts these as protobuf.
    assert_eq!(k.ok(&["create", "configmap", "settings", "--from-literal=a=1"])?, "configmap/settings created\n");
    assert_eq!(k.ok(&["create", "secret", "generic", "password", "--from-literal=p=x"])?, "secret/password created\n");
    assert_eq!(
        k.ok(&["create", "deployment", "other", "--image=registry.example/other:1"])?,
        "deployment.apps/other created\n"
    );
    assert_eq!(normal(&k.ok(&["get", "cm", "settings"])?), "NAME  DATA  AGE\nsettings  1  <age>\n");
    assert_eq!(normal(&k.ok(&["get", "secret", "password"])?), "NAME  TYPE  DATA  AGE\npassword  Opaque  1  <age>\n");
    k.ok(&["delete", "deployment", "other"])?;
    Ok(())
}

fn describe(k: &Kubectl) -> Result<()> {
    let text = wait::until("events explain the pods", LIMIT, || {
        let text = k.ok(&["describe", "pods", "-l", "app=web"]).map_err(|e| format!("{e:#}"))?;
        if text.contains("Successfully assigned default/web-") { Ok(text) } else { Err(text) }
    })?;
    for expected in
        ["Controlled By:  ReplicaSet/web-", "Image:          registry.example/web:1", "QoS Class:", "Scheduled"]
    {
        ensure!(text.contains(expected), "describe pods lacks {expected:?}:\n{text}");
    }
    let text = k.ok(&["describe", "deployment", "web"])?;
    for expected in [
        "Replicas:               2 desired | 2 updated | 2 total | 2 available | 0 unavailable",
        "RollingUpdateStrategy:  25% max unavailable, 25% max surge",
        "MinimumReplicasAvailable",
        "NewReplicaSetAvailable",
        "ScalingReplicaSet",
    ] {
        ensure!(text.contains(expected), "describe deployment lacks {expected:?}:\n{text}");
    }
    let text = k.ok(&["describe", "service", "web"])?;
    ensure!(
        text.contains("TargetPort:               http/TCP") || text.contains("TargetPort:        http/TCP"),
        "{text}"
    );
    let text = k.ok(&["describe", "nodes"])?;
    ensure!(text.contains("Ready") && text.contains("Allocatable"), "{text}");
    Ok(())
}

fn watch(k: &Kubectl) -> Result<()> {
    use std::io::{BufRead as _, BufReader};
    let mut command = k.command(&["get", "configmaps", "-w", "--output-watch-events"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("piped")?).lines();
    let mut seen = Vec::new();
    let mut next = |wanted: &str| -> Result<()> {
        for line in lines.by_ref() {
            let line = line?;
            seen.push(line.clone());
            if line.split_whitespace().take(2).collect::<Vec<_>>().join(" ") == wanted {
                return Ok(());
            }
        }
        anyhow::bail!("the watch ended without {wanted:?}; seen: {seen:?}")
    };
    next("ADDED settings")?;
    k.ok(&["create", "configmap", "watched"])?;
    next("ADDED watched")?;
    k.ok(&["label", "configmap", "watched", "a=b"])?;
    next("MODIFIED watched")?;
    k.ok(&["delete", "configmap", "watched"])?;
    next("DELETED watched")?;
    child.kill()?;
    child.wait()?;
    Ok(())
}

fn change(k: &Kubectl, scratch: &std::path::Path) -> Result<()> {
    // pkg/cmd/label, annotate: `<resource>/<name> labeled`.
    assert_eq!(k.ok(&["label", "deployment", "web", "tier=front"])?, "deployment.apps/web labeled\n");
    assert_eq!(k.ok(&["annotate", "deployment", "web", "note=x"])?, "deployment.apps/web annotated\n");
    let refused = k.run(&["label", "deployment", "web", "tier=back"])?.refused()?;
    ensure!(refused.contains("'tier' already has a value (front), and --overwrite is false"), "{refused}");
    // edit with a scripted editor.
    let editor = scratch.join("editor");
    std::fs::write(&editor, "#!/bin/sh\nsed -i 's/note: x/note: edited/' \"$1\"\n")?;
    std::fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let mut command = k.command(&["edit", "deployment", "web"]);
    command.env("EDITOR", &editor);
    let output = vctl_tests::kubectl::finish(command)?.ok()?;
    assert_eq!(output, "deployment.apps/web edited\n");
    assert_eq!(k.ok(&["get", "deploy", "web", "-o", "jsonpath={.metadata.annotations.note}"])?, "edited");
    // patch: the three types.
    assert_eq!(k.ok(&["patch", "cm", "settings", "-p", r#"{"data":{"b":"2"}}"#])?, "configmap/settings patched\n");
    k.ok(&["patch", "cm", "settings", "--type=merge", "-p", r#"{"data":{"c":"3"}}"#])?;
    k.ok(&["patch", "cm", "settings", "--type=json", "-p", r#"[{"op":"remove","path":"/data/a"}]"#])?;
    assert_eq!(k.ok(&["get", "cm", "settings", "-o", "jsonpath={.data}"])?, r#"{"b":"2","c":"3"}"#);
    // scale.
    assert_eq!(k.ok(&["scale", "deployment", "web", "--replicas=3"])?, "deployment.apps/web scaled\n");
    k.ok(&["rollout", "status", "deployment/web", "--timeout=30s"])?;
    assert_eq!(k.ok(&["get", "deploy", "web", "-o", "jsonpath={.status.readyReplicas}"])?, "3");
    // diff exits with 1 when there is a difference and prints it.
    let diff = k.pipe(&["diff", "-f", "-"], &WEB.replace("replicas: 2", "replicas: 5"))?;
    ensure!(diff.code == 1 && diff.stdout.contains("+  replicas: 5"), "diff: {diff:?}");
    // server-side apply, and its conflict with another manager.
    let applied = k.pipe(
        &["apply", "--server-side", "-f", "-"],
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ssa}\ndata: {k: v}\n",
    )?;
    assert_eq!(applied.ok()?, "configmap/ssa serverside-applied\n");
    let conflict = k
        .pipe(
            &["apply", "--server-side", "--field-manager=other", "-f", "-"],
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ssa}\ndata: {k: w}\n",
        )?
        .refused()?;
    ensure!(conflict.contains("conflict with \"kubectl\"") && conflict.contains(".data.k"), "{conflict}");
    Ok(())
}

fn roll_out(k: &Kubectl) -> Result<()> {
    assert_eq!(
        k.ok(&["set", "image", "deployment/web", "web=registry.example/web:2"])?,
        "deployment.apps/web image updated\n"
    );
    let status = k.ok(&["rollout", "status", "deployment/web", "--timeout=30s"])?;
    ensure!(status.ends_with("deployment \"web\" successfully rolled out\n"), "{status}");
    let history = k.ok(&["rollout", "history", "deployment/web"])?;
    assert_eq!(normal(&history), "deployment.apps/web\nREVISION  CHANGE-CAUSE\n1  <none>\n2  <none>\n\n");
    assert_eq!(k.ok(&["rollout", "undo", "deployment/web"])?, "deployment.apps/web rolled back\n");
    k.ok(&["rollout", "status", "deployment/web", "--timeout=30s"])?;
    assert_eq!(
        k.ok(&["get", "deploy", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}"])?,
        "registry.example/web:1"
    );
    // The old ReplicaSet is used again, under a new revision.
    assert_eq!(
        normal(&k.ok(&["rollout", "history", "deployment/web"])?),
        "deployment.apps/web\nREVISION  CHANGE-CAUSE\n2  <none>\n3  <none>\n\n"
    );
    ensure!(k.ok(&["get", "rs", "-l", "app=web", "-o", "name"])?.lines().count() == 2, "two ReplicaSets");
    assert_eq!(k.ok(&["rollout", "restart", "deployment/web"])?, "deployment.apps/web restarted\n");
    k.ok(&["rollout", "status", "deployment/web", "--timeout=30s"])?;
    Ok(())
}

fn discover(k: &Kubectl) -> Result<()> {
    let resources = k.ok(&["api-resources"])?;
    for (name, kind) in [("pods", "Pod"), ("deployments", "Deployment"), ("cronjobs", "CronJob"), ("leases", "Lease")] {
        ensure!(
            resources.lines().any(|l| l.starts_with(name) && l.trim_end().ends_with(kind)),
            "api-resources lacks {name}:\n{resources}"
        );
    }
    let versions = k.ok(&["api-versions"])?;
    ensure!(versions.lines().any(|l| l == "apps/v1") && versions.lines().any(|l| l == "v1"), "{versions}");
    let explained = k.ok(&["explain", "deployment.spec.strategy"])?;
    ensure!(explained.contains("rollingUpdate") && explained.contains("FIELD"), "{explained}");
    let version = k.ok(&["version", "-o", "json"])?;
    let version: serde_json::Value = serde_json::from_str(&version)?;
    ensure!(version["serverVersion"]["major"] == "1", "{version}");
    // --raw takes the whole path of the URL, as with any API server behind a prefix.
    ensure!(k.ok(&["get", "--raw", "/clusters/dev/readyz"])? == "ok", "readyz");
    ensure!(k.ok(&["cluster-info"])?.contains("is running at"), "cluster-info");
    Ok(())
}

fn authorize(k: &Kubectl) -> Result<()> {
    assert_eq!(k.ok(&["auth", "can-i", "create", "pods"])?, "yes\n");
    let list = k.ok(&["auth", "can-i", "--list"])?;
    let all = |line: &str| line.split_whitespace().eq(["*.*", "[]", "[]", "[*]"]);
    ensure!(list.lines().any(all), "{list}");
    let me = k.ok(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.groups}"])?;
    ensure!(me.contains("system:masters") && me.contains("system:authenticated"), "{me}");
    let as_stranger = k.run(&["get", "pods", "--as=stranger"])?.refused()?;
    ensure!(
        as_stranger.contains(
            "pods is forbidden: User \"stranger\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""
        ),
        "{as_stranger}"
    );
    k.ok(&["create", "rolebinding", "viewer", "--clusterrole=view", "--user=stranger"])?;
    wait::until("the binding takes effect", LIMIT, || {
        k.ok(&["get", "pods", "--as=stranger"]).map(drop).map_err(|e| format!("{e:#}"))
    })?;
    let secrets = k.run(&["get", "secrets", "--as=stranger"])?.refused()?;
    ensure!(secrets.contains("secrets is forbidden"), "{secrets}");
    let token = k.ok(&["create", "token", "default"])?;
    ensure!(token.trim().split('.').count() == 3, "a JWT: {token}");
    Ok(())
}

fn refuse(k: &Kubectl) -> Result<()> {
    let missing = k.run(&["get", "pod", "nobody"])?.refused()?;
    assert_eq!(missing, "Error from server (NotFound): pods \"nobody\" not found\n");
    let unknown =
        k.pipe(&["create", "-f", "-"], &WEB.replace("replicas: 2", "replicaz: 2").replace("name: web,", "name: bad,"))?;
    let unknown = unknown.refused()?;
    ensure!(unknown.contains("unknown field \"spec.replicaz\""), "{unknown}");
    let invalid =
        k.pipe(&["create", "-f", "-"], "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_Valid}\n")?.refused()?;
    ensure!(
        invalid.contains("The ConfigMap \"Not_Valid\" is invalid: metadata.name: Invalid value: \"Not_Valid\": a lowercase RFC 1123 subdomain"),
        "{invalid}"
    );
    let exists = k.run(&["create", "configmap", "settings"])?.refused()?;
    ensure!(exists.contains("configmaps \"settings\" already exists"), "{exists}");
    let immutable = k
        .run(&[
            "patch",
            "deployment",
            "web",
            "--type=merge",
            "-p",
            r#"{"spec":{"selector":{"matchLabels":{"app":"x"}}}}"#,
        ])?
        .refused()?;
    ensure!(immutable.contains("field is immutable"), "{immutable}");
    Ok(())
}

fn delete(k: &Kubectl) -> Result<()> {
    // kubectl 1.34 and later add "from default namespace".
    let deleted = k.ok(&["delete", "deployment", "web"])?;
    ensure!(deleted.starts_with("deployment.apps \"web\" deleted"), "{deleted}");
    wait::until("the garbage collector removes the pods", LIMIT, || {
        let left = k.ok(&["get", "pods,rs", "-l", "app=web", "-o", "name"]).map_err(|e| format!("{e:#}"))?;
        if left.is_empty() { Ok(()) } else { Err(left) }
    })?;
    k.ok(&["create", "namespace", "gone"])?;
    k.ok(&["-n", "gone", "create", "configmap", "c"])?;
    k.ok(&["delete", "namespace", "gone", "--timeout=30s"])?;
    let missing = k.run(&["get", "namespace", "gone"])?.refused()?;
    ensure!(missing.contains("namespaces \"gone\" not found"), "{missing}");
    Ok(())
}
