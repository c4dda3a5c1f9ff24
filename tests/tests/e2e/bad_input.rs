//! Bad input: a clear error that says what to do, and nothing is lost.

use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use vctl_tests::{
    kubectl::finish,
    platform::{Platform, Workers, vctl_binary},
};

fn contains_all(text: &str, parts: &[&str]) -> Result<()> {
    for part in parts {
        ensure!(text.contains(part), "lacks {part:?}:\n{text}");
    }
    ensure!(!text.contains("panicked"), "{text}");
    Ok(())
}

#[test]
fn names_templates_and_parameters() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    let refused =
        |args: &[&str], parts: &[&str]| -> Result<()> { contains_all(&platform.vctl(args)?.refused()?, parts) };
    refused(&["create", "Bad_Name", "--template", "blank"], &["Bad_Name", "bad-name"])?;
    refused(&["create", "x", "--template", "blnk"], &["blnk", "blank"])?;
    refused(&["create", "x", "--template", "team-x", "--set", "replica=2"], &["replica", "replicas"])?;
    refused(&["create", "x", "--template", "team-x", "--set", "replicas=many"], &["replicas", "number"])?;
    platform.create("there", "blank", &[])?;
    refused(&["create", "there", "--template", "blank"], &["there", "exists"])?;
    refused(&["get", "ther"], &["ther", "there"])?;
    refused(&["delete", "nothing-like-it"], &["nothing-like-it"])?;
    Ok(())
}

#[test]
fn ports_and_data_directories() -> Result<()> {
    let platform = Platform::start(Workers::None)?;
    let up = |dir: &std::path::Path, listen: &str| -> Result<String> {
        let mut command = Command::new(vctl_binary()?);
        command.args(["up", "--workers", "none", "--listen", listen, "--data-dir"]).arg(dir).stdin(Stdio::null());
        finish(command)?.refused()
    };
    let other = platform.scratch().join("other");
    contains_all(&up(&other, platform.address())?, &["already in use", "--listen"])?;
    let pid = platform.server_pid().map(|p| p.to_string()).unwrap_or_default();
    contains_all(&up(&platform.data_dir(), "127.0.0.1:0")?, &["another", &pid])?;
    contains_all(&up(&other, "nonsense")?, &["nonsense"])?;

    // A truncated file, and one that is none of ours.
    let broken = platform.scratch().join("broken");
    std::fs::create_dir_all(&broken)?;
    std::fs::write(broken.join("vctl.db"), b"SQLite format 3\0 and then nothing")?;
    contains_all(&up(&broken, "127.0.0.1:0")?, &["vctl.db"])?;
    std::fs::write(broken.join("vctl.db"), vec![7_u8; 10_000])?;
    contains_all(&up(&broken, "127.0.0.1:0")?, &["vctl.db"])?;
    ensure!(std::fs::read(broken.join("vctl.db"))? == vec![7_u8; 10_000], "the file was changed");
    Ok(())
}

/// A template that does not parse: file, line and column, and the others go on working.
#[test]
fn templates_that_do_not_parse() -> Result<()> {
    let head =
        |name: &str| format!("apiVersion: vctl.dev/v1\nkind: Template\nname: {name}\nversion: 1.0.0\ntitle: T\n");
    let typo = format!("{}parameters:\n- name: size\n  type: strnig\n", head("typo"));
    let platform = Platform::start_with(
        Workers::Simulated,
        &[
            ("typo", &typo, ""),
            ("brace", &head("brace"), "kind: ConfigMap\nmetadata: {name: {{ environment.name }}\n  x: {{ 1 + }}\n"),
            ("yaml", &head("yaml"), "kind: ConfigMap\nmetadata:\n  name: a\n name: b\n"),
            ("name", &head("name"), "kind: ConfigMap\nmetadata: {name: {{ parameters.nothing }}}\n"),
        ],
    )?;
    let refused = |template: &str, parts: &[&str]| -> Result<()> {
        let output = platform.vctl(&["create", "x", "--template", template])?;
        contains_all(&output.refused()?, parts)
    };
    refused("typo", &["\"typo\"", "template.yaml:8:", "strnig"])?;
    refused("brace", &["\"brace\"", "manifests/all.yaml:3:"])?;
    refused("yaml", &["\"yaml\"", "manifests/all.yaml:4:"])?;
    refused("name", &["\"name\"", "manifests/all.yaml:2:", "nothing"])?;
    // Nothing of it is left, and what is whole can be used.
    let listed: serde_json::Value = serde_json::from_str(&platform.vctl(&["list", "-o", "json"])?.ok()?)?;
    let failed: Vec<_> = listed.as_array().into_iter().flatten().map(|e| &e["phase"]).collect();
    ensure!(failed.iter().all(|phase| **phase == "Failed"), "{listed}");
    platform.create("fine", "blank", &[])?;
    Ok(())
}

/// The data file of a newer version, and one that was cut off: refused, unchanged, and good again when restored.
#[test]
fn data_files() -> Result<()> {
    let mut platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "team-x", &[])?;
    assert_eq!(platform.stop_server()?, 0);
    let file = platform.data_dir().join("vctl.db");
    let good = std::fs::read(&file)?;
    let refused = |content: &[u8], parts: &[&str]| -> Result<()> {
        std::fs::write(&file, content)?;
        // A server that takes the file would run on.
        let mut command = Command::new("timeout");
        command.arg("30").arg(vctl_binary()?).args([
            "up",
            "--workers",
            "simulated",
            "--listen",
            "127.0.0.1:0",
            "--data-dir",
        ]);
        command.arg(platform.data_dir()).stdin(Stdio::null());
        contains_all(&finish(command)?.refused()?, parts)?;
        ensure!(std::fs::read(&file)? == content, "the file was changed");
        Ok(())
    };
    // Byte 60 of the header: the format's number, big endian (https://www.sqlite.org/fileformat2.html#user_version_number).
    let mut newer = good.clone();
    newer[60..64].copy_from_slice(&999_u32.to_be_bytes());
    refused(&newer, &["vctl.db", "format 999", "newer vctl"])?;
    for length in [0, 100, good.len() / 2, good.len() - 1] {
        refused(&good[..length], &["vctl.db", "damaged", "backup"])?;
    }
    std::fs::write(&file, &good)?;
    platform.start_server()?;
    platform.kubectl("1.33", "dev")?.ok(&["get", "deployment", "web"])?;
    Ok(())
}

/// Options of `vctl up` that cannot be: told before anything is made, and never as if something had been running.
#[test]
fn options_of_the_server() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let refused = |args: &[&str], parts: &[&str]| -> Result<()> {
        let mut command = Command::new("timeout");
        command.arg("30").arg(vctl_binary()?).args(["up", "--data-dir"]).arg(dir.path().join("d"));
        command.args(if args.contains(&"--workers") { [""; 0].as_slice() } else { &["--workers", "none"] });
        command.args(args).stdin(Stdio::null());
        let output = finish(command)?;
        ensure!(!output.stdout.contains("workloads keep running"), "{}", output.stdout);
        let text = output.refused()?;
        ensure!(!text.contains("workloads keep running"), "{text}");
        contains_all(&text, parts)
    };
    refused(&["--listen", "9443"], &["IP address and a port", "127.0.0.1:9443", "0.0.0.0:9443"])?;
    refused(&["--listen", "localhost"], &["127.0.0.1:8443"])?;
    let missing = dir.path().join("no-templates");
    let local = ["--listen", "127.0.0.1:0"];
    refused(
        &[&local[..], &["--templates", &missing.to_string_lossy()]].concat(),
        &["--templates", "no-templates", "No such file"],
    )?;
    let key = |command| [&local[..], &["--encryption-key-command", command]].concat();
    refused(&key("false"), &["--encryption-key-command", "exit status: 1", "nothing on standard error"])?;
    refused(&key("echo no vault >&2; exit 7"), &["exit status: 7", "no vault"])?;
    let podman = |args: &[&'static str]| [&local[..], &["--workers", "podman"], args].concat();
    refused(
        &podman(&["--worker-netns", "vt-nowhere"]),
        &["no network namespace vt-nowhere", "ip netns add vt-nowhere"],
    )?;
    refused(&[&local[..], &["--worker-netns", "vt-nowhere"]].concat(), &["--worker-netns is for --workers podman"])?;
    refused(
        &[&local[..], &["--worker-metrics-listen", "127.0.0.1:9"]].concat(),
        &["--worker-metrics-listen is for --workers podman"],
    )?;
    for cidr in ["10.77.3.0", "10.77.3.0/33", "nonsense", "fd00::/64"] {
        refused(&podman(&["--pod-cidr", cidr]), &["--pod-cidr", cidr])?;
    }
    ensure!(!dir.path().join("d").join("vctl.db").exists(), "something was made");
    // What begins to serve and cannot: the same.
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    refused(&["--listen", &taken.local_addr()?.to_string()], &["already in use"])
}

/// Names and files that clients get wrong.
#[test]
fn names_and_files_of_commands() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("staging", "blank", &[])?;
    let refused =
        |args: &[&str], parts: &[&str]| -> Result<()> { contains_all(&platform.vctl(args)?.refused()?, parts) };
    let file = platform.scratch().join("staging.backup");
    let file = &*file.to_string_lossy();
    for command in [&["get"][..], &["delete"], &["kubeconfig"], &["snapshot", "-o", file]] {
        let (verb, more) = command.split_first().unwrap_or((&"", &[]));
        refused(&[&[*verb, "stagign"], more].concat(), &["\"stagign\"", "did you mean staging?"])?;
        refused(&[&[*verb, "xyz"], more].concat(), &["\"xyz\"", "vctl list"])?;
    }
    let nowhere = platform.scratch().join("no-directory").join("file");
    let nowhere = &*nowhere.to_string_lossy();
    for command in [&["snapshot", "staging", "-o", nowhere][..], &["backup", "-o", nowhere]] {
        refused(command, &["no-directory/file", "there is no directory", "mkdir -p", "--output"])?;
    }
    platform.vctl(&["snapshot", "staging", "-o", file])?.ok()?;
    refused(&["restore", file, "--as", "staging"], &["exists already", "--replace"])?;

    // Paths of Kubernetes without an environment, and without credentials that tell which: a Status that names the prefix.
    let mut command = Command::new("curl");
    command.args(["--silent", "--insecure", "--max-time", "10", &format!("https://{}/livez", platform.address())]);
    contains_all(&finish(command)?.ok()?, &["\"NotFound\"", "/clusters/NAME/livez"])?;
    let mut command = Command::new("curl");
    command.args(["--silent", "--insecure", "--max-time", "10", &format!("https://{}/elsewhere", platform.address())]);
    contains_all(&finish(command)?.ok()?, &["401", "/clusters/NAME"])
}

#[test]
fn no_podman() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut command = Command::new(vctl_binary()?);
    command
        .args(["up", "--workers", "podman", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(dir.path().join("d"))
        .env("PATH", dir.path())
        .stdin(Stdio::null());
    contains_all(&finish(command)?.refused()?, &["podman", "apt-get install", "--workers simulated"])
}

#[test]
fn credentials() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    // The wrong authority.
    let wrong = platform.scratch().join("wrong-ca.pem");
    let other = Platform::start(Workers::None)?;
    let server: serde_json::Value = serde_json::from_slice(&std::fs::read(other.data_dir().join("server.json"))?)?;
    std::fs::copy(other.data_dir().join(server["caFile"].as_str().unwrap_or_default()), &wrong)?;
    let kubeconfig = std::fs::read_to_string(platform.kubeconfig("dev")?)?;
    let line = kubeconfig.lines().find(|l| l.contains("certificate-authority-data")).unwrap_or_default();
    let indent = &line[..line.len() - line.trim_start().len()];
    let changed = kubeconfig.replace(line, &format!("{indent}certificate-authority: {}", wrong.display()));
    let path = platform.scratch().join("wrong.kubeconfig");
    std::fs::write(&path, changed)?;
    let k_wrong = vctl_tests::kubectl::Kubectl::new("1.33", &path, platform.scratch())?;
    contains_all(&k_wrong.run(&["get", "pods"])?.refused()?, &["certificate signed by unknown authority"])?;
    // No credentials at all: 403 for a resource, as anonymous; never data.
    let server = k.ok(&["config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster.server}"])?;
    let anonymous = |path: &str| -> Result<String> {
        let mut command = Command::new("curl");
        command.args(["--silent", "--insecure", "--max-time", "10", &format!("{server}{path}")]);
        finish(command)?.ok()
    };
    contains_all(&anonymous("/api/v1/secrets")?, &["\"code\":403", "system:anonymous"])?;
    contains_all(&anonymous("/version")?, &["gitVersion"])?;
    let mut command = Command::new("curl");
    command.args(["--silent", "--insecure", "--max-time", "10", "-H", "Authorization: Bearer not.a.token"]);
    command.arg(format!("{server}/api/v1/secrets"));
    contains_all(&finish(command)?.ok()?, &["\"code\":401", "Unauthorized"])?;
    // The REST API without a token.
    let mut command = Command::new("curl");
    command.args(["--silent", "--insecure", "--max-time", "10", "--write-out", "%{http_code}"]);
    command.arg(format!("https://{}/api/v1/environments", platform.address()));
    contains_all(&finish(command)?.ok()?, &["401"])
}

#[test]
fn bodies() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    let big = format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"big\"}},\"data\":{{\"k\":\"{}\"}}}}",
        "x".repeat(4 << 20)
    );
    let refused = k.pipe(&["create", "--validate=false", "-f", "-"], &big)?.refused()?;
    ensure!(refused.contains("too large") || refused.contains("413"), "{refused}");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let file = platform.scratch().join("deep.json");
    std::fs::write(&file, deep)?;
    let server = k.ok(&["config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster.server}"])?;
    let token = k.ok(&["create", "token", "default"])?;
    k.ok(&["create", "clusterrolebinding", "d", "--clusterrole=cluster-admin", "--serviceaccount=default:default"])?;
    let mut command = Command::new("curl");
    command
        .args(["--silent", "--insecure", "--max-time", "20", "-H", "Content-Type: application/json", "-H"])
        .arg(format!("Authorization: Bearer {}", token.trim()))
        .args(["--data-binary", &format!("@{}", file.display())])
        .arg(format!("{server}/api/v1/namespaces/default/configmaps"));
    contains_all(&finish(command)?.ok()?, &["\"code\":400"])?;
    // A key given twice; kubectl itself would send it once.
    let mut command = Command::new("curl");
    command
        .args(["--silent", "--insecure", "--max-time", "20", "-H", "Content-Type: application/json", "-H"])
        .arg(format!("Authorization: Bearer {}", token.trim()))
        .args([
            "--data-binary",
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"dup"},"data":{"a":"1","a":"2"}}"#,
        ])
        .arg(format!("{server}/api/v1/namespaces/default/configmaps?fieldValidation=Strict"));
    contains_all(&finish(command)?.ok()?, &["\"code\":400", "duplicate field", "data.a"])?;
    k.ok(&["get", "configmaps"])?;
    Ok(())
}
