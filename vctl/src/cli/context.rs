//! `vctl context`.

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;

use super::{
    Global, completion,
    contexts::{Contexts, config_file},
    error::CliError,
    output::{Format, print, show, table},
};

/// Arguments of `vctl context`.
#[derive(Debug, Args)]
pub(crate) struct Context {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the servers that you have signed in to
    #[command(visible_alias = "ls")]
    List {
        /// How to print them
        #[arg(long, short, value_enum, default_value_t)]
        output: Format,
    },
    /// Talk to this server from now on; `local` for the one of the data dir
    Use {
        /// Name of the context
        #[arg(add = ArgValueCandidates::new(completion::contexts_and_local))]
        name: String,
    },
    /// Forget a server; sign out first with `vctl logout`
    Remove {
        /// Name of the context
        #[arg(add = ArgValueCandidates::new(completion::contexts))]
        name: String,
    },
}

/// Stands for the server of the data dir.
const LOCAL: &str = "local";

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    server: String,
    actor: String,
    signed_in: bool,
    current: bool,
}

impl Context {
    pub(super) async fn run(self, _: &Global) -> Result<(), CliError> {
        let path = config_file()?;
        match self.command {
            Command::List { output } => {
                let all = Contexts::load(&path)?;
                let row = |c: super::contexts::Entry| Row {
                    current: all.current_context.as_ref() == Some(&c.name),
                    signed_in: !c.refresh_token.is_empty(),
                    name: c.name,
                    server: c.server,
                    actor: c.actor,
                };
                let rows: Vec<Row> = all.contexts.clone().into_iter().map(row).collect();
                show(output, &rows, || {
                    if rows.is_empty() {
                        return "no contexts yet: sign in with `vctl login --server URL`\n".to_owned();
                    }
                    let cells = |r: &Row| {
                        let who = if r.signed_in { r.actor.clone() } else { "signed out".to_owned() };
                        [if r.current { "*" } else { "" }.to_owned(), r.name.clone(), r.server.clone(), who]
                    };
                    table(["", "NAME", "SERVER", "USER"], &rows.iter().map(cells).collect::<Vec<_>>())
                })
            }
            Command::Use { name } => {
                Contexts::change(&path, |all| {
                    all.current_context = if name == LOCAL { None } else { Some(all.get(&name)?.name.clone()) };
                    Ok(())
                })
                .await?;
                print(&format!("commands talk to {name} now\n"))
            }
            Command::Remove { name } => {
                let left = Contexts::change(&path, |all| {
                    let signed_in = !all.get(&name)?.refresh_token.is_empty();
                    all.contexts.retain(|c| c.name != name);
                    if all.current_context.as_ref() == Some(&name) {
                        all.current_context = None;
                    }
                    Ok(signed_in)
                })
                .await?;
                let hint = if left { "; its login ends by itself when it is not used for a week" } else { "" };
                print(&format!("context {name} is forgotten{hint}\n"))
            }
        }
    }
}
