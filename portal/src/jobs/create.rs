//! What creating an environment means, step by step.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use super::{failure::Failure, work::Work};
use crate::{
    documents::SecretsDoc,
    environments::Environments,
    inventory,
    ports::{Applied, Readiness, Workload},
    releases,
    templates::Template,
};

/// The steps, for people.
pub(crate) const STEPS: [&str; 4] =
    ["create virtual cluster", "render template", "apply manifests", "wait for workloads"];
const CLUSTER: usize = 0;
const RENDER: usize = 1;
const APPLY: usize = 2;
const WAIT: usize = 3;
const CHARTS: usize = STEPS.len();

/// First wait between two looks at the workloads; grows to the configured one.
const FIRST_POLL: Duration = Duration::from_millis(50);
/// Applying is told about so often at most: each news is a write.
const TELL: Duration = Duration::from_millis(250);
const NOTHING: &str = "nothing to wait for";
/// Most pods whose reasons are named.
const REASONS: usize = 5;

/// All parameters by name, for rendering.
pub(crate) fn all_parameters(
    public: &BTreeMap<String, Value>,
    secret: &BTreeMap<String, String>,
) -> BTreeMap<String, Value> {
    let secret = secret.iter().map(|(name, text)| (name.clone(), Value::String(text.clone())));
    public.iter().map(|(name, value)| (name.clone(), value.clone())).chain(secret).collect()
}

/// Creates the environment of a job. Steps that were done by an earlier attempt are not done again.
pub(crate) async fn run(environments: &Environments, work: &Work) -> Result<(), Failure> {
    let name = work.environment();
    if work.begin(CLUSTER).await? {
        let asked = environments.stored(name.as_str()).await?.value;
        environments.planes.create(name, asked.kubernetes_version, asked.authentication).await?;
        if asked.audit_policy.is_some() {
            environments.planes.set_audit_policy(name, asked.audit_policy).await?;
        }
        work.done(CLUSTER, &environments.planes.server(name)).await?;
    }
    let template = template(environments, work).await?;
    let mut empty = false;
    if !work.is_done(APPLY).await {
        work.begin(RENDER).await?;
        let documents = rendered(environments, work, &template).await?;
        work.done(
            RENDER,
            &format!("{} {}: {}", template.manifest.name, template.manifest.version, count(documents.len())),
        )
        .await?;
        work.begin(APPLY).await?;
        apply(environments, work, APPLY, &documents).await?;
        empty = documents.is_empty();
    }
    let deadline = template.manifest.ready_timeout_seconds.map_or(work.config().ready_deadline, Duration::from_secs);
    if work.begin(WAIT).await? {
        if empty {
            // Not even looked at: looking loads what an idle virtual cluster need not have in memory.
            work.done(WAIT, NOTHING).await?;
        } else {
            wait(environments, work, WAIT, deadline, Late::Fails).await?;
        }
    }
    charts(environments, work, CHARTS, &template, deadline).await
}

/// The steps of Helm charts, in jobs that have them: from `first` on.
pub(super) async fn charts(
    environments: &Environments,
    work: &Work,
    first: usize,
    template: &Template,
    deadline: Duration,
) -> Result<(), Failure> {
    if work.doc().await.steps.len() <= first {
        return Ok(());
    }
    if work.begin(first).await? {
        releases::install(environments, work, first, template, deadline).await?;
    }
    if work.begin(first + 1).await? {
        wait(environments, work, first + 1, deadline, Late::Fails).await?;
    }
    Ok(())
}

pub(super) async fn template(environments: &Environments, work: &Work) -> Result<Template, Failure> {
    let environment = environments.stored(work.environment().as_str()).await?.value;
    let Some(template) = environments.template_of(&environment).await? else {
        return Err(Failure::Permanent(format!(
            "version {} of template {:?} is not there any more: delete the environment and create it again",
            environment.template_version, environment.template
        )));
    };
    Ok(template)
}

pub(super) async fn rendered(
    environments: &Environments,
    work: &Work,
    template: &Template,
) -> Result<Vec<Value>, Failure> {
    let name = work.environment().as_str();
    let environment = environments.stored(name).await?.value;
    let secrets = environments.documents.get::<SecretsDoc>(name).await?;
    let secrets = secrets.map(|s| s.value.parameters).unwrap_or_default();
    let all = all_parameters(&environment.parameters, &secrets);
    Ok(environments.documents_of(template, &environment, &all).await?)
}

/// Applies documents in their order, after they have been noted as the template's.
pub(super) async fn apply(
    environments: &Environments,
    work: &Work,
    step: usize,
    documents: &[Value],
) -> Result<(), Failure> {
    inventory::note(environments, work.environment(), documents).await?;
    let template = environments.stored(work.environment().as_str()).await?.value.template;
    let (mut created, mut configured, mut unchanged) = (0, 0, 0);
    let mut told = tokio::time::Instant::now();
    for (i, document) in documents.iter().enumerate() {
        let kind = document.pointer("/kind").and_then(Value::as_str).unwrap_or_default().to_lowercase();
        let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        if told.elapsed() >= TELL {
            work.say(step, &format!("{}/{}: {kind} {name}", i + 1, documents.len())).await?;
            told = tokio::time::Instant::now();
        }
        match environments
            .planes
            .apply(work.environment(), &inventory::marked(document, &template))
            .await
            .map_err(|e| Failure::about(e, &kind, name))?
        {
            Applied::Created => created += 1,
            Applied::Configured => configured += 1,
            Applied::Unchanged => unchanged += 1,
        }
    }
    work.done(step, &format!("{created} created, {configured} configured, {unchanged} unchanged")).await
}

/// What it means when workloads are not ready in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Late {
    /// The job fails.
    Fails,
    /// The step says so.
    Told,
}

/// Waits until all workloads are ready, and with [`Late::Told`] also all pods: controllers may not have seen yet what became of them.
pub(super) async fn wait(
    environments: &Environments,
    work: &Work,
    step: usize,
    deadline: Duration,
    late: Late,
) -> Result<(), Failure> {
    let end = tokio::time::Instant::now() + deadline;
    let mut pause = FIRST_POLL.min(work.config().poll);
    loop {
        let readiness = environments.planes.readiness(work.environment()).await?;
        let mut waiting: Vec<String> = readiness.workloads.iter().filter(|w| !w.done).map(describe).collect();
        if waiting.is_empty() && late == Late::Told {
            waiting = readiness
                .unready_pods
                .iter()
                .take(REASONS)
                .map(|p| format!("pod {}/{}", p.namespace, p.name))
                .collect();
        }
        if waiting.is_empty() {
            let workloads = readiness.workloads.len();
            let all = if workloads == 0 { NOTHING.to_owned() } else { format!("all {workloads} ready") };
            return work.done(step, &all).await;
        }
        if tokio::time::Instant::now() >= end {
            if late == Late::Told {
                return work
                    .done(step, &format!("not ready after {} s: {}", deadline.as_secs(), waiting.join(", ")))
                    .await;
            }
            return Err(Failure::Permanent(too_late(work.environment().as_str(), deadline, &waiting, &readiness)));
        }
        work.say(step, &waiting.join(", ")).await?;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(work.config().poll);
    }
}

/// `deployment web 1/2 ready`, with the namespace when it is not `default`, and why it has no more pods.
fn describe(workload: &Workload) -> String {
    let Workload { kind, namespace, name, ready, desired, why, .. } = workload;
    let place = if namespace == "default" { String::new() } else { format!("{namespace}/") };
    let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
    format!("{kind} {place}{name} {ready}/{desired} ready{why}")
}

fn too_late(name: &str, deadline: Duration, waiting: &[String], readiness: &Readiness) -> String {
    let pods: Vec<String> = readiness
        .unready_pods
        .iter()
        .take(REASONS)
        .map(|p| format!("pod {}/{}: {}", p.namespace, p.name, p.reason))
        .collect();
    let pods = if pods.is_empty() { String::new() } else { format!(" ({})", pods.join("; ")) };
    format!(
        "not ready after {} s: {}{pods}. Look with `vctl connect {name} -- kubectl describe pods -A`; then fix the template or its \
         parameters, `vctl delete {name} --wait` and create it again",
        deadline.as_secs(),
        waiting.join(", "),
    )
}

pub(super) fn count(documents: usize) -> String {
    if documents == 1 { "1 object".to_owned() } else { format!("{documents} objects") }
}
