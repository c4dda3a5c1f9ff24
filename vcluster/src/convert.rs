//! Between the version of a request and the version in which objects are stored.

use serde_json::{Map, Value, json};
use vctl_machinery::catalog::Descriptor;

fn is_new_event(descriptor: &Descriptor) -> bool {
    descriptor.group == "events.k8s.io" && descriptor.plural == "events"
}

/// The store's resource: events of both groups are the same objects.
pub(crate) fn storage_resource(descriptor: &Descriptor) -> String {
    if is_new_event(descriptor) { "events".to_owned() } else { descriptor.group_resource() }
}

/// Whether objects of the descriptor's version are stored as they are.
pub(crate) fn is_stored_form(descriptor: &Descriptor) -> bool {
    descriptor.version == descriptor.storage_version && !is_new_event(descriptor)
}

/// To the version stored.
pub(crate) fn to_storage(descriptor: &Descriptor, object: &mut Value) {
    if is_new_event(descriptor) {
        object["apiVersion"] = "v1".into();
        rename(
            object,
            &[
                ("note", "message"),
                ("regarding", "involvedObject"),
                ("deprecatedSource", "source"),
                ("deprecatedFirstTimestamp", "firstTimestamp"),
                ("deprecatedLastTimestamp", "lastTimestamp"),
                ("deprecatedCount", "count"),
                ("reportingController", "reportingComponent"),
            ],
        );
        return;
    }
    if descriptor.version == descriptor.storage_version {
        return;
    }
    if descriptor.plural == "horizontalpodautoscalers" && descriptor.version == "v1" {
        autoscaler_to_v2(object);
    }
    let version = &descriptor.storage_version;
    object["apiVersion"] =
        if descriptor.group.is_empty() { version.clone() } else { format!("{}/{version}", descriptor.group) }.into();
}

/// To the version of the descriptor.
pub(crate) fn from_storage(descriptor: &Descriptor, object: &mut Value) {
    if is_new_event(descriptor) {
        rename(
            object,
            &[
                ("message", "note"),
                ("involvedObject", "regarding"),
                ("source", "deprecatedSource"),
                ("firstTimestamp", "deprecatedFirstTimestamp"),
                ("lastTimestamp", "deprecatedLastTimestamp"),
                ("count", "deprecatedCount"),
                ("reportingComponent", "reportingController"),
            ],
        );
    } else if descriptor.plural == "horizontalpodautoscalers" && descriptor.version == "v1" {
        autoscaler_to_v1(object);
    }
    if let Some(object) = object.as_object_mut() {
        object.insert("apiVersion".into(), descriptor.api_version().into());
        object.insert("kind".into(), descriptor.kind.clone().into());
    }
}

fn rename(object: &mut Value, names: &[(&str, &str)]) {
    if let Some(map) = object.as_object_mut() {
        for (from, to) in names {
            if let Some(value) = map.remove(*from) {
                map.insert((*to).to_owned(), value);
            }
        }
    }
}

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";

fn is_cpu_utilization(metric: &Value) -> bool {
    metric["type"] == "Resource"
        && metric["resource"]["name"] == "cpu"
        && metric["resource"]["target"]["type"] == "Utilization"
}

/// What v1 cannot say it carries in annotations; in v2 form, so that nothing is lost between the two.
fn autoscaler_to_v1(object: &mut Value) {
    let mut notes = Map::new();
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        if let Some(Value::Array(mut metrics)) = spec.remove("metrics") {
            if let Some(at) = metrics.iter().position(is_cpu_utilization) {
                let cpu = metrics.remove(at);
                spec.insert(
                    "targetCPUUtilizationPercentage".into(),
                    cpu["resource"]["target"]["averageUtilization"].clone(),
                );
            }
            if !metrics.is_empty() {
                notes.insert(METRICS.into(), Value::Array(metrics).to_string().into());
            }
        }
        if let Some(behavior) = spec.remove("behavior") {
            notes.insert(BEHAVIOR.into(), behavior.to_string().into());
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        if let Some(Value::Array(metrics)) = status.remove("currentMetrics") {
            if let Some(cpu) = metrics.iter().find(|m| m["resource"]["name"] == "cpu") {
                status.insert(
                    "currentCPUUtilizationPercentage".into(),
                    cpu["resource"]["current"]["averageUtilization"].clone(),
                );
            }
            notes.insert(CURRENT_METRICS.into(), Value::Array(metrics).to_string().into());
        }
        if let Some(conditions) = status.remove("conditions") {
            notes.insert(CONDITIONS.into(), conditions.to_string().into());
        }
        status.entry("currentReplicas").or_insert(json!(0));
    }
    if !notes.is_empty()
        && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        && let Some(annotations) = metadata.entry("annotations").or_insert_with(|| json!({})).as_object_mut()
    {
        annotations.extend(notes);
    }
}

fn autoscaler_to_v2(object: &mut Value) {
    let mut take = |name: &str| -> Option<Value> {
        let annotations = object.pointer_mut("/metadata/annotations")?.as_object_mut()?;
        serde_json::from_str(annotations.remove(name)?.as_str()?).ok()
    };
    let (metrics, current, behavior, conditions) =
        (take(METRICS), take(CURRENT_METRICS), take(BEHAVIOR), take(CONDITIONS));
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        let mut all = Vec::new();
        if let Some(percent) = spec.remove("targetCPUUtilizationPercentage").filter(|p| !p.is_null()) {
            all.push(json!({ "type": "Resource", "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": percent } } }));
        }
        if let Some(Value::Array(more)) = metrics {
            all.extend(more);
        }
        if !all.is_empty() {
            spec.insert("metrics".into(), all.into());
        }
        if let Some(behavior) = behavior {
            spec.insert("behavior".into(), behavior);
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("currentCPUUtilizationPercentage");
        if let Some(current) = current {
            status.insert("currentMetrics".into(), current);
        }
        if let Some(conditions) = conditions {
            status.insert("conditions".into(), conditions);
        }
    }
}
