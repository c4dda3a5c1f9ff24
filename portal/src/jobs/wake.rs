//! What waking an environment means, step by step.

use super::{
    create::{self, Late},
    delete::{Stopping, until_empty},
    failure::Failure,
    work::Work,
};
use crate::environments::Environments;

/// The steps, for people.
pub(crate) const STEPS: [&str; 3] = ["finish going to sleep", "start workloads", "wait for workloads"];
const STOP: usize = 0;
const START: usize = 1;
const WAIT: usize = 2;

/// Starts the environment again. What does not become ready in time is told, but is no failure: it is awake.
pub(crate) async fn run(environments: &Environments, work: &Work) -> Result<(), Failure> {
    let name = work.environment();
    if work.begin(STOP).await? {
        // What is still being stopped must have ended before it can be started.
        let again = format!("`vctl wake {name}`");
        until_empty(environments, work, STOP, Stopping::Asleep, &again).await?;
        work.done(STOP, "").await?;
    }
    let starts = work.begin(START).await?;
    if starts {
        environments.planes.wake(name).await?;
        work.done(START, "").await?;
    }
    if work.begin(WAIT).await? {
        if !starts {
            // An earlier attempt did it. At its end it may have put the environment to sleep again, and died before that was written.
            environments.planes.wake(name).await?;
        }
        let deadline = work.config().ready_deadline;
        create::wait(environments, work, WAIT, deadline, Late::Told).await?;
    }
    Ok(())
}
