//! `vctl backup`.

use std::path::PathBuf;

use clap::Args;

use super::{Client, Global, error::CliError, output::print, snapshot::save};

/// Arguments of `vctl backup`.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// File to write; it holds all Secrets and keys as they are. `vctl up --restore FILE` fills an empty store from it, `vctl
    /// restore FILE --from NAME` puts one environment back
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

impl Backup {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        let backup = save(&client, "backup", &self.output).await?;
        let count = backup.names().len();
        let environments = if count == 1 { "environment" } else { "environments" };
        print(&format!("everything is in {} ({count} {environments})\n", self.output.display()))
    }
}
