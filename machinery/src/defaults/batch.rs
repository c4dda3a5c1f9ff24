//! Jobs, CronJobs and autoscalers.

use serde_json::{Value, json};

use super::{
    fill::{Fields, ensure, has, items, object, set, text},
    pod,
};

pub(super) fn job(fields: &mut Fields) {
    let mut labels = None;
    if let Some(spec) = ensure(fields, "spec") {
        if !has(spec, "completions") && !has(spec, "parallelism") {
            set(spec, "completions", 1);
        }
        set(spec, "parallelism", 1);
        let limit = if has(spec, "backoffLimitPerIndex") { i32::MAX } else { 6 };
        set(spec, "backoffLimit", limit);
        set(spec, "completionMode", "NonIndexed");
        set(spec, "suspend", false);
        set(spec, "manualSelector", false);
        let replacement = if has(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
        set(spec, "podReplacementPolicy", replacement);
        if let Some(policy) = object(spec, "podFailurePolicy") {
            for rule in items(policy, "rules") {
                for condition in items(rule, "onPodConditions") {
                    set(condition, "status", "True");
                }
            }
        }
        pod::template(spec);
        labels = spec.get("template").and_then(|t| t.pointer("/metadata/labels")).cloned();
    }
    if let (Some(labels @ Value::Object(_)), Some(metadata)) = (labels, object(fields, "metadata"))
        && metadata.get("labels").is_none_or(|l| l.as_object().is_none_or(serde_json::Map::is_empty))
    {
        metadata.insert("labels".into(), labels);
    }
    ensure(fields, "status");
}

pub(super) fn cron_job(fields: &mut Fields) {
    if let Some(spec) = ensure(fields, "spec") {
        set(spec, "concurrencyPolicy", "Allow");
        set(spec, "suspend", false);
        set(spec, "successfulJobsHistoryLimit", 3);
        set(spec, "failedJobsHistoryLimit", 1);
        if let Some(job) = ensure(spec, "jobTemplate").and_then(|template| ensure(template, "spec")) {
            pod::template(job);
        }
    }
    ensure(fields, "status");
}

pub(super) fn autoscaler(version: &str, fields: &mut Fields) {
    let Some(spec) = ensure(fields, "spec") else { return };
    set(spec, "minReplicas", 1);
    if version != "v2" {
        set(spec, "targetCPUUtilizationPercentage", 80);
        return;
    }
    if spec.get("metrics").is_none_or(|m| m.as_array().is_none_or(Vec::is_empty)) {
        let cpu = json!({ "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 80 } });
        spec.insert("metrics".into(), json!([{ "type": "Resource", "resource": cpu }]));
    }
    if let Some(behavior) = object(spec, "behavior") {
        let percent = json!({ "type": "Percent", "value": 100, "periodSeconds": 15 });
        if let Some(up) = ensure(behavior, "scaleUp") {
            set(up, "stabilizationWindowSeconds", 0);
            rules(up, json!([{ "type": "Pods", "value": 4, "periodSeconds": 15 }, percent]));
        }
        if let Some(down) = ensure(behavior, "scaleDown") {
            rules(down, json!([percent]));
        }
    }
}

fn rules(rules: &mut Fields, policies: Value) {
    if text(rules, "selectPolicy").is_empty() {
        set(rules, "selectPolicy", "Max");
    }
    set(rules, "policies", policies);
}
