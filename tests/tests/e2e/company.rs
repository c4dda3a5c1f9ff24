//! A company: its OpenID Connect provider (the real npm `oidc-provider`), and a platform whose people sign in there.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use reqwest::Url;
use tempfile::TempDir;
use vctl_runtime::pki::{Authority, Validity};
use vctl_tests::{
    background::Background,
    platform::{Platform, Workers},
    wait,
};

/// The platform's secret at the provider.
pub(crate) const SECRET: &str = "client-secret-of-this-test-0123456789";

/// A platform that trusts a provider, as the issuer `corp`, called "The company". Groups are asked for again every second.
pub(crate) struct Company {
    pub(crate) platform: Platform,
    pub(crate) provider: Provider,
    /// Another one, the issuer `partner`, called "A partner".
    pub(crate) partner: Option<Provider>,
    /// Address of the platform.
    pub(crate) portal: Url,
    /// File with the authority that vouches for the platform.
    pub(crate) authority: PathBuf,
    /// The configuration of the issuer; goes with the rest.
    _configuration: TempDir,
}

impl Company {
    /// Starts both.
    pub(crate) fn start(workers: Workers, variables: &[(&str, &str)]) -> Result<Self> {
        Self::start_all(workers, variables, false)
    }

    /// Starts both, and a provider of a partner.
    pub(crate) fn start_with_partner(workers: Workers) -> Result<Self> {
        Self::start_all(workers, &[], true)
    }

    fn start_all(workers: Workers, variables: &[(&str, &str)], has_partner: bool) -> Result<Self> {
        vctl_runtime::serve::install_crypto_provider();
        // The provider wants to know the portal's address, and the portal the provider's: it starts twice.
        let dir = tempfile::tempdir()?;
        let config = dir.path().join("oidc.yaml");
        std::fs::write(&config, "issuers: {corp: {url: 'https://localhost:1', clientId: vctl}}\n")?;
        let config_text = config.display().to_string();
        let mut platform = Platform::start_configured(workers, &["--oidc-config", &config_text], variables)?;
        let portal = Url::parse(&format!("https://{}", platform.address()))?;
        let authority = platform.data_dir().join("pki/ca.crt");
        let start = |name: &str| {
            let dir = dir.path().join(name);
            std::fs::create_dir(&dir)?;
            Provider::start_for(&dir, Some((origin(&portal), SECRET, &authority, name)))
        };
        let provider = start("corp")?;
        let partner = has_partner.then(|| start("partner")).transpose()?;
        std::fs::write(dir.path().join("secret"), SECRET)?;
        let issuer = |name: &str, title: &str, provider: &Provider| {
            format!(
                "  {name}:\n    title: {title}\n    url: {}\n    clientId: vctl\n    clientSecretFile: secret\n    \
                 scopes: [openid, email, groups]\n    caFile: {}\n",
                provider.issuer,
                provider.authority.display()
            )
        };
        let mut text = format!("refreshInterval: 1s\nissuers:\n{}", issuer("corp", "The company", &provider));
        text.extend(partner.iter().map(|partner| issuer("partner", "A partner", partner)));
        std::fs::write(&config, text)?;
        ensure!(platform.stop_server()? == 0, "the server stops");
        platform.start_server()?;
        Ok(Self { platform, provider, partner, portal, authority, _configuration: dir })
    }

    /// The authorities that vouch for the platform and for the provider.
    pub(crate) fn authorities(&self) -> [PathBuf; 2] {
        [self.authority.clone(), self.provider.authority.clone()]
    }

    /// Begins `vctl login`: the command, which waits, and the address that somebody has to open and allow it at.
    pub(crate) fn begin_login(&self) -> Result<(Background, Url)> {
        self.begin_login_with(&[])
    }

    /// The same, with further arguments.
    pub(crate) fn begin_login_with(&self, more: &[&str]) -> Result<(Background, Url)> {
        let authority = self.authority.display().to_string();
        let arguments = ["login", "--server", origin(&self.portal), "--ca-file", &authority, "--no-browser"];
        let login = self.platform.vctl_command(&[&arguments[..], more].concat())?;
        let login = Background::start(login, "login", self.platform.scratch())?;
        let address = wait::until("vctl login has printed its address", Duration::from_mins(1), || {
            let said = login.printed().map_err(|e| e.to_string())?;
            // A whole line.
            let line = said
                .split_inclusive('\n')
                .map(|l| l.trim_start())
                .find(|l| l.starts_with("https://") && l.ends_with('\n'));
            line.map(|l| l.trim_end().to_owned()).ok_or(said)
        })?;
        Ok((login, Url::parse(&address)?))
    }
}

/// The address of a server as others write it: without the last slash.
pub(crate) fn origin(url: &Url) -> &str {
    url.as_str().trim_end_matches('/')
}

/// The provider and its client; see `oidc/provider.mjs`.
pub(crate) struct Provider {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    pub(crate) issuer: String,
    pub(crate) authority: PathBuf,
}

impl Provider {
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        Self::start_for(dir, None)
    }

    /// With a portal (its address, our secret for it, its authority, and what it calls the provider) as a client.
    pub(crate) fn start_for(dir: &Path, portal: Option<(&str, &str, &Path, &str)>) -> Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/oidc-provider");
        let installed = Command::new(script).output().context("running scripts/oidc-provider")?;
        ensure!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        let installed = PathBuf::from(String::from_utf8(installed.stdout)?.trim());

        let validity = Validity::from_now(jiff::Timestamp::now(), Duration::from_hours(1));
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
        if let Some((address, secret, portal_authority, name)) = portal {
            command.args([address, secret, name]);
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
    pub(crate) fn sign_in(&mut self, account: &str) -> Result<String> {
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
