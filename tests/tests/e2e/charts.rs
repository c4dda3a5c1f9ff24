//! Templates with Helm charts, with the real Helm and simulated workers.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use vctl_tests::{
    kubectl::{self, finish},
    platform::{Platform, Workers},
    wait,
};

const KUBECTL: &str = "1.35";

/// Helm that comes with a kubectl: 4 with this one.
fn helm(minor: &str) -> Result<PathBuf> {
    let helm = kubectl::binary(minor)?.with_file_name("helm");
    ensure!(helm.exists(), "there is no Helm beside kubectl {minor}");
    Ok(helm)
}

fn write(directory: &Path, files: &[(&str, &str)]) -> Result<()> {
    for (file, text) in files {
        let path = directory.join(file);
        std::fs::create_dir_all(path.parent().context("no parent")?)?;
        std::fs::write(path, text)?;
    }
    Ok(())
}

const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: {{ .Release.Name }}}\nspec:\n  \
                          replicas: {{ .Values.replicas }}\n  selector: {matchLabels: {app: {{ .Release.Name }}}}\n  template:\n    \
                          metadata: {labels: {app: {{ .Release.Name }}}}\n    spec: {containers: [{name: c, image: {{ .Values.image }}}]}\n";
const SECRET: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: {{ .Release.Name }}-key}\nstringData: {key: {{ .Values.key | quote }}}\n";

/// A template with a chart as a directory, and one as an archive unless there is none.
fn template(platform: &Platform, version: &str, archive: Option<&Path>, chart_version: &str) -> Result<String> {
    let directory = platform.scratch().join("published/charted");
    if directory.exists() {
        std::fs::remove_dir_all(&directory)?;
    }
    let head = format!(
        "apiVersion: vctl.dev/v1\nkind: Template\nname: charted\nversion: {version}\ntitle: T\nparameters:\n  \
         - {{name: replicas, type: number, integer: true, default: 2}}\n  - {{name: image, type: string, default: ok/web}}\n  \
         - {{name: key, type: password}}\npolicies:\n  - namespace: web\n    quota: {{pods: 5}}\n    podSecurity: baseline\n    \
         ingress: same-namespace\ncharts:\n  - {{name: web, chart: charts/web, namespace: web, values: values/web.yaml}}\n"
    );
    let more = if archive.is_some() { "  - {name: packed, chart: charts/packed-0.1.0.tgz}\n" } else { "" };
    let chart = format!("apiVersion: v2\nname: web\nversion: {chart_version}\n");
    let values = "replicas: {{ parameters.replicas }}\nimage: {{ parameters.image }}\nkey: {{ parameters.key }}\n";
    write(
        &directory,
        &[
            ("template.yaml", &format!("{head}{more}")),
            ("values/web.yaml", values),
            ("charts/web/Chart.yaml", &chart),
            ("charts/web/templates/web.yaml", DEPLOYMENT),
            ("charts/web/templates/secret.yaml", SECRET),
            ("charts/web/templates/NOTES.txt", "The key is {{ .Values.key }}.\n"),
        ],
    )?;
    if let Some(archive) = archive {
        std::fs::copy(archive, directory.join("charts/packed-0.1.0.tgz"))?;
    }
    let directory = directory.display().to_string();
    platform.vctl(&["template", "lint", &directory])?.ok()?;
    platform.vctl(&["template", "publish", &directory])?.ok()?;
    Ok(directory)
}

fn follow_charts(minor: &str) -> Result<()> {
    let helm = helm(minor)?;
    let platform = Platform::start_configured(Workers::Simulated, &["--helm", &helm.display().to_string()], &[])?;
    let packed = platform.scratch().join("packed");
    write(
        &packed,
        &[
            ("Chart.yaml", "apiVersion: v2\nname: packed\nversion: 0.1.0\n"),
            ("templates/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: packed}\ndata: {a: b}\n"),
        ],
    )?;
    let mut package = Command::new(&helm);
    package.arg("package").arg(&packed).arg("--destination").arg(platform.scratch());
    finish(package)?.ok()?;
    let archive = platform.scratch().join("packed-0.1.0.tgz");

    template(&platform, "1.0.0", Some(&archive), "0.1.0")?;
    platform.create("e", "charted", &["key=s3cret-of-chart"])?;
    let k = platform.kubectl(KUBECTL, "e")?;
    let deployment = ["get", "deployment", "web", "-n", "web", "-o", "jsonpath={.status.readyReplicas}"];
    ensure!(k.ok(&deployment)? == "2");
    ensure!(k.ok(&["get", "configmap", "packed", "-o", "jsonpath={.data.a}"])? == "b");
    let key = k.ok(&["get", "secret", "web-key", "-n", "web", "-o", "jsonpath={.data.key}"])?;
    ensure!(key == "czNjcmV0LW9mLWNoYXJ0", "{key}");
    let level = "jsonpath={.metadata.labels.pod-security\\.kubernetes\\.io/enforce}";
    ensure!(k.ok(&["get", "namespace", "web", "-o", level])? == "baseline");
    let policies = k.ok(&["get", "resourcequotas,networkpolicies", "-n", "web", "-o", "name"])?;
    ensure!(policies.contains("resourcequota/template-policy") && policies.contains("networkpolicy"), "{policies}");
    // What Helm says is in the job's log; what it was told in confidence is not.
    let jobs = platform.vctl(&["jobs", "list", "-e", "e", "-o", "json"])?.ok()?;
    let jobs: serde_json::Value = serde_json::from_str(&jobs)?;
    let log = platform.vctl(&["jobs", "logs", jobs[0]["id"].as_str().context("no job")?])?.ok()?;
    ensure!(log.contains("install charts") && log.contains("STATUS: deployed") && log.contains("2 installed"), "{log}");
    ensure!(!log.contains("s3cret-of-chart") && !log.contains("The key is"), "{log}");
    ensure!(!platform.log().contains("s3cret-of-chart"));

    let release = |name: &str, namespace: &str| -> Result<String> {
        let mut list = Command::new(&helm);
        list.args(["list", "--namespace", namespace, "--filter", name, "--output", "json"]);
        list.env("KUBECONFIG", platform.kubeconfig("e")?).env("HOME", platform.scratch());
        finish(list)?.ok()
    };
    platform.vctl(&["set", "e", "replicas=3"])?.ok()?;
    ensure!(k.ok(&deployment)? == "3");
    ensure!(release("web", "web")?.contains("\"revision\":\"2\""), "{}", release("web", "web")?);
    ensure!(release("packed", "default")?.contains("\"revision\":\"1\""), "what has not changed is left alone");

    // The next version has no archive any more: its release goes; the way back brings it again.
    template(&platform, "1.1.0", None, "0.2.0")?;
    let diff = platform.vctl(&["upgrade", "e", "--dry-run"])?.ok()?;
    ensure!(diff.contains("--- configmap default/packed"), "{diff}");
    ensure!(!diff.contains("s3cret-of-chart"), "{diff}");
    platform.vctl(&["upgrade", "e"])?.ok()?;
    ensure!(release("packed", "default")?.trim() == "[]", "it is removed");
    ensure!(release("web", "web")?.contains("web-0.2.0"), "{}", release("web", "web")?);
    platform.vctl(&["rollback", "e"])?.ok()?;
    ensure!(release("web", "web")?.contains("web-0.1.0") && release("packed", "default")?.contains("deployed"));

    // A chart that Helm refuses is refused before there is an environment.
    let broken = platform.scratch().join("published/broken");
    write(
        &broken,
        &[
            (
                "template.yaml",
                "apiVersion: vctl.dev/v1\nkind: Template\nname: broken\nversion: 1.0.0\ntitle: T\ncharts: [{name: a, chart: charts/a}]\n",
            ),
            ("charts/a/Chart.yaml", "apiVersion: v2\nname: a\nversion: 0.1.0\n"),
            ("charts/a/templates/a.yaml", "a: {{ required \"say a\" .Values.a }}\n"),
        ],
    )?;
    platform.vctl(&["template", "publish", &broken.display().to_string()])?.ok()?;
    let refused = platform.vctl(&["create", "b", "--template", "broken"])?.refused()?;
    ensure!(refused.contains("say a") && refused.contains("helm template"), "{refused}");
    let refused = nobody_is_called(&platform)?;
    ensure!(refused.contains("helm template"), "{refused}");
    Ok(())
}

/// A chart in an archive, into which nobody looks, whose schema is somewhere else; how it is refused.
fn nobody_is_called(platform: &Platform) -> Result<String> {
    let elsewhere = TcpListener::bind("127.0.0.1:0")?;
    elsewhere.set_nonblocking(true)?;
    let schema = format!("{{\"$ref\": \"http://{}/schema.json\"}}", elsewhere.local_addr()?);
    let calls = platform.scratch().join("published/calls");
    write(
        &calls,
        &[
            (
                "template.yaml",
                "apiVersion: vctl.dev/v1\nkind: Template\nname: calls\nversion: 1.0.0\ntitle: T\ncharts: [{name: a, chart: charts/a.tgz}]\n",
            ),
            ("charts/a/Chart.yaml", "apiVersion: v2\nname: a\nversion: 0.1.0\n"),
            ("charts/a/values.schema.json", &schema),
        ],
    )?;
    let mut tar = Command::new("tar");
    tar.current_dir(calls.join("charts")).args(["-czf", "a.tgz", "a"]);
    finish(tar)?.ok()?;
    std::fs::remove_dir_all(calls.join("charts/a"))?;
    platform.vctl(&["template", "publish", &calls.display().to_string()])?.ok()?;
    let refused = platform.vctl(&["create", "c", "--template", "calls"])?.refused()?;
    let called = elsewhere.accept();
    ensure!(called.is_err(), "Helm has called {called:?}");
    Ok(refused)
}

/// Where no network can be taken away from Helm, archives are refused, and what has been looked at is rendered all the same.
fn without_namespaces(minor: &str) -> Result<()> {
    let helm = helm(minor)?.display().to_string();
    let platform = Platform::start_without_namespaces(Workers::Simulated, &["--helm", &helm])?;
    wait::until("the warning", Duration::from_secs(30), || {
        let log = platform.log();
        if log.contains("charts in archives are refused") { Ok(()) } else { Err(log) }
    })?;
    let refused = nobody_is_called(&platform)?;
    ensure!(refused.contains("charts/a.tgz") && refused.contains("max_user_namespaces"), "{refused}");
    template(&platform, "1.0.0", None, "0.1.0")?;
    platform.create("e", "charted", &[])
}

#[test]
fn charts_follow_the_template_with_helm_4() -> Result<()> {
    follow_charts("1.35")
}

#[test]
fn charts_follow_the_template_with_helm_3() -> Result<()> {
    follow_charts("1.31")
}

#[test]
fn archives_are_refused_where_helm_3_cannot_be_without_network() -> Result<()> {
    without_namespaces("1.31")
}

#[test]
fn archives_are_refused_where_helm_4_cannot_be_without_network() -> Result<()> {
    without_namespaces("1.35")
}

#[test]
fn without_helm_a_template_with_charts_says_what_to_install() -> Result<()> {
    let platform = Platform::start_configured(Workers::Simulated, &["--helm", "/nowhere/helm"], &[])?;
    template(&platform, "1.0.0", None, "0.1.0")?;
    let refused = platform.vctl(&["create", "e", "--template", "charted"])?.refused()?;
    ensure!(refused.contains("/nowhere/helm") && refused.contains("install Helm"), "{refused}");
    Ok(())
}
