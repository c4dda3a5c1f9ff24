//! `vctl compact`.

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde::{Deserialize, Serialize};

use super::{
    Client, Global,
    client::segment,
    completion,
    error::CliError,
    output::{Output, show},
};

/// Arguments of `vctl compact`.
#[derive(Debug, Args)]
pub(crate) struct Compact {
    /// Name of the environment
    #[arg(add = ArgValueCandidates::new(completion::environments))]
    name: String,
    #[command(flatten)]
    print: Output,
}

#[derive(Deserialize, Serialize)]
struct Done {
    revision: u64,
}

impl Compact {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let path = format!("environments/{}/compact", segment(&self.name));
        let done: Done = Client::open(global)?.upload(&path, Vec::new()).await?;
        show(self.print.output, &done, || {
            format!("history of {} before revision {} is gone\n", self.name, done.revision)
        })
    }
}
