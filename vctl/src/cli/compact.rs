//! `vctl compact`.

use clap::Args;
use serde::Deserialize;

use super::{Client, Global, client::segment, error::CliError, output::print};

/// Arguments of `vctl compact`.
#[derive(Debug, Args)]
pub(crate) struct Compact {
    /// Name of the environment
    name: String,
}

#[derive(Deserialize)]
struct Done {
    revision: u64,
}

impl Compact {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let path = format!("environments/{}/compact", segment(&self.name));
        let Done { revision } = Client::open(global)?.upload(&path, Vec::new()).await?;
        print(&format!("history of {} before revision {revision} is gone\n", self.name))
    }
}
