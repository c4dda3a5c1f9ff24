//! What putting an environment to sleep means, step by step.

use super::{
    delete::{Stopping, until_empty},
    failure::Failure,
    work::Work,
};
use crate::environments::Environments;

/// The steps, for people.
pub(crate) const STEPS: [&str; 1] = ["stop workloads"];
const STOP: usize = 0;

/// Stops what the environment runs and waits until nothing does.
pub(crate) async fn run(environments: &Environments, work: &Work) -> Result<(), Failure> {
    if work.begin(STOP).await? {
        let name = work.environment();
        environments.planes.sleep(name).await?;
        let again = format!("`vctl wake {name}`, then `vctl sleep {name}`");
        until_empty(environments, work, STOP, Stopping::Asleep, &again).await?;
        work.done(STOP, "nothing of it runs").await?;
    }
    Ok(())
}
