//! Creating and deleting pods on behalf of a workload, with the events that tell about it (`RealPodControl` upstream).

use futures::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use serde_json::Value;
use vctl_machinery::status::ApiError;

use super::{
    context::{Context, is_namespace_terminating},
    event::{Draft, EventType},
    object::{name, namespace, uid, uid_precondition},
};

/// (apiVersion, kind) of the workload.
pub(super) type OwnerType = (&'static str, &'static str);

/// An event about the workload.
pub(super) fn event(owner: &Value, of: OwnerType, kind: EventType, reason: &str, message: String) -> Draft {
    Draft::new(of.0, of.1, owner, kind, reason, message)
}

/// Creates pods in batches of 1, 2, 4, ..: when the first cannot be created (quota, admission) the others are not tried. Returns the
/// created ones and the first error; a namespace that is being deleted is none.
pub(super) async fn create(
    cx: &Context<'_>,
    owner: &Value,
    of: OwnerType,
    pods: Vec<Value>,
) -> (Vec<Value>, Option<ApiError>) {
    let mut created = Vec::new();
    let mut left = pods.into_iter();
    let mut batch = 1;
    loop {
        let tries: Vec<BoxFuture<'_, _>> =
            left.by_ref().take(batch).map(|p| cx.client.create("pods", namespace(owner), p).boxed()).collect();
        if tries.is_empty() {
            return (created, None);
        }
        let mut failure = None;
        for result in join_all(tries).await {
            match result {
                Ok(pod) => {
                    let message = format!("Created pod: {}", name(&pod));
                    cx.record(event(owner, of, EventType::Normal, "SuccessfulCreate", message)).await;
                    created.push(pod);
                }
                Err(e) if is_namespace_terminating(&e) => return (created, None),
                Err(e) => {
                    let message = format!("Error creating: {e}");
                    cx.record(event(owner, of, EventType::Warning, "FailedCreate", message)).await;
                    failure.get_or_insert(e);
                }
            }
        }
        if failure.is_some() {
            return (created, failure);
        }
        batch *= 2;
    }
}

/// Deletes pods. Returns the UIDs of those that are (being) deleted, and the first error.
pub(super) async fn delete(
    cx: &Context<'_>,
    owner: &Value,
    of: OwnerType,
    pods: &[Value],
) -> (Vec<String>, Option<ApiError>) {
    let mut deletions: Vec<BoxFuture<'_, Result<(), ApiError>>> = Vec::new();
    for pod in pods {
        deletions.push(cx.delete("pods", namespace(owner), name(pod), uid_precondition(uid(pod))).boxed());
    }
    let (mut deleted, mut failure) = (Vec::new(), None);
    for (pod, result) in pods.iter().zip(join_all(deletions).await) {
        match result {
            Ok(()) => {
                let message = format!("Deleted pod: {}", name(pod));
                cx.record(event(owner, of, EventType::Normal, "SuccessfulDelete", message)).await;
                deleted.push(uid(pod).to_owned());
            }
            Err(e) => {
                let message = format!("Error deleting: {e}");
                cx.record(event(owner, of, EventType::Warning, "FailedDelete", message)).await;
                failure.get_or_insert(e);
            }
        }
    }
    (deleted, failure)
}
