//! `vctl rotate-ca`.

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;
use vctl_api::rest::{self, RotateCa as Request};

use super::{
    Client, Global,
    client::segment,
    completion,
    error::CliError,
    kubeconfig::{Current, fetch, merge_into, own_kubeconfig},
    output::print,
    progress,
};

/// Arguments of `vctl rotate-ca`.
#[derive(Debug, Args)]
pub(crate) struct RotateCa {
    /// Name of the environment
    #[arg(add = ArgValueCandidates::new(completion::environments))]
    name: String,
    /// How long certificates of the old authority still count, such as 30m or 24h [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = overlap, conflicts_with = "now")]
    overlap: Option<Duration>,
    /// Drop the old authority at once: kubeconfigs from before stop working. Ends an overlap that is under way
    #[arg(long)]
    now: bool,
    /// Merge a new kubeconfig into ~/.kube/config (or the first file of KUBECONFIG); the current context stays what it is
    #[arg(long)]
    merge: bool,
}

/// Longest overlap that a server takes.
const OVERLAP_LIMIT: Duration = Duration::from_hours(LIMIT_DAYS * 24);
const LIMIT_DAYS: u64 = 90;

fn overlap(text: &str) -> Result<Duration, String> {
    match time(text)? {
        Duration::ZERO => Err("to drop the old authority at once, say --now".to_owned()),
        long if long > OVERLAP_LIMIT => {
            Err(format!("at most {LIMIT_DAYS}d; to drop the old authority at once, say --now"))
        }
        overlap => Ok(overlap),
    }
}

/// `90s`, `30m`, `24h`, `7d`.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "write it as a number with s, m, h or d: 30m, 24h".to_owned();
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

impl RotateCa {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        let path = format!("environments/{}", segment(&self.name));
        let request = Request { now: self.now, overlap_seconds: self.overlap.map(|o| o.as_secs()) };
        let job: rest::Job = client.post(&format!("{path}/rotate-ca"), &request).await?;
        if let Err(e) = progress::follow(&client, &job.id).await {
            return Err(conflict(&self, &client.get(&format!("jobs/{}", segment(&job.id))).await?).unwrap_or(e));
        }
        let name = &self.name;
        if self.merge {
            let kubeconfig = fetch(&client, name).await?;
            let file = own_kubeconfig()?;
            let context = merge_into(&file, &kubeconfig, Current::Kept).await?;
            return print(&format!("{} has context {context} of the new authority\n", file.display()));
        }
        print(&format!(
            "environment {name} has a new certificate authority; get new kubeconfigs: vctl kubeconfig {name} --merge\n"
        ))
    }
}

/// A job that ended before it changed anything, because an earlier change is still under way, is a conflict: its text says how to end that.
fn conflict(command: &RotateCa, job: &rest::Job) -> Option<CliError> {
    let first = job.steps.first().is_some_and(|step| step.state == rest::JobState::Failed);
    let hint = format!("vctl rotate-ca {} --now", command.name);
    (first && job.state == rest::JobState::Failed && job.error.contains(&hint))
        .then(|| CliError::Conflict(job.error.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlap_has_a_limit() {
        assert_eq!(overlap("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(overlap(&format!("{LIMIT_DAYS}d")), Ok(OVERLAP_LIMIT));
        for text in ["0s", "200d"] {
            assert!(overlap(text).expect_err(text).contains("--now"), "{text}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("90s", 90), ("30m", 1_800), ("24h", 86_400), ("7d", 604_800)] {
            assert_eq!(time(text), Ok(Duration::from_secs(seconds)));
        }
        for text in ["", "h", "10", "-1h", "1.5h", "1w", "999999999999999999d", "1µ"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
