//! Definitions of custom resources: a deleted one takes its objects with it, and gives its names to others that wait for them.
//! Sources: apiextensions-apiserver `pkg/controller/{finalizer,status}`.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{
    context::{Context, Failure},
    object::{self, is_deleting, list, rfc3339, text},
};
use crate::custom::{DEFINITIONS, names};

/// Objects that wait for their finalizers are looked at again after this.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(5);

pub(super) async fn reconcile(cx: &Context<'_>, name: &str) -> Result<Option<Timestamp>, Failure> {
    let definition = cx.find(DEFINITIONS, "", name).await?;
    let Some(definition) = definition else {
        let group = name.split_once('.').map_or("", |(_, group)| group);
        accept_names(cx, group).await?;
        return Ok(None);
    };
    if is_deleting(&definition) && list(&definition, "/metadata/finalizers").iter().any(|f| f == names::CLEANUP) {
        return clean_up(cx, definition).await;
    }
    // It may have let go of a name, or whoever wrote its status has dropped what says that it has its own.
    accept_names(cx, text(&definition, "/spec/group")).await?;
    Ok(None)
}

/// Gives names to the definitions of a group that wait for them.
async fn accept_names(cx: &Context<'_>, group: &str) -> Result<(), Failure> {
    let all = cx.list(DEFINITIONS, "").await?;
    for waiting in all.iter().filter(|d| {
        text(d, "/spec/group") == group
            && !is_deleting(d)
            && !(names::is_true(d, "NamesAccepted") && names::is_true(d, "Established"))
    }) {
        let mut changed = waiting.clone();
        names::accept(&mut changed, &all, &rfc3339(cx.now));
        if changed["status"] != waiting["status"] {
            cx.client.update(DEFINITIONS, "", object::name(waiting), "status", changed).await?;
        }
    }
    Ok(())
}

/// Deletes the objects of a definition; when none is left the definition may go.
async fn clean_up(cx: &Context<'_>, definition: Value) -> Result<Option<Timestamp>, Failure> {
    let name = object::name(&definition).to_owned();
    let now = rfc3339(cx.now);
    let mut definition = definition;
    if !names::is_true(&definition, "Established") {
        names::set_condition(
            &mut definition,
            "Terminating",
            false,
            "NeverEstablished",
            "resource was never established",
            &now,
        );
        return release(cx, definition, &name).await;
    }
    let before = definition["status"].clone();
    names::set_condition(
        &mut definition,
        "Terminating",
        true,
        "InstanceDeletionInProgress",
        "CustomResource deletion is in progress",
        &now,
    );
    if definition["status"] != before {
        definition = cx.client.update(DEFINITIONS, "", &name, "status", definition).await?;
    }
    let mut failed = Vec::new();
    for entry in cx.stored(&name, None).await? {
        let object: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
        if is_deleting(&object) {
            continue;
        }
        if let Err(e) = cx
            .delete(&name, &entry.key.namespace, &entry.key.name, object::uid_precondition(object::uid(&object)))
            .await
        {
            failed.push(e.message);
        }
    }
    if !failed.is_empty() {
        let message = format!("could not issue all deletes: {}", failed.join(", "));
        names::set_condition(&mut definition, "Terminating", true, "InstanceDeletionFailed", &message, &now);
        cx.client.update(DEFINITIONS, "", &name, "status", definition).await?;
        return Err(Failure::Partly(message));
    }
    if !cx.stored(&name, None).await?.is_empty() {
        return Ok(cx.now.checked_add(LOOK_AGAIN).ok());
    }
    names::set_condition(
        &mut definition,
        "Terminating",
        false,
        "InstanceDeletionCompleted",
        "removed all instances",
        &now,
    );
    release(cx, definition, &name).await
}

/// Takes our finalizer off.
async fn release(cx: &Context<'_>, mut definition: Value, name: &str) -> Result<Option<Timestamp>, Failure> {
    let left: Vec<Value> =
        list(&definition, "/metadata/finalizers").iter().filter(|f| *f != names::CLEANUP).cloned().collect();
    definition["metadata"]["finalizers"] = left.into();
    match cx.client.update(DEFINITIONS, "", name, "", definition).await {
        Err(e) if e.code != 404 => Err(e.into()),
        _ => Ok(None),
    }
}
