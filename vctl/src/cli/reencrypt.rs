//! `vctl reencrypt`.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::{
    Client, Global,
    error::CliError,
    output::{Output, show},
};

/// Arguments of `vctl reencrypt`.
#[derive(Debug, Args)]
pub(crate) struct Reencrypt {
    #[command(flatten)]
    print: Output,
}

#[derive(Deserialize, Serialize)]
struct Done {
    values: u64,
}

impl Reencrypt {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let done: Done = Client::open(global)?.upload("reencrypt", Vec::new()).await?;
        show(self.print.output, &done, || {
            format!("{} values were encrypted anew; the other keys are not needed any more\n", done.values)
        })
    }
}
