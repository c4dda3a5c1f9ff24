//! `vctl workers`.

use clap::Args;
use jiff::Timestamp;
use vctl_api::rest::{Page, Worker};

use super::{
    Client, Global,
    error::CliError,
    output::{Output, show},
    status,
};

/// Arguments of `vctl workers`.
#[derive(Debug, Args)]
pub(crate) struct Workers {
    #[command(flatten)]
    print: Output,
}

impl Workers {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let page: Page<Worker> = Client::open(global)?.get("workers").await?;
        show(self.print.output, &page.items, || match page.items.as_slice() {
            [] => "no workers: pods stay pending\n".to_owned(),
            all => status::workers(all, Timestamp::now()),
        })
    }
}
