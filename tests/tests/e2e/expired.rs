//! Credentials whose time is over, with the real kubectl.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use vctl_tests::{
    kubectl::Kubectl,
    platform::{Platform, Workers},
};

/// Longer than anything is valid that a person holds.
const LATER: &str = "+400d";

/// A kubeconfig for a server whose certificate is not valid yet by kubectl's clock, with these credentials.
fn kubectl(platform: &Platform, name: &str, user: &str) -> Result<Kubectl> {
    let server =
        platform.kubectl("1.33", "dev")?.ok(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"])?;
    let path: PathBuf = platform.scratch().join(format!("{name}.kubeconfig"));
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: '{server}', insecure-skip-tls-verify: true}}}}]\n\
         users: [{{name: u, user: {{{user}}}}}]\n"
    );
    std::fs::write(&path, text)?;
    Kubectl::new("1.33", &path, platform.scratch())
}

/// Tokens of both kinds and a client certificate: each counts, until the server's clock says that its time is over; then it is nobody's,
/// whatever it may have been allowed, and others that are new count.
#[test]
fn expired_credentials_are_refused() -> Result<()> {
    let mut platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "blank", &[])?;
    let admin = platform.kubectl("1.33", "dev")?;
    admin.ok(&["create", "secret", "generic", "precious", "--from-literal=word=hush"])?;
    admin.ok(&[
        "create",
        "clusterrolebinding",
        "d",
        "--clusterrole=cluster-admin",
        "--serviceaccount=default:default",
    ])?;
    let credentials = |platform: &Platform, now: &str| -> Result<Vec<(String, Kubectl)>> {
        let admin = platform.kubectl("1.33", "dev")?;
        let of =
            |path: &str| admin.ok(&["config", "view", "--raw", "-o", &format!("jsonpath={{.users[0].user.{path}}}")]);
        let certificate = format!(
            "client-certificate-data: {}, client-key-data: {}",
            of("client-certificate-data")?,
            of("client-key-data")?
        );
        let certificate = kubectl(platform, &format!("{now}-certificate"), &certificate)?;
        let account = certificate.ok(&["create", "token", "default", "--duration=10m"])?;
        let fixed = platform.vctl(&["kubeconfig", "dev", "--static", "--ttl", "1h"])?.ok()?;
        let fixed = fixed.lines().find_map(|line| line.trim().strip_prefix("token: ")).unwrap_or_default().to_owned();
        Ok(vec![
            ("the certificate".into(), certificate),
            (
                "the ServiceAccount's token".into(),
                kubectl(platform, &format!("{now}-account"), &format!("token: '{}'", account.trim()))?,
            ),
            ("the platform's token".into(), kubectl(platform, &format!("{now}-fixed"), &format!("token: '{fixed}'"))?),
        ])
    };
    let read = ["get", "secret", "precious", "-o", "jsonpath={.data.word}"];
    let old = credentials(&platform, "old")?;
    for (what, k) in &old {
        ensure!(k.ok(&read)? == "aHVzaA==", "{what} counts");
    }

    platform.restart_at(LATER)?;
    for (what, k) in &old {
        let output = k.run(&read)?;
        ensure!(output.code != 0 && output.stdout.is_empty(), "{what}: {output:?}");
        // kubernetes: staging/src/k8s.io/kubectl/pkg/cmd/util/helpers.go (StandardErrorMessage).
        ensure!(output.stderr.contains("You must be logged in to the server"), "{what}: {output:?}");
        let log = k.run(&["get", "secrets", "-v=8"])?.refused()?;
        ensure!(log.contains("401 Unauthorized") && !log.contains("aHVzaA"), "{what}: {log}");
    }
    for (what, k) in credentials(&platform, "new")? {
        ensure!(k.ok(&read)? == "aHVzaA==", "{what} is new and counts");
    }
    Ok(())
}
