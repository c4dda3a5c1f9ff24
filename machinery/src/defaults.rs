//! Defaulting per kind, as upstream's `pkg/apis/*/v1/defaults.go`. What a field is when the client leaves it out, not what admission or
//! a registry allocates (cluster IPs, service accounts of pods, tolerations).

mod batch;
mod cluster;
mod fill;
mod flow_control;
mod pod;
mod workload;

use serde_json::{Map, Value};

use crate::{catalog::Descriptor, status::ApiError};

/// Fills in what the client left out, in place; idempotent.
///
/// # Errors
/// 413 for a custom resource whose defaults would make it too large to be stored.
pub fn apply(descriptor: &Descriptor, object: &mut Value) -> Result<(), ApiError> {
    if let Some(definition) = &descriptor.definition {
        return definition.default(object);
    }
    if let Some(fields) = object.as_object_mut() {
        builtin(descriptor, fields);
    }
    Ok(())
}

fn builtin(descriptor: &Descriptor, fields: &mut Map<String, Value>) {
    match (descriptor.group.as_str(), descriptor.plural.as_str()) {
        ("", "pods") => pod::pod(fields),
        ("", "podtemplates") => pod::template(fields),
        ("", "replicationcontrollers") => workload::replication_controller(fields),
        ("", "services") => cluster::service(fields),
        ("", "secrets") => cluster::secret(fields),
        ("", "namespaces") => cluster::namespace(fields),
        ("", "nodes") => cluster::node(fields),
        ("", "endpoints") => cluster::endpoints(fields),
        ("", "persistentvolumes") => cluster::persistent_volume(fields),
        ("", "persistentvolumeclaims") => pod::claim(fields),
        ("", "limitranges") => cluster::limit_range(fields),
        ("apps", "deployments") => workload::deployment(fields),
        ("apps", "replicasets") => workload::replica_set(fields),
        ("apps", "statefulsets") => workload::stateful_set(fields),
        ("apps", "daemonsets") => workload::daemon_set(fields),
        ("batch", "jobs") => batch::job(fields),
        ("batch", "cronjobs") => batch::cron_job(fields),
        ("autoscaling", "horizontalpodautoscalers") => batch::autoscaler(&descriptor.version, fields),
        ("networking.k8s.io", "networkpolicies") => cluster::network_policy(fields),
        ("networking.k8s.io", "ingressclasses") => cluster::ingress_class(fields),
        ("discovery.k8s.io", "endpointslices") => cluster::endpoint_slice(fields),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => cluster::binding(fields),
        ("storage.k8s.io", "storageclasses") => cluster::storage_class(fields),
        ("storage.k8s.io", "csidrivers") => cluster::csi_driver(fields),
        ("scheduling.k8s.io", "priorityclasses") => cluster::priority_class(fields),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations") => cluster::webhooks(fields, true),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations") => cluster::webhooks(fields, false),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies" | "mutatingadmissionpolicies") => {
            cluster::admission_policy(fields);
        }
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings" | "mutatingadmissionpolicybindings") => {
            cluster::admission_policy_binding(fields)
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => cluster::definition(fields),
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => flow_control::schema(fields),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => flow_control::level(fields),
        ("apiregistration.k8s.io", "apiservices") => cluster::api_service(fields),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
