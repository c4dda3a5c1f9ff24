//! Which ReplicaSet is the new one, what its hash, name and annotations are.

use serde_json::{Value, json};

use super::numbers::{max_surge, replicas};
use crate::controllers::{
    hash::safe_hash,
    object::{annotation, controller_reference, entry, int, name, namespace, set_annotation, set_label, text},
};

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";
const HASH_LABEL: &str = "pod-template-hash";
/// Annotations of a Deployment that its ReplicaSets do not get.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MAXIMUM,
    "deprecated.deployment.rollback.to",
];
/// Length at which the history annotation drops its oldest entries.
const HISTORY_LIMIT: usize = 2000;

/// Whether two pod templates are the same but for the hash label.
pub(super) fn same_template(a: &Value, b: &Value) -> bool {
    without_hash(a) == without_hash(b)
}

fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, v| !v.is_null());
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.remove(HASH_LABEL);
        }
    }
    template
}

/// The revision that an object is annotated with; 0 when it has none.
pub(super) fn revision_of(object: &Value) -> i64 {
    annotation(object, REVISION).and_then(|r| r.parse().ok()).unwrap_or(0)
}

/// A new ReplicaSet of the deployment's template, with no replicas yet.
pub(super) fn new_set(deployment: &Value) -> Value {
    let collisions = int(deployment, "/status/collisionCount");
    let mut template = deployment["spec"]["template"].clone();
    let hash = safe_hash(&template, collisions);
    set_label(&mut template, HASH_LABEL, &hash);
    let mut selector = deployment["spec"]["selector"].clone();
    entry(&mut selector, "matchLabels").insert(HASH_LABEL.into(), hash.as_str().into());
    let mut spec = json!({ "replicas": 0, "selector": selector, "template": template });
    if let Some(seconds) = int(deployment, "/spec/minReadySeconds").filter(|s| *s > 0) {
        spec["minReadySeconds"] = seconds.into();
    }
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", name(deployment)), "namespace": namespace(deployment),
            "labels": spec["template"]["metadata"]["labels"],
            "ownerReferences": [controller_reference(deployment, "apps/v1", "Deployment")],
        },
        "spec": spec,
    })
}

/// Brings the annotations of the newest ReplicaSet up to date: the deployment's own, the revision (with the history of former
/// ones), and, for a ReplicaSet that does not exist yet, the sizes. True when something changed.
pub(super) fn annotate(deployment: &Value, set: &mut Value, revision: i64, exists: bool) -> bool {
    let mut changed = false;
    if let Some(annotations) = deployment.pointer("/metadata/annotations").and_then(Value::as_object) {
        for (key, value) in annotations.iter().filter(|(k, _)| !NOT_COPIED.contains(&k.as_str())) {
            changed |= set_annotation(set, key, value.as_str().unwrap_or_default());
        }
    }
    let before = annotation(set, REVISION).map(str::to_owned);
    if revision_of(set) < revision {
        changed |= set_annotation(set, REVISION, &revision.to_string());
        if let Some(before) = before {
            let mut history: Vec<String> = annotation(set, REVISION_HISTORY)
                .map(|h| h.split(',').filter(|r| !r.is_empty()).map(str::to_owned).collect())
                .unwrap_or_default();
            history.push(before);
            while history.len() > 1 && history.join(",").len() > HISTORY_LIMIT {
                history.remove(0);
            }
            set_annotation(set, REVISION_HISTORY, &history.join(","));
        }
    }
    if !exists {
        changed |= annotate_sizes(deployment, set);
    }
    changed
}

/// Notes for which size of the deployment a ReplicaSet was scaled. True when something changed.
pub(super) fn annotate_sizes(deployment: &Value, set: &mut Value) -> bool {
    let desired = replicas(deployment);
    let changed = set_annotation(set, DESIRED, &desired.to_string());
    set_annotation(set, MAXIMUM, &(desired + max_surge(deployment)).to_string()) || changed
}

/// An annotation that holds a number.
pub(super) fn number(set: &Value, key: &str) -> Option<i64> {
    annotation(set, key).and_then(|n| n.parse().ok())
}

/// Index of the ReplicaSet that has the deployment's template: the oldest, should there be several.
pub(super) fn find_new(deployment: &Value, sets: &[Value]) -> Option<usize> {
    let template = without_hash(&deployment["spec"]["template"]);
    let mut found: Vec<usize> =
        (0..sets.len()).filter(|i| without_hash(&sets[*i]["spec"]["template"]) == template).collect();
    found.sort_by_key(|i| (text(&sets[*i], "/metadata/creationTimestamp"), name(&sets[*i])));
    found.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn going_back_gives_the_old_set_a_new_revision_and_keeps_its_history() {
        let deployment = json!({ "metadata": { "annotations": { "team": "x", REVISION: "9",
            "kubectl.kubernetes.io/last-applied-configuration": "{}" } }, "spec": { "replicas": 2 } });
        let mut set = json!({ "metadata": { "annotations": { REVISION: "1" } } });
        assert!(annotate(&deployment, &mut set, 3, true));
        assert_eq!(set["metadata"]["annotations"], json!({ REVISION: "3", REVISION_HISTORY: "1", "team": "x" }));
        assert!(!annotate(&deployment, &mut set, 3, true));
        assert!(!annotate(&deployment, &mut set, 2, true), "revisions never go down");
    }
}
