//! ControllerRevisions: the templates that a StatefulSet or DaemonSet had (`pkg/controller/history` upstream).
//!
//! `data` is the strategic merge patch that brings the template back, which is what `kubectl rollout undo` applies.

use std::collections::HashSet;

use serde_json::{Value, json};
use vctl_machinery::selector::LabelSelector;

use super::{
    claim::claim_all,
    context::{Context, Failure},
    hash::safe_hash,
    object::{controller_reference, int, is_deleting, labels, list, name, namespace, text, uid, uid_precondition},
};

const RESOURCE: &str = "controllerrevisions.apps";
/// Label of a pod that names the revision it was made of (StatefulSets: its name, DaemonSets: its hash).
pub(super) const POD_REVISION: &str = "controller-revision-hash";

/// The revision that a pod was made of; empty when it does not say so.
pub(super) fn pod_revision(pod: &Value) -> &str {
    labels(pod).get(POD_REVISION).and_then(Value::as_str).unwrap_or_default()
}

/// The revisions of one workload.
pub(super) struct History {
    /// In order of their number.
    pub(super) revisions: Vec<Value>,
    /// The one that holds the template of now.
    pub(super) update: Value,
    /// `status.collisionCount`.
    pub(super) collisions: i64,
}

impl History {
    /// The revision of a name.
    pub(super) fn named(&self, of: &str) -> Option<&Value> {
        self.revisions.iter().find(|r| name(r) == of)
    }
}

/// The template that a revision holds.
pub(super) fn template_of(revision: &Value) -> Value {
    let mut template = revision.pointer("/data/spec/template").cloned().unwrap_or_default();
    if let Some(fields) = template.as_object_mut() {
        fields.remove("$patch");
    }
    template
}

fn data_of(owner: &Value) -> Value {
    let mut template = owner["spec"]["template"].clone();
    template["$patch"] = "replace".into();
    json!({ "spec": { "template": template } })
}

/// What is to be done so that the newest revision is the template of now.
#[derive(Debug, PartialEq)]
enum Step {
    /// The newest one is it already.
    Keep(usize),
    /// An older one holds it: it becomes the newest.
    Renumber(usize, i64),
    /// None holds it.
    Create(i64),
}

/// `revisions` in order of their number.
fn plan(revisions: &[Value], data: &Value) -> Step {
    let next = revisions.last().and_then(|r| int(r, "/revision")).unwrap_or(0) + 1;
    match revisions.iter().rposition(|r| r["data"] == *data) {
        Some(at) if at + 1 == revisions.len() => Step::Keep(at),
        Some(at) => Step::Renumber(at, next),
        None => Step::Create(next),
    }
}

fn sort(revisions: &mut [Value]) {
    revisions.sort_by_key(|r| {
        (int(r, "/revision").unwrap_or(0), text(r, "/metadata/creationTimestamp").to_owned(), name(r).to_owned())
    });
}

/// Reads the revisions, adopting orphans, and makes sure that there is one of the current template. `hash_label` is the label that the
/// kind puts the hash into.
pub(super) async fn sync(
    cx: &Context<'_>,
    owner: &Value,
    of: (&str, &str, &str),
    selector: &LabelSelector,
    hash_label: &str,
) -> Result<History, Failure> {
    let candidates = cx.list(RESOURCE, namespace(owner)).await?;
    let mut revisions = claim_all(cx, owner, of, RESOURCE, candidates, selector, |_| true).await?;
    sort(&mut revisions);
    let mut collisions = int(owner, "/status/collisionCount").unwrap_or(0);
    let data = data_of(owner);
    let update = match plan(&revisions, &data) {
        Step::Keep(at) => revisions[at].clone(),
        Step::Renumber(at, number) => {
            let patch = json!({ "revision": number, "metadata": { "uid": uid(&revisions[at]) } });
            let changed = cx.client.merge_patch(RESOURCE, namespace(owner), name(&revisions[at]), "", patch).await?;
            revisions[at] = changed.clone();
            sort(&mut revisions);
            changed
        }
        Step::Create(number) => {
            let created = create(cx, owner, (of.1, of.2), hash_label, data, number, &mut collisions).await?;
            revisions.push(created.clone());
            created
        }
    };
    Ok(History { revisions, update, collisions })
}

async fn create(
    cx: &Context<'_>,
    owner: &Value,
    (api_version, kind): (&str, &str),
    hash_label: &str,
    data: Value,
    number: i64,
    collisions: &mut i64,
) -> Result<Value, Failure> {
    loop {
        let hash = safe_hash(&data, Some(*collisions));
        let prefix: String = name(owner).chars().take(223).collect();
        let revision_name = format!("{prefix}-{hash}");
        let mut labels = owner.pointer("/spec/template/metadata/labels").cloned().unwrap_or_else(|| json!({}));
        labels[hash_label] = hash.into();
        let revision = json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision",
            "metadata": {
                "name": revision_name, "namespace": namespace(owner), "labels": labels,
                "annotations": owner.pointer("/metadata/annotations").cloned().unwrap_or_else(|| json!({})),
                "ownerReferences": [controller_reference(owner, api_version, kind)],
            },
            "data": data, "revision": number,
        });
        match cx.client.create(RESOURCE, namespace(owner), revision).await {
            Ok(created) => return Ok(created),
            Err(e) if e.reason == "AlreadyExists" => match cx.find(RESOURCE, namespace(owner), &revision_name).await? {
                Some(there) if there["data"] == data && is_ours(&there, owner) => return Ok(there),
                Some(_) => *collisions += 1,
                None => {}
            },
            Err(e) => return Err(e.into()),
        }
    }
}

fn is_ours(revision: &Value, owner: &Value) -> bool {
    list(revision, "/metadata/ownerReferences").iter().any(|r| text(r, "/uid") == uid(owner))
}

/// Deletes the oldest revisions beyond `spec.revisionHistoryLimit` that are not among the `live` names.
pub(super) async fn truncate(
    cx: &Context<'_>,
    owner: &Value,
    history: &History,
    live: &HashSet<String>,
) -> Result<(), Failure> {
    let limit = int(owner, "/spec/revisionHistoryLimit").unwrap_or(10);
    let Ok(limit) = usize::try_from(limit) else { return Ok(()) };
    let old: Vec<&Value> = history.revisions.iter().filter(|r| !live.contains(name(r)) && !is_deleting(r)).collect();
    for revision in old.iter().take(old.len().saturating_sub(limit)) {
        cx.delete(RESOURCE, namespace(owner), name(revision), uid_precondition(uid(revision))).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_that_was_there_before_becomes_the_newest_again() {
        let set = |image: &str| json!({ "spec": { "template": { "spec": { "image": image } } } });
        let revision = |number: i64, image: &str| json!({ "revision": number, "data": data_of(&set(image)) });
        let all = [revision(1, "a"), revision(4, "b")];
        assert_eq!(plan(&[], &data_of(&set("a"))), Step::Create(1));
        assert_eq!(plan(&all, &data_of(&set("b"))), Step::Keep(1));
        assert_eq!(plan(&all, &data_of(&set("a"))), Step::Renumber(0, 5));
        assert_eq!(plan(&all, &data_of(&set("c"))), Step::Create(5));
        assert_eq!(template_of(&all[0]), json!({ "spec": { "image": "a" } }));
        assert_eq!(all[0]["data"]["spec"]["template"]["$patch"], "replace");
    }
}
