//! `vctl platform`: who has which role everywhere, and what each user may have.

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use vctl_api::rest::{Member, Platform, Quota};

use super::{
    Client, Global, completion,
    error::CliError,
    output::{Output, show, table},
    project::{Who, set},
};

/// Arguments of `vctl platform`.
#[derive(Debug, Args)]
pub(crate) struct PlatformCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show who has which role everywhere
    Get(Output),
    /// Give somebody a role everywhere; one they have there is replaced
    Add {
        #[command(flatten)]
        who: Who,
        /// viewer, developer, maintainer, admin, auditor, platform-admin, or a role of your own
        #[arg(long, add = ArgValueCandidates::new(completion::roles))]
        role: String,
        #[command(flatten)]
        print: Output,
    },
    /// Take somebody's role everywhere
    Remove {
        #[command(flatten)]
        who: Who,
        #[command(flatten)]
        print: Output,
    },
    /// Say what each user may have, over all projects; what is not given stays
    Set {
        #[command(flatten)]
        limits: UserLimits,
        #[command(flatten)]
        print: Output,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct UserLimits {
    /// Most environments of each user
    #[arg(long, value_name = "N")]
    environments_per_user: Option<u32>,
    /// Most processors that pods request in those that are awake; none: no limit
    #[arg(long, value_name = "QUANTITY")]
    cpu_per_user: Option<String>,
    /// Most memory that they request; none: no limit
    #[arg(long, value_name = "QUANTITY")]
    memory_per_user: Option<String>,
    /// Most storage that is claimed, asleep or awake; none: no limit
    #[arg(long, value_name = "QUANTITY")]
    storage_per_user: Option<String>,
}

impl PlatformCommand {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        let mut platform: Platform = client.get("platform").await?;
        let print = match self.action {
            Action::Get(print) => return show(print.output, &platform, || render(&platform)),
            Action::Add { who, role, print } => {
                let (kind, name) = who.member()?;
                platform.settings.members.retain(|m| (m.kind, &m.name) != (kind, &name));
                platform.settings.members.push(Member { kind, name, role });
                print
            }
            Action::Remove { who, print } => {
                let (kind, name) = who.member()?;
                let before = platform.settings.members.len();
                platform.settings.members.retain(|m| (m.kind, &m.name) != (kind, &name));
                if platform.settings.members.len() == before {
                    return Err(CliError::Failed(format!("{name:?} has no role everywhere: see `vctl platform get`")));
                }
                print
            }
            Action::Set { limits, print } => {
                let quota = &mut platform.settings.user_quota;
                quota.environments = limits.environments_per_user.or(quota.environments);
                set(&mut quota.cpu, limits.cpu_per_user);
                set(&mut quota.memory, limits.memory_per_user);
                set(&mut quota.storage, limits.storage_per_user);
                print
            }
        };
        // Unless somebody else has changed it at the same moment.
        let platform: Platform = client.put_if("platform", platform.revision, &platform.settings).await?;
        show(print.output, &platform, || render(&platform))
    }
}

fn render(platform: &Platform) -> String {
    let quota = platform.settings.user_quota.environments.map_or("any number".to_owned(), |n| n.to_string());
    let row = |m: &Member| [format!("{:?}", m.kind).to_lowercase(), m.name.clone(), m.role.clone()];
    let rows: Vec<_> = platform.settings.members.iter().map(row).collect();
    let Quota { cpu, memory, storage, .. } = &platform.settings.user_quota;
    let mut text = format!("environments of each user: {quota}\n");
    for (name, limit) in [("cpu", cpu), ("memory", memory), ("storage", storage)] {
        if let Some(limit) = limit {
            text.push_str(&format!("{name} of each user: {limit}\n"));
        }
    }
    text + "\n" + &table(["KIND", "MEMBER", "ROLE"], &rows)
}
