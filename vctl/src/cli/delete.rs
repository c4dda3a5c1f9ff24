//! `vctl delete`.

use clap::Args;
use clap_complete::ArgValueCandidates;
use vctl_api::rest::{Environment, Job, Permissions};

use super::{
    Client, Global,
    client::segment,
    completion,
    error::CliError,
    output::{Format, show},
    progress,
};

/// What one needs to delete an environment.
const PERMISSION: &str = "environments.delete";

/// Arguments of `vctl delete`.
#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Name of the environment
    #[arg(add = ArgValueCandidates::new(completion::environments))]
    name: String,
    /// Wait until nothing of it is left
    #[arg(long)]
    wait: bool,
    /// Only show what would be deleted
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,
    /// How to print the job that deletes it
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Delete {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        let path = format!("environments/{}", segment(&self.name));
        if self.dry_run {
            let environment: Environment = client.get(&path).await?;
            allowed(&client, &self.name).await?;
            return show(self.output, &environment, || would(&environment));
        }
        let mut job: Job = client.delete(&path).await?;
        let text = if self.wait {
            job = progress::follow(&client, &job.id).await?;
            format!("environment {} is deleted\n", job.environment)
        } else {
            format!("environment {} is being deleted\n", job.environment)
        };
        show(self.output, &job, || text)
    }
}

/// Whether the caller may delete it: a dry run promises nothing that would be refused.
async fn allowed(client: &Client, name: &str) -> Result<(), CliError> {
    let may: Permissions = client.get(&format!("permissions?environment={}", segment(name))).await?;
    if may.permissions.iter().any(|p| p == PERMISSION) {
        return Ok(());
    }
    Err(CliError::Forbidden(format!("you may not delete environment {name:?}: you need {PERMISSION}")))
}

fn would(e: &Environment) -> String {
    format!(
        "environment {} would be deleted, with its {} pods and everything that is stored in it ({} {}, of {}); nothing was changed\n",
        e.name, e.pods.total, e.template, e.template_version, e.owner
    )
}
