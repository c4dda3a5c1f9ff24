//! The command line as a person uses it.

use anyhow::{Result, ensure};
use serde_json::Value;
use vctl_tests::platform::{Platform, Workers};

#[test]
fn environments_come_and_go() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    let created = platform.vctl(&["create", "one", "--template", "blank", "-o", "json"])?.ok()?;
    let created: Value = serde_json::from_str(&created)?;
    assert_eq!((&created["name"], &created["phase"]), (&Value::from("one"), &Value::from("Ready")));
    let list: Value = serde_json::from_str(&platform.vctl(&["list", "-o", "json"])?.ok()?)?;
    assert_eq!(list.as_array().map(Vec::len), Some(1), "{list}");
    let templates = platform.vctl(&["templates"])?.ok()?;
    ensure!(templates.contains("team-x") && templates.contains("blank"), "{templates}");

    // connect runs a command against the environment and passes its exit code on.
    let kubectl = vctl_tests::kubectl::binary("1.33")?;
    let kubectl = kubectl.to_str().unwrap_or_default();
    let inline = platform.vctl(&["connect", "one", "--", kubectl, "get", "namespaces", "-o", "name"])?.ok()?;
    ensure!(inline.contains("namespace/default"), "{inline}");
    let failed = platform.vctl(&["connect", "one", "--", "sh", "-c", "exit 7"])?;
    assert_eq!(failed.code, 7, "{failed:?}");

    // kubeconfig --merge keeps what is there.
    let home = platform.scratch().join(".kube");
    std::fs::create_dir_all(&home)?;
    std::fs::write(
        home.join("config"),
        "apiVersion: v1\nkind: Config\ncurrent-context: mine\ncontexts: [{name: mine, context: {cluster: c, user: u}}]\n\
         clusters: [{name: c, cluster: {server: https://127.0.0.1:1}}]\nusers: [{name: u, user: {}}]\n",
    )?;
    platform.vctl(&["kubeconfig", "one", "--merge"])?.ok()?;
    let merged: Value = serde_yaml::from_str(&std::fs::read_to_string(home.join("config"))?)?;
    let contexts: Vec<&str> =
        merged["contexts"].as_array().into_iter().flatten().filter_map(|c| c["name"].as_str()).collect();
    ensure!(contexts.len() == 2 && contexts.contains(&"mine"), "{merged}");

    // An operator may drop history; what is there stays.
    let compacted = platform.vctl(&["compact", "one"])?.ok()?;
    ensure!(compacted.starts_with("history of one before revision "), "{compacted}");
    let missing = platform.vctl(&["compact", "nothing"])?;
    ensure!(missing.code == 3 && missing.stderr.contains("nothing"), "{missing:?}");

    platform.vctl(&["delete", "one", "--wait"])?.ok()?;
    let gone = platform.vctl(&["get", "one"])?;
    ensure!(gone.code != 0 && gone.stderr.contains("one"), "{gone:?}");
    let list: Value = serde_json::from_str(&platform.vctl(&["list", "-o", "json"])?.ok()?)?;
    assert_eq!(list.as_array().map(Vec::len), Some(0), "{list}");
    Ok(())
}

#[test]
fn two_environments_share_nothing() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("left", "blank", &[])?;
    platform.create("right", "blank", &[])?;
    let left = platform.kubectl("1.33", "left")?;
    let right = platform.kubectl("1.33", "right")?;
    left.ok(&["create", "configmap", "only-left"])?;
    ensure!(!right.ok(&["get", "configmaps", "-o", "name"])?.contains("only-left"), "leaked");
    // The credentials of one are nothing to the other: the certificate is of another authority.
    let server = right.ok(&["config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster.server}"])?;
    let refused = left.run(&["get", "configmaps", "--server", &server])?.refused()?;
    ensure!(refused.contains("Unauthorized") || refused.contains("provide credentials"), "{refused}");
    // So is a token.
    let token = left.ok(&["create", "token", "default"])?;
    let with_token = |k: &vctl_tests::kubectl::Kubectl| {
        k.run(&[
            "--kubeconfig=/dev/null",
            "--insecure-skip-tls-verify",
            "--server",
            &server,
            "--token",
            token.trim(),
            "get",
            "configmaps",
        ])
    };
    let refused = with_token(&right)?.refused()?;
    ensure!(refused.contains("Unauthorized") || refused.contains("logged in"), "{refused}");
    Ok(())
}
