//! Workloads: what has a pod template.

use serde_json::Value;

use super::{
    check::{At, Errors},
    pod,
};
use crate::{
    catalog::Descriptor,
    cron::{Schedule, time_zone},
    selector::LabelSelector,
};

/// The template and the selector that must find its pods.
fn template(spec: &At<'_>, policies: &[&str], errors: &mut Errors) {
    let template = spec.field("template");
    errors.labels(&template.field("metadata").field("labels"));
    pod::spec(&template.field("spec"), policies, errors);
}

/// `kind` is what an empty selector is invalid for.
fn selected(spec: &At<'_>, kind: &str, errors: &mut Errors) {
    let selector = spec.field("selector");
    let labels = spec.field("template").field("metadata").field("labels");
    if !selector.exists() {
        errors.required(&selector, "");
        // No selector finds nothing.
        errors.invalid(&labels, "`selector` does not match template `labels`");
        return;
    }
    errors.selector(&selector);
    if selector.field("matchLabels").is_empty() && selector.field("matchExpressions").is_empty() {
        errors.invalid(&selector, &format!("empty selector is invalid for {kind}"));
        return;
    }
    if let Ok(parsed) = LabelSelector::from_object(selector.value)
        && !parsed.matches(labels.value)
    {
        errors.invalid(&labels, "`selector` does not match template `labels`");
    }
}

/// A number or a percentage that is not negative.
pub(super) fn int_or_percent(at: &At<'_>, errors: &mut Errors) {
    match at.value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
            if !digits {
                errors.invalid(at, "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')");
            }
        }
        _ => errors.non_negative(at),
    }
}

fn is_zero(at: &At<'_>) -> bool {
    at.value.as_i64() == Some(0) || at.text() == "0%"
}

pub(super) fn common(descriptor: &Descriptor, object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    match descriptor.plural.as_str() {
        "deployments" => {
            errors.non_negative(&spec.field("replicas"));
            selected(&spec, "deployment", errors);
            template(&spec, &["Always"], errors);
            let strategy = spec.field("strategy");
            errors.if_set_one_of(&strategy.field("type"), &["Recreate", "RollingUpdate"]);
            let rolling = strategy.field("rollingUpdate");
            if strategy.field("type").text() == "Recreate" && rolling.exists() {
                errors.forbidden(&rolling, "may not be specified when strategy `type` is 'Recreate'");
            } else if rolling.exists() {
                let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
                int_or_percent(&unavailable, errors);
                int_or_percent(&surge, errors);
                let percent = unavailable.text().strip_suffix('%').and_then(|n| n.parse::<u32>().ok());
                if percent.is_some_and(|n| n > 100) {
                    errors.invalid(&unavailable, "must not be greater than 100%");
                }
                if is_zero(&unavailable) && is_zero(&surge) {
                    errors.invalid(&unavailable, "may not be 0 when `maxSurge` is 0");
                }
            }
            for field in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
                errors.non_negative(&spec.field(field));
            }
            let deadline = spec.field("progressDeadlineSeconds");
            if let (Some(d), m) = (deadline.value.as_i64(), spec.field("minReadySeconds").value.as_i64().unwrap_or(0))
                && d <= m
            {
                errors.invalid(&deadline, "must be greater than minReadySeconds");
            }
        }
        "replicasets" | "daemonsets" | "statefulsets" => {
            for field in ["replicas", "minReadySeconds", "revisionHistoryLimit"] {
                errors.non_negative(&spec.field(field));
            }
            // Replica sets say "deployment" upstream, too.
            let kind = match descriptor.plural.as_str() {
                "daemonsets" => "daemonset",
                "statefulsets" => "statefulset",
                _ => "deployment",
            };
            selected(&spec, kind, errors);
            if descriptor.plural == "statefulsets" {
                // As upstream: containers mount the claim templates, which are no volumes of the template.
                let template = spec.field("template");
                errors.labels(&template.field("metadata").field("labels"));
                errors.one_of(&template.field("spec").field("restartPolicy"), &["Always"]);
            } else {
                template(&spec, &["Always"], errors);
            }
            let strategy = spec.field("updateStrategy");
            if descriptor.plural != "replicasets" {
                errors.if_set_one_of(&strategy.field("type"), &["OnDelete", "RollingUpdate"]);
            }
            if descriptor.plural == "daemonsets" && strategy.field("type").text() == "RollingUpdate" {
                rolling_daemons(&strategy.field("rollingUpdate"), errors);
            }
            let management = spec.field("podManagementPolicy");
            if management.exists() && !matches!(management.text(), "OrderedReady" | "Parallel") {
                errors.invalid(&management, "must be 'OrderedReady' or 'Parallel'");
            }
            if descriptor.plural == "statefulsets" {
                let rolling = strategy.field("rollingUpdate");
                if strategy.field("type").text() == "OnDelete" && rolling.exists() {
                    errors.invalid(&rolling, "only allowed for updateStrategy 'RollingUpdate'");
                }
                errors.non_negative(&rolling.field("partition"));
                if rolling.field("maxUnavailable").exists() {
                    int_or_percent(&rolling.field("maxUnavailable"), errors);
                    if is_zero(&rolling.field("maxUnavailable")) {
                        errors.invalid(&rolling.field("maxUnavailable"), "cannot be 0");
                    }
                }
                let retention = spec.field("persistentVolumeClaimRetentionPolicy");
                for field in ["whenDeleted", "whenScaled"] {
                    errors.if_set_one_of(&retention.field(field), &["Delete", "Retain"]);
                }
                errors.non_negative(&spec.field("ordinals").field("start"));
            }
        }
        "jobs" => {
            job(&spec, errors);
            let selector = spec.field("selector");
            if !selector.exists() {
                errors.required(&selector, "");
            }
            let generated = |label: &str| {
                matches!(
                    label,
                    "batch.kubernetes.io/controller-uid"
                        | "batch.kubernetes.io/job-name"
                        | "controller-uid"
                        | "job-name"
                )
            };
            if spec.field("manualSelector").value != &Value::Bool(true)
                && (selector.field("matchLabels").entries().any(|(label, _)| !generated(label))
                    || !selector.field("matchExpressions").is_empty())
            {
                errors.invalid(&selector, "`selector` not auto-generated");
            }
        }
        "replicationcontrollers" => {
            errors.non_negative(&spec.field("replicas"));
            errors.non_negative(&spec.field("minReadySeconds"));
            let selector = spec.field("selector");
            if selector.is_empty() {
                errors.required(&selector, "");
            }
            errors.labels(&selector);
            let given = spec.field("template");
            if given.field("spec").field("containers").exists() {
                let labels = given.field("metadata").field("labels");
                if !selector.entries().all(|(key, at)| labels.value.get(key) == Some(at.value)) {
                    errors.invalid(&labels, "`selector` does not match template `labels`");
                }
                template(&spec, &["Always"], errors);
            } else {
                errors.required(&given, "");
            }
        }
        "cronjobs" => {
            let schedule = spec.field("schedule");
            if schedule.is_empty() {
                errors.required(&schedule, "");
            } else if schedule.text().contains("TZ") {
                errors.invalid(&schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
            } else if let Err(why) = Schedule::parse(schedule.text()) {
                errors.invalid(&schedule, &why);
            }
            let zone = spec.field("timeZone");
            if zone.exists() {
                if zone.is_empty() {
                    errors.invalid(&zone, "timeZone must be nil or non-empty string");
                } else if zone.text().eq_ignore_ascii_case("local") {
                    errors.invalid(
                        &zone,
                        "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
                    );
                } else if time_zone(zone.text()).is_none() {
                    errors.invalid(&zone, &format!("unknown time zone {}", zone.text()));
                }
            }
            errors.if_set_one_of(&spec.field("concurrencyPolicy"), &["Allow", "Forbid", "Replace"]);
            for field in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
                errors.non_negative(&spec.field(field));
            }
            job(&spec.field("jobTemplate").field("spec"), errors);
            if object.field("metadata").field("name").text().len() > 52 {
                errors.invalid(&object.field("metadata").field("name"), "must be no more than 52 characters");
            }
        }
        "podtemplates" => template(object, &["Always", "OnFailure", "Never"], errors),
        _ => {}
    }
}

/// Daemons are replaced by taking the old one away first or by starting the new one first, not both.
fn rolling_daemons(rolling: &At<'_>, errors: &mut Errors) {
    if !rolling.exists() {
        errors.required(rolling, "");
        return;
    }
    let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
    for at in [&unavailable, &surge].into_iter().filter(|at| at.exists()) {
        int_or_percent(at, errors);
        if at.text().strip_suffix('%').and_then(|n| n.parse::<u32>().ok()).is_some_and(|n| n > 100) {
            errors.invalid(at, "must not be greater than 100%");
        }
    }
    let some = |at: &At<'_>| at.exists() && !is_zero(at);
    match (some(&unavailable), some(&surge)) {
        (true, true) => errors.invalid(&surge, "may not be set when maxUnavailable is set"),
        (false, false) => errors.required(&unavailable, "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}

/// What a job makes of failed pods.
fn failure_policy(spec: &At<'_>, errors: &mut Errors) {
    const MOST_RULES: usize = 20;
    let policy = spec.field("podFailurePolicy");
    if !policy.exists() {
        return;
    }
    let restart = spec.field("template").field("spec").field("restartPolicy");
    if restart.text() != "Never" {
        errors.invalid(&restart, "only \"Never\" is supported when podFailurePolicy is specified");
    }
    let rules = policy.field("rules");
    if rules.items().count() > MOST_RULES {
        errors.too_many(&rules, MOST_RULES);
    }
    for rule in rules.items() {
        let (action, codes, conditions) =
            (rule.field("action"), rule.field("onExitCodes"), rule.field("onPodConditions"));
        errors.one_of(&action, &["Count", "FailIndex", "FailJob", "Ignore"]);
        if action.text() == "FailIndex" && !spec.field("backoffLimitPerIndex").exists() {
            errors.invalid(&action, "requires the backoffLimitPerIndex to be set");
        }
        match (codes.exists(), conditions.is_empty()) {
            (true, false) => {
                errors.invalid(&rule, "specifying both OnExitCodes and OnPodConditions is not supported");
            }
            (false, true) => errors.invalid(&rule, "specifying one of OnExitCodes and OnPodConditions is required"),
            _ => {}
        }
        if codes.exists() {
            errors.one_of(&codes.field("operator"), &["In", "NotIn"]);
            let values = codes.field("values");
            if values.is_empty() {
                errors.invalid(&values, "at least one value is required");
            }
            for value in values.items() {
                if codes.field("operator").text() == "In" && value.value.as_i64() == Some(0) {
                    errors.invalid(&value, "must not be 0 for the In operator");
                }
            }
        }
    }
}

fn job(spec: &At<'_>, errors: &mut Errors) {
    for field in [
        "parallelism",
        "completions",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errors.non_negative(&spec.field(field));
    }
    errors.positive(&spec.field("activeDeadlineSeconds"));
    let mode = spec.field("completionMode");
    errors.if_set_one_of(&mode, &["Indexed", "NonIndexed"]);
    if mode.text() == "Indexed" && !spec.field("completions").exists() {
        errors.required(&spec.field("completions"), "when completion mode is Indexed");
    }
    if mode.text() != "Indexed" {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"] {
            if spec.field(field).exists() {
                errors.invalid(&spec.field(field), "requires indexed completion mode");
            }
        }
    }
    errors.if_set_one_of(&spec.field("podReplacementPolicy"), &["Failed", "TerminatingOrFailed"]);
    failure_policy(spec, errors);
    template(spec, &["OnFailure", "Never"], errors);
}

pub(super) fn update(descriptor: &Descriptor, new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (new, old) = (new.field("spec"), old.field("spec"));
    match descriptor.plural.as_str() {
        "deployments" | "replicasets" | "daemonsets" => {
            errors.immutable(&new.field("selector"), &old.field("selector"))
        }
        "statefulsets" => {
            let mutable = [
                "replicas",
                "ordinals",
                "template",
                "updateStrategy",
                "revisionHistoryLimit",
                "persistentVolumeClaimRetentionPolicy",
                "minReadySeconds",
            ];
            let strip = |spec: &Value| {
                let mut spec = spec.clone();
                if let Some(fields) = spec.as_object_mut() {
                    fields.retain(|key, _| !mutable.contains(&&**key));
                }
                spec
            };
            if !super::check::same(&strip(new.value), &strip(old.value)) {
                errors.forbidden(
                    &new,
                    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                     'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
                );
            }
        }
        "jobs" => {
            errors.immutable(&new.field("selector"), &old.field("selector"));
            errors.immutable(&new.field("completionMode"), &old.field("completionMode"));
            errors.immutable(&new.field("podFailurePolicy"), &old.field("podFailurePolicy"));
            if new.field("completionMode").text() != "Indexed" {
                errors.immutable(&new.field("completions"), &old.field("completions"));
            }
            // The scheduling directives of a suspended job may change.
            if old.field("suspend").value != &Value::Bool(true) {
                errors.immutable(&new.field("template"), &old.field("template"));
            }
        }
        _ => {}
    }
}
