//! `vctl login-link`.

use clap::Args;
use vctl_api::rest;

use super::{
    Client, Global,
    error::CliError,
    output::{Format, show},
};

/// Arguments of `vctl login-link`.
#[derive(Debug, Args)]
pub(crate) struct LoginLink {
    /// How to print it
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl LoginLink {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let link: rest::LoginLink = Client::open(global)?.post("login-links", &serde_json::Value::Null).await?;
        show(self.output, &link, || link.url.clone())
    }
}
