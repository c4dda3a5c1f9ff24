//! Namespaces that are being deleted: empties them, tells in conditions what is left, and finalizes them
//! (`pkg/controller/namespace/deletion` upstream).

use std::collections::BTreeMap;

use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use vctl_machinery::{catalog::Catalog, status::ApiError};

use super::{
    context::{Context, Failure},
    object::{self, is_deleting, list, rfc3339, text, uid, uid_precondition},
};

/// Deletions under way at once.
const AT_ONCE: usize = 16;
/// Deletions of content wake this controller; should one be missed it looks again after this.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// What is left of a namespace.
#[derive(Debug, Default, PartialEq)]
struct Remaining {
    /// Objects by `resource.group` (with the dot also for the core group, as upstream prints it).
    resources: BTreeMap<String, usize>,
    /// Objects by finalizer.
    finalizers: BTreeMap<String, usize>,
    /// Why deletions failed.
    errors: Vec<String>,
}

pub(super) async fn reconcile(cx: &Context<'_>, name: &str) -> Result<Option<Timestamp>, Failure> {
    let Some(namespace) = cx.find("namespaces", "", name).await? else {
        cx.hints.set_terminating(cx.tenant, name, false);
        return Ok(None);
    };
    if !is_deleting(&namespace) || !list(&namespace, "/spec/finalizers").iter().any(|f| f == "kubernetes") {
        return Ok(None);
    }
    // Said before reading, so that what goes from here on brings us back.
    cx.hints.set_terminating(cx.tenant, name, true);
    let catalog = cx.clients.catalog(cx.tenant).await;
    let resources = namespaced(&catalog);
    let (pods, others): (Vec<_>, Vec<_>) = resources.into_iter().partition(|r| r == "pods");
    // Pods go first: they may need what is beside them (secrets, services) to end in an orderly way.
    let mut remaining = Remaining::default();
    empty(cx, name, &pods, &mut remaining).await?;
    if remaining.resources.is_empty() {
        empty(cx, name, &others, &mut remaining).await?;
    }
    let namespace = write_status(cx, namespace, &remaining).await?;
    if !remaining.errors.is_empty() {
        return Err(Failure::Partly(remaining.errors.join("; ")));
    }
    if !remaining.resources.is_empty() {
        return Ok(cx.now.checked_add(LOOK_AGAIN).ok());
    }
    finalize(cx, namespace).await?;
    cx.hints.set_terminating(cx.tenant, name, false);
    Ok(None)
}

/// Every namespaced resource whose objects can be listed and deleted, once.
fn namespaced(catalog: &Catalog) -> Vec<String> {
    let mut resources: Vec<String> = catalog
        .rows()
        .iter()
        .filter(|d| d.namespaced && d.version == d.storage_version)
        // The same objects as the core group's events.
        .filter(|d| d.group != "events.k8s.io")
        .filter(|d| ["list", "delete"].iter().all(|v| d.verbs.iter().any(|x| x == v)))
        .map(|d| d.group_resource())
        .collect();
    resources.sort();
    resources.dedup();
    resources
}

/// Deletes what is there and counts what stays.
async fn empty(
    cx: &Context<'_>,
    namespace: &str,
    resources: &[String],
    remaining: &mut Remaining,
) -> Result<(), Failure> {
    for resource in resources {
        let entries = cx.stored(resource, Some(namespace)).await?;
        if entries.is_empty() {
            continue;
        }
        let objects: Vec<Value> = entries
            .iter()
            .filter_map(|e| serde_json::from_slice::<Value>(&e.value).ok())
            .filter(|o| !is_deleting(o))
            .collect();
        let mut deletions: Vec<BoxFuture<'_, Result<(), ApiError>>> = Vec::new();
        for o in &objects {
            let mut options = uid_precondition(uid(o));
            options["propagationPolicy"] = "Background".into();
            deletions.push(cx.delete(resource, namespace, object::name(o), options).boxed());
        }
        let results: Vec<_> = stream::iter(deletions).buffer_unordered(AT_ONCE).collect().await;
        for error in results.into_iter().filter_map(Result::err) {
            remaining.errors.push(error.message);
        }
        for entry in cx.stored(resource, Some(namespace)).await? {
            let printed = if resource.contains('.') { resource.clone() } else { format!("{resource}.") };
            *remaining.resources.entry(printed).or_default() += 1;
            let object: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
            for finalizer in list(&object, "/metadata/finalizers").iter().filter_map(Value::as_str) {
                *remaining.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
        }
    }
    Ok(())
}

/// The conditions that say how far the deletion is.
fn conditions(before: &[Value], remaining: &Remaining, now: Timestamp) -> Vec<Value> {
    let join = |counts: &BTreeMap<String, usize>, verb: &str| {
        counts.iter().map(|(what, n)| format!("{what} {verb} {n} resource instances")).collect::<Vec<_>>().join(", ")
    };
    let content_error = (!remaining.errors.is_empty()).then(|| {
        format!(
            "Failed to delete all resource types, {} remaining: {}",
            remaining.errors.len(),
            remaining.errors.join(", ")
        )
    });
    let content = (!remaining.resources.is_empty())
        .then(|| format!("Some resources are remaining: {}", join(&remaining.resources, "has")));
    let finalizers = (!remaining.finalizers.is_empty()).then(|| {
        format!("Some content in the namespace has finalizers remaining: {}", join(&remaining.finalizers, "in"))
    });
    [
        (
            "NamespaceDeletionDiscoveryFailure",
            None,
            "DiscoveryFailed",
            ("ResourcesDiscovered", "All resources successfully discovered"),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            None,
            "GroupVersionParsingFailed",
            ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        (
            "NamespaceDeletionContentFailure",
            content_error,
            "ContentDeletionFailed",
            ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        ),
        (
            "NamespaceContentRemaining",
            content,
            "SomeResourcesRemain",
            ("ContentRemoved", "All content successfully removed"),
        ),
        (
            "NamespaceFinalizersRemaining",
            finalizers,
            "SomeFinalizersRemain",
            ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        ),
    ]
    .into_iter()
    .map(|(kind, problem, bad, (good, all_well))| {
        let status = if problem.is_some() { "True" } else { "False" };
        let reason = if problem.is_some() { bad } else { good };
        let since = before
            .iter()
            .find(|c| text(c, "/type") == kind && text(c, "/status") == status)
            .and_then(|c| c.get("lastTransitionTime").cloned())
            .unwrap_or_else(|| rfc3339(now).into());
        json!({
            "type": kind, "status": status, "reason": reason, "lastTransitionTime": since,
            "message": problem.unwrap_or_else(|| all_well.to_owned()),
        })
    })
    .collect()
}

async fn write_status(cx: &Context<'_>, namespace: Value, remaining: &Remaining) -> Result<Value, Failure> {
    let mut changed = namespace.clone();
    changed["status"]["phase"] = "Terminating".into();
    changed["status"]["conditions"] = conditions(list(&namespace, "/status/conditions"), remaining, cx.now).into();
    if changed["status"] == namespace["status"] {
        return Ok(namespace);
    }
    let name = object::name(&namespace).to_owned();
    Ok(cx.client.update("namespaces", "", &name, "status", changed).await?)
}

/// Takes our finalizer off; the API server then removes the namespace if nobody else's is left.
async fn finalize(cx: &Context<'_>, mut namespace: Value) -> Result<(), Failure> {
    let left: Vec<Value> =
        list(&namespace, "/spec/finalizers").iter().filter(|f| *f != "kubernetes").cloned().collect();
    namespace["spec"]["finalizers"] = left.into();
    let name = object::name(&namespace).to_owned();
    match cx.client.update("namespaces", "", &name, "finalize", namespace).await {
        Err(e) if e.code != 404 => Err(e.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_say_what_is_left_in_upstreams_words() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let remaining = Remaining {
            resources: [("pods.".to_owned(), 2), ("jobs.batch".to_owned(), 1)].into(),
            finalizers: [("example.com/x".to_owned(), 1)].into(),
            errors: Vec::new(),
        };
        let shown = conditions(&[], &remaining, now);
        assert_eq!(
            shown[3]["message"],
            "Some resources are remaining: jobs.batch has 1 resource instances, pods. has 2 resource instances"
        );
        assert_eq!(
            shown[4]["message"],
            "Some content in the namespace has finalizers remaining: example.com/x in 1 resource instances"
        );
        assert_eq!(shown[0]["status"], "False");
        let later = now.checked_add(SignedDuration::from_secs(9)).unwrap();
        assert_eq!(conditions(&shown, &remaining, later), shown, "nothing changes while nothing changes");
        let done = conditions(&shown, &Remaining::default(), later);
        assert_eq!(done[3]["reason"], "ContentRemoved");
        assert_eq!(done[3]["lastTransitionTime"], "2026-01-01T00:00:09Z");
    }
}
