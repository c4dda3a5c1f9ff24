//! Sleep and waking, and upgrades, with the real server, kubectl and simulated workers.

use std::{path::Path, time::Duration};

use anyhow::{Result, ensure};
use vctl_tests::{
    kubectl::Kubectl,
    platform::{Platform, Workers},
    wait,
};

const LIMIT: Duration = Duration::from_mins(1);
const KUBECTL: &str = "1.33";

fn phase(platform: &Platform, name: &str) -> Result<String> {
    let shown = platform.vctl(&["get", name, "-o", "json"])?.ok()?;
    let environment: serde_json::Value = serde_json::from_str(&shown)?;
    Ok(environment["phase"].as_str().unwrap_or_default().to_owned())
}

fn until_phase(platform: &Platform, name: &str, wanted: &str) -> Result<()> {
    wait::until(&format!("{name} is {wanted}"), LIMIT, || match phase(platform, name) {
        Ok(now) if now == wanted => Ok(()),
        other => Err(format!("{other:?}")),
    })
}

fn pods(k: &Kubectl) -> Result<String> {
    k.ok(&["get", "pods", "-o", "jsonpath={range .items[*]}{.metadata.name}={.status.phase} {end}"])
}

#[test]
fn an_environment_sleeps_over_a_restart_and_a_write_wakes_it() -> Result<()> {
    let mut platform = Platform::start(Workers::Simulated)?;
    platform.create("e", "blank", &[])?;
    let k = platform.kubectl(KUBECTL, "e")?;
    k.ok(&["create", "deployment", "web", "--image=x", "--replicas=2"])?;
    k.ok(&["run", "bare", "--image=x"])?;
    k.ok(&["wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s"])?;
    let before = pods(&k)?;
    ensure!(before.matches("=Running").count() == 3, "{before}");

    platform.vctl(&["sleep", "e"])?.ok()?;
    ensure!(phase(&platform, "e")? == "Sleeping");
    let asleep = pods(&k)?;
    ensure!(asleep == before.replace("Running", "Pending"), "the same pods, and none runs: {asleep}");
    platform.kill_server()?;
    platform.start_server()?;
    ensure!(phase(&platform, "e")? == "Sleeping");
    ensure!(pods(&k)? == asleep, "reading changes nothing");
    let refused = platform.vctl(&["sleep", "e"])?.refused()?;
    ensure!(refused.contains("sleeps already"), "{refused}");

    k.ok(&["scale", "deployment", "web", "--replicas=3"])?;
    until_phase(&platform, "e", "Ready")?;
    k.ok(&["rollout", "status", "deployment/web", "--timeout=60s"])?;
    k.ok(&["wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s"])?;
    let awake = pods(&k)?;
    ensure!(awake.matches("=Running").count() == 4, "{awake}");
    ensure!(before.split_whitespace().all(|pod| awake.contains(pod)), "those from before are the same: {awake}");

    platform.vctl(&["sleep", "e"])?.ok()?;
    platform.vctl(&["wake", "e"])?.ok()?;
    ensure!(phase(&platform, "e")? == "Ready");
    let jobs = platform.vctl(&["jobs", "list", "-e", "e"])?.ok()?;
    ensure!(jobs.matches("succeeded").count() == 5 && jobs.contains("wake"), "{jobs}");
    Ok(())
}

fn write(directory: &Path, version: &str, manifest: &str) -> Result<()> {
    std::fs::create_dir_all(directory.join("manifests"))?;
    let head = "apiVersion: vctl.dev/v1\nkind: Template\nname: app\n";
    let more = "title: An app\nparameters:\n  - {name: replicas, type: number, integer: true, default: 1}\n";
    std::fs::write(directory.join("template.yaml"), format!("{head}version: {version}\n{more}"))?;
    std::fs::write(directory.join("manifests/all.yaml"), manifest)?;
    Ok(())
}

const WEB: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: {{ parameters.replicas }}\n  \
                   selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec: \
                   {containers: [{name: c, image: x}]}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata: {k: v}\n";

#[test]
fn a_template_is_published_upgraded_and_rolled_back() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    let directory = platform.scratch().join("app");
    let path = directory.display().to_string();
    write(&directory, "one", "kind: {{ parameters.size }}\n")?;
    let lint = platform.vctl(&["template", "lint", &path])?;
    ensure!(lint.code == 2 && lint.stdout.contains("template.yaml:4:1: error:"), "{}{}", lint.stdout, lint.stderr);
    ensure!(lint.stdout.contains("all.yaml:1:10: error: there is no parameter"), "{}", lint.stdout);

    write(&directory, "1.0.0", &WEB.replace("NAME", "old"))?;
    platform.vctl(&["template", "lint", &path])?.ok()?;
    let rendered = platform.vctl(&["template", "render", &path, "--set", "replicas=2"])?.ok()?;
    ensure!(rendered.contains("replicas: 2"), "{rendered}");
    platform.vctl(&["template", "publish", &path])?.ok()?;
    platform.create("e", "app", &["replicas=2"])?;
    let k = platform.kubectl(KUBECTL, "e")?;
    k.ok(&["create", "configmap", "mine"])?;

    write(&directory, "1.1.0", &WEB.replace("NAME", "new"))?;
    platform.vctl(&["template", "publish", &path])?.ok()?;
    let shown = platform.vctl(&["get", "e"])?.ok()?;
    ensure!(shown.contains("1.1.0 is newer"), "{shown}");
    let diff = platform.vctl(&["upgrade", "e", "--dry-run"])?.ok()?;
    ensure!(diff.contains("+++ configmap new") && diff.contains("--- configmap old"), "{diff}");
    ensure!(diff.contains("from 1.0.0 to 1.1.0: 1 new, 0 changed, 1 removed"), "{diff}");
    platform.vctl(&["upgrade", "e"])?.ok()?;
    let maps = k.ok(&["get", "configmaps", "-o", "name"])?;
    ensure!(
        maps.contains("configmap/new") && !maps.contains("configmap/old") && maps.contains("configmap/mine"),
        "{maps}"
    );
    platform.vctl(&["set", "e", "replicas=3"])?.ok()?;
    let replicas = k.ok(&["get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}"])?;
    ensure!(replicas == "3", "{replicas}");

    platform.vctl(&["rollback", "e"])?.ok()?;
    let replicas = k.ok(&["get", "deployment", "web", "-o", "jsonpath={.spec.replicas}"])?;
    ensure!(replicas == "2", "{replicas}");
    platform.vctl(&["upgrade", "e", "--to", "1.0.0"])?.ok()?;
    ensure!(k.ok(&["get", "configmaps", "-o", "name"])?.contains("configmap/old"));
    Ok(())
}
