//! kubectl 1.28, 1.31 and 1.33 print what they print on a real cluster: whole texts, in `golden/`, each with its source upstream.

use std::{path::Path, process::Stdio, time::Duration};

use anyhow::{Context as _, Result, ensure};
use vctl_tests::{
    background::Background,
    golden::Golden,
    kubectl::{Kubectl, finish},
    platform::{Platform, Workers},
    wait,
};

const LIMIT: Duration = Duration::from_secs(30);

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}, annotations: {note: a}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: registry.example/web:1
        ports: [{containerPort: 80, name: http}]
        env: [{name: COLOR, value: blue}]
        resources: {requests: {cpu: 100m, memory: 32Mi}, limits: {memory: 64Mi}}
        readinessProbe: {httpGet: {path: /, port: http}}
";
const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, labels: {app: web}}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: http}]}
";
const SETTINGS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: blue}
";

#[test]
fn golden_1_28() -> Result<()> {
    all("1.28")
}

#[test]
fn golden_1_31() -> Result<()> {
    all("1.31")
}

#[test]
fn golden_1_33() -> Result<()> {
    all("1.33")
}

fn all(minor: &str) -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl(minor, "dev")?;
    let golden = Golden::new(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/golden"), minor);
    let t = Test { k, golden, dir: platform.scratch().to_owned() };
    t.discovery().context("discovery")?;
    t.access().context("access")?;
    t.objects().context("objects")?;
    t.describe().context("describe")?;
    t.changes().context("changes")?;
    t.roll_outs().context("roll-outs")?;
    t.deletion().context("deletion")
}

mod containers_podman;

struct Test {
    k: Kubectl,
    golden: Golden,
    dir: std::path::PathBuf,
}

impl Test {
    /// Runs a command that must succeed and compares what it prints.
    fn same(&self, name: &str, args: &[&str]) -> Result<()> {
        self.golden.check(name, &self.k.ok(args)?).with_context(|| format!("kubectl {}", args.join(" ")))
    }

    /// The same for a command that reads a manifest, whatever its exit code; what it prints is both outputs.
    fn piped(&self, name: &str, args: &[&str], input: &str, code: i32) -> Result<()> {
        let output = self.k.pipe(args, input)?;
        ensure!(output.code == code, "kubectl {}: {output:?}", args.join(" "));
        self.golden.check(name, &format!("{}{}", output.stdout, output.stderr))
    }

    /// The same for a command that is refused.
    fn refused(&self, name: &str, args: &[&str]) -> Result<()> {
        let refused = self.k.run(args)?.refused()?;
        self.golden.check(name, &refused).with_context(|| format!("kubectl {}", args.join(" ")))
    }

    fn discovery(&self) -> Result<()> {
        self.same("api-resources", &["api-resources", "--sort-by=name"])?;
        self.same("api-resources-wide", &["api-resources", "--api-group=apps", "-o", "wide"])?;
        self.same("explain", &["explain", "deployment.spec.strategy.rollingUpdate"])?;
        self.same("explain-recursive", &["explain", "networkpolicy.spec.podSelector", "--recursive"])
    }

    fn access(&self) -> Result<()> {
        self.same("auth-can-i-list", &["auth", "can-i", "--list"])?;
        self.same("auth-can-i-list-stranger", &["auth", "can-i", "--list", "--as=stranger"])?;
        self.same("auth-can-i", &["auth", "can-i", "create", "pods"])?;
        let refused = self.k.run(&["auth", "can-i", "create", "pods", "--as=stranger"])?;
        ensure!(refused.code == 1, "{refused:?}");
        self.golden.check("auth-can-i-no", &refused.stdout)?;
        self.same("auth-whoami", &["auth", "whoami"])?;
        self.same("auth-whoami-yaml", &["auth", "whoami", "--as=jane", "--as-group=dev", "-o", "yaml"])
    }

    fn objects(&self) -> Result<()> {
        let k = &self.k;
        self.same("create", &["create", "configmap", "made", "--from-literal=a=1"])?;
        self.refused("create-exists", &["create", "configmap", "made"])?;
        self.piped("apply", &["apply", "-f", "-"], &format!("{WEB}---{SERVICE}---{SETTINGS}"), 0)?;
        self.piped("apply-again", &["apply", "-f", "-"], &format!("{WEB}---{SERVICE}---{SETTINGS}"), 0)?;
        self.same("wait", &["wait", "--for=condition=Available", "deployment/web", "--timeout=30s"])?;
        self.same("wait-jsonpath", &["wait", "--for=jsonpath={.data.color}=blue", "cm/settings", "--timeout=30s"])?;
        self.refused("wait-timeout", &["wait", "--for=jsonpath={.data.color}=red", "cm/settings", "--timeout=1s"])?;
        self.same("get-all", &["get", "all", "-o", "wide"])?;
        self.same("get-nodes", &["get", "nodes"])?;
        self.same("get-nodes-wide", &["get", "nodes", "-o", "wide"])?;
        self.same("get-configmap-yaml", &["get", "configmap", "made", "-o", "yaml"])?;
        self.same("get-labels", &["get", "services,deployments", "-l", "app=web", "--show-labels"])?;
        self.piped("get-none", &["get", "pods", "-n", "kube-public"], "", 0)?;
        self.refused("get-missing", &["get", "pod", "nobody"])?;
        self.refused("get-no-such-type", &["get", "nonsense"])?;
        // The first events of a watch as a table: the columns once, then a line for each change.
        let mut watch =
            Background::start(k.command(&["get", "configmaps", "-w", "-l", "seen=yes"]), "watch", &self.dir)?;
        k.pipe(
            &["create", "-f", "-"],
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: seen, labels: {seen: 'yes'}}\n",
        )?
        .ok()?;
        watch.until_printed("seen", LIMIT)?;
        k.ok(&["patch", "configmap", "seen", "-p", r#"{"data":{"a":"1"}}"#])?;
        wait::until("two lines", LIMIT, || match watch.printed() {
            Ok(text) if text.lines().count() >= 3 => Ok(()),
            other => Err(format!("{other:?}")),
        })?;
        let printed = watch.printed()?;
        watch.kill()?;
        self.golden.check("get-watch", &printed)
    }

    fn describe(&self) -> Result<()> {
        let k = &self.k;
        wait::until("the events", LIMIT, || {
            let events = k.ok(&["get", "events", "-o", "jsonpath={.items[*].reason}"]).map_err(|e| format!("{e:#}"))?;
            let all = ["Scheduled", "SuccessfulCreate", "ScalingReplicaSet"];
            if all.iter().all(|reason| events.contains(reason)) { Ok(()) } else { Err(events) }
        })?;
        self.same("describe-deployment", &["describe", "deployment", "web"])?;
        self.same("describe-replicaset", &["describe", "replicaset", "-l", "app=web"])?;
        self.same("describe-pod", &["describe", "pod", "-l", "app=web"])?;
        // There are no Leases of nodes here (docs/compatibility.md).
        let node = k.ok(&["describe", "node", "local"])?;
        let node: Vec<&str> = node.lines().filter(|line| !line.starts_with("Lease:")).collect();
        self.golden.check("describe-node", &(node.join("\n") + "\n"))?;
        self.same("describe-service", &["describe", "service", "web"])?;
        self.same("describe-configmap", &["describe", "configmap", "settings"])?;
        self.same("describe-namespace", &["describe", "namespace", "default"])?;
        self.same("describe-clusterrole", &["describe", "clusterrole", "system:basic-user"])?;
        self.same("events", &["events", "--for", "deployment/web"])
    }

    fn changes(&self) -> Result<()> {
        let k = &self.k;
        self.same("label", &["label", "deployment", "web", "tier=front"])?;
        self.refused("label-exists", &["label", "deployment", "web", "tier=back"])?;
        self.same("label-remove", &["label", "deployment", "web", "tier-"])?;
        self.same("annotate", &["annotate", "deployment", "web", "note=b", "--overwrite"])?;
        self.edit()?;
        self.same("patch", &["patch", "configmap", "settings", "-p", r#"{"data":{"size":"1"}}"#])?;
        self.same("patch-no-change", &["patch", "configmap", "settings", "-p", r#"{"data":{"size":"1"}}"#])?;
        // diff names files by their time; the rest is the text.
        let diff = k.pipe(&["diff", "-f", "-"], &SETTINGS.replace("blue", "green"))?;
        ensure!(diff.code == 1, "{diff:?}");
        let lines =
            diff.stdout.lines().filter(|l| !l.starts_with("diff ") && !l.starts_with("--- ") && !l.starts_with("+++ "));
        self.golden.check("diff", &(lines.collect::<Vec<_>>().join("\n") + "\n"))?;
        ensure!(k.pipe(&["diff", "-f", "-"], SETTINGS)?.code == 0, "no difference");
        self.piped("create-unknown-field", &["create", "-f", "-"], &SETTINGS.replace("\ndata:", "\ndota:"), 1)?;
        self.piped("apply-invalid", &["apply", "-f", "-"], &SETTINGS.replace("settings", "Bad_Name"), 1)?;
        self.piped(
            "apply-server-side",
            &["apply", "--server-side", "-f", "-"],
            &SETTINGS.replace("settings", "ssa"),
            0,
        )?;
        let other = &["apply", "--server-side", "--field-manager=other", "-f", "-"];
        self.piped("apply-conflict", other, &SETTINGS.replace("settings", "ssa").replace("blue", "red"), 1)
    }

    /// With an editor that is a script: a change, none, and one that the server refuses.
    fn edit(&self) -> Result<()> {
        let edit = |script: &str| {
            let editor = self.dir.join("editor");
            std::fs::write(&editor, format!("#!/bin/sh\n{script}\n"))?;
            std::fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
            let mut command = self.k.command(&["edit", "deployment", "web"]);
            command.env("KUBE_EDITOR", &editor).stdin(Stdio::null());
            finish(command)
        };
        self.golden.check("edit", &edit("sed -i 's/note: b/note: c/' \"$1\"")?.ok()?)?;
        let none = edit("exit 0")?;
        ensure!(none.code == 0, "{none:?}");
        self.golden.check("edit-no-change", &format!("{}{}", none.stdout, none.stderr))?;
        // The second time the file is opened, with the reason in it, it is left as it is: kubectl gives up.
        let refused = edit("sed -i 's/replicas: 1/replicas: -1/' \"$1\"")?;
        ensure!(refused.code == 1, "{refused:?}");
        let first = refused.stderr.lines().next().unwrap_or_default();
        self.golden.check("edit-invalid", &format!("{first}\n"))
    }

    fn roll_outs(&self) -> Result<()> {
        let k = &self.k;
        self.same("scale", &["scale", "deployment", "web", "--replicas=2"])?;
        self.refused("scale-precondition", &["scale", "deployment", "web", "--current-replicas=5", "--replicas=1"])?;
        k.ok(&["rollout", "status", "deployment/web", "--timeout=30s"])?;
        self.same("set-image", &["set", "image", "deployment/web", "web=registry.example/web:2"])?;
        k.ok(&["rollout", "status", "deployment/web", "--timeout=30s"])?;
        self.same("rollout-status", &["rollout", "status", "deployment/web"])?;
        self.same("rollout-history", &["rollout", "history", "deployment/web"])?;
        self.same("rollout-history-revision", &["rollout", "history", "deployment/web", "--revision=2"])?;
        self.same("rollout-undo", &["rollout", "undo", "deployment/web"])?;
        k.ok(&["rollout", "status", "deployment/web", "--timeout=30s"])?;
        self.same("rollout-history-undone", &["rollout", "history", "deployment/web"])?;
        self.refused("rollout-undo-missing", &["rollout", "undo", "deployment/web", "--to-revision=17"])?;
        self.same("rollout-restart", &["rollout", "restart", "deployment/web"])?;
        k.ok(&["rollout", "status", "deployment/web", "--timeout=30s"])?;
        // One that goes on for longer than anybody waits.
        k.apply(
            &WEB.replace("web", "slow").replace(
                "labels: {app: slow}}\n",
                "labels: {app: slow}, annotations: {vctl.dev/sim-ready-after: 1h}}\n",
            ),
        )?;
        k.ok(&["wait", "--for=jsonpath={.status.updatedReplicas}=1", "deployment/slow", "--timeout=30s"])?;
        self.piped("rollout-status-waiting", &["rollout", "status", "deployment/slow", "--timeout=1s"], "", 1)?;
        k.ok(&["delete", "deployment", "slow"]).map(drop)
    }

    fn deletion(&self) -> Result<()> {
        self.same("delete", &["delete", "deployment", "web"])?;
        self.same("delete-several", &["delete", "service/web", "configmap/made"])?;
        self.refused("delete-missing", &["delete", "configmap", "nothing"])?;
        self.same("delete-ignored", &["delete", "configmap", "nothing", "--ignore-not-found"])
    }
}
