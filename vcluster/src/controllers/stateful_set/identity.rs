//! What makes a pod of a StatefulSet the one of its ordinal: name, labels, host name, claims.

use serde_json::{Value, json};

use crate::controllers::{
    history::POD_REVISION,
    object::{controller_reference, int, labels, list, name, namespace, set_label, text},
    pod,
};

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// The first ordinal.
pub(super) fn start(set: &Value) -> i64 {
    int(set, "/spec/ordinals/start").unwrap_or(0)
}

/// The ordinal in the name of a pod; none when it is no name of this set's pods.
pub(super) fn ordinal(set: &str, pod: &str) -> Option<i64> {
    let (parent, number) = pod.rsplit_once('-')?;
    if parent != set || number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    number.parse::<i32>().ok().map(i64::from)
}

/// Whether an ordinal is among those the set wants.
pub(super) fn in_range(set: &Value, ordinal: i64) -> bool {
    (start(set)..start(set) + super::wanted(set)).contains(&ordinal)
}

fn claim_name(set: &Value, template: &Value, ordinal: i64) -> String {
    format!("{}-{}-{ordinal}", name(template), name(set))
}

/// The claims of an ordinal.
pub(super) fn claims(set: &Value, ordinal: i64) -> Vec<Value> {
    list(set, "/spec/volumeClaimTemplates")
        .iter()
        .map(|template| {
            let mut claim = template.clone();
            claim["apiVersion"] = "v1".into();
            claim["kind"] = "PersistentVolumeClaim".into();
            claim["metadata"]["name"] = claim_name(set, template, ordinal).into();
            claim["metadata"]["namespace"] = namespace(set).into();
            for (key, value) in
                set.pointer("/spec/selector/matchLabels").and_then(Value::as_object).into_iter().flatten()
            {
                set_label(&mut claim, key, value.as_str().unwrap_or_default());
            }
            claim
        })
        .collect()
}

/// The pod of an ordinal.
pub(super) fn new_pod(set: &Value, template: &Value, revision: &str, ordinal: i64) -> Value {
    let mut pod = pod::from_template(template, set, controller_reference(set, super::OWNER.0, super::OWNER.1));
    pod["metadata"]["name"] = format!("{}-{ordinal}", name(set)).into();
    pod["spec"]["hostname"] = pod["metadata"]["name"].clone();
    pod["spec"]["subdomain"] = text(set, "/spec/serviceName").into();
    set_label(&mut pod, POD_REVISION, revision);
    repair(set, &mut pod);
    pod
}

/// Whether labels and volumes of a pod are those of its ordinal.
pub(super) fn matches(set: &Value, pod: &Value) -> bool {
    let mut right = pod.clone();
    repair(set, &mut right);
    right == *pod
}

/// Gives a pod the labels and volumes of its ordinal.
pub(super) fn repair(set: &Value, pod: &mut Value) {
    let pod_name = name(pod).to_owned();
    let Some(ordinal) = ordinal(name(set), &pod_name) else { return };
    for (label, value) in [(POD_NAME, pod_name), (POD_INDEX, ordinal.to_string())] {
        if labels(pod).get(label).and_then(Value::as_str) != Some(&value) {
            set_label(pod, label, &value);
        }
    }
    let templates = list(set, "/spec/volumeClaimTemplates");
    let mounted = |template: &Value| {
        list(pod, "/spec/volumes").iter().any(|v| {
            text(v, "/name") == name(template)
                && text(v, "/persistentVolumeClaim/claimName") == claim_name(set, template, ordinal)
        })
    };
    if templates.iter().all(mounted) {
        return;
    }
    let mut volumes: Vec<Value> = templates
        .iter()
        .map(|t| json!({ "name": name(t), "persistentVolumeClaim": { "claimName": claim_name(set, t, ordinal) } }))
        .collect();
    // A claim template wins over a volume of the same name.
    volumes.extend(
        list(pod, "/spec/volumes").iter().filter(|v| templates.iter().all(|t| name(t) != text(v, "/name"))).cloned(),
    );
    pod["spec"]["volumes"] = volumes.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_set_have_an_ordinal() {
        for (pod, expected) in [
            ("web-0", Some(0)),
            ("web-12", Some(12)),
            ("web-a-1", None),
            ("web-", None),
            ("web-+1", None),
            ("web-99999999999", None),
            ("other-1", None),
        ] {
            assert_eq!(ordinal("web", pod), expected, "{pod}");
        }
    }

    #[test]
    fn a_pod_has_the_identity_of_its_ordinal() {
        let set = json!({
            "metadata": { "name": "web", "namespace": "ns", "uid": "u" },
            "spec": { "serviceName": "svc", "replicas": 2, "ordinals": { "start": 3 }, "selector": { "matchLabels": { "app": "web" } },
                "volumeClaimTemplates": [{ "metadata": { "name": "data", "labels": { "x": "y" } }, "spec": { "accessModes": ["ReadWriteOnce"] } }] },
        });
        let template = json!({ "metadata": { "labels": { "app": "web" } },
            "spec": { "volumes": [{ "name": "data", "emptyDir": {} }, { "name": "other", "emptyDir": {} }] } });
        let pod = new_pod(&set, &template, "web-abc", 3);
        assert_eq!(
            pod["metadata"]["labels"],
            json!({ "app": "web", POD_REVISION: "web-abc", POD_NAME: "web-3", POD_INDEX: "3" })
        );
        assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("web-3"), &json!("svc")));
        assert_eq!(
            pod["spec"]["volumes"],
            json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data-web-3" } }, { "name": "other", "emptyDir": {} }])
        );
        assert!(matches(&set, &pod));
        let claim = &claims(&set, 3)[0];
        assert_eq!(claim["metadata"]["labels"], json!({ "x": "y", "app": "web" }));
        assert!(in_range(&set, 4) && !in_range(&set, 5) && !in_range(&set, 2));
    }
}
