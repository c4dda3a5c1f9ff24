//! Deleting objects: at once, gracefully, or as soon as the finalizers let go.

use futures::{StreamExt, TryStreamExt};
use jiff::ToSpan;
use serde_json::{Value, json};
use vctl_machinery::status::ApiError;
use vctl_store::Expect;

use super::{
    Call, Commit, Target,
    create::time,
    list::{ListQuery, Page},
    strategy,
};
use crate::{
    admission::{self, Charges},
    document::{finalizers, is_terminating, meta, set_meta},
    keys::seconds,
};

/// Objects of a collection that are deleted at a time.
const DELETED_TOGETHER: usize = 64;

/// What came of a deletion.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// It is gone.
    Gone(Value),
    /// It stays for now, marked.
    Marked(Value),
}

/// `meta/v1 DeleteOptions`.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub grace_seconds: Option<i64>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub propagation: Option<String>,
}

impl DeleteOptions {
    /// From the document, or null.
    pub(crate) fn parse(options: &Value) -> Result<Self, ApiError> {
        let text = |path: &str| options.pointer(path).and_then(Value::as_str).map(ToOwned::to_owned);
        let grace_seconds = options.get("gracePeriodSeconds").and_then(Value::as_i64);
        if grace_seconds.is_some_and(|g| g < 0) {
            return Err(ApiError::bad_request("gracePeriodSeconds must be non-negative"));
        }
        let mut propagation = text("/propagationPolicy");
        match (propagation.as_deref(), options.get("orphanDependents").and_then(Value::as_bool)) {
            (Some(policy), Some(_)) => {
                return Err(ApiError::invalid(
                    "meta.k8s.io",
                    "DeleteOptions",
                    "",
                    &[vctl_machinery::validate::FieldError {
                        reason: "FieldValueInvalid",
                        field: "propagationPolicy".into(),
                        body: format!(
                            "Invalid value: {policy:?}: orphanDependents and deletionPropagation cannot be both set"
                        ),
                    }],
                ));
            }
            (None, Some(true)) => propagation = Some("Orphan".into()),
            (None, Some(false)) => propagation = Some("Background".into()),
            (Some("Orphan" | "Background" | "Foreground") | None, None) => {}
            (Some(other), None) => {
                return Err(ApiError::invalid(
                    "meta.k8s.io",
                    "DeleteOptions",
                    "",
                    &[vctl_machinery::validate::FieldError {
                        reason: "FieldValueNotSupported",
                        field: "propagationPolicy".into(),
                        body: format!(
                            "Unsupported value: {other:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
                        ),
                    }],
                ));
            }
        }
        Ok(Self {
            grace_seconds,
            uid: text("/preconditions/uid"),
            resource_version: text("/preconditions/resourceVersion"),
            propagation,
        })
    }

    fn check(&self, target: &Target, object: &Value, version: &str) -> Result<(), ApiError> {
        // Upstream names the Kind here, not the resource.
        let descriptor = &target.descriptor;
        let conflict =
            |why: String| ApiError::conflict(&descriptor.group, &descriptor.kind, meta(object, "name"), &why);
        if let Some(uid) = &self.uid
            && uid != meta(object, "uid")
        {
            return Err(conflict(format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
                meta(object, "uid")
            )));
        }
        if let Some(wanted) = &self.resource_version
            && wanted != version
        {
            return Err(conflict(format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
            )));
        }
        Ok(())
    }
}

impl Call {
    /// Deletes an object.
    pub(crate) async fn delete(&self, target: &Target, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        loop {
            let (entry, old) = self.find(target).await?.ok_or_else(|| target.not_found())?;
            options.check(target, &old, &entry.revision.to_string())?;
            let more = admission::delete(self, target, &old).await?;
            let mut new = old.clone();
            self.mark(target, &old, &mut new, options);
            let stays = !finalizers(&new).is_empty()
                || (target.is("", "namespaces") && new["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty()))
                || new["metadata"]["deletionGracePeriodSeconds"].as_i64().is_some_and(|g| g > 0);
            if stays && new == old {
                return Ok(Deleted::Marked(old));
            }
            let (object, more) = if stays { (Some(&new), Vec::new()) } else { (None, more) };
            let more = Charges::default().and(more);
            match self.commit(target, Expect::Revision(entry.revision), object, more).await? {
                Commit::Done(revision) => {
                    return Ok(match (stays, revision) {
                        (false, _) => Deleted::Gone(old),
                        (true, 0) => Deleted::Marked(new),
                        (true, _) => Deleted::Marked(self.written(target, new, revision).await?),
                    });
                }
                Commit::Changed(false) => return Err(target.not_found()),
                Commit::Changed(true) | Commit::Taken => {}
            }
        }
    }

    /// Marks the object as being deleted: time, grace, finalizers of the propagation policy.
    fn mark(&self, target: &Target, old: &Value, new: &mut Value, options: &DeleteOptions) {
        let descriptor = &target.descriptor;
        let mut kept: Vec<String> = finalizers(old)
            .into_iter()
            .filter(|f| *f != "orphan" && *f != "foregroundDeletion")
            .map(ToOwned::to_owned)
            .collect();
        let had = |f: &str| finalizers(old).contains(&f);
        match options.propagation.as_deref() {
            Some("Orphan") => kept.push("orphan".into()),
            Some("Foreground") => kept.push("foregroundDeletion".into()),
            Some(_) => {}
            None if had("orphan") => kept.push("orphan".into()),
            None if had("foregroundDeletion") => kept.push("foregroundDeletion".into()),
            None if strategy::orphans_by_default(descriptor) => kept.push("orphan".into()),
            None => {}
        }
        set_meta(new, "finalizers", (!kept.is_empty()).then(|| json!(kept)));

        let grace = if target.is("", "pods") { pod_grace(old, options) } else { 0 };
        let now = self.plane.now();
        if is_terminating(old) {
            // Only a shorter grace changes what has been promised.
            let before = old["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
            let asked = options.grace_seconds.is_some() && target.is("", "pods");
            if asked && grace < before {
                let end = time(meta(old, "deletionTimestamp")).unwrap_or(now);
                let sooner = end.checked_add((grace - before).seconds()).unwrap_or(end);
                set_meta(new, "deletionTimestamp", Some(seconds(sooner).into()));
                set_meta(new, "deletionGracePeriodSeconds", Some(grace.into()));
            }
            return;
        }
        let end = now.checked_add(grace.seconds()).unwrap_or(now);
        set_meta(new, "deletionTimestamp", Some(seconds(end).into()));
        set_meta(new, "deletionGracePeriodSeconds", Some(grace.into()));
        if target.is("", "namespaces") {
            new["status"]["phase"] = "Terminating".into();
            set_meta(new, "deletionGracePeriodSeconds", None);
        } else if target.is("apiextensions.k8s.io", "customresourcedefinitions") {
            crate::custom::names::mark_for_deletion(new, &seconds(now));
        }
        if let Some(generation) = old["metadata"]["generation"].as_i64().filter(|g| *g > 0) {
            set_meta(new, "generation", Some((generation + 1).into()));
        }
    }

    /// Deletes what a list shows, and no more: a page, when there is a limit. Returns the list.
    pub(crate) async fn delete_collection(
        &self,
        target: &Target,
        query: &ListQuery,
        options: &DeleteOptions,
    ) -> Result<Page, ApiError> {
        let listed = self.list(target, query).await?;
        // Several at a time: their writes share commits.
        let each = listed.items.iter().map(|object| {
            let mut one = target.clone();
            meta(object, "name").clone_into(&mut one.name);
            meta(object, "namespace").clone_into(&mut one.namespace);
            one
        });
        let each: Vec<Target> = each.collect();
        futures::stream::iter(each)
            .map(|one| self.delete_listed(one, options))
            .buffer_unordered(DELETED_TOGETHER)
            .try_collect::<()>()
            .await?;
        Ok(listed)
    }

    /// Deletes an object that was there a moment ago.
    async fn delete_listed(&self, target: Target, options: &DeleteOptions) -> Result<(), ApiError> {
        match self.delete(&target, options).await {
            Err(e) if e.code != 404 => Err(e),
            _ => Ok(()),
        }
    }
}

/// Seconds that a pod gets to end.
fn pod_grace(pod: &Value, options: &DeleteOptions) -> i64 {
    let asked = options.grace_seconds;
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    let unscheduled = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let finished = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
    if unscheduled || finished { 0 } else { asked.unwrap_or(own).max(0) }
}
