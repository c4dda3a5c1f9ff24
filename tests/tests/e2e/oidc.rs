//! ID tokens of a real OpenID Connect provider (npm `oidc-provider`), with kubectl.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use vctl_runtime::pki::{Authority, Validity};
use vctl_tests::{
    kubectl::Kubectl,
    platform::{Platform, Workers},
};

/// The provider and its client; see `oidc/provider.mjs`.
pub(crate) struct Provider {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    pub(crate) issuer: String,
    pub(crate) authority: PathBuf,
}

impl Provider {
    fn start(dir: &Path) -> Result<Self> {
        Self::start_for(dir, None)
    }

    /// With a portal (its address, our secret for it, and its authority) as a client.
    pub(crate) fn start_for(dir: &Path, portal: Option<(&str, &str, &Path)>) -> Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/oidc-provider");
        let installed = Command::new(script).output().context("running scripts/oidc-provider")?;
        ensure!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        let installed = PathBuf::from(String::from_utf8(installed.stdout)?.trim());

        let validity = Validity::from_now(jiff::Timestamp::now(), std::time::Duration::from_hours(1));
        let authority = Authority::generate("provider", validity)?;
        let identity = authority.server(&["localhost".to_owned(), "127.0.0.1".to_owned()], validity)?;
        let file = |name: &str, text: &str| {
            let path = dir.join(name);
            std::fs::write(&path, text).map(|()| path)
        };
        let authority = file("provider-ca.crt", authority.certificate_pem())?;
        let (certificate, key) =
            (file("provider.crt", &identity.certificate_pem)?, file("provider.key", &identity.key_pem)?);
        let mut trusted = std::fs::read_to_string(&authority)?;
        let mut command = Command::new("node");
        command.arg(installed.join("provider.mjs")).args([certificate, key]);
        if let Some((address, secret, portal_authority)) = portal {
            command.args([address, secret]);
            trusted.push_str(&std::fs::read_to_string(portal_authority)?);
        }
        let mut child = command
            .env("NODE_EXTRA_CA_CERTS", file("provider-trusts.crt", &trusted)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(dir.join("provider.log"))?)
            .spawn()
            .context("starting node")?;
        let input = child.stdin.take().context("piped")?;
        let output = BufReader::new(child.stdout.take().context("piped")?);
        let mut provider = Self { child, input, output, issuer: String::new(), authority };
        match provider.line() {
            Ok(issuer) => provider.issuer = issuer,
            Err(e) => {
                let log = std::fs::read_to_string(dir.join("provider.log")).unwrap_or_default();
                bail!("{e:#}\n{log}");
            }
        }
        Ok(provider)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.output.read_line(&mut line)? > 0, "the provider has ended");
        Ok(line.trim().to_owned())
    }

    /// The ID token of somebody who signs in.
    fn sign_in(&mut self, account: &str) -> Result<String> {
        writeln!(self.input, "{account}")?;
        self.line()
    }

    /// Changes something there: `groups alice everyone`.
    pub(crate) fn tell(&mut self, command: &str) -> Result<()> {
        writeln!(self.input, "{command}")?;
        let answer = self.line()?;
        ensure!(answer == "ok", "{command}: {answer}");
        Ok(())
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

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
