//! `vctl whoami`.

use clap::Args;
use vctl_api::rest::IdentityView;

use super::{
    Client, Global,
    error::CliError,
    output::{Format, show},
};

/// Arguments of `vctl whoami`.
#[derive(Debug, Args)]
pub(crate) struct Whoami {
    /// How to print it
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Whoami {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        let me: IdentityView = client.get("identity").await?;
        show(self.output, &me, || {
            let groups = if me.groups.is_empty() { "-".to_owned() } else { me.groups.join(", ") };
            format!(
                "server:  {}\nuser:    {}\nid:      {}\nname:    {}\ngroups:  {groups}\nby:      {}\n",
                client.url(),
                me.actor,
                me.user,
                me.name,
                me.credential
            )
        })
    }
}
