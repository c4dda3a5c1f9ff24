//! Looks at a whole tenant as if all of it had changed: after start, after the feed lagged, after the tenant was created.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    context::{Context, Failure},
    object::{is_deleting, label_map, labels, text},
    pod,
    queue::Controller,
    root_ca,
};

/// Only resources that matter are read, and only keys that may have work are queued.
pub(super) async fn reconcile(cx: &Context<'_>) -> Result<Option<Timestamp>, Failure> {
    for namespace in cx.stored("namespaces", None).await? {
        let name = &*namespace.key.name;
        let object: Value = serde_json::from_slice(&namespace.value).unwrap_or_default();
        if is_deleting(&object) {
            cx.wake(Controller::Namespace, "", name);
            continue;
        }
        let key = |resource, of| vctl_store::Key::new(resource, name, of);
        if cx.store.get(cx.tenant, &key("serviceaccounts", "default")).await?.0.is_none() {
            cx.wake(Controller::ServiceAccount, name, "");
        }
        if cx.store.get(cx.tenant, &key("configmaps", root_ca::NAME)).await?.0.is_none() {
            cx.wake(Controller::RootCa, name, "");
        }
    }
    for (resource, controllers) in [
        (crate::custom::DEFINITIONS, &[Controller::Definition][..]),
        ("deployments.apps", &[Controller::Deployment]),
        ("replicasets.apps", &[Controller::ReplicaSet]),
        ("replicationcontrollers", &[Controller::ReplicationController]),
        ("statefulsets.apps", &[Controller::StatefulSet]),
        ("daemonsets.apps", &[Controller::DaemonSet]),
        ("jobs.batch", &[Controller::Job]),
        ("cronjobs.batch", &[Controller::CronJob]),
        ("poddisruptionbudgets.policy", &[Controller::Disruption]),
        ("services", &[Controller::Endpoints, Controller::EndpointSlice]),
    ] {
        for entry in cx.stored(resource, None).await? {
            for controller in controllers {
                cx.wake(*controller, &entry.key.namespace, &entry.key.name);
            }
        }
    }
    // Left over from services that were deleted while nobody looked.
    for entry in cx.stored("endpoints", None).await? {
        let object: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
        if text(labels(&object), "/endpoints.kubernetes.io~1managed-by") == super::endpoints::MANAGED_BY {
            cx.wake(Controller::Endpoints, &entry.key.namespace, &entry.key.name);
        } else if super::endpoint_slice_mirroring::is_mirrored(&object) {
            cx.wake(Controller::EndpointSliceMirroring, &entry.key.namespace, &entry.key.name);
        }
    }
    for entry in cx.stored("endpointslices.discovery.k8s.io", None).await? {
        let object: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
        if labels(&object)["endpointslice.kubernetes.io/managed-by"] == super::endpoint_slice_mirroring::MANAGED_BY
            && let Some(service) = labels(&object)["kubernetes.io/service-name"].as_str()
        {
            cx.wake(Controller::EndpointSliceMirroring, &entry.key.namespace, service);
        }
    }
    let mut unscheduled = false;
    for entry in cx.stored("pods", None).await? {
        let object: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
        unscheduled |= text(&object, "/spec/nodeName").is_empty() && pod::is_active(&object);
        if let Some(job) = super::job::tracker_of(&object) {
            // It may have gone while nobody looked.
            cx.wake(Controller::Job, &entry.key.namespace, job);
        }
        if super::object::controller_of(&object).is_none()
            && cx.hints.adopters_of(cx.tenant, &entry.key.namespace, label_map(&object))
        {
            cx.wake(Controller::FanOut, &entry.key.namespace, "");
        }
    }
    if unscheduled {
        cx.wake(Controller::Scheduler, "", "");
    }
    if !cx.stored(crate::aggregation::API_SERVICES, None).await?.is_empty() {
        cx.wake(Controller::ApiServices, "", "");
    }
    for entry in cx.stored("certificatesigningrequests.certificates.k8s.io", None).await? {
        cx.wake(Controller::Certificates, "", &entry.key.name);
    }
    for entry in cx.stored(crate::quota::QUOTAS, None).await? {
        cx.wake(Controller::ResourceQuota, &entry.key.namespace, "");
    }
    super::cluster_role::later(cx);
    super::flow_control::look(cx).await?;
    for controller in [Controller::GarbageScan, Controller::PodGc, Controller::EventExpiry] {
        cx.wake(controller, "", "");
    }
    Ok(None)
}
