//! Pods that nobody will ever end: their node is gone for a while, or they are being deleted and never had one
//! (`pkg/controller/podgc` upstream).

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use vctl_machinery::status::ApiError;

use super::{
    context::{Context, Failure},
    object::{is_deleting, list, name, namespace, rfc3339, text, uid, uid_precondition},
    pod,
};

/// A node may come back within this time.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);

/// Names of nodes that pods are bound to and that do not exist.
fn missing_nodes(pods: &[Value], nodes: &[Value]) -> BTreeSet<String> {
    let present: BTreeSet<&str> = nodes.iter().map(name).collect();
    pods.iter()
        .map(|p| text(p, "/spec/nodeName"))
        .filter(|n| !n.is_empty() && !present.contains(n))
        .map(str::to_owned)
        .collect()
}

/// Whether a pod waits for its deletion although no node has to do anything for it.
fn is_stranded(pod: &Value) -> bool {
    is_deleting(pod) && text(pod, "/spec/nodeName").is_empty() && list(pod, "/metadata/finalizers").is_empty()
}

pub(super) async fn reconcile(cx: &Context<'_>) -> Result<Option<Timestamp>, Failure> {
    let pods = cx.list("pods", "").await?;
    let nodes = cx.list("nodes", "").await?;
    let missing = missing_nodes(&pods, &nodes);
    let (gone, again) = cx.hints.missing_since(cx.tenant, &missing, cx.now, QUARANTINE);
    for pod in &pods {
        let orphaned = gone.contains(text(pod, "/spec/nodeName"));
        if !orphaned && !is_stranded(pod) {
            continue;
        }
        if orphaned && !pod::is_terminal(pod) {
            fail(cx, pod).await?;
        }
        let mut options = uid_precondition(uid(pod));
        options["gracePeriodSeconds"] = 0.into();
        cx.delete("pods", namespace(pod), name(pod), options).await?;
    }
    Ok(again)
}

/// Shows in the status why the pod goes, for controllers that count failures.
async fn fail(cx: &Context<'_>, pod: &Value) -> Result<(), Failure> {
    let mut changed = pod.clone();
    let mut conditions: Vec<Value> =
        list(pod, "/status/conditions").iter().filter(|c| text(c, "/type") != "DisruptionTarget").cloned().collect();
    conditions.push(json!({
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists",
        "lastTransitionTime": rfc3339(cx.now),
    }));
    changed["status"]["phase"] = "Failed".into();
    changed["status"]["conditions"] = conditions.into();
    match cx.client.update("pods", namespace(pod), name(pod), "status", changed).await {
        Ok(_) | Err(ApiError { code: 404, .. }) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pods_of_absent_nodes_and_stranded_ones_count() {
        let on = |node: &str| json!({ "metadata": { "name": "p" }, "spec": { "nodeName": node } });
        let nodes = [json!({ "metadata": { "name": "n1" } })];
        let missing = missing_nodes(&[on("n1"), on("n2"), on("")], &nodes);
        assert_eq!(missing.into_iter().collect::<Vec<_>>(), ["n2"]);
        let mut leaving = on("");
        assert!(!is_stranded(&leaving));
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert!(is_stranded(&leaving));
        leaving["metadata"]["finalizers"] = json!(["x"]);
        assert!(!is_stranded(&leaving));
    }
}
