//! `vctl share`.

use clap::Args;
use clap_complete::ArgValueCandidates;
use vctl_api::rest::{Environment, Share as Body, ShareAccess};

use super::{
    Client, Global,
    client::segment,
    completion,
    error::CliError,
    output::{Format, show},
};

/// Arguments of `vctl share`.
#[derive(Debug, Args)]
pub(crate) struct Share {
    /// Environment
    #[arg(add = ArgValueCandidates::new(completion::environments))]
    name: String,
    /// The user, by email address or id
    #[arg(add = ArgValueCandidates::new(completion::people))]
    user: String,
    /// They see what is in it, and change nothing
    #[arg(long)]
    read_only: bool,
    /// Share it with them no more
    #[arg(long, conflicts_with = "read_only")]
    remove: bool,
    /// How to print the environment
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Share {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        let path = format!("environments/{}/shares/{}", segment(&self.name), segment(&self.user));
        if self.remove {
            let environment: Environment = client.delete(&path).await?;
            let said = format!("{} is not shared with {} any more\n", self.name, self.user);
            return show(self.output, &environment, || said);
        }
        let access = if self.read_only { ShareAccess::ReadOnly } else { ShareAccess::Admin };
        let environment: Environment = client.put(&path, &Body { access }).await?;
        let how = if self.read_only { ", for reading" } else { "" };
        show(self.output, &environment, || format!("{} is shared with {}{how}\n", self.name, self.user))
    }
}
