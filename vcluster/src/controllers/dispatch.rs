//! Which controllers a committed change concerns; pure.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use vctl_store::Event;

use super::{
    cluster_role,
    daemon_set::node_view,
    disruption, endpoint_slice_mirroring, endpoints,
    hints::Labels,
    object::{condition, controller_of, is_deleting, label_map, labels, list, text},
    pod,
    queue::Controller,
    resource_quota, root_ca,
};
use crate::fairness;

/// What is to be done because of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wake {
    /// Reconcile this key.
    Now(Controller, Arc<str>, Arc<str>),
    /// The services of this namespace that select these labels have changed endpoints.
    ServicesOf(Arc<str>, Labels),
    /// The disruption budgets of this namespace that select these labels count anew.
    BudgetsOf(Arc<str>, Labels),
    /// There is an object with these labels and no controller.
    AdoptersOf(Arc<str>, Labels),
    /// Room was made: pods that fit nowhere may fit now.
    PendingPods,
    /// Something in this namespace went; it may be empty now.
    TerminatingNamespace(Arc<str>),
    /// An event was written.
    EventExpires,
    /// Servers of aggregated APIs may have come or gone.
    ApiServices,
    /// The quotas of this namespace may count too much.
    Quotas(Arc<str>),
}

/// What the garbage collector looks at in every object.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Head {
    pub(super) metadata: HeadMetadata,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct HeadMetadata {
    pub(super) uid: String,
    pub(super) deletion_timestamp: Option<String>,
    pub(super) finalizers: Vec<String>,
    pub(super) owner_references: Vec<Owner>,
}

#[derive(Deserialize, Default, Clone, Debug, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Owner {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) block_owner_deletion: bool,
}

/// Finalizers that the garbage collector acts on.
pub(super) const ORPHAN: &str = "orphan";
pub(super) const FOREGROUND: &str = "foregroundDeletion";

fn tenant_wide(controller: Controller) -> Wake {
    Wake::Now(controller, "".into(), "".into())
}

/// See [`Wake`].
pub(super) fn route(event: &Event) -> Vec<Wake> {
    let key = &event.key;
    let resource = &*key.resource;
    match resource {
        "events" => return if event.value.is_some() { vec![Wake::EventExpires] } else { Vec::new() },
        // Heartbeats.
        "leases.coordination.k8s.io" if event.value.is_some() => return Vec::new(),
        _ => {}
    }
    let mut wakes = Vec::new();
    garbage(event, &mut wakes);
    if event.value.is_none() && !key.namespace.is_empty() {
        wakes.push(Wake::TerminatingNamespace(key.namespace.clone()));
    }
    let bytes = (event.previous.as_ref().map(|(_, v)| &v[..]), event.value.as_deref());
    if !key.namespace.is_empty() && resource_quota::concerns(resource, bytes.0, bytes.1) {
        wakes.push(Wake::Quotas(key.namespace.clone()));
    }
    let this = |controller| Wake::Now(controller, key.namespace.clone(), key.name.clone());
    match resource {
        "namespaces" if event.value.is_some() => {
            wakes.push(this(Controller::Namespace));
            wakes.push(Wake::Now(Controller::ServiceAccount, key.name.clone(), "".into()));
            wakes.push(Wake::Now(Controller::RootCa, key.name.clone(), "".into()));
        }
        crate::custom::DEFINITIONS => wakes.push(this(Controller::Definition)),
        "serviceaccounts" if event.value.is_none() && &*key.name == "default" => {
            wakes.push(Wake::Now(Controller::ServiceAccount, key.namespace.clone(), "".into()));
        }
        "configmaps" if event.previous.is_some() && &*key.name == root_ca::NAME => {
            wakes.push(Wake::Now(Controller::RootCa, key.namespace.clone(), "".into()));
        }
        "services" => {
            wakes.push(Wake::ApiServices);
            wakes.push(this(Controller::Endpoints));
            wakes.push(this(Controller::EndpointSlice));
            let (old, new) = documents(event);
            if [old, new].iter().flatten().any(|s| !endpoint_slice_mirroring::has_selector(s)) {
                wakes.push(this(Controller::EndpointSliceMirroring));
            }
        }
        "endpoints" => {
            if event.previous.is_some() {
                wakes.push(this(Controller::Endpoints));
            }
            let (old, new) = documents(event);
            let by_hand = |e: &Value| labels(e)[endpoints::MANAGED_BY_LABEL] != endpoints::MANAGED_BY;
            if [old, new].iter().flatten().any(|e| by_hand(e) && endpoint_slice_mirroring::is_mirrored(e)) {
                wakes.push(this(Controller::EndpointSliceMirroring));
            }
        }
        "certificatesigningrequests.certificates.k8s.io" if event.value.is_some() => {
            wakes.push(this(Controller::Certificates));
        }
        "apiservices.apiregistration.k8s.io" if resource_quota::is_to_be_counted(bytes.0, bytes.1) => {
            wakes.push(this(Controller::ApiServices));
        }
        "resourcequotas" if resource_quota::is_to_be_counted(bytes.0, bytes.1) => {
            wakes.push(Wake::Now(Controller::ResourceQuota, key.namespace.clone(), "".into()));
        }
        "nodes" => {
            wakes.push(Wake::PendingPods);
            if event.value.is_none() {
                wakes.push(tenant_wide(Controller::PodGc));
            }
            let (old, new) = documents(event);
            if old.as_ref().map(node_view) != new.as_ref().map(node_view) {
                wakes.push(tenant_wide(Controller::DaemonSetNodes));
            }
        }
        "deployments.apps" => wakes.push(this(Controller::Deployment)),
        "replicationcontrollers" => wakes.push(this(Controller::ReplicationController)),
        "statefulsets.apps" => wakes.push(this(Controller::StatefulSet)),
        "daemonsets.apps" => wakes.push(this(Controller::DaemonSet)),
        "cronjobs.batch" => wakes.push(this(Controller::CronJob)),
        "poddisruptionbudgets.policy" => wakes.push(this(Controller::Disruption)),
        fairness::SCHEMAS | fairness::LEVELS => wakes.push(tenant_wide(Controller::FlowControl)),
        cluster_role::RESOURCE => wakes.push(tenant_wide(Controller::ClusterRole)),
        "pods" | "replicasets.apps" | "jobs.batch" | "controllerrevisions.apps" | "endpointslices.discovery.k8s.io" => {
            let (old, new) = documents(event);
            match resource {
                "pods" => pods(&key.namespace, old.as_ref(), new.as_ref(), &mut wakes),
                "replicasets.apps" => {
                    wakes.push(this(Controller::ReplicaSet));
                    owners(&key.namespace, old.as_ref(), new.as_ref(), &mut wakes);
                }
                "jobs.batch" => {
                    wakes.push(this(Controller::Job));
                    owners(&key.namespace, old.as_ref(), new.as_ref(), &mut wakes);
                }
                "controllerrevisions.apps" => owners(&key.namespace, old.as_ref(), new.as_ref(), &mut wakes),
                _ => {
                    wakes.push(Wake::ApiServices);
                    slices(&key.namespace, old.as_ref(), new.as_ref(), &mut wakes);
                }
            }
        }
        _ => {}
    }
    wakes
}

/// The object before and after a change.
fn documents(event: &Event) -> (Option<Value>, Option<Value>) {
    let parse = |bytes: &[u8]| serde_json::from_slice(bytes).ok();
    (event.previous.as_ref().and_then(|(_, v)| parse(v)), event.value.as_ref().and_then(|v| parse(v)))
}

fn garbage(event: &Event, wakes: &mut Vec<Wake>) {
    let Some(value) = &event.value else {
        wakes.push(tenant_wide(Controller::GarbageScan));
        return;
    };
    let Ok(Head { metadata }) = serde_json::from_slice::<Head>(value) else { return };
    if metadata.deletion_timestamp.is_some() && metadata.finalizers.iter().any(|f| f == ORPHAN || f == FOREGROUND) {
        wakes.push(tenant_wide(Controller::GarbageScan));
    }
    if metadata.owner_references.is_empty() {
        return;
    }
    let before = event.previous.as_ref().and_then(|(_, v)| serde_json::from_slice::<Head>(v).ok());
    // An owner that is deleted in the foreground waits for dependents that block it: a reference that stops blocking matters too.
    if before.is_none_or(|b| b.metadata.owner_references != metadata.owner_references) {
        let name: Arc<str> = format!("{}/{}", event.key.resource, event.key.name).into();
        wakes.push(Wake::Now(Controller::GarbageObject, event.key.namespace.clone(), name));
        if event.previous.is_some() {
            wakes.push(tenant_wide(Controller::GarbageScan));
        }
    }
}

/// Wakes the controllers that own an object, before and after the change, or those that may adopt it.
fn owners(namespace: &Arc<str>, old: Option<&Value>, new: Option<&Value>, wakes: &mut Vec<Wake>) {
    let mut wake = |object: Option<&Value>| {
        let Some(reference) = object.and_then(controller_of) else { return };
        let group = text(reference, "/apiVersion").rsplit_once('/').map_or("", |(g, _)| g);
        let controller = match (group, text(reference, "/kind")) {
            ("apps", "ReplicaSet") => Controller::ReplicaSet,
            ("apps", "Deployment") => Controller::Deployment,
            ("apps", "StatefulSet") => Controller::StatefulSet,
            ("apps", "DaemonSet") => Controller::DaemonSet,
            ("batch", "Job") => Controller::Job,
            ("batch", "CronJob") => Controller::CronJob,
            ("", "ReplicationController") => Controller::ReplicationController,
            _ => return,
        };
        let wake = Wake::Now(controller, namespace.clone(), text(reference, "/name").into());
        if !wakes.contains(&wake) {
            wakes.push(wake);
        }
    };
    wake(new);
    wake(old);
    if let Some(object) = new
        && controller_of(object).is_none()
        && !is_deleting(object)
        && old.is_none_or(|o| labels(o) != labels(object) || controller_of(o).is_some())
        && !label_map(object).is_empty()
    {
        wakes.push(Wake::AdoptersOf(namespace.clone(), label_map(object)));
    }
}

/// Everything of a pod that shows in endpoints.
fn endpoint_view(pod: &Value) -> impl PartialEq + '_ {
    let ports: Vec<&Value> =
        list(pod, "/spec/containers").iter().chain(list(pod, "/spec/initContainers")).map(|c| &c["ports"]).collect();
    (
        labels(pod),
        pod.pointer("/status/podIPs"),
        (
            text(pod, "/status/podIP"),
            text(pod, "/spec/nodeName"),
            text(pod, "/spec/hostname"),
            text(pod, "/spec/subdomain"),
        ),
        (is_deleting(pod), pod::is_terminal(pod), pod::is_ready(pod)),
        ports,
    )
}

fn pods(namespace: &Arc<str>, old: Option<&Value>, new: Option<&Value>, wakes: &mut Vec<Wake>) {
    owners(namespace, old, new, wakes);
    if old.map(endpoint_view) != new.map(endpoint_view) {
        for pod in [old, new].into_iter().flatten() {
            // A pod without address is in no endpoints.
            let has_address = !text(pod, "/status/podIP").is_empty() || !list(pod, "/status/podIPs").is_empty();
            let wake = Wake::ServicesOf(namespace.clone(), label_map(pod));
            if has_address && !wakes.contains(&wake) {
                wakes.push(wake);
            }
        }
    }
    if let (Some(old), Some(new)) = (old, new)
        && !pod::is_terminal(old)
        && pod::is_terminal(new)
    {
        wakes.push(Wake::Quotas(namespace.clone()));
    }
    if old.map(disruption::view) != new.map(disruption::view) {
        for pod in [old, new].into_iter().flatten() {
            let wake = Wake::BudgetsOf(namespace.clone(), label_map(pod));
            if !wakes.contains(&wake) {
                wakes.push(wake);
            }
        }
    }
    let needs_node = |pod: &&Value| text(pod, "/spec/nodeName").is_empty() && pod::is_active(pod);
    match (old, new) {
        (old, Some(pod)) if needs_node(&pod) => {
            // Its own condition PodScheduled is what the scheduler writes: that alone is no reason to try again.
            let reconsider = old.is_none_or(|o| {
                condition(o, "PodScheduled") == condition(pod, "PodScheduled")
                    && (o["spec"] != pod["spec"] || labels(o) != labels(pod))
            });
            if reconsider {
                wakes.push(tenant_wide(Controller::Scheduler));
            }
        }
        (Some(old), new)
            if !text(old, "/spec/nodeName").is_empty()
                && !pod::is_terminal(old)
                && new.is_none_or(pod::is_terminal) =>
        {
            wakes.push(Wake::PendingPods);
        }
        _ => {}
    }
    if let Some(pod) = new
        && is_deleting(pod)
        && text(pod, "/spec/nodeName").is_empty()
        && old.is_none_or(|o| !is_deleting(o))
    {
        wakes.push(tenant_wide(Controller::PodGc));
    }
}

fn slices(namespace: &Arc<str>, old: Option<&Value>, new: Option<&Value>, wakes: &mut Vec<Wake>) {
    // A creation is our own; changes and deletions may be somebody else's.
    if old.is_none() {
        return;
    }
    for slice in [old, new].into_iter().flatten() {
        let controller = match labels(slice)["endpointslice.kubernetes.io/managed-by"].as_str() {
            Some(super::endpoint_slice::MANAGED_BY) => Controller::EndpointSlice,
            Some(endpoint_slice_mirroring::MANAGED_BY) => Controller::EndpointSliceMirroring,
            _ => continue,
        };
        if let Some(service) = labels(slice)["kubernetes.io/service-name"].as_str() {
            let wake = Wake::Now(controller, namespace.clone(), service.into());
            if !wakes.contains(&wake) {
                wakes.push(wake);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vctl_store::Key;

    use super::*;

    fn event(resource: &str, name: &str, old: Option<Value>, new: Option<Value>) -> Vec<Wake> {
        route(&Event {
            revision: 9,
            key: Key::new(resource, "ns", name),
            value: new.map(|v| v.to_string().into()),
            previous: old.map(|v| (8, v.to_string().into())),
        })
    }

    fn pod() -> Value {
        json!({
            "metadata": { "name": "p", "labels": { "app": "web" },
                "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u", "controller": true }] },
            "spec": { "nodeName": "n1" }, "status": { "phase": "Running", "podIP": "10.0.0.1" },
        })
    }

    fn web() -> Labels {
        [("app".to_owned(), "web".to_owned())].into()
    }

    #[test]
    fn a_pod_that_becomes_ready_wakes_its_replica_set_and_services() {
        let mut ready = pod();
        ready["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
        let wakes = event("pods", "p", Some(pod()), Some(ready.clone()));
        assert!(wakes.contains(&Wake::Now(Controller::ReplicaSet, "ns".into(), "rs".into())));
        assert!(wakes.contains(&Wake::ServicesOf("ns".into(), web())));
        let mut annotated = ready.clone();
        annotated["metadata"]["annotations"] = json!({ "a": "b" });
        let wakes = event("pods", "p", Some(ready), Some(annotated));
        assert!(!wakes.iter().any(|w| matches!(w, Wake::ServicesOf(..))), "{wakes:?}");
    }

    #[test]
    fn an_orphan_is_offered_for_adoption_once() {
        let orphan = json!({ "metadata": { "name": "p", "labels": { "app": "web" } }, "spec": { "nodeName": "n" } });
        assert!(event("pods", "p", None, Some(orphan.clone())).contains(&Wake::AdoptersOf("ns".into(), web())));
        assert!(event("pods", "p", Some(pod()), Some(orphan.clone())).contains(&Wake::AdoptersOf("ns".into(), web())));
        assert!(event("pods", "p", Some(orphan.clone()), Some(orphan)).is_empty());
    }

    #[test]
    fn a_deletion_starts_the_garbage_collector_and_makes_room() {
        let wakes = event("pods", "p", Some(pod()), None);
        assert!(wakes.contains(&tenant_wide(Controller::GarbageScan)));
        assert!(wakes.contains(&Wake::PendingPods));
        assert!(wakes.contains(&Wake::TerminatingNamespace("ns".into())));
    }

    #[test]
    fn the_schedulers_own_condition_does_not_wake_it() {
        let pending = json!({ "metadata": { "name": "p" }, "spec": {} });
        let mut marked = pending.clone();
        marked["status"] = json!({ "conditions": [{ "type": "PodScheduled", "status": "False" }] });
        assert!(event("pods", "p", None, Some(pending.clone())).contains(&tenant_wide(Controller::Scheduler)));
        assert!(!event("pods", "p", Some(pending), Some(marked)).contains(&tenant_wide(Controller::Scheduler)));
    }

    #[test]
    fn heartbeats_wake_nobody_and_events_only_their_expiry() {
        assert!(event("leases.coordination.k8s.io", "n", None, Some(json!({}))).is_empty());
        assert_eq!(event("events", "e", None, Some(json!({}))), [Wake::EventExpires]);
    }
}
