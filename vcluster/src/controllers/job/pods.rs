//! The pods of a job.

use serde_json::{Value, json};

use super::{
    OWNER, TRACKING,
    indexes::{INDEX, is_indexed},
    policy::{self, Action},
};
use crate::controllers::{
    object::{annotation, controller_reference, list, name, set_annotation, set_label, text},
    pod,
};

/// How often pods of the same index failed before this one; and how often that was ignored.
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The number in [`FAILURES`].
pub(super) fn failures_before(pod: &Value) -> i64 {
    number(pod, FAILURES)
}

/// Counted and ignored failures of the index before this pod.
pub(super) fn all_failures_before(pod: &Value) -> i64 {
    number(pod, FAILURES) + number(pod, IGNORED_FAILURES)
}

fn number(pod: &Value, key: &str) -> i64 {
    annotation(pod, key).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// A pod of the job.
pub(super) fn new(job: &Value) -> Value {
    let mut pod = pod::from_template(&job["spec"]["template"], job, controller_reference(job, OWNER.0, OWNER.1));
    let mut finalizers = list(&pod, "/metadata/finalizers").to_vec();
    if !finalizers.iter().any(|f| f == TRACKING) {
        finalizers.push(TRACKING.into());
    }
    pod["metadata"]["finalizers"] = finalizers.into();
    pod
}

/// The pod of an index. With `backoffLimitPerIndex` it carries on the count of its predecessor, which failed.
pub(super) fn of_index(job: &Value, index: i64, predecessor: Option<&Value>) -> Value {
    debug_assert!(is_indexed(job), "only indexed jobs have indexes");
    let mut pod = new(job);
    let number = index.to_string();
    set_annotation(&mut pod, INDEX, &number);
    set_label(&mut pod, INDEX, &number);
    pod["metadata"]["generateName"] = pod::name_prefix(&format!("{}-{index}", name(job))).into();
    pod["spec"]["hostname"] = format!("{}-{index}", name(job)).into();
    let variable = json!({ "name": "JOB_COMPLETION_INDEX",
        "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": format!("metadata.labels['{INDEX}']") } } });
    for field in ["containers", "initContainers"] {
        for container in pod["spec"][field].as_array_mut().into_iter().flatten() {
            let mut variables = list(container, "/env").to_vec();
            if !variables.iter().any(|v| text(v, "/name") == "JOB_COMPLETION_INDEX") {
                variables.push(variable.clone());
                container["env"] = variables.into();
            }
        }
    }
    if job.pointer("/spec/backoffLimitPerIndex").is_some_and(|l| !l.is_null()) {
        let (mut failures, mut ignored) = (0, 0);
        if let Some(last) = predecessor {
            (failures, ignored) = (failures_before(last), self::number(last, IGNORED_FAILURES));
            if policy::on_failure(job, last) == Action::Ignore {
                ignored += 1;
            } else {
                failures += 1;
            }
        }
        set_annotation(&mut pod, FAILURES, &failures.to_string());
        if ignored > 0 {
            set_annotation(&mut pod, IGNORED_FAILURES, &ignored.to_string());
        }
    }
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_of_an_index_knows_it() {
        let job = json!({
            "metadata": { "name": "j", "uid": "u" },
            "spec": { "completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1, "template": { "spec": {
                "containers": [{ "name": "a" }, { "name": "b", "env": [{ "name": "JOB_COMPLETION_INDEX", "value": "mine" }] }] } } },
        });
        let first = of_index(&job, 2, None);
        assert_eq!(first["metadata"]["generateName"], "j-2-");
        assert_eq!(first["metadata"]["finalizers"], json!([TRACKING]));
        assert_eq!(first["metadata"]["annotations"], json!({ INDEX: "2", FAILURES: "0" }));
        assert_eq!(first["metadata"]["labels"][INDEX], "2");
        assert_eq!(first["spec"]["hostname"], "j-2");
        assert_eq!(
            first["spec"]["containers"][0]["env"][0]["valueFrom"]["fieldRef"]["fieldPath"],
            "metadata.labels['batch.kubernetes.io/job-completion-index']"
        );
        assert_eq!(first["spec"]["containers"][1]["env"], json!([{ "name": "JOB_COMPLETION_INDEX", "value": "mine" }]));
        assert_eq!(failures_before(&of_index(&job, 2, Some(&first))), 1);
    }
}
