//! `vctl login list` and `vctl login revoke`: on which machines somebody is signed in.

use clap::Subcommand;
use clap_complete::ArgValueCandidates;
use jiff::Timestamp;
use vctl_api::rest::{ClientLogin, Page};

use crate::cli::{
    Client, Global,
    client::segment,
    completion,
    error::CliError,
    output::{Format, age, print, show, table},
};

/// What to do with logins that are there.
#[derive(Debug, Subcommand)]
pub(crate) enum Logins {
    /// List the machines on which you have signed in with `vctl login`
    #[command(visible_alias = "ls")]
    List {
        /// Those of everybody (administrator)
        #[arg(long)]
        all: bool,
        /// How to print them
        #[arg(long, short, value_enum, default_value_t)]
        output: Format,
    },
    /// End a login at once: its machine has to sign in again
    Revoke {
        /// Its id, as the list shows it
        #[arg(add = ArgValueCandidates::new(completion::logins))]
        id: String,
    },
}

impl Logins {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        match self {
            Self::List { all, output } => {
                let page: Page<ClientLogin> = client.get(if all { "logins?all" } else { "logins" }).await?;
                show(output, &page.items, || render(&page.items, Timestamp::now()))
            }
            Self::Revoke { id } => {
                client.delete_nothing(&format!("logins/{}", segment(&id))).await?;
                print(&format!("login {id} counts no more\n"))
            }
        }
    }
}

fn render(logins: &[ClientLogin], now: Timestamp) -> String {
    if logins.is_empty() {
        return "no logins: `vctl login --server URL` makes one\n".to_owned();
    }
    let row = |l: &ClientLogin| {
        let client = if l.current { format!("{} (this one)", l.client) } else { l.client.clone() };
        let ends = age(now, l.expires_at);
        [l.id.clone(), client, l.actor.clone(), age(l.created_at, now), age(l.used_at, now), ends]
    };
    table(["ID", "MACHINE", "USER", "AGE", "LAST USED", "ENDS IN"], &logins.iter().map(row).collect::<Vec<_>>())
}
