//! `vctl reencrypt`.

use clap::Args;
use serde::Deserialize;

use super::{Client, Global, error::CliError, output::print};

/// Arguments of `vctl reencrypt`.
#[derive(Debug, Args)]
pub(crate) struct Reencrypt {}

#[derive(Deserialize)]
struct Done {
    values: u64,
}

impl Reencrypt {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let Done { values } = Client::open(global)?.upload("reencrypt", Vec::new()).await?;
        print(&format!("{values} values were encrypted anew; the other keys are not needed any more\n"))
    }
}
