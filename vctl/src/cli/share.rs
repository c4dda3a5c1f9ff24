//! `vctl share`.

use clap::Args;
use vctl_api::rest::{Environment, Share as Body, ShareAccess};

use super::{Client, Global, client::segment, error::CliError, output::print};

/// Arguments of `vctl share`.
#[derive(Debug, Args)]
pub(crate) struct Share {
    /// Environment
    name: String,
    /// The user, by email address or id
    user: String,
    /// They see what is in it, and change nothing
    #[arg(long)]
    read_only: bool,
    /// Share it with them no more
    #[arg(long, conflicts_with = "read_only")]
    remove: bool,
}

impl Share {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        let path = format!("environments/{}/shares/{}", segment(&self.name), segment(&self.user));
        if self.remove {
            let _: Environment = client.delete(&path).await?;
            return print(&format!("{} is not shared with {} any more\n", self.name, self.user));
        }
        let access = if self.read_only { ShareAccess::ReadOnly } else { ShareAccess::Admin };
        let _: Environment = client.put(&path, &Body { access }).await?;
        let how = if self.read_only { ", for reading" } else { "" };
        print(&format!("{} is shared with {}{how}\n", self.name, self.user))
    }
}
