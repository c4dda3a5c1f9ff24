//! ReplicaSets: so many pods of a template (`pkg/controller/replicaset` upstream).
//!
//! Upstream's expectations guard against acting on a stale cache; here every reconcile reads what is stored, so they are not needed.

mod ranking;
mod status;

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
    event::{Draft, EventType},
    object::{controller_of, controller_reference, int, is_deleting, name, text, uid, uid_precondition},
    pod,
};

const RESOURCE: &str = "replicasets.apps";
const TYPE: (&str, &str, &str) = (RESOURCE, "apps/v1", "ReplicaSet");
/// Pods created or deleted in one reconcile, as upstream's `BurstReplicas`.
const BURST: usize = 500;

/// `spec.replicas`; 1 when absent.
pub(super) fn wanted(set: &Value) -> i64 {
    int(set, "/spec/replicas").unwrap_or(1)
}

/// What brings the number of pods to the wanted one.
#[derive(Debug, PartialEq)]
enum Plan {
    Nothing,
    Create(usize),
    Delete(Vec<Value>),
}

/// Decides. `related` are the active pods of all ReplicaSets of the same owner: of two pods the one goes first that shares its node with
/// more of them.
fn plan(set: &Value, active: &[Value], related: &[Value], now: Timestamp) -> Plan {
    if is_deleting(set) {
        return Plan::Nothing;
    }
    let wanted = usize::try_from(wanted(set)).unwrap_or(0);
    match wanted.cmp(&active.len()) {
        std::cmp::Ordering::Equal => Plan::Nothing,
        std::cmp::Ordering::Greater => Plan::Create((wanted - active.len()).min(BURST)),
        std::cmp::Ordering::Less => Plan::Delete(ranking::first_to_go(active, related, (active.len() - wanted).min(BURST), now)),
    }
}

pub(super) async fn reconcile(cx: &Context<'_>, namespace: &str, name: &str) -> Result<Option<Timestamp>, Failure> {
    let Some(set) = cx.find(RESOURCE, namespace, name).await? else { return Ok(None) };
    let Ok(selector) = LabelSelector::from_object(&set["spec"]["selector"]) else { return Ok(None) };
    let candidates = cx.list("pods", namespace).await?;
    let ours = claim_all(cx, &set, TYPE, "pods", candidates, &selector, pod::is_active).await?;
    let terminating = ours.iter().filter(|p| pod::is_terminating(p)).count();
    let mut active: Vec<Value> = ours.into_iter().filter(pod::is_active).collect();
    let related =
        if wanted(&set) < active.len() as i64 { related_pods(cx, &set, &active).await? } else { Vec::new() };

    let failure = match plan(&set, &active, &related, cx.now) {
        Plan::Nothing => None,
        Plan::Create(count) => create(cx, &set, count, &mut active).await.map(|e| ("FailedCreate", e)),
        Plan::Delete(pods) => delete(cx, &set, &pods, &mut active).await.map(|e| ("FailedDelete", e)),
    };
    let shown = failure.as_ref().map(|(reason, e)| (*reason, e.message.as_str()));
    let status = status::of(&set, &active, terminating, shown, cx.now);
    if status != set["status"] {
        let mut changed = set.clone();
        changed["status"] = status;
        match cx.client.update(RESOURCE, namespace, name, "status", changed).await {
            Err(e) if e.code == 404 => return Ok(None),
            Err(e) => return Err(e.into()),
            Ok(_) => {}
        }
    }
    if let Some((_, error)) = failure {
        return Err(error.into());
    }
    let min_ready = int(&set, "/spec/minReadySeconds").unwrap_or(0);
    Ok(active.iter().filter_map(|p| pod::available_at(p, min_ready)).filter(|at| *at > cx.now).min())
}

/// Active pods of all ReplicaSets that have this one's controller; its own when it has none.
async fn related_pods(cx: &Context<'_>, set: &Value, active: &[Value]) -> Result<Vec<Value>, Failure> {
    let namespace = super::object::namespace(set);
    let Some(owner) = controller_of(set) else { return Ok(active.to_vec()) };
    let siblings = cx.list(RESOURCE, namespace).await?;
    let uids: Vec<&str> = siblings
        .iter()
        .filter(|s| controller_of(s).is_some_and(|o| text(o, "/uid") == text(owner, "/uid")))
        .map(uid)
        .collect();
    let pods = cx.list("pods", namespace).await?;
    Ok(pods
        .into_iter()
        .filter(|p| pod::is_active(p) && controller_of(p).is_some_and(|o| uids.contains(&text(o, "/uid"))))
        .collect())
}

fn event(set: &Value, kind: EventType, reason: &str, message: String) -> Draft {
    Draft::new("apps/v1", "ReplicaSet", set, kind, reason, message)
}

/// Creates pods in batches of 1, 2, 4, ..: when the first cannot be created (quota, admission) the others are not tried.
/// New pods are added to `active`. Returns the first error.
async fn create(cx: &Context<'_>, set: &Value, count: usize, active: &mut Vec<Value>) -> Option<ApiError> {
    let namespace = super::object::namespace(set);
    let new = pod::from_template(&set["spec"]["template"], set, controller_reference(set, "apps/v1", "ReplicaSet"));
    let (mut left, mut batch) = (count, 1);
    while left > 0 {
        let results = join_all((0..batch.min(left)).map(|_| cx.client.create("pods", namespace, new.clone()))).await;
        left -= results.len();
        let mut failure = None;
        for result in results {
            match result {
                Ok(pod) => {
                    let message = format!("Created pod: {}", name(&pod));
                    cx.record(event(set, EventType::Normal, "SuccessfulCreate", message)).await;
                    active.push(pod);
                }
                Err(e) if is_namespace_terminating(&e) => return None,
                Err(e) => {
                    cx.record(event(set, EventType::Warning, "FailedCreate", format!("Error creating: {e}"))).await;
                    failure.get_or_insert(e);
                }
            }
        }
        if failure.is_some() {
            return failure;
        }
        batch *= 2;
    }
    None
}

/// Deletes pods and takes them out of `active`. Returns the first error.
async fn delete(cx: &Context<'_>, set: &Value, pods: &[Value], active: &mut Vec<Value>) -> Option<ApiError> {
    let namespace = super::object::namespace(set);
    let mut deletions: Vec<BoxFuture<'_, Result<(), ApiError>>> = Vec::new();
    for pod in pods {
        deletions.push(cx.delete("pods", namespace, name(pod), uid_precondition(uid(pod))).boxed());
    }
    let results = join_all(deletions).await;
    let mut failure = None;
    for (pod, result) in pods.iter().zip(results) {
        match result {
            Ok(()) => {
                let message = format!("Deleted pod: {}", name(pod));
                cx.record(event(set, EventType::Normal, "SuccessfulDelete", message)).await;
                active.retain(|a| uid(a) != uid(pod));
            }
            Err(e) => {
                cx.record(event(set, EventType::Warning, "FailedDelete", format!("Error deleting: {e}"))).await;
                failure.get_or_insert(e);
            }
        }
    }
    failure
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_pods_are_created_and_surplus_deleted_up_to_the_burst() {
        let set = |n: i64| json!({ "spec": { "replicas": n } });
        let pods: Vec<Value> = (0..3).map(|n| json!({ "metadata": { "uid": n.to_string() } })).collect();
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(plan(&set(3), &pods, &pods, now), Plan::Nothing);
        assert_eq!(plan(&set(5), &pods, &pods, now), Plan::Create(2));
        assert_eq!(plan(&set(5000), &pods, &pods, now), Plan::Create(500));
        assert!(matches!(plan(&set(1), &pods, &pods, now), Plan::Delete(p) if p.len() == 2));
        let mut dying = set(0);
        dying["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(plan(&dying, &pods, &pods, now), Plan::Nothing);
    }
}
