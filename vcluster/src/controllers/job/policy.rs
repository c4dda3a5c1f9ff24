//! `podFailurePolicy` and `successPolicy`.

use serde_json::Value;

use super::indexes::Indexes;
use crate::controllers::object::{int, list, name, namespace, text};

/// What a failed pod means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// It counts against the back-off limit.
    Count,
    /// It does not.
    Ignore,
    /// The whole job has failed, for this reason.
    FailJob(String),
    /// Its index has failed.
    FailIndex,
}

/// The action of the first rule that matches; Count when none does.
pub(super) fn on_failure(job: &Value, pod: &Value) -> Action {
    // Pods that are being deleted but have not ended match no rule.
    if text(pod, "/status/phase") != "Failed" {
        return Action::Count;
    }
    for (at, rule) in list(job, "/spec/podFailurePolicy/rules").iter().enumerate() {
        let action = text(rule, "/action");
        let Some(why) = by_exit_code(rule, pod).or_else(|| by_condition(rule, pod)) else { continue };
        return match action {
            "Ignore" => Action::Ignore,
            "FailIndex" => Action::FailIndex,
            "FailJob" => Action::FailJob(format!("{why} matching FailJob rule at index {at}")),
            _ => Action::Count,
        };
    }
    Action::Count
}

fn by_exit_code(rule: &Value, pod: &Value) -> Option<String> {
    let requirement = rule.get("onExitCodes").filter(|r| !r.is_null())?;
    let container = text(requirement, "/containerName");
    let values: Vec<i64> = list(requirement, "/values").iter().filter_map(Value::as_i64).collect();
    let statuses = list(pod, "/status/containerStatuses").iter().chain(list(pod, "/status/initContainerStatuses"));
    for status in statuses {
        let Some(code) = int(status, "/state/terminated/exitCode").filter(|c| *c != 0) else { continue };
        let of_rule = container.is_empty() || container == text(status, "/name");
        let matches = match text(requirement, "/operator") {
            "In" => values.contains(&code),
            "NotIn" => !values.contains(&code),
            _ => false,
        };
        if of_rule && matches {
            return Some(format!(
                "Container {} for pod {}/{} failed with exit code {code}",
                text(status, "/name"),
                namespace(pod),
                name(pod)
            ));
        }
    }
    None
}

fn by_condition(rule: &Value, pod: &Value) -> Option<String> {
    let wanted = list(rule, "/onPodConditions");
    let found = list(pod, "/status/conditions").iter().find(|c| {
        wanted.iter().any(|w| text(w, "/type") == text(c, "/type") && text(w, "/status") == text(c, "/status"))
    })?;
    Some(format!("Pod {}/{} has condition {}", namespace(pod), name(pod), text(found, "/type")))
}

/// Why a job has succeeded although not all of its indexes have; none when it has not.
pub(super) fn success(job: &Value, succeeded: &Indexes) -> Option<String> {
    let completions = int(job, "/spec/completions")?;
    for (at, rule) in list(job, "/spec/successPolicy/rules").iter().enumerate() {
        let of_rule =
            rule.get("succeededIndexes").and_then(Value::as_str).map(|indexes| Indexes::parse(indexes, completions));
        let done = match &of_rule {
            Some(wanted) => wanted.0.intersection(&succeeded.0).count() as i64,
            None => succeeded.len(),
        };
        let needed = int(rule, "/succeededCount").or(of_rule.map(|w| w.len()))?;
        if done >= needed {
            return Some(format!("Matched rules at index {at}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_rule_that_matches_decides() {
        let job = json!({ "spec": { "podFailurePolicy": { "rules": [
            { "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] },
            { "action": "FailJob", "onExitCodes": { "containerName": "main", "operator": "In", "values": [42] } },
            { "action": "FailIndex", "onExitCodes": { "operator": "NotIn", "values": [1] } },
        ] } } });
        let pod = |container: &str, code: i64| {
            json!({ "metadata": { "name": "p", "namespace": "ns" }, "status": { "phase": "Failed",
                "containerStatuses": [{ "name": container, "state": { "terminated": { "exitCode": code } } }] } })
        };
        assert_eq!(
            on_failure(&job, &pod("main", 42)),
            Action::FailJob(
                "Container main for pod ns/p failed with exit code 42 matching FailJob rule at index 1".into()
            )
        );
        assert_eq!(on_failure(&job, &pod("side", 42)), Action::FailIndex);
        assert_eq!(on_failure(&job, &pod("main", 1)), Action::Count);
        let mut evicted = pod("main", 42);
        evicted["status"]["conditions"] = json!([{ "type": "DisruptionTarget", "status": "True" }]);
        assert_eq!(on_failure(&job, &evicted), Action::Ignore);
        evicted["status"]["phase"] = "Running".into();
        assert_eq!(on_failure(&job, &evicted), Action::Count);
    }

    #[test]
    fn a_success_policy_takes_indexes_or_a_count() {
        let job = |rules: Value| json!({ "spec": { "completions": 5, "successPolicy": { "rules": rules } } });
        let done = Indexes::parse("1,3", 5);
        assert_eq!(
            success(&job(json!([{ "succeededIndexes": "0-1" }, { "succeededCount": 2 }])), &done).as_deref(),
            Some("Matched rules at index 1")
        );
        assert_eq!(success(&job(json!([{ "succeededIndexes": "1-4", "succeededCount": 3 }])), &done), None);
        assert_eq!(success(&json!({ "spec": { "completions": 5 } }), &done), None);
    }
}
