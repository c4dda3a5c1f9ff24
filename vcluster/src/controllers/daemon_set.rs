//! DaemonSets: one pod on every node that the template fits (`pkg/controller/daemon` upstream). What is to be done is decided in
//! [`plan`]; the scheduler binds the pods, which select their node by name.

mod nodes;
mod plan;
mod status;

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::Value;
use vctl_machinery::{selector::LabelSelector, status::ApiError};

use super::{
    claim::claim_all,
    context::{Context, Failure},
    event::EventType,
    history::{self, History, POD_REVISION},
    object::{int, is_deleting, labels, name, uid},
    pod, pod_control,
    queue::Controller,
};

const RESOURCE: &str = "daemonsets.apps";
const OWNER: pod_control::OwnerType = ("apps/v1", "DaemonSet");
const TYPE: (&str, &str, &str) = (RESOURCE, OWNER.0, OWNER.1);

/// What DaemonSets see of a node.
pub(super) use nodes::view as node_view;

/// Nodes have changed: looks at all DaemonSets of the tenant.
pub(super) async fn nodes_changed(cx: &Context<'_>) -> Result<Option<Timestamp>, Failure> {
    for entry in cx.stored(RESOURCE, None).await? {
        cx.wake(Controller::DaemonSet, &entry.key.namespace, &entry.key.name);
    }
    Ok(None)
}

pub(super) async fn reconcile(cx: &Context<'_>, namespace: &str, of: &str) -> Result<Option<Timestamp>, Failure> {
    let Some(set) = cx.find(RESOURCE, namespace, of).await? else { return Ok(None) };
    let Ok(selector) = LabelSelector::from_object(&set["spec"]["selector"]) else { return Ok(None) };
    if selector.is_everything() {
        let message = "This daemon set is selecting all pods. A non-empty selector is required.".to_owned();
        cx.record(pod_control::event(&set, OWNER, EventType::Warning, "SelectingAll", message)).await;
        return Ok(None);
    }
    if is_deleting(&set) {
        return Ok(None);
    }
    let history = history::sync(cx, &set, TYPE, &selector, POD_REVISION).await?;
    let hash = hash_of(&history.update).to_owned();
    let mut nodes = cx.list("nodes", "").await?;
    if let Some(rules) = cx.clients.rules(cx.tenant).await? {
        nodes.retain(|node| rules.allows_worker(name(node)));
    }
    let candidates = cx.list("pods", namespace).await?;
    let mut pods = claim_all(cx, &set, TYPE, "pods", candidates, &selector, |_| true).await?;

    let plan = plan::plan(&set, &nodes, &pods, &hash, cx.now);
    for (kind, reason, message) in &plan.events {
        cx.record(pod_control::event(&set, OWNER, *kind, reason, message.clone())).await;
    }
    let new = plan.create.iter().map(|node| nodes::pod_for(&set, node, &hash)).collect();
    let (created, not_created) = pod_control::create(cx, &set, OWNER, new).await;
    let (deleted, not_deleted) = pod_control::delete(cx, &set, OWNER, &plan.delete).await;
    pods.extend(created);

    let status = status::of(&set, &nodes, &pods, &hash, history.collisions, cx.now);
    if status != set["status"] {
        let mut changed = set.clone();
        changed["status"] = status;
        match cx.client.update(RESOURCE, namespace, of, "status", changed).await {
            Ok(_) | Err(ApiError { code: 404, .. }) => {}
            Err(e) => return Err(e.into()),
        }
    }
    truncate(cx, &set, &history, &pods).await?;
    if let Some(error) = not_created.or(not_deleted) {
        return Err(error.into());
    }
    let min_ready = int(&set, "/spec/minReadySeconds").unwrap_or(0);
    let available = pods
        .iter()
        .filter(|p| !deleted.iter().any(|d| d == uid(p)))
        .filter_map(|p| pod::available_at(p, min_ready))
        .filter(|at| *at > cx.now);
    Ok(available.chain(plan.again).min())
}

fn hash_of(revision: &Value) -> &str {
    labels(revision).get(POD_REVISION).and_then(Value::as_str).unwrap_or_default()
}

/// Forgets revisions that no pod is of, beyond the history limit.
async fn truncate(cx: &Context<'_>, set: &Value, history: &History, pods: &[Value]) -> Result<(), Failure> {
    let hashes: HashSet<&str> = pods.iter().map(history::pod_revision).collect();
    let mut live: HashSet<String> =
        history.revisions.iter().filter(|r| hashes.contains(hash_of(r))).map(|r| name(r).to_owned()).collect();
    live.insert(name(&history.update).to_owned());
    history::truncate(cx, set, history, &live).await
}
