//! `vctl break-glass`.

use clap::Args;
use clap_complete::ArgValueCandidates;
use vctl_api::rest::{Approval, Period, RequestRole};

use super::{
    Client, Global, completion,
    error::CliError,
    output::{Output, show},
};

/// Arguments of `vctl break-glass`.
#[derive(Debug, Args)]
pub(crate) struct BreakGlass {
    /// The project
    #[arg(long, add = ArgValueCandidates::new(completion::projects))]
    project: String,
    /// The role
    #[arg(long, default_value = "admin", add = ArgValueCandidates::new(completion::roles))]
    role: String,
    /// For how long; 8 hours at most
    #[arg(long = "for", value_name = "TIME", default_value = "1h")]
    period: Period,
    /// Why: everybody who is told of it reads this
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    output: Output,
}

impl BreakGlass {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let Self { project, role, period, reason, output } = self;
        let request = RequestRole { project, role: Some(role), period: Some(period), reason };
        let approval: Approval = Client::open(global)?.post("break-glass", &request).await?;
        show(output.output, &approval, || {
            let until = approval.granted_until.map(|at| at.to_string()).unwrap_or_default();
            format!(
                "you have role {} in project {} until {until}. What you do is reviewed afterwards.\n\nNext:\n  \
                 vctl approval withdraw {}    give it back when you are done\n",
                approval.role.as_deref().unwrap_or_default(),
                approval.project,
                approval.id
            )
        })
    }
}
