//! The garbage collector: deletes objects whose owners are gone, and carries out foreground and orphaning deletion
//! (`pkg/controller/garbagecollector` upstream). Upstream keeps a graph of everything in memory; here the graph of one tenant is read
//! when something was deleted in it, once for however many deletions, and dropped again.

mod graph;

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde_json::{Value, json};
use vctl_machinery::{
    catalog::{Catalog, Descriptor},
    status::ApiError,
};
use vctl_store::Key;

use super::{
    context::{Context, Failure},
    dispatch::{FOREGROUND, Head, ORPHAN, Owner},
    object::{list, text, uid},
    queue::Controller,
};
use graph::{Fate, Graph, Node, OwnerState, Policy};

/// Looks at everything of a tenant.
pub(super) async fn scan(cx: &Context<'_>) -> Result<Option<Timestamp>, Failure> {
    let catalog = cx.clients.catalog(cx.tenant).await;
    let mut resources: Vec<String> = catalog
        .rows()
        .iter()
        .filter(|d| d.version == d.storage_version && d.verbs.iter().any(|v| v == "delete"))
        .map(|d| d.group_resource())
        // Events own nothing and are owned by nothing; upstream leaves them out too.
        .filter(|r| !matches!(r.as_str(), "events" | "events.events.k8s.io"))
        .collect();
    resources.sort();
    resources.dedup();
    // Most objects neither own nor are owned: what matters of the others is read only when their kind owns something.
    let (mut nodes, mut rest) = (Vec::new(), Vec::new());
    let matters = Matters::new();
    for resource in &resources {
        let (related, unrelated): (Vec<_>, Vec<_>) =
            cx.stored(resource, None).await?.into_iter().partition(|entry| matters.matters(&entry.value));
        nodes.extend(related.into_iter().filter_map(|entry| node(entry.key, &entry.value)));
        rest.push(unrelated);
    }
    let owning: HashSet<String> = nodes
        .iter()
        .flat_map(|node| &node.owners)
        .filter_map(|owner| row_of(&catalog, owner).map(Descriptor::group_resource))
        .collect();
    let others = resources.iter().zip(rest).filter(|(resource, _)| owning.contains(*resource));
    let uids = others.flat_map(|(_, entries)| entries).filter_map(|entry| Some(node(entry.key, &entry.value)?.uid));
    let graph = Graph::new(nodes, uids.collect());
    let mut failures = Vec::new();
    for orphaning in graph.orphaning() {
        note(orphan(cx, &graph, orphaning).await, &mut failures);
    }
    for owner in graph.deleting_dependents() {
        note(foreground(cx, &graph, &catalog, owner).await, &mut failures);
    }
    for index in graph.with_absent_owner() {
        note(attempt(cx, &catalog, graph.node(index), Some((&graph, index))).await, &mut failures);
    }
    if failures.is_empty() { Ok(None) } else { Err(Failure::Partly(failures.join("; "))) }
}

fn note(result: Result<(), Failure>, failures: &mut Vec<String>) {
    if let Err(e) = result {
        failures.push(e.to_string());
    }
}

/// Looks at one object whose owner references are new: `name` is `resource/name`.
pub(super) async fn object(cx: &Context<'_>, namespace: &str, name: &str) -> Result<Option<Timestamp>, Failure> {
    let Some((resource, name)) = name.split_once('/') else { return Ok(None) };
    let (Some(entry), _) = cx.store.get(cx.tenant, &Key::new(resource, namespace, name)).await? else {
        return Ok(None);
    };
    if let Some(node) = node(entry.key, &entry.value) {
        let catalog = cx.clients.catalog(cx.tenant).await;
        attempt(cx, &catalog, &node, None).await?;
    }
    Ok(None)
}

/// Tells by its bytes whether an object may be owned or is being deleted. Never wrongly no.
struct Matters(Vec<memchr::memmem::Finder<'static>>);

impl Matters {
    fn new() -> Self {
        Self(["\"ownerReferences\"", "\"deletionTimestamp\""].map(memchr::memmem::Finder::new).into())
    }

    fn matters(&self, document: &[u8]) -> bool {
        self.0.iter().any(|mark| mark.find(document).is_some())
    }
}

/// The kind of an owner, whichever version its reference names.
fn row_of<'a>(catalog: &'a Catalog, owner: &Owner) -> Option<&'a Descriptor> {
    let (group, version) = owner.api_version.rsplit_once('/').unwrap_or(("", &owner.api_version));
    let any_version = || catalog.rows().iter().map(AsRef::as_ref).find(|d| d.group == group && d.kind == owner.kind);
    catalog.kind(group, version, &owner.kind).map(AsRef::as_ref).or_else(any_version)
}

fn node(key: Key, value: &[u8]) -> Option<Node> {
    let metadata = serde_json::from_slice::<Head>(value).ok()?.metadata;
    Some(Node {
        key,
        uid: metadata.uid,
        deleting: metadata.deletion_timestamp.is_some(),
        finalizers: metadata.finalizers,
        owners: metadata.owner_references,
    })
}

/// How an owner stands, by what is stored now (never by what the graph remembers).
async fn owner_state(
    cx: &Context<'_>,
    catalog: &Catalog,
    dependent: &Node,
    owner: &Owner,
) -> Result<OwnerState, Failure> {
    let Some(row) = row_of(catalog, owner) else { return Ok(OwnerState::Unknown) };
    let namespace = if row.namespaced { &*dependent.key.namespace } else { "" };
    if row.namespaced && namespace.is_empty() {
        // A cluster-scoped object cannot be owned by a namespaced one: upstream refuses to collect it.
        return Ok(OwnerState::Unknown);
    }
    let key = Key::new(&row.group_resource(), namespace, &owner.name);
    let (Some(entry), _) = cx.store.get(cx.tenant, &key).await? else { return Ok(OwnerState::Absent) };
    Ok(match node(entry.key, &entry.value) {
        Some(live) if live.uid == owner.uid => {
            if live.is_deleting_dependents() {
                OwnerState::Waiting
            } else {
                OwnerState::Solid
            }
        }
        _ => OwnerState::Absent,
    })
}

/// Deletes an object that has no owner left, or takes references to absent owners off one that has.
async fn attempt(
    cx: &Context<'_>,
    catalog: &Catalog,
    node: &Node,
    graph: Option<(&Graph, usize)>,
) -> Result<(), Failure> {
    if node.deleting || node.owners.is_empty() {
        return Ok(());
    }
    let mut states = HashMap::new();
    for owner in &node.owners {
        states.insert(owner.uid.as_str(), owner_state(cx, catalog, node, owner).await?);
    }
    let dependents = graph.map(|(g, i)| g.dependents(i)).unwrap_or_default();
    if graph.is_none() && states.values().any(|s| *s == OwnerState::Waiting) {
        // Whether it has dependents itself decides how it goes.
        cx.wake(Controller::GarbageScan, "", "");
        return Ok(());
    }
    match graph::fate(node, &states, !dependents.is_empty()) {
        Fate::Keep => Ok(()),
        Fate::Disown(gone) => {
            let stays = |r: &Value| !gone.iter().any(|g| g == text(r, "/uid"));
            patch_owners(cx, node, |owners| owners.iter().filter(|r| stays(r)).cloned().collect()).await
        }
        Fate::Delete(policy) => {
            let circle =
                graph.is_some_and(|(g, i)| g.dependents(i).into_iter().any(|d| g.node(d).is_deleting_dependents()));
            if policy == Policy::Foreground && circle {
                // It blocks an owner which in turn is its dependent: somebody must stop waiting.
                patch_owners(cx, node, |owners| {
                    owners
                        .iter()
                        .map(|r| {
                            let mut r = r.clone();
                            r["blockOwnerDeletion"] = false.into();
                            r
                        })
                        .collect()
                })
                .await?;
            }
            let mut options = super::object::uid_precondition(&node.uid);
            options["propagationPolicy"] = policy.as_str().into();
            cx.delete(&node.key.resource, &node.key.namespace, &node.key.name, options).await?;
            Ok(())
        }
    }
}

/// Takes an owner that is being deleted in the orphaning way off all its dependents, then lets it go.
async fn orphan(cx: &Context<'_>, graph: &Graph, owner: usize) -> Result<(), Failure> {
    let uid = graph.node(owner).uid.clone();
    for dependent in graph.dependents(owner) {
        patch_owners(cx, graph.node(dependent), |owners| {
            owners.iter().filter(|r| text(r, "/uid") != uid).cloned().collect()
        })
        .await?;
    }
    remove_finalizer(cx, graph.node(owner), ORPHAN).await
}

/// Deletes the dependents of an owner that waits for them; lets it go when none blocks it any more.
async fn foreground(cx: &Context<'_>, graph: &Graph, catalog: &Catalog, owner: usize) -> Result<(), Failure> {
    if graph.blocking_dependents(owner).is_empty() {
        return remove_finalizer(cx, graph.node(owner), FOREGROUND).await;
    }
    for dependent in graph.dependents(owner) {
        attempt(cx, catalog, graph.node(dependent), Some((graph, dependent))).await?;
    }
    Ok(())
}

/// Reads an object that is still the same one; none when it is gone or another.
async fn same(cx: &Context<'_>, node: &Node) -> Result<Option<Value>, Failure> {
    let live = cx.find(&node.key.resource, &node.key.namespace, &node.key.name).await?;
    Ok(live.filter(|o| uid(o) == node.uid))
}

async fn patch(cx: &Context<'_>, node: &Node, live: &Value, field: &str, value: Value) -> Result<(), Failure> {
    let patch = json!({ "metadata": {
        "uid": node.uid, "resourceVersion": text(live, "/metadata/resourceVersion"), field: value,
    } });
    match cx.client.merge_patch(&node.key.resource, &node.key.namespace, &node.key.name, "", patch).await {
        Ok(_) | Err(ApiError { code: 404, .. }) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

async fn patch_owners(
    cx: &Context<'_>,
    node: &Node,
    change: impl FnOnce(&[Value]) -> Vec<Value>,
) -> Result<(), Failure> {
    let Some(live) = same(cx, node).await? else { return Ok(()) };
    let before = list(&live, "/metadata/ownerReferences");
    let after = change(before);
    if after == before {
        return Ok(());
    }
    patch(cx, node, &live, "ownerReferences", after.into()).await
}

async fn remove_finalizer(cx: &Context<'_>, node: &Node, finalizer: &str) -> Result<(), Failure> {
    let Some(live) = same(cx, node).await? else { return Ok(()) };
    let before = list(&live, "/metadata/finalizers");
    let after: Vec<&Value> = before.iter().filter(|f| *f != finalizer).collect();
    if after.len() == before.len() {
        return Ok(());
    }
    let after = json!(after);
    patch(cx, node, &live, "finalizers", after).await
}
