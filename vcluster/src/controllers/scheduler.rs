//! The scheduler: binds pods without a node to the first node (by name) that takes them.
//!
//! One reconcile serves all waiting pods of a tenant, highest priority and oldest first, so two pods never compete for the same room.
//! It runs when a pod needs a node and, while some fit nowhere, whenever nodes change or pods go.

pub(super) mod affinity;
mod fit;
mod volumes;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    context::{Context, Failure},
    event::{Draft, EventType},
    object::{condition, int, list, name, namespace, rfc3339, set_annotation, text, uid},
    pod,
    volumes::{
        CLAIMS, CLASSES, VOLUMES,
        matching::{BOUND_BY_CONTROLLER, SELECTED_NODE},
    },
};
use crate::limits::Rules;
use fit::Cluster;
use volumes::{Prepare, Storage};

/// What becomes of one pod.
#[derive(Debug, PartialEq)]
enum Placement {
    /// Bind it to this node.
    Node(String),
    /// Write these claims and volumes (resource and object); when the claims are bound, the pod goes to the node.
    Prepare(Vec<(&'static str, Value)>),
    /// It fits nowhere: upstream's explanation.
    Nowhere(String),
}

/// Pods that this scheduler must place.
fn is_waiting(pod: &Value) -> bool {
    text(pod, "/spec/nodeName").is_empty()
        && matches!(text(pod, "/spec/schedulerName"), "" | "default-scheduler")
        && list(pod, "/spec/schedulingGates").is_empty()
        && pod::is_active(pod)
}

/// Places every waiting pod; pure.
fn plan<'a>(
    pods: &'a [Value],
    nodes: &[Value],
    rules: Option<&Rules>,
    mut storage: Storage,
) -> Vec<(&'a Value, Placement)> {
    let mut waiting: Vec<&Value> = pods.iter().filter(|p| is_waiting(p)).collect();
    waiting.sort_by_key(|p| {
        (-int(p, "/spec/priority").unwrap_or(0), text(p, "/metadata/creationTimestamp"), (namespace(p), name(p)))
    });
    let mut cluster = Cluster::new(nodes, pods, rules);
    for pod in pods.iter().filter(|p| !text(p, "/spec/nodeName").is_empty() && !pod::is_terminal(p)) {
        storage.hold(pod);
    }
    waiting
        .into_iter()
        .map(|pod| {
            let placement = place(pod, nodes, &mut cluster, &storage);
            if let Placement::Prepare(writes) = &placement {
                let reserved = writes.iter().filter(|(resource, _)| *resource == VOLUMES);
                storage.taken.extend(reserved.map(|(_, volume)| name(volume).to_owned()).collect::<Vec<_>>());
            }
            if !matches!(placement, Placement::Nowhere(_)) {
                storage.hold(pod);
            }
            (pod, placement)
        })
        .collect()
}

fn place(pod: &Value, nodes: &[Value], cluster: &mut Cluster<'_>, storage: &Storage) -> Placement {
    let claims = match storage.of_pod(pod) {
        Ok(claims) => claims,
        Err(why) => return Placement::Nowhere(fit::nowhere(nodes.len(), &why)),
    };
    let node = match cluster.place(pod, storage, &claims) {
        Ok(node) => node,
        Err(why) => return Placement::Nowhere(why),
    };
    let prepare = storage.prepare(&claims, node);
    if prepare.is_empty() {
        return Placement::Node(name(node).to_owned());
    }
    Placement::Prepare(prepare.into_iter().filter_map(|p| written(p, name(node))).collect())
}

/// What is to be written for a claim; none when it has been written before.
fn written(prepare: Prepare<'_>, node: &str) -> Option<(&'static str, Value)> {
    match prepare {
        Prepare::Select(claim) => {
            let mut changed = claim.clone();
            set_annotation(&mut changed, SELECTED_NODE, node).then_some((CLAIMS, changed))
        }
        Prepare::Reserve { claim, volume } => {
            let mut changed = volume.clone();
            let reference = &volume["spec"]["claimRef"];
            if text(reference, "/uid") == uid(claim) {
                return None;
            }
            if text(reference, "/name").is_empty() {
                set_annotation(&mut changed, BOUND_BY_CONTROLLER, "yes");
            }
            changed["spec"]["claimRef"] = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace(claim), "name": name(claim),
                "uid": uid(claim), "resourceVersion": text(claim, "/metadata/resourceVersion"),
            });
            Some((VOLUMES, changed))
        }
    }
}

/// Claims, volumes and classes, if any waiting pod has claims.
async fn storage(cx: &Context<'_>, pods: &[Value]) -> Result<Storage, Failure> {
    if !pods.iter().any(|p| is_waiting(p) && volumes::has_claims(p)) {
        return Ok(Storage::default());
    }
    Ok(Storage {
        claims: cx.list(CLAIMS, "").await?,
        volumes: cx.list(VOLUMES, "").await?,
        classes: cx.list(CLASSES, "").await?,
        ..Storage::default()
    })
}

pub(super) async fn reconcile(cx: &Context<'_>) -> Result<Option<Timestamp>, Failure> {
    // Said before reading, so that what changes from here on brings us back.
    cx.hints.set_pending_pods(cx.tenant, true);
    let pods = cx.list("pods", "").await?;
    let mut nodes = cx.list("nodes", "").await?;
    nodes.sort_by(|a, b| name(a).cmp(name(b)));
    let storage = storage(cx, &pods).await?;
    let rules = if pods.iter().any(is_waiting) { cx.clients.rules(cx.tenant).await? } else { None };
    let placements = plan(&pods, &nodes, rules.as_deref(), storage);
    let mut failures = Vec::new();
    let mut pending = false;
    for (pod, placement) in placements {
        let done = match placement {
            Placement::Node(node) => bind(cx, pod, &node).await,
            Placement::Prepare(writes) => {
                pending = true;
                prepare(cx, writes).await
            }
            Placement::Nowhere(why) => {
                pending = true;
                refuse(cx, pod, &why).await
            }
        };
        if let Err(e) = done {
            failures.push(format!("{}/{}: {e}", namespace(pod), name(pod)));
        }
    }
    if !failures.is_empty() {
        return Err(Failure::Partly(failures.join("; ")));
    }
    cx.hints.set_pending_pods(cx.tenant, pending);
    Ok(None)
}

fn event(pod: &Value, kind: EventType, reason: &str, action: &'static str, message: String) -> Draft {
    Draft { action: Some(action), ..Draft::new("v1", "Pod", pod, kind, reason, message) }
}

async fn bind(cx: &Context<'_>, pod: &Value, node: &str) -> Result<(), Failure> {
    let (ns, pod_name) = (namespace(pod), name(pod));
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": { "name": pod_name, "namespace": ns, "uid": uid(pod) },
        "target": { "apiVersion": "v1", "kind": "Node", "name": node },
    });
    match cx.client.update("pods", ns, pod_name, "binding", binding).await {
        Ok(_) => {
            let message = format!("Successfully assigned {ns}/{pod_name} to {node}");
            cx.record(event(pod, EventType::Normal, "Scheduled", "Binding", message)).await;
            Ok(())
        }
        // Gone in the meantime.
        Err(e) if e.code == 404 => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Writes what must be there before a pod is bound. The binding of claims brings the scheduler back.
async fn prepare(cx: &Context<'_>, writes: Vec<(&'static str, Value)>) -> Result<(), Failure> {
    for (resource, object) in writes {
        let (ns, of) = (namespace(&object).to_owned(), name(&object).to_owned());
        match cx.client.update(resource, &ns, &of, "", object).await {
            Err(e) if e.code != 404 => return Err(e.into()),
            _ => {}
        }
    }
    Ok(())
}

async fn refuse(cx: &Context<'_>, pod: &Value, why: &str) -> Result<(), Failure> {
    let current = condition(pod, "PodScheduled");
    if current.is_some_and(|c| {
        text(c, "/status") == "False" && text(c, "/reason") == "Unschedulable" && text(c, "/message") == why
    }) {
        return Ok(());
    }
    let since = current
        .filter(|c| text(c, "/status") == "False")
        .and_then(|c| c.get("lastTransitionTime").cloned())
        .unwrap_or_else(|| rfc3339(cx.now).into());
    let mut conditions: Vec<Value> =
        list(pod, "/status/conditions").iter().filter(|c| text(c, "/type") != "PodScheduled").cloned().collect();
    conditions.push(json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why,
        "lastProbeTime": null, "lastTransitionTime": since,
    }));
    let mut changed = pod.clone();
    changed["status"]["conditions"] = conditions.into();
    match cx.client.update("pods", namespace(pod), name(pod), "status", changed).await {
        Err(e) if e.code == 404 => return Ok(()),
        Err(e) => return Err(e.into()),
        Ok(_) => {}
    }
    cx.record(event(pod, EventType::Warning, "FailedScheduling", "Scheduling", why.to_owned())).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, cpu: &str) -> Value {
        json!({
            "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name, "disk": "ssd" } },
            "spec": {},
            "status": { "allocatable": { "cpu": cpu, "memory": "4Gi", "pods": "3" },
                "conditions": [{ "type": "Ready", "status": "True" }] },
        })
    }

    fn pod(name: &str, cpu: &str) -> Value {
        json!({
            "metadata": { "name": name, "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "containers": [{ "resources": { "requests": { "cpu": cpu, "memory": "64Mi" } } }] },
        })
    }

    fn why(pod: Value, nodes: &[Value]) -> String {
        match plan(&[pod], nodes, None, Storage::default()).remove(0).1 {
            Placement::Nowhere(why) => why,
            other => panic!("{other:?}"),
        }
    }

    fn placed(pods: &[Value], nodes: &[Value]) -> Vec<(String, Option<String>)> {
        plan(pods, nodes, None, Storage::default())
            .into_iter()
            .map(|(p, to)| {
                (
                    name(p).to_owned(),
                    match to {
                        Placement::Node(node) => Some(node),
                        _ => None,
                    },
                )
            })
            .collect()
    }

    #[test]
    fn nodes_fill_up_in_order_and_pods_of_higher_priority_come_first() {
        let nodes = [node("n1", "1"), node("n2", "500m")];
        let mut urgent = pod("z", "600m");
        urgent["spec"]["priority"] = 10.into();
        let pods = [pod("a", "500m"), pod("b", "400m"), urgent, pod("c", "100m")];
        let s = |s: &str| Some(s.to_owned());
        assert_eq!(
            placed(&pods, &nodes),
            [("z".into(), s("n1")), ("a".into(), s("n2")), ("b".into(), s("n1")), ("c".into(), None)]
        );
    }

    #[test]
    fn running_pods_count_and_ended_ones_do_not() {
        let mut running = pod("r", "900m");
        running["spec"]["nodeName"] = "n1".into();
        let mut ended = running.clone();
        ended["metadata"]["name"] = "e".into();
        ended["status"] = json!({ "phase": "Succeeded" });
        assert_eq!(placed(&[ended, pod("a", "900m")], &[node("n1", "1")])[0].1, Some("n1".into()));
        assert_eq!(placed(&[running, pod("a", "900m")], &[node("n1", "1")])[0].1, None);
    }

    #[test]
    fn refusals_are_explained_in_upstreams_words() {
        assert_eq!(why(pod("p", "1m"), &[]), "no nodes available to schedule pods");
        let mut cordoned = node("n2", "8");
        cordoned["spec"]["unschedulable"] = true.into();
        assert_eq!(
            why(pod("p", "2"), &[node("n1", "1"), cordoned.clone()]),
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. preemption: 0/2 nodes are available: \
             1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
        );
        let mut picky = pod("p", "1m");
        picky["spec"]["nodeSelector"] = json!({ "disk": "hdd" });
        assert!(
            why(picky, &[node("n1", "1")])
                .starts_with("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.")
        );
        let mut tainted = node("n1", "1");
        tainted["spec"]["taints"] = json!([{ "key": "gpu", "value": "yes", "effect": "NoSchedule" }]);
        assert!(why(pod("p", "1m"), &[tainted.clone()]).contains("1 node(s) had untolerated taint {gpu: yes}"));
        let mut tolerant = pod("p", "1m");
        tolerant["spec"]["tolerations"] = json!([{ "key": "gpu", "operator": "Exists" }]);
        assert_eq!(placed(&[tolerant], &[tainted])[0].1, Some("n1".into()));
        let mut down = node("n1", "1");
        down["status"]["conditions"][0]["status"] = "Unknown".into();
        assert!(why(pod("p", "1m"), &[down]).contains("{node.kubernetes.io/not-ready: }"));
    }

    #[test]
    fn workers_that_the_project_does_not_allow_take_nothing() {
        let nodes = [node("cpu-1", "8"), node("gpu-1", "1")];
        let rules = Rules { project: "web".into(), workers: vec!["gpu-*".into()], ..Rules::default() };
        let pods = [pod("a", "1"), pod("b", "1")];
        let mut placed = plan(&pods, &nodes, Some(&rules), Storage::default());
        assert_eq!(placed.remove(0).1, Placement::Node("gpu-1".into()));
        let Placement::Nowhere(why) = placed.remove(0).1 else { panic!("it is full") };
        assert!(
            why.starts_with(
                "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) are not allowed by project \"web\" (gpu-*)."
            ),
            "{why}"
        );
    }

    #[test]
    fn gated_foreign_and_deleted_pods_are_left_alone() {
        let mut gated = pod("g", "1m");
        gated["spec"]["schedulingGates"] = json!([{ "name": "x" }]);
        let mut foreign = pod("f", "1m");
        foreign["spec"]["schedulerName"] = "mine".into();
        let mut deleted = pod("d", "1m");
        deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert!(plan(&[gated, foreign, deleted], &[node("n1", "1")], None, Storage::default()).is_empty());
    }

    #[test]
    fn the_number_of_pods_and_host_ports_are_limited_too() {
        let nodes = [node("n1", "8")];
        let pods: Vec<Value> = (0..4).map(|n| pod(&format!("p{n}"), "1m")).collect();
        assert_eq!(placed(&pods, &nodes)[3].1, None, "allocatable pods: 3");
        let with_port = |name: &str| {
            let mut p = pod(name, "1m");
            p["spec"]["containers"][0]["ports"] = json!([{ "hostPort": 80, "containerPort": 80 }]);
            p
        };
        let result = placed(&[with_port("a"), with_port("b")], &nodes);
        assert_eq!((result[0].1.is_some(), result[1].1.is_some()), (true, false));
    }
}
