//! Which finished jobs `vctl up` keeps.

use std::time::Duration;

use clap::Args;
use vctl_api::rest::Period;
use vctl_portal::JobHistory;

// No doc comment: it would become the help text of whoever flattens it in.
#[derive(Debug, Args)]
pub(crate) struct JobHistoryArgs {
    /// Keep so many finished jobs, the newest ones
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    job_history: u32,
    /// Remove finished jobs that are older
    #[arg(long, value_name = "TIME", default_value = "90d")]
    job_retention: Period,
}

impl JobHistoryArgs {
    /// As the portal takes it.
    pub(crate) fn config(&self) -> JobHistory {
        JobHistory {
            count: usize::try_from(self.job_history).unwrap_or(usize::MAX),
            age: Some(Duration::from_secs(self.job_retention.seconds())),
        }
    }
}
