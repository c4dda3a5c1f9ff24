//! `vctl login` and `vctl logout`.

mod logins;
mod loopback;

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
    time::Duration,
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use clap::Args;
use sha2::{Digest as _, Sha256};
use vctl_api::rest::{DeviceAuthorization, TokenResponse};

use self::{logins::Logins, loopback::Loopback};
use super::{
    Global, authorities,
    client::{CLIENT_ID, http, oauth},
    contexts::{Contexts, Entry, config_file},
    error::CliError,
    output::{print, visible},
};

/// How long a person may take.
const LIMIT: Duration = Duration::from_mins(10);
const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// Arguments of `vctl login`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Login {
    #[command(subcommand)]
    logins: Option<Logins>,
    #[command(flatten)]
    sign_in: SignIn,
}

/// How to sign in, and where.
#[derive(Debug, Args)]
struct SignIn {
    /// Address of the server, such as https://vctl.example.com
    #[arg(long, value_name = "URL", value_parser = server)]
    server: Option<String>,
    /// Name of the issuer to sign in at [default: choose in the browser]
    #[arg(long, value_name = "NAME", conflicts_with = "device")]
    issuer: Option<String>,
    /// Authority (PEM) that signed the server's certificate [default: those of this machine]
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Show a code to enter in a browser on another machine
    #[arg(long)]
    device: bool,
    /// Only print the address to open
    #[arg(long)]
    no_browser: bool,
    /// What to call the context [default: host and port of the server]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// Arguments of `vctl logout`.
#[derive(Debug, Args)]
pub(crate) struct Logout {}

/// What `--server` takes.
fn server(text: &str) -> Result<String, String> {
    let wrong = || "an address such as https://vctl.example.com:8443 is wanted, without path".to_owned();
    let url: url::Url = text.parse().map_err(|_| wrong())?;
    let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    if url.scheme() != "https" || url.host().is_none() || !bare {
        return Err(wrong());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

impl Login {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        if let Some(logins) = self.logins {
            return logins.run(global).await;
        }
        let server = self.sign_in.server.clone().ok_or_else(|| {
            CliError::Usage(
                "say where: `vctl login --server https://vctl.example.com`; `vctl login list` shows where you are signed in".to_owned(),
            )
        })?;
        self.sign_in.run(server).await
    }
}

impl SignIn {
    async fn run(self, server: String) -> Result<(), CliError> {
        let authority = authorities::read("--ca-file", self.ca_file.as_deref())?;
        let http = http(authority.as_ref().map(String::as_bytes))?;
        let file = config_file()?;
        // Before anybody signs in: a file that cannot be read is told now.
        Contexts::load(&file)?;
        let tokens =
            if self.device { by_device(&http, &server).await? } else { self.by_browser(&http, &server).await? };
        let name = self.name.clone().unwrap_or_else(|| server.trim_start_matches("https://").to_owned());
        let mut entry = Entry {
            name: name.clone(),
            server: server.clone(),
            certificate_authority: authority,
            actor: String::new(),
            refresh_token: String::new(),
            access_token: String::new(),
            expires_at: None,
        };
        entry.take(tokens);
        let actor = entry.actor.clone();
        Contexts::change(&file, |all| {
            all.put(entry);
            all.current_context = Some(name.clone());
            Ok(())
        })
        .await?;
        print(&format!("signed in at {} as {actor}; commands talk to it now (context {name})\n", server))
    }

    /// Authorization code with PKCE to a port of this machine (RFC 8252).
    async fn by_browser(&self, http: &reqwest::Client, server: &str) -> Result<TokenResponse, CliError> {
        let loopback = Loopback::bind().await?;
        let random = || BASE64.encode(rand::random::<[u8; 32]>());
        let (state, verifier) = (random(), random());
        let challenge = BASE64.encode(Sha256::digest(&verifier));
        let query = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs([
                ("client_id", CLIENT_ID),
                ("response_type", "code"),
                ("redirect_uri", loopback.address()),
                ("state", &state),
                ("code_challenge", &challenge),
                ("code_challenge_method", "S256"),
                ("client_name", &machine()),
            ])
            .finish();
        let path = format!("/oauth/authorize?{query}");
        let address = match &self.issuer {
            None => format!("{server}{path}"),
            Some(issuer) => {
                let query = url::form_urlencoded::Serializer::new(String::new())
                    .extend_pairs([("issuer", issuer.as_str()), ("next", &path)])
                    .finish();
                format!("{server}/auth/start?{query}")
            }
        };
        tell(&format!("Sign in with your browser:\n  {address}\n"))?;
        if !self.no_browser {
            open(&address);
        }
        let answer = tokio::time::timeout(LIMIT, loopback.answer(&state)).await;
        let code = answer.map_err(|_| CliError::Failed("nobody signed in within 10 minutes".to_owned()))??;
        let fields = [
            ("grant_type", "authorization_code"),
            ("client_id", CLIENT_ID),
            ("code", &code),
            ("code_verifier", &verifier),
            ("redirect_uri", loopback.address()),
        ];
        let answer = oauth::<TokenResponse>(http, server, "token", &fields).await?;
        answer.map_err(|e| CliError::Failed(format!("the server refused the sign-in: {}", e.error_description)))
    }
}

/// A code that is entered on another machine (RFC 8628).
async fn by_device(http: &reqwest::Client, server: &str) -> Result<TokenResponse, CliError> {
    let machine = machine();
    let fields = [("client_id", CLIENT_ID), ("client_name", machine.as_str())];
    let device = oauth::<DeviceAuthorization>(http, server, "device_authorization", &fields).await?;
    let device = device.map_err(|e| CliError::Failed(e.error_description))?;
    tell(&format!(
        "Open {} and enter the code\n  {}\nor open {}\n",
        device.verification_uri, device.user_code, device.verification_uri_complete
    ))?;
    let mut pause = Duration::from_secs(device.interval.max(1));
    let fields = [("grant_type", DEVICE_GRANT), ("client_id", CLIENT_ID), ("device_code", &device.device_code)];
    loop {
        tokio::time::sleep(pause).await;
        match oauth::<TokenResponse>(http, server, "token", &fields).await? {
            Ok(tokens) => return Ok(tokens),
            Err(e) if e.error == "authorization_pending" => {}
            // RFC 8628, section 3.5: five seconds more from now on.
            Err(e) if e.error == "slow_down" => pause += Duration::from_secs(5),
            Err(e) => return Err(CliError::Failed(e.error_description)),
        }
    }
}

impl Logout {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let file = config_file()?;
        let _lock = Contexts::lock(&file).await?;
        let mut all = Contexts::load(&file)?;
        let name = global.context.clone().or_else(|| all.current_context.clone());
        let name = name.ok_or_else(|| {
            CliError::Usage("you talk to the local server: name the one to sign out of with --context".to_owned())
        })?;
        let mut entry = all.get(&name)?.clone();
        if !entry.refresh_token.is_empty() {
            let http = http(entry.certificate_authority.as_ref().map(String::as_bytes))?;
            let fields = [("client_id", CLIENT_ID), ("token", entry.refresh_token.as_str())];
            let ended = oauth::<()>(&http, &entry.server, "revoke", &fields).await?;
            ended.map_err(|e| CliError::Failed(e.error_description))?;
        }
        (entry.refresh_token, entry.access_token, entry.expires_at) = (String::new(), String::new(), None);
        let server = entry.server.clone();
        all.put(entry);
        if all.current_context.as_ref() == Some(&name) {
            all.current_context = None;
        }
        all.write(&file)?;
        print(&format!("signed out of {server}\n"))
    }
}

/// Name of this machine, for the person who lets it in.
fn machine() -> String {
    let file = fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned());
    let variable = || ["HOSTNAME", "COMPUTERNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    file.or_else(variable).unwrap_or_default()
}

fn tell(text: &str) -> Result<(), CliError> {
    // Some of it is the server's, which need not be trusted yet.
    Ok(io::stderr().write_all(visible(text).as_bytes())?)
}

/// Opens the browser where there is one; the address is printed in any case.
fn open(address: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let quiet = std::process::Stdio::null;
    // Without a desktop there is none, which the printed address is for.
    let _ = std::process::Command::new(program).arg(address).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
}
