//! What bringing an environment to another version or to other parameters means, step by step. Each may be repeated.

use std::time::Duration;

use super::{
    create::{self, Late},
    failure::Failure,
    work::Work,
};
use crate::{environments::Environments, inventory};

/// The steps, for people.
pub(crate) const STEPS: [&str; 4] = ["render template", "apply manifests", "remove what is gone", "wait for workloads"];
const RENDER: usize = 0;
const APPLY: usize = 1;
const PRUNE: usize = 2;
const WAIT: usize = 3;
const CHARTS: usize = STEPS.len();

/// Applies what the environment is to be, and removes what its template wrote before and does not have any more.
pub(crate) async fn run(environments: &Environments, work: &Work) -> Result<(), Failure> {
    let template = create::template(environments, work).await?;
    let documents = create::rendered(environments, work, &template).await?;
    if work.begin(RENDER).await? {
        let manifest = &template.manifest;
        work.done(RENDER, &format!("{} {}: {}", manifest.name, manifest.version, create::count(documents.len())))
            .await?;
    }
    if work.begin(APPLY).await? {
        create::apply(environments, work, APPLY, &documents).await?;
    }
    if work.begin(PRUNE).await? {
        let kind = environments.stored(work.environment().as_str()).await?.value.kind;
        let kept = template.charts(kind).map(|chart| chart.namespace.clone()).collect();
        let removed = inventory::prune(environments, work.environment(), &documents, &kept).await?;
        work.done(PRUNE, &removed).await?;
    }
    let deadline = template.manifest.ready_timeout_seconds.map_or(work.config().ready_deadline, Duration::from_secs);
    if work.begin(WAIT).await? {
        create::wait(environments, work, WAIT, deadline, Late::Fails).await?;
    }
    create::charts(environments, work, CHARTS, &template, deadline).await
}
