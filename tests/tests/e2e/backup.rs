//! Snapshots, restorations, backups and encryption at rest, with kubectl.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use vctl_tests::{
    kubectl::Kubectl,
    platform::{Platform, Workers},
};

const SECRET: &str = "correct-horse-battery-staple";

fn names(k: &Kubectl, resource: &str) -> Result<Vec<String>> {
    let all = k.ok(&["get", resource, "-o", "jsonpath={.items[*].metadata.name}"])?;
    Ok(all.split_whitespace().filter(|n| *n != "kube-root-ca.crt").map(str::to_owned).collect())
}

fn version(k: &Kubectl, object: &str) -> Result<u64> {
    k.ok(&["get", object, "-o", "jsonpath={.metadata.resourceVersion}"])?.parse().context("a resourceVersion")
}

/// What an environment has before its snapshot.
fn fill(k: &Kubectl) -> Result<()> {
    k.ok(&["create", "configmap", "kept", "--from-literal=a=1"])?;
    k.ok(&["create", "secret", "generic", "login", &format!("--from-literal=password={SECRET}")])?;
    k.ok(&["create", "deployment", "web", "--image=web", "--replicas=2"])?;
    k.ok(&["rollout", "status", "deployment/web", "--timeout=60s"])?;
    Ok(())
}

#[test]
fn an_environment_is_put_back_as_it_was() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    fill(&k)?;
    let file = platform.scratch().join("dev.vctl");
    let path = file.to_str().context("a path")?;
    platform.vctl(&["snapshot", "dev", "-o", path])?.ok()?;
    k.ok(&["delete", "configmap", "kept"])?;
    k.ok(&["create", "configmap", "later"])?;
    let newest = version(&k, "configmap/later")?;

    platform.vctl(&["restore", path])?.ok()?;
    // The kubeconfig from before goes on working; what was written since is gone.
    ensure!(names(&k, "configmaps")? == ["kept"], "{:?}", names(&k, "configmaps"));
    ensure!(version(&k, "configmap/kept")? > newest, "revisions jump forward");
    k.ok(&["rollout", "status", "deployment/web", "--timeout=60s"])?;
    k.ok(&["create", "configmap", "goes-on"])?;
    // A watch from before must list again.
    let config: Value = serde_json::from_str(&k.ok(&["config", "view", "--raw", "-o", "json"])?)?;
    let server = config["clusters"][0]["cluster"]["server"].as_str().context("a server")?;
    let prefix = server.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
    let watch = format!("/{prefix}/api/v1/configmaps?watch=1&resourceVersion={newest}&timeoutSeconds=5");
    let watched = k.run(&["get", "--raw", &watch])?;
    let said = format!("{}{}", watched.stdout, watched.stderr);
    ensure!(said.contains("Expired") || said.contains("too old"), "{said}");
    Ok(())
}

#[test]
fn an_environment_is_copied_under_a_name_of_its_own() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    fill(&k)?;
    let file = platform.scratch().join("dev.vctl");
    let path = file.to_str().context("a path")?;
    platform.vctl(&["snapshot", "dev", "-o", path])?.ok()?;
    platform.vctl(&["restore", path, "--as", "copy"])?.ok()?;
    let copy = platform.kubectl("1.33", "copy")?;
    ensure!(names(&copy, "configmaps")? == ["kept"]);
    let password = copy.ok(&["get", "secret", "login", "-o", "jsonpath={.data.password}"])?;
    ensure!(password == k.ok(&["get", "secret", "login", "-o", "jsonpath={.data.password}"])?);
    copy.ok(&["rollout", "status", "deployment/web", "--timeout=60s"])?;
    copy.ok(&["scale", "deployment/web", "--replicas=3"])?;
    copy.ok(&["rollout", "status", "deployment/web", "--timeout=60s"])?;
    // Each is a cluster of its own: what is done in one does not show in the other, and neither lets the other's users in.
    copy.ok(&["delete", "configmap", "kept"])?;
    ensure!(names(&k, "configmaps")? == ["kept"]);
    let stranger = fs::read_to_string(platform.kubeconfig("dev")?)?.replace("/clusters/dev", "/clusters/copy");
    let crossed = platform.scratch().join("crossed.kubeconfig");
    fs::write(&crossed, stranger)?;
    let refused = Kubectl::new("1.33", &crossed, platform.scratch())?.run(&["get", "configmaps"])?.refused()?;
    ensure!(refused.contains("Unauthorized") || refused.contains("logged in"), "{refused}");

    let again = platform.vctl(&["restore", path, "--as", "copy"])?;
    ensure!(again.code == 4 && again.stderr.contains("exists already"), "{again:?}");
    platform.vctl(&["restore", path, "--as", "copy", "--replace"])?.ok()?;
    ensure!(names(&platform.kubectl("1.33", "copy")?, "configmaps")? == ["kept"]);
    platform.vctl(&["delete", "copy", "--wait"])?.ok()?;
    Ok(())
}

#[test]
fn a_file_that_is_not_whole_changes_nothing() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    k.ok(&["create", "configmap", "kept"])?;
    let file = platform.scratch().join("dev.vctl");
    let path = file.to_str().context("a path")?;
    platform.vctl(&["snapshot", "dev", "-o", path])?.ok()?;
    let whole = fs::read(&file)?;
    k.ok(&["create", "configmap", "later"])?;
    let before = version(&k, "configmap/later")?;
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    for (bytes, says) in
        [(&whole[..whole.len() / 2], "cut short"), (&changed[..], "damaged"), (&b"hello"[..], "not a backup")]
    {
        fs::write(&file, bytes)?;
        for arguments in [&["restore", path][..], &["restore", path, "--as", "copy"]] {
            let refused = platform.vctl(arguments)?;
            ensure!(refused.code == 2 && refused.stderr.contains(says), "{refused:?}");
        }
    }
    ensure!(names(&k, "configmaps")? == ["kept", "later"]);
    ensure!(version(&k, "configmap/later")? == before);
    let absent = platform.vctl(&["get", "copy"])?;
    ensure!(absent.code == 3, "{absent:?}");
    let missing = platform.vctl(&["snapshot", "nothing", "-o", path])?;
    ensure!(missing.code == 3, "{missing:?}");
    ensure!(fs::read(&file)? == b"hello", "a failed snapshot does not touch the file");
    Ok(())
}

#[test]
fn a_whole_server_is_filled_from_a_backup() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    for name in ["one", "two"] {
        platform.create(name, "blank", &[])?;
        platform.kubectl("1.33", name)?.ok(&["create", "configmap", &format!("in-{name}")])?;
    }
    let file = platform.scratch().join("all.vctl");
    let path = file.to_str().context("a path")?;
    platform.vctl(&["backup", "-o", path])?.ok()?;
    let ambiguous = platform.vctl(&["restore", path])?;
    ensure!(ambiguous.code == 2 && ambiguous.stderr.contains("one, two"), "{ambiguous:?}");
    platform.vctl(&["restore", path, "--from", "two", "--as", "three"])?.ok()?;
    ensure!(names(&platform.kubectl("1.33", "three")?, "configmaps")? == ["in-two"]);

    let other = Platform::start_configured(Workers::Simulated, &["--restore", path], &[])?;
    for name in ["one", "two"] {
        ensure!(names(&other.kubectl("1.33", name)?, "configmaps")? == [format!("in-{name}")]);
    }
    let listed: Value = serde_json::from_str(&other.vctl(&["list", "-o", "json"])?.ok()?)?;
    ensure!(listed.to_string().contains("\"two\"") && !listed.to_string().contains("\"three\""), "{listed}");
    Ok(())
}

/// Files below a directory that contain a text.
fn files_with(directory: &Path, text: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files_with(&path, text)?);
        } else if fs::read(&path).is_ok_and(|b| b.windows(text.len()).any(|w| w == text.as_bytes())) {
            found.push(path.display().to_string());
        }
    }
    Ok(found)
}

#[test]
fn secrets_are_encrypted_at_rest_and_keys_rotated() -> Result<()> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let keys = tempfile::tempdir()?;
    let file = keys.path().join("keys");
    let line = |seed: u8| STANDARD.encode([seed; 32]);
    fs::write(&file, line(1))?;
    let path = file.to_str().context("a path")?;
    let mut platform = Platform::start_configured(Workers::Simulated, &["--encryption-key-file", path], &[])?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    fill(&k)?;
    let encoded = STANDARD.encode(SECRET);
    let read = |k: &Kubectl| k.ok(&["get", "secret", "login", "-o", "jsonpath={.data.password}"]);
    ensure!(read(&k)? == encoded);
    // Neither the Secret nor the keys of the cluster, while it runs and afterwards.
    let hidden = |platform: &Platform| -> Result<()> {
        for text in [encoded.as_str(), SECRET, "\"client_ca_key\""] {
            let found = files_with(&platform.data_dir(), text)?;
            ensure!(found.is_empty(), "{text} is in {found:?}");
        }
        Ok(())
    };
    hidden(&platform)?;
    platform.stop_server()?;
    hidden(&platform)?;
    fs::write(&file, line(2))?;
    let up = ["up", "--workers", "none", "--listen", "127.0.0.1:0", "--encryption-key-file", path];
    let refused = platform.vctl(&up)?;
    let said = format!("{}{}", refused.stdout, refused.stderr);
    ensure!(refused.code != 0 && said.contains("not among the given ones"), "{refused:?}");

    fs::write(&file, format!("{}\n{}\n", line(2), line(1)))?;
    platform.start_server()?;
    ensure!(read(&k)? == encoded);
    platform.vctl(&["reencrypt"])?.ok()?;
    platform.stop_server()?;
    fs::write(&file, line(2))?;
    platform.start_server()?;
    ensure!(read(&k)? == encoded, "the old key is not needed any more");
    hidden(&platform)
}
