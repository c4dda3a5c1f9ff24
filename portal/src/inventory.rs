//! What a template has written into an environment: noted before it is written, so that nothing of it can be forgotten, and looked at
//! to remove what the template does not have any more.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use vctl_api::names::EnvironmentName;
use vctl_store::Expect;

use crate::{
    documents::{Document, put},
    environments::Environments,
    error::Error,
    jobs::failure::Failure,
    ports::ObjectRef,
};

/// What the template of an environment has written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct InventoryDoc {
    pub(crate) name: EnvironmentName,
    pub(crate) objects: BTreeSet<ObjectRef>,
}

impl Document for InventoryDoc {
    const RESOURCE: &'static str = "environmentinventories.vctl.dev";
    fn name(&self) -> &str {
        self.name.as_str()
    }
}

/// Says on every object which template wrote it. So the template's field manager has a part in each, also in one that has nothing but a
/// name, and what it does not have any more can be told from what others made.
const ANNOTATION: &str = "vctl.dev/template";

/// Namespaces that every cluster has, and that cannot be deleted.
const LASTING: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// A document with the mark of its template.
pub(crate) fn marked(document: &Value, template: &str) -> Value {
    let mut marked = document.clone();
    // What else these may be, the API server refuses.
    if let Some(metadata) = marked.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(serde_json::Map::new()));
        if annotations.is_null() {
            *annotations = Value::Object(serde_json::Map::new());
        }
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(ANNOTATION.to_owned(), template.into());
        }
    }
    marked
}

/// Where a document goes.
fn reference(document: &Value) -> ObjectRef {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    ObjectRef {
        api_version: text("/apiVersion"),
        kind: text("/kind"),
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
    }
}

/// Notes documents that are about to be written, beside those that are noted already.
pub(crate) async fn note(
    environments: &Environments,
    name: &EnvironmentName,
    documents: &[Value],
) -> Result<(), Error> {
    let stored = environments.documents.get::<InventoryDoc>(name.as_str()).await?;
    let before = stored.as_ref().map(|s| s.value.objects.clone()).unwrap_or_default();
    let objects: BTreeSet<ObjectRef> = before.iter().cloned().chain(documents.iter().map(reference)).collect();
    if objects == before {
        return Ok(());
    }
    let expect = stored.map_or(Expect::Absent, |s| Expect::Revision(s.revision));
    let write = put(&InventoryDoc { name: name.clone(), objects }, expect)?;
    environments.documents.transact(vec![write]).await?;
    Ok(())
}

/// Removes what was written before and is not among the documents, but for namespaces that are `kept`; what it was, for people.
pub(crate) async fn prune(
    environments: &Environments,
    name: &EnvironmentName,
    documents: &[Value],
    kept: &BTreeSet<String>,
) -> Result<String, Failure> {
    let Some(stored) = environments.documents.get::<InventoryDoc>(name.as_str()).await? else {
        return Ok("nothing".to_owned());
    };
    let wanted: BTreeSet<ObjectRef> = documents.iter().map(reference).collect();
    // Another version of an API is the same object.
    let key = |o: &ObjectRef| {
        let group = o.api_version.split_once('/').map_or("", |(group, _)| group);
        (group.to_owned(), o.kind.clone(), o.namespace.clone(), o.name.clone())
    };
    let keys: BTreeSet<_> = wanted.iter().map(key).collect();
    let mut removed = Vec::new();
    for object in stored.value.objects.iter().filter(|o| !keys.contains(&key(o))) {
        let kind = object.kind.to_lowercase();
        if object.kind == "Namespace" && (LASTING.contains(&object.name.as_str()) || kept.contains(&object.name)) {
            // It stays: only what the template said of it goes.
            let bare =
                serde_json::json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": object.name } });
            environments.planes.apply(name, &bare).await.map_err(|e| Failure::about(e, &kind, &object.name))?;
            continue;
        }
        let gone =
            environments.planes.remove(name, object).await.map_err(|e| Failure::about(e, &kind, &object.name))?;
        if gone {
            removed.push(format!("{kind} {}", object.name));
        }
    }
    if wanted != stored.value.objects {
        let write = put(&InventoryDoc { name: name.clone(), objects: wanted }, Expect::Revision(stored.revision))?;
        environments.documents.transact(vec![write]).await.map_err(Error::from)?;
    }
    Ok(if removed.is_empty() { "nothing".to_owned() } else { removed.join(", ") })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_document_says_whose_it_is() {
        let bare = json!({"kind": "ConfigMap", "metadata": {"name": "a"}});
        assert_eq!(marked(&bare, "app")["metadata"]["annotations"], json!({ANNOTATION: "app"}));
        let own = json!({"kind": "ConfigMap", "metadata": {"name": "a", "annotations": {"b": "c"}}});
        assert_eq!(marked(&own, "app")["metadata"]["annotations"], json!({"b": "c", ANNOTATION: "app"}));
        let empty = json!({"kind": "ConfigMap", "metadata": {"name": "a", "annotations": null}});
        assert_eq!(marked(&empty, "app")["metadata"]["annotations"], json!({ANNOTATION: "app"}));
    }
}
