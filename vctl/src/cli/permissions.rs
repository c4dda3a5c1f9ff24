//! `vctl permissions`.

use clap::Args;
use clap_complete::ArgValueCandidates;
use vctl_api::rest::Permissions;

use super::{
    Client, Global,
    client::segment,
    completion,
    error::CliError,
    output::{Output, show},
};

/// Arguments of `vctl permissions`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// In this project [default: on the platform]
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::projects))]
    project: Option<String>,
    /// With this environment
    #[arg(long, value_name = "NAME", conflicts_with = "project", add = ArgValueCandidates::new(completion::environments))]
    environment: Option<String>,
    #[command(flatten)]
    print: Output,
}

impl Show {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let query = match (&self.project, &self.environment) {
            (Some(name), _) => format!("?project={}", segment(name)),
            (None, Some(name)) => format!("?environment={}", segment(name)),
            (None, None) => String::new(),
        };
        let may: Permissions = Client::open(global)?.get(&format!("permissions{query}")).await?;
        show(self.print.output, &may, || match may.permissions.as_slice() {
            [] => "you may do nothing there\n".to_owned(),
            all => all.join("\n"),
        })
    }
}
