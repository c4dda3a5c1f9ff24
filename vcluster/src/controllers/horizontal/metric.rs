//! The metrics of an autoscaler, one after the other: what each proposes, and what the status says of it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vctl_machinery::{amounts::Quantity, quantity::thousandths, selector::LabelSelector};

use super::{
    Autoscaler,
    calculate::{self, Proposal, Situation, Target},
    status::Status,
};
use crate::controllers::{
    event::EventType,
    object::{int, list, namespace, text},
};

/// What one metric proposes.
struct Found {
    replicas: i64,
    /// As events call the metric.
    by: String,
    status: Value,
}

/// Why a metric proposes nothing.
struct Unknown {
    reason: &'static str,
    /// What is told of it.
    why: String,
    /// The same, as the summary of all metrics says it.
    error: String,
}

/// The highest number that a metric proposes, and which one it is.
pub(super) async fn compute(
    autoscaler: &Autoscaler<'_>,
    selector: &LabelSelector,
    current: i64,
    status: &mut Status,
) -> Result<(i64, String), String> {
    let metrics = list(autoscaler.object, "/spec/metrics");
    let mut statuses = Vec::new();
    let mut best: Option<(i64, String)> = None;
    let mut first_unknown = None;
    let mut unknown = 0;
    for metric in metrics {
        match one(autoscaler, metric, selector, current).await {
            Ok(found) => {
                statuses.push(found.status);
                if best.as_ref().is_none_or(|(replicas, _)| *replicas == 0 || found.replicas > *replicas) {
                    best = Some((found.replicas, found.by));
                }
            }
            Err(found) => {
                // Clients find the status of a metric by its place.
                statuses.push(json!({ "type": "" }));
                autoscaler.tell(EventType::Warning, found.reason, found.why.clone()).await;
                unknown += 1;
                first_unknown.get_or_insert(found);
            }
        }
    }
    status.metrics(statuses);
    match (best, first_unknown) {
        // With a metric unknown there is no telling that fewer replicas would do.
        (Some((replicas, by)), first) if first.is_none() || replicas >= current => {
            let message = format!("the HPA was able to successfully calculate a replica count from {by}");
            status.set("ScalingActive", true, "ValidMetricFound", message);
            Ok((replicas, by))
        }
        (_, Some(first)) => {
            let message = format!("the HPA was unable to compute the replica count: {}", first.why);
            status.set("ScalingActive", false, first.reason, message);
            let all = metrics.len();
            Err(format!("invalid metrics ({unknown} invalid out of {all}), first error is: {}", first.error))
        }
        _ => Err("invalid metrics (0 invalid out of 0), first error is: no metrics".to_owned()),
    }
}

async fn one(
    autoscaler: &Autoscaler<'_>,
    metric: &Value,
    selector: &LabelSelector,
    current: i64,
) -> Result<Found, Unknown> {
    let ns = namespace(autoscaler.object);
    match text(metric, "/type") {
        "Resource" => resource(autoscaler, metric, "resource", selector, current).await.map_err(|error| Unknown {
            reason: "FailedGetResourceMetric",
            why: error.clone(),
            error: format!("failed to get {} resource metric value: {error}", text(metric, "/resource/name")),
        }),
        "ContainerResource" => {
            resource(autoscaler, metric, "containerResource", selector, current).await.map_err(|error| Unknown {
                reason: "FailedGetContainerResourceMetric",
                why: error.clone(),
                error: format!(
                    "failed to get {} container metric value: {error}",
                    text(metric, "/containerResource/container")
                ),
            })
        }
        "Pods" => {
            let of = text(metric, "/pods/metric/name");
            let why =
                format!("unable to get metric {of}: unable to fetch metrics from custom metrics API: {NO_CUSTOM}");
            let error = format!("failed to get pods metric value: {why}");
            Err(Unknown { reason: "FailedGetPodsMetric", why, error })
        }
        "Object" => {
            let of = text(metric, "/object/metric/name");
            let (kind, described) =
                (text(metric, "/object/describedObject/kind"), text(metric, "/object/describedObject/name"));
            let why = format!(
                "unable to get metric {of}: {kind} on {ns} {described}/unable to fetch metrics from custom metrics API: {NO_CUSTOM}"
            );
            let error = format!("failed to get object metric value: {why}");
            Err(Unknown { reason: "FailedGetObjectMetric", why, error })
        }
        "External" => {
            let of = text(metric, "/external/metric/name");
            let why = format!(
                "unable to get external metric {ns}/{of}/{}: unable to fetch metrics from external metrics API: the server could not \
                 find the requested resource (get {of}.external.metrics.k8s.io)",
                go_selector(&metric["external"]["metric"]["selector"])
            );
            let error = format!("failed to get {of} external metric value: failed to get {of} external metric: {why}");
            Err(Unknown { reason: "FailedGetExternalMetric", why, error })
        }
        other => {
            let why = format!("unknown metric source type {other:?}");
            Err(Unknown { reason: "InvalidMetricSourceType", error: why.clone(), why })
        }
    }
}

const NO_CUSTOM: &str = "no custom metrics API (custom.metrics.k8s.io) registered";

/// A metric of `metrics.k8s.io`.
async fn resource(
    autoscaler: &Autoscaler<'_>,
    metric: &Value,
    source: &str,
    selector: &LabelSelector,
    current: i64,
) -> Result<Found, String> {
    let spec = &metric[source];
    let (of, container) = (text(spec, "/name"), text(spec, "/container"));
    let (target, what) = if let Some(average) = spec["target"].get("averageValue").and_then(thousandths) {
        (Target::Average(average), "usage")
    } else if let Some(percent) = int(spec, "/target/averageUtilization") {
        (Target::Utilization(percent), "utilization")
    } else {
        return Err(
            "invalid resource metric source: neither an average utilization target nor an average value (usage) \
                    target was set"
                .to_owned(),
        );
    };
    let failed = |why: String| format!("failed to get {of} {what}: {why}");
    let unable = |why: String| failed(format!("unable to get metrics for resource {of}: {why}"));
    let namespace = namespace(autoscaler.object);
    let client = &autoscaler.cx.client;
    let measured = client
        .list("pods.metrics.k8s.io", namespace, selector)
        .await
        .map_err(|e| unable(format!("unable to fetch metrics from resource metrics API: {e}")))?;
    if measured.items.is_empty() {
        return Err(unable("no metrics returned from resource metrics API".to_owned()));
    }
    let samples = calculate::samples(&measured.items, of, container).map_err(unable)?;
    let pods = client
        .list("pods", namespace, selector)
        .await
        .map_err(|e| failed(format!("unable to get pods while calculating replica count: {e}")))?
        .items;
    let (tolerance, now) = (autoscaler.tolerance(), autoscaler.cx.now);
    let situation = Situation { current, resource: of, container, pods: &pods, tolerance, now };
    let Proposal { replicas, utilization, average } = situation.propose(target, samples).map_err(failed)?;
    let mut value = json!({ "averageValue": Quantity::millis(average).to_string() });
    let kind = if container.is_empty() { "resource" } else { "container resource" };
    let mut by = format!("{of} {kind}");
    if let Some(percent) = utilization {
        value["averageUtilization"] = percent.into();
        by.push_str(" utilization (percentage of request)");
    }
    let mut shown = json!({ "name": of, "current": value });
    if !container.is_empty() {
        shown["container"] = container.into();
    }
    let mut status = json!({ "type": text(metric, "/type") });
    status[source] = shown;
    Ok(Found { replicas, by, status })
}

/// A label selector as Go prints one.
fn go_selector(selector: &Value) -> String {
    if !selector.is_object() {
        return "nil".to_owned();
    }
    let labels: BTreeMap<&str, &str> = selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(k, v)| (k.as_str(), v.as_str().unwrap_or_default()))
        .collect();
    let labels: Vec<String> = labels.iter().map(|(k, v)| format!("{k}: {v},")).collect();
    let expressions: Vec<String> = list(selector, "/matchExpressions")
        .iter()
        .map(|e| {
            let values: Vec<&str> = list(e, "/values").iter().filter_map(Value::as_str).collect();
            let (key, operator) = (text(e, "/key"), text(e, "/operator"));
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{}],}},", values.join(" "))
        })
        .collect();
    let (labels, expressions) = (labels.concat(), expressions.concat());
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_printed_as_go_does() {
        assert_eq!(go_selector(&Value::Null), "nil");
        assert_eq!(
            go_selector(&json!({ "matchLabels": { "b": "2", "a": "1" } })),
            "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{},}"
        );
    }
}
