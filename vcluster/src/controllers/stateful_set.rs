//! StatefulSets: pods with stable names and claims (`pkg/controller/statefulset` upstream). What is to be done is decided in [`plan`].

mod claims;
mod identity;
mod plan;
mod status;

use std::collections::HashSet;

use futures::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use jiff::Timestamp;
use serde_json::Value;
use vctl_machinery::{selector::LabelSelector, status::ApiError};

use super::{
    claim::claim_all,
    context::{Context, Failure, is_namespace_terminating},
    event::EventType,
    history::{self, History, template_of},
    object::{int, name, text, uid, uid_precondition},
    pod, pod_control,
};
use plan::Step;

const RESOURCE: &str = "statefulsets.apps";
const OWNER: pod_control::OwnerType = ("apps/v1", "StatefulSet");
const TYPE: (&str, &str, &str) = (RESOURCE, OWNER.0, OWNER.1);
/// Label of a ControllerRevision with its hash.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// `spec.replicas`; 1 when absent.
fn wanted(set: &Value) -> i64 {
    int(set, "/spec/replicas").unwrap_or(1)
}

/// The templates that pods are made of.
struct Revisions<'a> {
    current: &'a Value,
    update: &'a Value,
}

impl Revisions<'_> {
    /// The one that a new pod gets: below the partition of a rolling update that is the current one.
    fn of_ordinal(&self, set: &Value, ordinal: i64) -> &Value {
        let partition = int(set, "/spec/updateStrategy/rollingUpdate/partition").unwrap_or(0);
        let rolling = text(set, "/spec/updateStrategy/type") != "OnDelete";
        if rolling && ordinal < identity::start(set) + partition { self.current } else { self.update }
    }
}

pub(super) async fn reconcile(cx: &Context<'_>, namespace: &str, of: &str) -> Result<Option<Timestamp>, Failure> {
    let Some(set) = cx.find(RESOURCE, namespace, of).await? else { return Ok(None) };
    let Ok(selector) = LabelSelector::from_object(&set["spec"]["selector"]) else { return Ok(None) };
    if super::object::is_deleting(&set) {
        // Nothing but its status changes any more, and nobody is to adopt anything for it.
        return dying(cx, &set, &selector).await;
    }
    let history = history::sync(cx, &set, TYPE, &selector, HASH_LABEL).await?;
    let mut pods = pods(cx, &set, &selector).await?;
    let current = history.named(text(&set, "/status/currentRevision")).unwrap_or(&history.update);
    let revisions = Revisions { current, update: &history.update };

    let steps = plan::plan(&set, &pods, name(&history.update), cx.now);
    let outcome = execute(cx, &set, &revisions, steps, &mut pods).await;
    write_status(cx, &set, &revisions, history.collisions, &pods).await?;
    truncate(cx, &set, &history, &revisions, &pods).await?;
    outcome?;
    let min_ready = int(&set, "/spec/minReadySeconds").unwrap_or(0);
    Ok(pods.iter().filter_map(|p| pod::available_at(p, min_ready)).filter(|at| *at > cx.now).min())
}

/// Its pods, in order of their ordinals.
async fn pods(cx: &Context<'_>, set: &Value, selector: &LabelSelector) -> Result<Vec<Value>, Failure> {
    let mut candidates = cx.list("pods", super::object::namespace(set)).await?;
    candidates.retain(|p| identity::ordinal(name(set), name(p)).is_some());
    let mut pods = claim_all(cx, set, TYPE, "pods", candidates, selector, |_| true).await?;
    pods.sort_by_key(|p| identity::ordinal(name(set), name(p)));
    Ok(pods)
}

async fn dying(cx: &Context<'_>, set: &Value, selector: &LabelSelector) -> Result<Option<Timestamp>, Failure> {
    let pods = pods(cx, set, selector).await?;
    let mut status = status::of(
        set,
        text(set, "/status/currentRevision"),
        text(set, "/status/updateRevision"),
        int(set, "/status/collisionCount").unwrap_or(0),
        &pods,
        cx.now,
    );
    status["currentRevision"] = set["status"]["currentRevision"].clone();
    update_status(cx, set, status).await?;
    Ok(None)
}

/// Carries the steps out, keeping `pods` as they then are; stops at the first failure.
async fn execute(
    cx: &Context<'_>,
    set: &Value,
    revisions: &Revisions<'_>,
    steps: Vec<Step>,
    pods: &mut Vec<Value>,
) -> Result<(), Failure> {
    let mut steps = steps.into_iter().peekable();
    // Creations that follow each other go together, in batches of 1, 2, 4, ..: only a Parallel set has more than one.
    let mut batch = 1;
    while let Some(step) = steps.next() {
        match step {
            Step::Create(first) => {
                let mut ordinals = vec![first];
                while ordinals.len() < batch
                    && let Some(Step::Create(next)) = steps.next_if(|s| matches!(s, Step::Create(_)))
                {
                    ordinals.push(next);
                }
                batch *= 2;
                let creations: Vec<BoxFuture<'_, _>> =
                    ordinals.into_iter().map(|o| create(cx, set, revisions, o).boxed()).collect();
                let mut failure = None;
                for result in join_all(creations).await {
                    match result {
                        Ok(Some(created)) => pods.push(created),
                        Ok(None) => return Ok(()),
                        Err(e) => failure = failure.or(Some(e)),
                    }
                }
                pods.sort_by_key(|p| identity::ordinal(name(set), name(p)));
                if let Some(failure) = failure {
                    return Err(failure);
                }
            }
            Step::Delete(pod) => {
                let result =
                    cx.delete("pods", super::object::namespace(set), name(&pod), uid_precondition(uid(&pod))).await;
                tell(cx, set, "delete", name(&pod), result.as_ref().err()).await;
                result?;
                pods.retain(|p| uid(p) != uid(&pod));
                // It may stay for its grace period.
                if let Some(left) = cx.find("pods", super::object::namespace(set), name(&pod)).await?
                    && uid(&left) == uid(&pod)
                {
                    pods.push(left);
                    pods.sort_by_key(|p| identity::ordinal(name(set), name(p)));
                }
            }
            Step::Claims(pod) => claims::ensure(cx, set, &pod).await?,
            Step::Repair(pod) => repair(cx, set, pod).await?,
            Step::Retain(pod) => claims::retain(cx, set, &pod).await?,
        }
    }
    Ok(())
}

/// Creates a pod and, before it, its claims. None when the namespace is going.
async fn create(
    cx: &Context<'_>,
    set: &Value,
    revisions: &Revisions<'_>,
    ordinal: i64,
) -> Result<Option<Value>, Failure> {
    let revision = revisions.of_ordinal(set, ordinal);
    let new = identity::new_pod(set, &template_of(revision), name(revision), ordinal);
    let pod_name = name(&new).to_owned();
    if claims::is_stale(cx, set, &new).await? {
        return Err(Failure::Partly(format!("a claim of pod {pod_name} still belongs to its predecessor")));
    }
    if let Err(e) = claims::ensure(cx, set, &new).await {
        if let Failure::Api(error) = &e {
            if is_namespace_terminating(error) {
                return Ok(None);
            }
            tell(cx, set, "create", &pod_name, Some(error)).await;
        }
        return Err(e);
    }
    match cx.client.create("pods", super::object::namespace(set), new).await {
        Ok(created) => {
            claims::retain(cx, set, &created).await?;
            tell(cx, set, "create", &pod_name, None).await;
            Ok(Some(created))
        }
        Err(e) if is_namespace_terminating(&e) => Ok(None),
        Err(e) => {
            if e.reason != "AlreadyExists" {
                tell(cx, set, "create", &pod_name, Some(&e)).await;
            }
            Err(e.into())
        }
    }
}

/// Gives an adopted pod the labels and volumes of its place.
async fn repair(cx: &Context<'_>, set: &Value, mut pod: Value) -> Result<(), Failure> {
    let before = pod.clone();
    identity::repair(set, &mut pod);
    claims::ensure(cx, set, &pod).await?;
    claims::retain(cx, set, &pod).await?;
    if pod == before {
        return Ok(());
    }
    let pod_name = name(&pod).to_owned();
    let result = cx.client.update("pods", super::object::namespace(set), &pod_name, "", pod).await;
    tell(cx, set, "update", &pod_name, result.as_ref().err()).await;
    result?;
    Ok(())
}

/// Records what was done with a pod, in upstream's words.
async fn tell(cx: &Context<'_>, set: &Value, verb: &str, pod: &str, error: Option<&ApiError>) {
    let title = match verb {
        "create" => "Create",
        "delete" => "Delete",
        _ => "Update",
    };
    let (kind, reason, message) = match error {
        None => (
            EventType::Normal,
            format!("Successful{title}"),
            format!("{verb} Pod {pod} in StatefulSet {} successful", name(set)),
        ),
        Some(e) => (
            EventType::Warning,
            format!("Failed{title}"),
            format!("{verb} Pod {pod} in StatefulSet {} failed error: {e}", name(set)),
        ),
    };
    cx.record(pod_control::event(set, OWNER, kind, &reason, message)).await;
}

async fn write_status(
    cx: &Context<'_>,
    set: &Value,
    revisions: &Revisions<'_>,
    collisions: i64,
    pods: &[Value],
) -> Result<(), Failure> {
    let status = status::of(set, name(revisions.current), name(revisions.update), collisions, pods, cx.now);
    update_status(cx, set, status).await
}

async fn update_status(cx: &Context<'_>, set: &Value, status: Value) -> Result<(), Failure> {
    if status == set["status"] {
        return Ok(());
    }
    let mut changed = set.clone();
    changed["status"] = status;
    match cx.client.update(RESOURCE, super::object::namespace(set), name(set), "status", changed).await {
        Ok(_) | Err(ApiError { code: 404, .. }) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Forgets revisions that nobody uses, beyond the history limit.
async fn truncate(
    cx: &Context<'_>,
    set: &Value,
    history: &History,
    revisions: &Revisions<'_>,
    pods: &[Value],
) -> Result<(), Failure> {
    let mut live: HashSet<String> = pods.iter().map(|p| history::pod_revision(p).to_owned()).collect();
    live.insert(name(revisions.current).to_owned());
    live.insert(name(revisions.update).to_owned());
    history::truncate(cx, set, history, &live).await
}
