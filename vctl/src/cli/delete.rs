//! `vctl delete`.

use clap::Args;
use vctl_api::rest::Job;

use super::{
    Client, Global,
    client::segment,
    error::CliError,
    output::{Format, show},
    progress,
};

/// Arguments of `vctl delete`.
#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Name of the environment
    name: String,
    /// Wait until nothing of it is left
    #[arg(long)]
    wait: bool,
    /// How to print the job that deletes it
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Delete {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        let mut job: Job = client.delete(&format!("environments/{}", segment(&self.name))).await?;
        let text = if self.wait {
            job = progress::follow(&client, &job.id).await?;
            format!("environment {} is deleted\n", job.environment)
        } else {
            format!("environment {} is being deleted\n", job.environment)
        };
        show(self.output, &job, || text)
    }
}
