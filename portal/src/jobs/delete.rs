//! What deleting an environment means, step by step.

use std::time::Duration;

use super::{failure::Failure, work::Work};
use crate::environments::Environments;

/// The steps, for people.
pub(crate) const STEPS: [&str; 2] = ["stop workloads", "remove virtual cluster"];
const DRAIN: usize = 0;
const REMOVE: usize = 1;

/// First wait between two looks at what is left; grows to the configured one. Where nothing runs, it takes the workers' hub a moment to
/// hear of it.
const FIRST_POLL: Duration = Duration::from_millis(2);
/// Most things that are named.
const NAMED: usize = 5;

/// Stops what the environment runs, waits until no worker has anything of it, and removes its control plane.
pub(crate) async fn run(environments: &Environments, work: &Work) -> Result<(), Failure> {
    let name = work.environment();
    if work.begin(DRAIN).await? {
        let again = format!("`vctl delete {name} --wait`");
        until_empty(environments, work, DRAIN, Stopping::ForGood, &again).await?;
        work.done(DRAIN, "nothing is left on workers").await?;
    }
    work.begin(REMOVE).await?;
    environments.planes.delete(name).await?;
    work.done(REMOVE, "").await
}

/// Why what runs is stopped.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stopping {
    /// The environment is deleted.
    ForGood,
    /// It sleeps.
    Asleep,
}

/// Asks until nothing is left, telling what is; `again` is the command to run when that takes too long.
pub(super) async fn until_empty(
    environments: &Environments,
    work: &Work,
    step: usize,
    stopping: Stopping,
    again: &str,
) -> Result<(), Failure> {
    let end = tokio::time::Instant::now() + work.config().drain_deadline;
    let mut pause = FIRST_POLL.min(work.config().poll);
    loop {
        let name = work.environment();
        let left = match stopping {
            Stopping::ForGood => environments.planes.drain(name).await?,
            Stopping::Asleep => environments.planes.running_asleep(name).await?,
        };
        if left.is_empty() {
            return Ok(());
        }
        let named = left.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        let more = if left.len() > NAMED { format!(" and {} more", left.len() - NAMED) } else { String::new() };
        if tokio::time::Instant::now() >= end {
            return Err(Failure::Permanent(format!(
                "still there after {} s: {named}{more}. See with `vctl status` whether the worker is connected, then run \
                 {again} again",
                work.config().drain_deadline.as_secs(),
            )));
        }
        work.say(step, &format!("{} left: {named}{more}", left.len())).await?;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(work.config().poll);
    }
}
