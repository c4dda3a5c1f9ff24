//! `vctl token`: the credential plugin of kubectl (`client.authentication.k8s.io/v1`).

use std::{fs, path::PathBuf};

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use vctl_api::rest::{CreateEnvironmentToken, EnvironmentToken};

use super::{Client, Global, client::segment, directories, error::CliError, kubeconfig::write_private, output::print};

/// A kept token is used until so long before its end.
const MARGIN: SignedDuration = SignedDuration::from_secs(60);

/// Arguments of `vctl token`.
#[derive(Debug, Args)]
pub(crate) struct Token {
    /// Name of the environment
    #[arg(long, value_name = "NAME")]
    environment: String,
    /// Server of the environment, which you have signed in to [default: as for all commands]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

/// A token as it is kept between two calls of kubectl.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// SHA-256 of the login it was made with: after another one it is made anew.
    login: String,
    token: EnvironmentToken,
}

impl Token {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = match &self.server {
            Some(server) => Client::of_server(global, server)?,
            None => Client::open(global)?,
        };
        let (file, login) = (cache_file(client.url(), &self.environment), client.login_digest());
        let now = Timestamp::now();
        let kept = file.as_ref().and_then(|f| fs::read(f).ok()).and_then(|t| serde_json::from_slice::<Kept>(&t).ok());
        let token = match kept.filter(|k| k.login == login && k.token.expires_at.duration_since(now) > MARGIN) {
            Some(kept) => kept.token,
            None => {
                let path = format!("environments/{}/token", segment(&self.environment));
                let token: EnvironmentToken = client.post(&path, &CreateEnvironmentToken::default()).await?;
                let kept = Kept { login, token };
                if let Some(file) = &file {
                    keep(file, &kept)?;
                }
                kept.token
            }
        };
        let credential = serde_json::json!({
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "spec": { "interactive": false },
            "status": { "token": token.token, "expirationTimestamp": token.expires_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string() },
        });
        print(&format!("{credential}\n"))
    }
}

fn keep(file: &std::path::Path, kept: &Kept) -> Result<(), CliError> {
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir).map_err(CliError::file(dir))?;
    }
    let text = serde_json::to_vec(kept).map_err(|e| CliError::Failed(e.to_string()))?;
    write_private(file, &text)
}

/// Where a token is kept; none without a home.
fn cache_file(server: &str, environment: &str) -> Option<PathBuf> {
    let base = directories::cache()?;
    let name = hex::encode(&Sha256::digest(format!("{server}\n{environment}"))[..16]);
    Some(base.join("vctl").join("tokens").join(format!("{name}.json")))
}
