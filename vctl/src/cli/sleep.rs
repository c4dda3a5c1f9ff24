//! `vctl sleep`.

use clap::Args;
use clap_complete::ArgValueCandidates;
use vctl_api::rest::Job;

use super::{
    Client, Global,
    client::segment,
    completion,
    error::CliError,
    output::{Format, show},
    progress,
};

/// Arguments of `vctl sleep`.
#[derive(Debug, Args)]
pub(crate) struct Sleep {
    /// Name of the environment
    #[arg(add = ArgValueCandidates::new(completion::environments))]
    name: String,
    /// Return as soon as it is asked for
    #[arg(long)]
    no_wait: bool,
    /// How to print the job that does it
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Sleep {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        let name = &self.name;
        let job: Job = client.post(&format!("environments/{}/sleep", segment(name)), &serde_json::json!({})).await?;
        if self.no_wait {
            return show(self.output, &job, || format!("job {} is at it; see `vctl get {name}`\n", job.id));
        }
        let job = progress::follow(&client, &job.id).await?;
        show(self.output, &job, || {
            format!("environment {name} sleeps: its objects can be read; a write, or `vctl wake {name}`, wakes it\n")
        })
    }
}
