//! ReplicaSets and ReplicationControllers: so many pods of a template (`pkg/controller/replicaset` and `replication` upstream, which share
//! their code too).
//!
//! Upstream's expectations guard against acting on a stale cache; here every reconcile reads what is stored, so they are not needed.

pub(super) mod ranking;
mod status;

use jiff::Timestamp;
use serde_json::Value;
use vctl_machinery::selector::LabelSelector;

use super::{
    claim::claim_all,
    context::{Context, Failure},
    object::{controller_of, controller_reference, int, is_deleting, text, uid},
    pod, pod_control,
};

/// What differs between the two kinds.
pub(super) struct Kind {
    resource: &'static str,
    api_version: &'static str,
    kind: &'static str,
    /// The selector is a map of labels, not a LabelSelector; `status.terminatingReplicas` does not exist.
    is_old: bool,
}

pub(super) const REPLICA_SET: Kind =
    Kind { resource: "replicasets.apps", api_version: "apps/v1", kind: "ReplicaSet", is_old: false };
pub(super) const REPLICATION_CONTROLLER: Kind =
    Kind { resource: "replicationcontrollers", api_version: "v1", kind: "ReplicationController", is_old: true };

impl Kind {
    fn selector(&self, set: &Value) -> Option<LabelSelector> {
        let selector = &set["spec"]["selector"];
        if self.is_old {
            // An empty selector selects nothing: the API never stores one.
            selector.as_object().is_some_and(|s| !s.is_empty()).then(|| LabelSelector::from_map(selector))
        } else {
            LabelSelector::from_object(selector).ok()
        }
    }

    fn owner(&self) -> pod_control::OwnerType {
        (self.api_version, self.kind)
    }
}

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
        std::cmp::Ordering::Less => {
            Plan::Delete(ranking::first_to_go(active, related, (active.len() - wanted).min(BURST), now))
        }
    }
}

pub(super) async fn reconcile(
    cx: &Context<'_>,
    kind: &Kind,
    namespace: &str,
    name: &str,
) -> Result<Option<Timestamp>, Failure> {
    let Some(set) = cx.find(kind.resource, namespace, name).await? else { return Ok(None) };
    let Some(selector) = kind.selector(&set) else { return Ok(None) };
    let candidates = cx.list("pods", namespace).await?;
    let of = (kind.resource, kind.api_version, kind.kind);
    let ours = claim_all(cx, &set, of, "pods", candidates, &selector, pod::is_active).await?;
    let terminating = ours.iter().filter(|p| pod::is_terminating(p)).count();
    let mut active: Vec<Value> = ours.into_iter().filter(pod::is_active).collect();
    let related =
        if wanted(&set) < active.len() as i64 { related_pods(cx, kind, &set, &active).await? } else { Vec::new() };

    let failure = match plan(&set, &active, &related, cx.now) {
        Plan::Nothing => None,
        Plan::Create(count) => {
            let reference = controller_reference(&set, kind.api_version, kind.kind);
            let new = pod::from_template(&set["spec"]["template"], &set, reference);
            let (created, error) = pod_control::create(cx, &set, kind.owner(), vec![new; count]).await;
            active.extend(created);
            error.map(|e| ("FailedCreate", e))
        }
        Plan::Delete(pods) => {
            let (deleted, error) = pod_control::delete(cx, &set, kind.owner(), &pods).await;
            active.retain(|p| !deleted.iter().any(|d| d == uid(p)));
            error.map(|e| ("FailedDelete", e))
        }
    };
    let shown = failure.as_ref().map(|(reason, e)| (*reason, e.message.as_str()));
    let status = status::of(&set, &active, (!kind.is_old).then_some(terminating), shown, cx.now);
    if status != set["status"] {
        let mut changed = set.clone();
        changed["status"] = status;
        match cx.client.update(kind.resource, namespace, name, "status", changed).await {
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
async fn related_pods(cx: &Context<'_>, kind: &Kind, set: &Value, active: &[Value]) -> Result<Vec<Value>, Failure> {
    let namespace = super::object::namespace(set);
    let Some(owner) = controller_of(set) else { return Ok(active.to_vec()) };
    let siblings = cx.list(kind.resource, namespace).await?;
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
