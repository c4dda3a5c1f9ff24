//! The clients that people use: kubectl of several versions, helm 3 and helm 4.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use vctl_tests::kubectl::{Kubectl, Output, binary, finish};

use crate::{api::Api, suite::Suite};

/// kubectl in the namespace of a check.
struct Client {
    kubectl: Kubectl,
    ns: String,
}

impl Client {
    fn new(minor: &str, api: &Api) -> Result<Self> {
        // Caches of versions and of clusters that were here before are no part of a check.
        let home = api.kubeconfig.parent().context("a directory")?.join(format!("kubectl-{minor}"));
        std::fs::create_dir_all(&home)?;
        Ok(Self { kubectl: Kubectl::new(minor, &api.kubeconfig, &home)?, ns: api.ns.clone() })
    }

    fn run(&self, args: &[&str]) -> Result<Output> {
        let mut all = vec!["-n", &self.ns];
        all.extend(args);
        self.kubectl.run(&all)
    }

    fn ok(&self, args: &[&str]) -> Result<String> {
        self.run(args)?.ok().with_context(|| format!("kubectl {}", args.join(" ")))
    }

    fn pipe(&self, args: &[&str], input: &str) -> Result<Output> {
        let mut all = vec!["-n", &self.ns];
        all.extend(args);
        self.kubectl.pipe(&all, input)
    }
}

fn contains(text: &str, parts: &[&str]) -> Result<()> {
    for part in parts {
        ensure!(text.contains(part), "lacks {part:?}:\n{text}");
    }
    Ok(())
}

const CONTROLLER: &str = "apiVersion: v1
kind: ReplicationController
metadata: {name: rc}
spec:
  replicas: 1
  selector: {app: rc}
  template:
    metadata: {labels: {app: rc}}
    spec:
      containers: [{name: c, image: 'registry.example/c:1', ports: [{containerPort: 6379}]}]
";

const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: 'registry.example/web:1'}]
";

/// The checks of one version of kubectl.
pub(crate) fn kubectl(s: &mut Suite, minor: &'static str) {
    let mut add = |name: &str, origin: &str, run: fn(&Client) -> Result<()>| {
        s.check(format!("kubectl {minor}: {name}"), format!("[sig-cli] Kubectl client {origin}"), move |api| {
            run(&Client::new(minor, api)?)
        });
    };
    add("api-versions lists v1", "Kubectl api-versions should check if v1 is in available api versions", |k| {
        let text = k.ok(&["api-versions"])?;
        ensure!(text.lines().any(|l| l == "v1"), "{text}");
        Ok(())
    });
    add(
        "cluster-info names the control plane",
        "Kubectl cluster-info should check if Kubernetes control plane services is included in cluster-info",
        |k| contains(&k.ok(&["cluster-info"])?, &["Kubernetes control plane", "is running at"]),
    );
    add("version prints client and server", "Kubectl version should check is all data is printed", |k| {
        contains(&k.ok(&["version"])?, &["Client Version", "Server Version"])?;
        contains(&k.ok(&["version", "-o", "json"])?, &["gitVersion", "platform", "\"major\""])
    });
    add(
        "describe prints controllers and pods",
        "Kubectl describe should check if kubectl describe prints relevant information for rc and pods",
        |k| {
            k.pipe(&["create", "-f", "-"], CONTROLLER)?.ok()?;
            k.ok(&["wait", "--for=jsonpath={.status.readyReplicas}=1", "rc/rc", "--timeout=30s"])?;
            contains(
                &k.ok(&["describe", "pod", "-l", "app=rc"])?,
                &["Controlled By:  ReplicationController/rc", "Image:", "State:", "QoS Class:"],
            )?;
            contains(
                &k.ok(&["describe", "rc", "rc"])?,
                &["Name:", "Replicas:", "1 current / 1 desired", "Pods Status:", "Pod Template:"],
            )?;
            contains(&k.ok(&["describe", "node"])?, &["Conditions:", "Addresses:", "Capacity:", "System Info:"])?;
            contains(&k.ok(&["describe", "namespace", &k.ns])?, &["Name:", "Status:", "Active"])
        },
    );
    add(
        "diff finds a difference",
        "Kubectl diff should check if kubectl diff finds a difference for Deployments",
        |k| {
            k.pipe(&["create", "-f", "-"], DEPLOYMENT)?.ok()?;
            let diff = k.pipe(&["diff", "-f", "-"], &DEPLOYMENT.replace("web:1", "web:2"))?;
            ensure!(diff.code == 1, "{diff:?}");
            contains(&diff.stdout, &["registry.example/web:1", "registry.example/web:2"])
        },
    );
    add("expose makes services", "Kubectl expose should create services for rc", |k| {
        k.pipe(&["create", "-f", "-"], CONTROLLER)?.ok()?;
        k.ok(&["expose", "rc", "rc", "--name=rm2", "--port=1234", "--target-port=6379"])?;
        k.ok(&["expose", "service", "rm2", "--name=rm3", "--port=2345", "--target-port=6379"])?;
        let port = k.ok(&[
            "get",
            "service",
            "rm3",
            "-o",
            "jsonpath={.spec.ports[0].port}:{.spec.ports[0].targetPort}:{.spec.selector.app}",
        ])?;
        ensure!(port == "2345:6379:rc", "{port}");
        Ok(())
    });
    add("label sets and takes a label", "Kubectl label should update the label on a resource", |k| {
        k.ok(&["create", "configmap", "c"])?;
        k.ok(&["label", "configmap", "c", "testing-label=testing-label-value"])?;
        contains(&k.ok(&["get", "configmap", "c", "-L", "testing-label"])?, &["TESTING-LABEL", "testing-label-value"])?;
        k.ok(&["label", "configmap", "c", "testing-label-"])?;
        ensure!(
            !k.ok(&["get", "configmap", "c", "-L", "testing-label"])?.contains("testing-label-value"),
            "still there"
        );
        Ok(())
    });
    add("patch annotates the pods of a controller", "Kubectl patch should add annotations for pods in rc", |k| {
        k.pipe(&["create", "-f", "-"], CONTROLLER)?.ok()?;
        k.ok(&["wait", "--for=jsonpath={.status.replicas}=1", "rc/rc", "--timeout=30s"])?;
        let pod = k.ok(&["get", "pods", "-l", "app=rc", "-o", "name"])?;
        k.ok(&["patch", pod.trim(), "-p", r#"{"metadata":{"annotations":{"x":"y"}}}"#])?;
        let text = k.ok(&["get", pod.trim(), "-o", "jsonpath={.metadata.annotations.x}"])?;
        ensure!(text == "y", "{text}");
        Ok(())
    });
    add(
        "run makes a pod, replace changes its image",
        "Kubectl replace should update a single-container pod's image",
        |k| {
            k.ok(&["run", "one", "--image=registry.example/one:1", "--labels=run=one"])?;
            k.ok(&["wait", "--for=condition=Ready", "pod/one", "--timeout=30s"])?;
            let text = k.ok(&["get", "pod", "one", "-o", "json"])?;
            k.pipe(&["replace", "-f", "-"], &text.replace("registry.example/one:1", "registry.example/one:2"))?.ok()?;
            let image = k.ok(&["get", "pod", "one", "-o", "jsonpath={.spec.containers[0].image}"])?;
            ensure!(image == "registry.example/one:2", "{image}");
            Ok(())
        },
    );
    add("run with restart Never", "Kubectl run pod should create a pod from an image when restart is Never", |k| {
        k.ok(&["run", "one", "--restart=Never", "--image=registry.example/one:1"])?;
        let policy = k.ok(&["get", "pod", "one", "-o", "jsonpath={.spec.restartPolicy}"])?;
        ensure!(policy == "Never", "{policy}");
        k.ok(&["delete", "pod", "one", "--now"]).map(drop)
    });
    add(
        "a dry run on the server changes nothing",
        "Kubectl server-side dry-run should check if kubectl can dry-run update Pods",
        |k| {
            k.ok(&["run", "one", "--image=registry.example/one:1"])?;
            let patched = k.ok(&[
                "patch",
                "pod",
                "one",
                "-p",
                r#"{"spec":{"containers":[{"name":"one","image":"registry.example/one:2"}]}}"#,
                "--dry-run=server",
                "-o",
                "yaml",
            ])?;
            contains(&patched, &["registry.example/one:2"])?;
            let image = k.ok(&["get", "pod", "one", "-o", "jsonpath={.spec.containers[0].image}"])?;
            ensure!(image == "registry.example/one:1", "{image}");
            Ok(())
        },
    );
    add(
        "an application is applied, scaled and stopped",
        "Guestbook application should create and stop a working application",
        |k| {
            k.pipe(&["apply", "-f", "-"], DEPLOYMENT)?.ok()?;
            k.ok(&["wait", "--for=condition=Available", "deployment/web", "--timeout=30s"])?;
            k.ok(&["scale", "deployment", "web", "--replicas=2"])?;
            k.ok(&["rollout", "status", "deployment/web", "--timeout=30s"])?;
            k.pipe(&["delete", "-f", "-", "--timeout=30s"], DEPLOYMENT)?.ok()?;
            let left = k.ok(&["get", "deployments", "-o", "name"])?;
            ensure!(left.is_empty(), "{left}");
            Ok(())
        },
    );
    add("apply by the server, and its conflict", "Kubectl apply (--server-side); test/cmd/apply.sh", |k| {
        let manifest = |v: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {{k: {v}}}\n");
        k.pipe(&["apply", "--server-side", "-f", "-"], &manifest("a"))?.ok()?;
        let refused =
            k.pipe(&["apply", "--server-side", "--field-manager=other", "-f", "-"], &manifest("b"))?.refused()?;
        contains(&refused, &["Apply failed with 1 conflict", ".data.k"])?;
        k.pipe(&["apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-"], &manifest("b"))?
            .ok()?;
        Ok(())
    });
    add("explain knows the fields", "Kubectl explain; test/cmd/core.sh (explain)", |k| {
        contains(&k.ok(&["explain", "pods.spec.containers"])?, &["FIELD", "image", "imagePullPolicy"])
    });
}

/// Path of the helm that comes with a kubectl of this version.
fn helm_binary(minor: &str) -> Result<std::path::PathBuf> {
    let helm = binary(minor)?.with_file_name("helm");
    ensure!(
        helm.is_file(),
        "{} is missing: remove its directory, scripts/kubectl {minor} fetches both",
        helm.display()
    );
    Ok(helm)
}

/// The checks of one helm: that which comes with kubectl `minor`; `version` is how its version begins.
pub(crate) fn helm(s: &mut Suite, minor: &'static str, version: &'static str) {
    s.check(
        format!("helm {version}: install, upgrade, rollback and uninstall with definitions, hooks and a subchart"),
        "helm.sh/docs: install --wait (crds/, hooks, subcharts), upgrade, rollback, uninstall",
        move |api| release(api, &helm_binary(minor)?, version),
    );
}

fn release(api: &Api, binary: &Path, version: &str) -> Result<()> {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/app");
    let chart = chart.to_str().context("a path of UTF-8")?;
    let home = api.kubeconfig.parent().context("a directory")?.join(format!("helm-{version}"));
    std::fs::create_dir_all(&home)?;
    let helm = |args: &[&str]| -> Result<String> {
        let mut command = Command::new(binary);
        command
            .args(["--namespace", &api.ns])
            .args(args)
            .env_clear()
            .env("HOME", &home)
            .env("KUBECONFIG", &api.kubeconfig);
        finish(command)?.ok().with_context(|| format!("helm {}", args.join(" ")))
    };
    let release = format!("rel-{}", version.trim_start_matches('v'));
    ensure!(helm(&["version", "--short"])?.starts_with(version), "another helm");
    let wait = ["--wait", "--timeout", "60s"];

    helm(&[&["install", &release, chart], &wait[..]].concat())?;
    let deployment = format!("apps/v1~/deployments/{release}");
    api.get(&deployment).is(200)?.has("{status: {readyReplicas: 1}}")?;
    api.get(&format!("v1~/configmaps/{release}-side")).is(200)?.has("{data: {text: one}}")?;
    // The definition came first, so that its default holds.
    api.get(&format!("charts.example.com/v1~/widgets/{release}")).is(200)?.has("{spec: {size: 3}}")?;
    api.get(&format!("batch/v1~/jobs/{release}-pre-install")).is(200)?.has("{status: {succeeded: 1}}")?;
    api.get(&format!("batch/v1~/jobs/{release}-post-upgrade")).is(404)?;

    helm(&[&["upgrade", &release, chart, "--set", "replicas=2", "--set", "side.text=two"], &wait[..]].concat())?;
    api.get(&deployment).is(200)?.has("{spec: {replicas: 2}, status: {readyReplicas: 2}}")?;
    api.get(&format!("v1~/configmaps/{release}-side")).is(200)?.has("{data: {text: two}}")?;
    api.get(&format!("batch/v1~/jobs/{release}-post-upgrade")).is(200)?.has("{status: {succeeded: 1}}")?;

    helm(&[&["rollback", &release, "1"], &wait[..]].concat())?;
    api.wait_for(&deployment, "{spec: {replicas: 1}, status: {replicas: 1}}")?;
    api.get(&format!("v1~/configmaps/{release}-side")).is(200)?.has("{data: {text: one}}")?;
    let history = helm(&["history", &release, "-o", "json"])?;
    let history: serde_json::Value = serde_json::from_str(&history)?;
    ensure!(history.as_array().is_some_and(|h| h.len() == 3 && h[2]["status"] == "deployed"), "{history}");

    helm(&[&["uninstall", &release], &wait[..]].concat())?;
    api.wait_gone(&deployment)?;
    api.wait_gone(&format!("charts.example.com/v1~/widgets/{release}"))?;
    // Definitions of crds/ stay.
    api.get("apiextensions.k8s.io/v1/customresourcedefinitions/widgets.charts.example.com").is(200).map(drop)
}
