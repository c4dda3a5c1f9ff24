//! ID tokens of a real OpenID Connect provider (npm `oidc-provider`), with kubectl.

use anyhow::{Result, ensure};
use vctl_tests::{
    kubectl::Kubectl,
    platform::{Platform, Workers},
};

use crate::company::Provider;

/// A kubeconfig that has no credentials: only `--token` counts.
fn nobody(platform: &Platform, name: &str) -> Result<Kubectl> {
    let text = std::fs::read_to_string(platform.kubeconfig(name)?)?;
    let kept: Vec<&str> =
        text.lines().filter(|l| !l.contains("client-certificate-data") && !l.contains("client-key-data")).collect();
    let path = platform.scratch().join("nobody.kubeconfig");
    std::fs::write(&path, kept.join("\n"))?;
    Kubectl::new("1.33", &path, platform.scratch())
}

#[test]
fn id_tokens_are_users_with_groups() -> Result<()> {
    let platform = Platform::start_configured(Workers::Simulated, &["--allow-private-webhooks"], &[])?;
    let mut provider = Provider::start(platform.scratch())?;
    let authority = provider.authority.display().to_string();
    let issuer = provider.issuer.clone();
    platform
        .vctl(&[
            "create",
            "e",
            "--template",
            "blank",
            "--oidc-issuer-url",
            &issuer,
            "--oidc-client-id",
            "kubernetes",
            "--oidc-username-claim",
            "email",
            "--oidc-groups-claim",
            "groups",
            "--oidc-groups-prefix",
            "oidc:",
            "--oidc-ca-file",
            &authority,
        ])?
        .ok()?;
    let admin = platform.kubectl("1.33", "e")?;
    admin.ok(&["create", "clusterrolebinding", "developers", "--clusterrole=view", "--group=oidc:developers"])?;

    let k = nobody(&platform, "e")?;
    let (alice, bob, mallory) = (provider.sign_in("alice")?, provider.sign_in("bob")?, provider.sign_in("mallory")?);
    let said = k.ok(&["--token", &alice, "auth", "whoami", "-o", "json"])?;
    let said: serde_json::Value = serde_json::from_str(&said)?;
    let user = &said["status"]["userInfo"];
    ensure!(user["username"] == "alice@example.com", "{said}");
    ensure!(
        user["groups"] == serde_json::json!(["oidc:developers", "oidc:everyone", "system:authenticated"]),
        "{said}"
    );
    k.ok(&["--token", &alice, "get", "pods", "-A"])?;
    let why = k.run(&["--token", &alice, "create", "configmap", "x"])?.refused()?;
    ensure!(why.contains(r#"User "alice@example.com" cannot create resource "configmaps""#), "{why}");
    let why = k.run(&["--token", &bob, "get", "pods"])?.refused()?;
    ensure!(why.contains(r#"User "bob@example.com" cannot list resource "pods""#), "{why}");
    // An address that is not verified is nobody's.
    let why = k.run(&["--token", &mallory, "get", "pods"])?.refused()?;
    ensure!(why.contains("must be logged in") || why.contains("Unauthorized"), "{why}");

    // The structured form, by CEL, in place of the options; it counts at once.
    let structured = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer:\n    url: {issuer}\n    \
         audiences: [kubernetes]\n    certificateAuthority: |\n{}  claimMappings:\n    username: {{expression: \"'oidc:' + claims.sub\"}}\n    \
         groups: {{expression: \"claims.groups.filter(g, g == 'developers')\"}}\n",
        std::fs::read_to_string(&provider.authority)?
            .lines()
            .map(|l| format!("      {l}\n"))
            .collect::<Vec<_>>()
            .concat()
    );
    let file = platform.scratch().join("authentication.yaml");
    std::fs::write(&file, structured)?;
    let file = file.display().to_string();
    platform.vctl(&["authentication", "e", "--authentication-config", &file])?.ok()?;
    let said = k.ok(&["--token", &alice, "auth", "whoami"])?;
    ensure!(said.contains("oidc:alice") && said.contains("developers") && !said.contains("everyone"), "{said}");
    let shown = platform.vctl(&["authentication", "e"])?.ok()?;
    ensure!(shown.contains(&issuer), "{shown}");

    platform.vctl(&["authentication", "e", "--none"])?.ok()?;
    k.run(&["--token", &alice, "auth", "whoami"])?.refused()?;
    std::fs::write(
        &file,
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt: [{issuer: {url: 'http://x', audiences: [a]}, claimMappings: {username: {claim: sub}}}]\n",
    )?;
    let why = platform.vctl(&["authentication", "e", "--authentication-config", &file])?.refused()?;
    ensure!(why.contains("jwt[0].issuer.url") && why.contains("prefix is required"), "{why}");
    Ok(())
}
