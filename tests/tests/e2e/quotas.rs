//! What a project allows and limits inside of its environments, with the real server, kubectl and simulated workers.

use std::time::Duration;

use anyhow::{Result, ensure};
use vctl_tests::{
    kubectl::Kubectl,
    platform::{Platform, Workers},
    wait,
};

const LIMIT: Duration = Duration::from_mins(1);
const KUBECTL: &str = "1.33";

fn pod(name: &str, image: &str, cpu: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: {image:?}, resources: {{requests: \
         {{cpu: {cpu}, memory: 64Mi}}}}}}]}}\n"
    )
}

fn claim(name: &str, storage: &str) -> String {
    format!(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}}}\nspec: {{accessModes: [ReadWriteOnce], resources: \
         {{requests: {{storage: {storage}}}}}}}\n"
    )
}

const WEB: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: more}\nspec:\n  replicas: 10\n  selector: {matchLabels: \
                   {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: c, image: nginx, resources: \
                   {requests: {cpu: 250m, memory: 64Mi}}}]}\n";

fn refused(k: &Kubectl, manifest: &str) -> Result<String> {
    k.pipe(&["apply", "-f", "-"], manifest)?.refused()
}

/// How many pods there are that run in all namespaces.
fn running(k: &Kubectl) -> Result<usize> {
    Ok(k.ok(&["get", "pods", "-A", "--field-selector=status.phase=Running", "-o", "name"])?.lines().count())
}

#[test]
fn a_project_limits_what_runs_inside_of_its_environments() -> Result<()> {
    let mut platform = Platform::start(Workers::Simulated)?;
    let project = |platform: &Platform, arguments: &[&str]| platform.vctl(&[&["project"], arguments].concat())?.ok();
    let create = ["create", "web", "--cpu", "2", "--memory", "4Gi", "--storage", "10Gi"];
    let allow = ["--allow-image", "docker.io/library/*", "--allow-worker", "gpu-*"];
    project(&platform, &[&create[..], &allow].concat())?;
    for name in ["one", "two"] {
        platform.vctl(&["create", name, "--template", "blank", "--project", "web"])?.ok()?;
    }
    let (one, two) = (platform.kubectl(KUBECTL, "one")?, platform.kubectl(KUBECTL, "two")?);

    // Images.
    let why = refused(&one, &pod("a", "quay.io/x/y", "500m"))?;
    ensure!(why.contains("project \"web\" does not allow image \"quay.io/x/y\", but docker.io/library/*"), "{why}");
    one.apply(&pod("a", "nginx:1", "500m"))?;

    // Workers: the only one there is is not allowed.
    let condition = ["get", "pod", "a", "-o", "jsonpath={.status.conditions[?(@.type==\"PodScheduled\")].message}"];
    wait::until("the pod is told why it waits", LIMIT, || match one.ok(&condition) {
        Ok(message) if message.contains("1 node(s) are not allowed by project \"web\" (gpu-*)") => Ok(()),
        other => Err(format!("{other:?}")),
    })?;
    let events =
        one.ok(&["get", "events", "--field-selector=reason=FailedScheduling", "-o", "jsonpath={.items[*].message}"])?;
    ensure!(events.contains("not allowed by project \"web\""), "{events}");
    let placed = pod("b", "nginx", "1m").replace("spec: {", "spec: {nodeName: local, ");
    let why = refused(&one, &placed)?;
    ensure!(why.contains("project \"web\" does not allow worker \"local\", but gpu-*"), "{why}");
    project(&platform, &["set", "web", "--allow-worker", "loc*"])?;
    one.ok(&["wait", "--for=condition=Ready", "pod/a", "--timeout=60s"])?;

    // Two environments take what is left, in whichever namespace, and no more.
    for k in [&one, &two] {
        k.ok(&["create", "namespace", "more"])?;
        k.apply(WEB)?;
    }
    wait::until("2 processors are requested", LIMIT, || match (running(&one), running(&two)) {
        (Ok(one), Ok(two)) if one + two == 7 => Ok(()),
        other => Err(format!("{other:?}")),
    })?;
    let exceeded = "exceeded quota: project/web, requested: cpu=250m, used: cpu=2, limited: cpu=2";
    let failure = [
        "get",
        "deployment",
        "web",
        "-n",
        "more",
        "-o",
        "jsonpath={.status.conditions[?(@.type==\"ReplicaFailure\")].message}",
    ];
    wait::until("the Deployment says why it has fewer", LIMIT, || match two.ok(&failure) {
        Ok(message) if message.contains("exceeded quota: project/web, requested: cpu=250m") => Ok(()),
        other => Err(format!("{other:?}")),
    })?;
    let why = refused(&one, &pod("more", "nginx", "250m"))?;
    ensure!(why.contains("is forbidden") && why.contains(exceeded), "{why}");
    let none = one.run(&["run", "none", "--image=nginx"])?.refused()?;
    ensure!(none.contains("failed quota: project/web: must specify cpu for: none"), "{none}");
    let large = refused(&two, &claim("large", "11Gi"))?;
    ensure!(
        large.contains("exceeded quota: project/web, requested: storage=11Gi, used: storage=0, limited: storage=10Gi"),
        "{large}"
    );
    two.apply(&claim("data", "10Gi"))?;
    let shown = project(&platform, &["get", "web"])?;
    ensure!(shown.contains("cpu: 2 of 2") && shown.contains("storage: 10Gi of 10Gi"), "{shown}");

    // Nothing of it is lost with the server.
    platform.kill_server()?;
    platform.start_server()?;
    let why = refused(&one, &pod("more", "nginx", "250m"))?;
    ensure!(why.contains(exceeded), "{why}");
    ensure!(running(&one)? + running(&two)? == 7, "the same pods");

    // What ends is given back, and another list of images counts at once.
    for k in [&one, &two] {
        k.ok(&["delete", "deployment", "web", "-n", "more", "--cascade=foreground", "--timeout=60s"])?;
    }
    project(&platform, &["set", "web", "--allow-image", "quay.io/*"])?;
    let why = refused(&one, &pod("more", "nginx", "250m"))?;
    ensure!(why.contains("does not allow image \"nginx\", but quay.io/*"), "{why}");
    wait::until("what was deleted is given back", LIMIT, || {
        one.apply(&pod("more", "quay.io/x/y", "1500m")).map_err(|e| format!("{e:#}"))
    })?;
    let audit = platform.vctl(&["audit", "list", "--action", "project.update", "-o", "json"])?.ok()?;
    ensure!(audit.contains("/allowedImages") && audit.contains("/allowedWorkers"), "{audit}");
    Ok(())
}

#[test]
fn a_create_that_waits_for_a_quota_says_so() -> Result<()> {
    let template =
        "apiVersion: vctl.dev/v1\nkind: Template\nname: bare\nversion: 1.0.0\ntitle: T\nreadyTimeoutSeconds: 30\n";
    // Nothing says what its pods request: nothing is set aside for them.
    let manifest =
        WEB.replace(", namespace: more", "").replace(", resources: {requests: {cpu: 250m, memory: 64Mi}}", "");
    let set = manifest
        .replace("kind: Deployment", "kind: StatefulSet")
        .replace("name: web", "name: db")
        .replace("app: web", "app: db");
    let set = set.replace("  replicas: 10\n", "  replicas: 1\n  serviceName: db\n");
    ensure!(!manifest.contains("requests") && set.contains("serviceName"), "{manifest}{set}");
    let platform = Platform::start_with(Workers::Simulated, &[("bare", template, &format!("{manifest}---\n{set}"))])?;
    platform.vctl(&["project", "create", "web", "--cpu", "2"])?.ok()?;
    platform.vctl(&["create", "e", "--template", "bare", "--project", "web", "--no-wait"])?.ok()?;
    let why = "failed quota: project/web: must specify cpu for: c";
    let says = |text: &str| {
        let of = |workload: &str| text.split_once(workload).is_some_and(|(_, rest)| rest.contains(why));
        of("deployment web 0/10 ready (") && of("statefulset db 0/1 ready (")
    };
    wait::until("the step says why there are no pods", LIMIT, || match platform.vctl(&["get", "e", "-o", "json"]) {
        Ok(shown) if says(&shown.stdout) => Ok(()),
        other => Err(format!("{other:?}")),
    })?;
    wait::until("it is told at the end, too", LIMIT, || match platform.vctl(&["get", "e", "-o", "json"]) {
        Ok(shown) if shown.stdout.contains("not ready after 30 s") && says(&shown.stdout) => Ok(()),
        other => Err(format!("{other:?}")),
    })?;
    Ok(())
}
