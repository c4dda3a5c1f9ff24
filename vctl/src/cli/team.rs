//! `vctl team` and `vctl role`.

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use vctl_api::rest::{Page, Quota, Role, RoleSettings, Team, TeamSettings};

use super::{
    Client, Global,
    client::segment,
    completion,
    error::CliError,
    output::{Output, print, show, table},
};

/// Arguments of `vctl team`.
#[derive(Debug, Args)]
pub(crate) struct TeamCommand {
    #[command(subcommand)]
    action: TeamAction,
}

#[derive(Debug, Subcommand)]
enum TeamAction {
    /// List teams
    List(Output),
    /// Make a team, or say anew who is in it
    Set {
        /// Name: lower-case letters, digits and '-'
        #[arg(add = ArgValueCandidates::new(completion::teams))]
        name: String,
        /// One line for lists
        #[arg(long, default_value = "")]
        title: String,
        /// A user, by email address or id; may be given several times
        #[arg(long = "user", value_name = "USER", add = ArgValueCandidates::new(completion::people))]
        users: Vec<String>,
        /// A group of the identity provider; may be given several times
        #[arg(long = "group", value_name = "GROUP")]
        groups: Vec<String>,
        /// Most environments of all its people together
        #[arg(long, value_name = "N")]
        environments: Option<u32>,
        /// Most processors that pods request in those that are awake
        #[arg(long, value_name = "QUANTITY")]
        cpu: Option<String>,
        /// Most memory that they request
        #[arg(long, value_name = "QUANTITY")]
        memory: Option<String>,
        /// Most storage that is claimed, asleep or awake
        #[arg(long, value_name = "QUANTITY")]
        storage: Option<String>,
        #[command(flatten)]
        print: Output,
    },
    /// Delete a team that is a member of nothing
    Delete {
        /// Its name
        #[arg(add = ArgValueCandidates::new(completion::teams))]
        name: String,
    },
}

impl TeamCommand {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        match self.action {
            TeamAction::List(Output { output }) => {
                let page: Page<Team> = client.get("teams").await?;
                show(output, &page.items, || {
                    let row = |t: &Team| {
                        [
                            t.name.clone(),
                            t.settings.users.join(","),
                            t.settings.groups.join(","),
                            t.settings.title.clone(),
                        ]
                    };
                    table(["NAME", "USERS", "GROUPS", "TITLE"], &page.items.iter().map(row).collect::<Vec<_>>())
                })
            }
            TeamAction::Set { name, title, users, groups, environments, cpu, memory, storage, print } => {
                let mut settings = TeamSettings { title, users, groups, ..TeamSettings::default() };
                settings.quota = Quota { environments, cpu, memory, storage, ..Quota::default() };
                let team: Team = client.put(&format!("teams/{}", segment(&name)), &settings).await?;
                show(print.output, &team, || format!("team {name} is set\n"))
            }
            TeamAction::Delete { name } => {
                client.delete_nothing(&format!("teams/{}", segment(&name))).await?;
                print(&format!("team {name} is deleted\n"))
            }
        }
    }
}

/// Arguments of `vctl role`.
#[derive(Debug, Args)]
pub(crate) struct RoleCommand {
    #[command(subcommand)]
    action: RoleAction,
}

#[derive(Debug, Subcommand)]
enum RoleAction {
    /// List roles with what they allow
    List(Output),
    /// Make a role, or say anew what it allows
    Set {
        /// Name: lower-case letters, digits and '-'
        #[arg(add = ArgValueCandidates::new(completion::roles))]
        name: String,
        /// One line for lists
        #[arg(long, default_value = "")]
        title: String,
        /// environments.get, environments.*, *.list or *; may be given several times
        #[arg(long = "rule", value_name = "RULE", required = true)]
        rules: Vec<String>,
        #[command(flatten)]
        print: Output,
    },
    /// Delete a role that nobody has
    Delete {
        /// Its name
        #[arg(add = ArgValueCandidates::new(completion::roles))]
        name: String,
    },
}

impl RoleCommand {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        match self.action {
            RoleAction::List(Output { output }) => {
                let page: Page<Role> = client.get("roles").await?;
                show(output, &page.items, || {
                    let row = |r: &Role| {
                        let built_in = if r.built_in { "yes" } else { "no" };
                        [r.name.clone(), built_in.to_owned(), r.settings.title.clone(), r.settings.rules.join(",")]
                    };
                    table(["NAME", "BUILT-IN", "TITLE", "RULES"], &page.items.iter().map(row).collect::<Vec<_>>())
                })
            }
            RoleAction::Set { name, title, rules, print } => {
                let settings = RoleSettings { title, rules };
                let role: Role = client.put(&format!("roles/{}", segment(&name)), &settings).await?;
                show(print.output, &role, || format!("role {name} is set\n"))
            }
            RoleAction::Delete { name } => {
                client.delete_nothing(&format!("roles/{}", segment(&name))).await?;
                print(&format!("role {name} is deleted\n"))
            }
        }
    }
}
