//! `vctl sleep`.

use clap::Args;
use vctl_api::rest::Job;

use super::{Client, Global, client::segment, error::CliError, output::print, progress};

/// Arguments of `vctl sleep`.
#[derive(Debug, Args)]
pub(crate) struct Sleep {
    /// Name of the environment
    name: String,
    /// Return as soon as it is asked for
    #[arg(long)]
    no_wait: bool,
}

impl Sleep {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        let name = &self.name;
        let job: Job = client.post(&format!("environments/{}/sleep", segment(name)), &serde_json::json!({})).await?;
        if self.no_wait {
            return print(&format!("job {} is at it; see `vctl get {name}`\n", job.id));
        }
        progress::follow(&client, &job.id).await?;
        print(&format!(
            "environment {name} sleeps: its objects can be read; a write, or `vctl wake {name}`, wakes it\n"
        ))
    }
}
