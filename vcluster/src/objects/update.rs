//! Changing objects: replace, patch and apply, of the whole or through a subresource.

use serde_json::{Value, json};
use vctl_machinery::{
    apply, defaults, patch,
    status::ApiError,
    validate::{self, FieldError},
};
use vctl_store::Expect;

use super::{Call, Commit, Target, create::place, strategy};
use crate::{
    admission::{self, Charges},
    document::{finalizers, is_terminating, meta, resource_version, set_meta},
    subresource,
};

/// How a patch is to be read.
#[derive(Debug, Clone)]
pub(crate) enum Patch {
    Json(Value),
    Merge(Value),
    Strategic(Value),
    Apply { configuration: Value, force: bool },
}

/// What came of a change.
#[derive(Debug)]
pub(crate) struct Changed {
    pub object: Value,
    /// The object was not there before.
    pub created: bool,
}

/// How often a change is tried again when others change the object at the same time; a client's own version is never retried.
const ATTEMPTS: usize = 100;

impl Call {
    /// Replaces an object, or what a subresource shows of it.
    pub(crate) async fn replace(&self, target: &Target, mut object: Value) -> Result<Changed, ApiError> {
        place(target, &mut object)?;
        let descriptor = &target.descriptor;
        let version = resource_version(&object).to_owned();
        if self.find(target).await?.is_none() {
            if !target.subresource.is_empty() || !strategy::allows_create_on_update(descriptor) {
                return Err(target.not_found());
            }
            if !version.is_empty() && version != "0" {
                return Err(target.modified());
            }
            self.may_create(target).await?;
            let created = self.create(target, object).await?;
            return Ok(Changed { object: created, created: true });
        }
        if version.is_empty() && !strategy::allows_unconditional_update(descriptor) && !self.user.is_internal() {
            let error = FieldError {
                reason: "FieldValueInvalid",
                field: "metadata.resourceVersion".into(),
                body: "Invalid value: 0: must be specified for an update".into(),
            };
            // Upstream names the resource here, not the Kind.
            return Err(ApiError::invalid(&descriptor.group, &descriptor.plural, &target.name, &[error]));
        }
        let changed = self.modify(target, true, |_| Ok(object.clone())).await?;
        Ok(Changed { object: changed, created: false })
    }

    /// Creating by another verb takes the right to create, too.
    async fn may_create(&self, target: &Target) -> Result<(), ApiError> {
        let attributes = crate::authorization::rules::Attributes {
            verb: "create".into(),
            group: target.descriptor.group.clone(),
            version: target.descriptor.version.clone(),
            resource: target.descriptor.plural.clone(),
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            ..Default::default()
        };
        self.plane.require(&self.user, &attributes).await
    }

    /// Patches an object, or what a subresource shows of it.
    pub(crate) async fn patch(&self, target: &Target, patch: &Patch) -> Result<Changed, ApiError> {
        let descriptor = &target.descriptor;
        let now = self.now();
        if let Patch::Apply { configuration, force } = patch {
            if self.find(target).await?.is_none() {
                if !target.subresource.is_empty() {
                    return Err(target.not_found());
                }
                let mut configuration = configuration.clone();
                if !meta(&configuration, "uid").is_empty() {
                    let uid = meta(&configuration, "uid");
                    return Err(target.conflict(&format!(
                        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                    )));
                }
                place(target, &mut configuration)?;
                self.may_create(target).await?;
                let new = apply::apply(descriptor, None, &configuration, &self.manager(target, &now), *force)?;
                match self.create_owned(target, new, false).await {
                    // Someone else was faster: apply to theirs.
                    Err(e) if e.reason == "AlreadyExists" => {}
                    other => return Ok(Changed { object: other?.object, created: true }),
                }
            }
            let object = self
                .modify(target, false, |current| {
                    apply::apply(descriptor, Some(current), configuration, &self.manager(target, &now), *force)
                })
                .await?;
            return Ok(Changed { object, created: false });
        }
        let object = self
            .modify(target, true, |current| {
                let shown = subresource::show_for_update(target, current)?;
                let mut patched = match patch {
                    Patch::Json(p) => patch::json(&shown, p)?,
                    Patch::Merge(p) => patch::merge(&shown, p),
                    Patch::Strategic(p) if descriptor.custom => {
                        let _ = p;
                        return Err(ApiError::unsupported_media_type(
                            "the body of the request was in an unknown format - accepted media types include: \
                             application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
                        ));
                    }
                    Patch::Strategic(p) => patch::strategic(descriptor, &shown, p)?,
                    Patch::Apply { .. } => return Err(ApiError::internal("an apply is no patch")),
                };
                if target.subresource != "scale" {
                    let shown = match patch {
                        Patch::Strategic(p) => patch::go_text(p),
                        _ => patched.to_string(),
                    };
                    self.decode(descriptor, &mut patched, Vec::new()).map_err(|why| unreadable(&shown, &why))?;
                    place(target, &mut patched)?;
                }
                Ok(patched)
            })
            .await?;
        Ok(Changed { object, created: false })
    }

    /// Reads, changes and writes, again and again until nobody else wrote in between. `change` gets the current object and
    /// returns what the client wants it (or the subresource's view of it) to be; a resourceVersion in that which is not the
    /// current one is a conflict. Returns the object, not the view.
    pub(crate) async fn modify(
        &self,
        target: &Target,
        record: bool,
        mut change: impl FnMut(&Value) -> Result<Value, ApiError> + Send,
    ) -> Result<Value, ApiError> {
        let descriptor = &target.descriptor;
        let now = self.now();
        for _ in 0..ATTEMPTS {
            let (entry, old) = self.find(target).await?.ok_or_else(|| target.not_found())?;
            let wanted = change(&old)?;
            let version = resource_version(&wanted);
            let conditional = !version.is_empty() && version != "0";
            if conditional && version != entry.revision.to_string() {
                return Err(target.modified());
            }
            let uid = meta(&wanted, "uid");
            if !uid.is_empty() && uid != meta(&old, "uid") {
                return Err(target.conflict(&format!(
                    "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                    meta(&old, "uid")
                )));
            }
            let mut new = subresource::merge(target, &old, wanted)?;
            keep_system_fields(&mut new, &old);
            defaults::apply(descriptor, &mut new)?;
            strategy::prepare_update(descriptor, &target.subresource, &mut new, &old);
            if record {
                // What admission adds belongs to nobody.
                apply::record_update(descriptor, Some(&old), &mut new, &self.manager(target, &now));
            }
            let more = admission::admit_update(self, target, &old, &mut new).await?;
            defaults::apply(descriptor, &mut new)?;
            let errors = match target.subresource.as_str() {
                // A binding has been checked as what it is.
                "binding" => Vec::new(),
                subresource => {
                    let validate = || validate::update(descriptor, subresource, &new, &old);
                    self.validated(target, entry.value.len(), validate).await
                }
            };
            if !errors.is_empty() {
                return Err(target.invalid(&errors));
            }
            if same(&new, &old) {
                return Ok(old);
            }
            let more = admission::validate_update(self, target, &old, &new).await?.and(more);
            let removed = is_done(target, &new);
            let more =
                if removed { Charges::default().and(admission::release(self, target, &old).await?) } else { more };
            let object = if removed { None } else { Some(&new) };
            match self.commit(target, Expect::Revision(entry.revision), object, more).await? {
                Commit::Done(0) => return Ok(new),
                Commit::Done(revision) => return self.written(target, new, revision).await,
                // A version that the client insists on is compared again, and is then another one.
                Commit::Changed(_) | Commit::Taken => {}
            }
        }
        Err(target.modified())
    }
}

/// 422 for a patch whose outcome is no object of the kind (`endpoints/handlers/patch.go`); `shown` is what upstream shows of it.
fn unreadable(shown: &str, why: &str) -> ApiError {
    let body = format!("Invalid value: {shown:?}: {why}");
    ApiError::invalid("", "", "", &[FieldError { reason: "FieldValueInvalid", field: "patch".into(), body }])
}

/// Whether storing `new` would change nothing.
fn same(new: &Value, old: &Value) -> bool {
    let strip = |v: &Value| {
        let mut v = v.clone();
        set_meta(&mut v, "resourceVersion", None);
        v
    };
    if strip(new) == strip(old) {
        return true;
    }
    // Only the times of managedFields entries differ.
    let timeless = |v: &Value| {
        let mut v = strip(v);
        if let Some(entries) = v.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut) {
            for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
                entry.remove("time");
            }
        }
        v
    };
    timeless(new) == timeless(old)
}

/// What no client changes.
fn keep_system_fields(new: &mut Value, old: &Value) {
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "generateName",
        "resourceVersion",
    ] {
        set_meta(new, field, old.pointer(&format!("/metadata/{field}")).cloned());
    }
    set_meta(new, "selfLink", None);
    // Go leaves out what is empty; an owner that was orphaned leaves no list behind.
    for field in ["annotations", "finalizers", "labels", "ownerReferences"] {
        let empty = new.pointer(&format!("/metadata/{field}")).is_some_and(|v| {
            v.as_array().is_some_and(Vec::is_empty) || v.as_object().is_some_and(serde_json::Map::is_empty)
        });
        if empty {
            set_meta(new, field, None);
        }
    }
}

/// Whether the last thing that kept a deleted object has been removed.
fn is_done(target: &Target, object: &Value) -> bool {
    if !is_terminating(object) || !finalizers(object).is_empty() {
        return false;
    }
    if target.is("", "namespaces") {
        return object["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty);
    }
    object["metadata"].get("deletionGracePeriodSeconds").is_none_or(|g| *g == json!(0))
}
