//! `vctl user`.

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use jiff::Timestamp;
use vctl_api::rest::{self, ChangeUser, Page};

use super::{
    Client, Global,
    client::segment,
    completion,
    error::CliError,
    output::{Format, age, print, show, table},
};

/// Arguments of `vctl user`.
#[derive(Debug, Args)]
pub(crate) struct User {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the people who have signed in
    #[command(visible_alias = "ls")]
    List {
        /// How to print them
        #[arg(long, short, value_enum, default_value_t)]
        output: Format,
    },
    /// Let nothing of somebody count from now on: sessions, logins, keys, tokens
    Disable {
        /// Id of the user
        #[arg(add = ArgValueCandidates::new(completion::users))]
        id: String,
    },
    /// Let somebody in again
    Enable {
        /// Id of the user
        #[arg(add = ArgValueCandidates::new(completion::users))]
        id: String,
    },
    /// Remove somebody with everything by which they could come in
    Delete {
        /// Id of the user
        #[arg(add = ArgValueCandidates::new(completion::users))]
        id: String,
    },
}

impl User {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        let path = |id: &str| format!("users/{}", segment(id));
        match self.command {
            Command::List { output } => {
                let page: Page<rest::User> = client.get("users").await?;
                show(output, &page.items, || render(&page.items, Timestamp::now()))
            }
            Command::Disable { id } => {
                let _: rest::User = client.patch(&path(&id), &ChangeUser { disabled: true }).await?;
                print(&format!("{id} is disabled\n"))
            }
            Command::Enable { id } => {
                let _: rest::User = client.patch(&path(&id), &ChangeUser { disabled: false }).await?;
                print(&format!("{id} is enabled\n"))
            }
            Command::Delete { id } => {
                client.delete_nothing(&path(&id)).await?;
                print(&format!("{id} is removed\n"))
            }
        }
    }
}

fn render(users: &[rest::User], now: Timestamp) -> String {
    if users.is_empty() {
        return "nobody has signed in yet\n".to_owned();
    }
    let row = |u: &rest::User| {
        let state = if u.disabled { "disabled" } else { "enabled" };
        [
            u.id.clone(),
            u.email.clone().unwrap_or_else(|| u.name.clone()),
            state.to_owned(),
            age(u.last_sign_in, now),
            u.groups.join(","),
        ]
    };
    table(["ID", "USER", "STATE", "LAST SIGN-IN", "GROUPS"], &users.iter().map(row).collect::<Vec<_>>())
}
