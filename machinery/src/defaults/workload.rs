//! Deployments and what stands beside them.

use serde_json::Value;

use super::{
    fill::{Fields, ensure, has, items, object, set, text},
    pod,
};

pub(super) fn replication_controller(fields: &mut Fields) {
    let labels = fields.get("spec").and_then(|s| s.pointer("/template/metadata/labels")).cloned();
    if let Some(labels @ Value::Object(_)) = labels {
        if let Some(spec) = object(fields, "spec") {
            set(spec, "selector", labels.clone());
        }
        if let Some(metadata) = object(fields, "metadata") {
            set(metadata, "labels", labels);
        }
    }
    replica_set(fields);
}

pub(super) fn replica_set(fields: &mut Fields) {
    if let Some(spec) = ensure(fields, "spec") {
        set(spec, "replicas", 1);
        pod::template(spec);
    }
    ensure(fields, "status");
}

pub(super) fn deployment(fields: &mut Fields) {
    if let Some(spec) = ensure(fields, "spec") {
        set(spec, "replicas", 1);
        set(spec, "revisionHistoryLimit", 10);
        set(spec, "progressDeadlineSeconds", 600);
        if let Some(strategy) = ensure(spec, "strategy") {
            set(strategy, "type", "RollingUpdate");
            if text(strategy, "type") == "RollingUpdate"
                && let Some(rolling) = ensure(strategy, "rollingUpdate")
            {
                set(rolling, "maxUnavailable", "25%");
                set(rolling, "maxSurge", "25%");
            }
        }
        pod::template(spec);
    }
    ensure(fields, "status");
}

pub(super) fn daemon_set(fields: &mut Fields) {
    if let Some(spec) = ensure(fields, "spec") {
        set(spec, "revisionHistoryLimit", 10);
        if let Some(strategy) = ensure(spec, "updateStrategy") {
            set(strategy, "type", "RollingUpdate");
            if text(strategy, "type") == "RollingUpdate"
                && let Some(rolling) = ensure(strategy, "rollingUpdate")
            {
                set(rolling, "maxUnavailable", 1);
                set(rolling, "maxSurge", 0);
            }
        }
        pod::template(spec);
    }
    ensure(fields, "status");
}

pub(super) fn stateful_set(fields: &mut Fields) {
    if let Some(spec) = ensure(fields, "spec") {
        set(spec, "replicas", 1);
        set(spec, "revisionHistoryLimit", 10);
        set(spec, "podManagementPolicy", "OrderedReady");
        if !has(spec, "serviceName") {
            spec.insert("serviceName".into(), "".into());
        }
        if let Some(strategy) = ensure(spec, "updateStrategy") {
            set(strategy, "type", "RollingUpdate");
            if text(strategy, "type") == "RollingUpdate"
                && let Some(rolling) = ensure(strategy, "rollingUpdate")
            {
                set(rolling, "partition", 0);
            }
        }
        if let Some(policy) = ensure(spec, "persistentVolumeClaimRetentionPolicy") {
            set(policy, "whenDeleted", "Retain");
            set(policy, "whenScaled", "Retain");
        }
        for claim in items(spec, "volumeClaimTemplates") {
            set(claim, "apiVersion", "v1");
            set(claim, "kind", "PersistentVolumeClaim");
            pod::claim(claim);
        }
        pod::template(spec);
    }
    ensure(fields, "status");
}
