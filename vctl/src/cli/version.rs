//! `vctl version`.

use clap::Args;
use serde::Serialize;
use vctl_api::rest::ServerStatus;

use super::{
    Client, Global,
    error::CliError,
    output::{Format, show},
};

/// Arguments of `vctl version`.
#[derive(Debug, Args)]
pub(crate) struct Version {
    /// Do not ask the server
    #[arg(long)]
    client: bool,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

#[derive(Serialize)]
struct Versions {
    client: &'static str,
    server: Option<String>,
}

impl Version {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let mut versions = Versions { client: env!("CARGO_PKG_VERSION"), server: None };
        let mut why = String::new();
        if !self.client {
            let asked = async { Client::open(global)?.get::<ServerStatus>("status").await };
            match asked.await {
                Ok(status) => versions.server = Some(status.version),
                // No server is no failure of this command.
                Err(e) => why = e.to_string(),
            }
        }
        show(self.output, &versions, || {
            let mut text = format!("vctl {}\n", versions.client);
            match &versions.server {
                Some(server) => text.push_str(&format!("server {server}\n")),
                None if why.is_empty() => {}
                None => text.push_str(&format!("server: {why}\n")),
            }
            text
        })
    }
}
