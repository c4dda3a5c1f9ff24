//! Creating objects.

use bytes::Bytes;
use jiff::Timestamp;
use rand::Rng;
use serde_json::{Value, json};
use vctl_machinery::{apply, defaults, status::ApiError, validate};
use vctl_store::{Expect, Revision};

use super::{Call, Commit, Target, strategy};
use crate::{
    admission,
    document::{meta, set_meta},
};

/// How often a generated name may turn out to be taken.
const NAME_ATTEMPTS: usize = 8;
/// How often an address, or what is left of a quota, may turn out to be taken.
const TAKEN_ATTEMPTS: usize = 256;
/// Longest base of a generated name.
const BASE_LENGTH: usize = 58;
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Five characters that make no words.
pub(crate) fn random_suffix() -> String {
    let mut rng = rand::rng();
    (0..5).map(|_| char::from(ALPHABET[rng.random_range(0..ALPHABET.len())])).collect()
}

/// What was created.
#[derive(Debug)]
pub(crate) struct Created {
    pub object: Value,
    /// As it was written, and at which revision; none for a dry run.
    pub stored: Option<(Bytes, Revision)>,
}

impl Call {
    /// Creates an object that has been decoded. The target's name is empty or must agree with the object's.
    pub(crate) async fn create(&self, target: &Target, object: Value) -> Result<Value, ApiError> {
        Ok(self.create_owned(target, object, true).await?.object)
    }

    /// Creates an object; `record` is false when its managedFields are already right (server-side apply).
    pub(crate) async fn create_owned(
        &self,
        target: &Target,
        mut object: Value,
        record: bool,
    ) -> Result<Created, ApiError> {
        let descriptor = &target.descriptor;
        place(target, &mut object)?;
        let now = self.now();
        defaults::apply(descriptor, &mut object)?;
        let generate = meta(&object, "name")
            .is_empty()
            .then(|| meta(&object, "generateName").to_owned())
            .filter(|g| !g.is_empty());

        let mut target = target.clone();
        meta(&object, "name").clone_into(&mut target.name);
        system_fields(&mut object, &now);
        if record {
            // What admission adds belongs to nobody.
            apply::record_update(descriptor, None, &mut object, &self.manager(&target, &now));
        }
        admission::admit_create(self, &target, &mut object).await?;
        defaults::apply(descriptor, &mut object)?;
        // Another attempt begins with what was asked for, where an attempt adds what only it has.
        let begins_anew = generate.is_some() || target.is("", "services");
        let (mut attempt, mut taken) = (1, 0);
        loop {
            let mut new = if begins_anew { object.clone() } else { std::mem::take(&mut object) };
            if let Some(base) = &generate {
                let base: String = base.chars().take(BASE_LENGTH).collect();
                set_meta(&mut new, "name", Some(format!("{base}{}", random_suffix()).into()));
            }
            meta(&new, "name").clone_into(&mut target.name);
            strategy::prepare_create(descriptor, &mut new);
            let more = admission::allocate_create(self, &target, &mut new).await?;
            defaults::apply(descriptor, &mut new)?;
            let errors = self.validated(&target, 0, || validate::create(descriptor, &new)).await;
            if !errors.is_empty() {
                return Err(target.invalid(&errors));
            }
            let more = admission::validate_create(self, &target, &new).await?.and(more);
            let document = self.document(&target, &new).await?;
            match self.write(&target, Expect::Absent, Some(document.clone()), more).await? {
                Commit::Done(0) => {
                    if self.plane.entry(&target.key()).await?.is_some() {
                        return Err(ApiError::already_exists(&descriptor.group, &descriptor.plural, &target.name));
                    }
                    return Ok(Created { object: new, stored: None });
                }
                Commit::Done(revision) => {
                    let object = self.written(&target, new, revision).await?;
                    return Ok(Created { object, stored: Some((document, revision)) });
                }
                Commit::Taken if taken < TAKEN_ATTEMPTS => taken += 1,
                Commit::Taken => return Err(target.modified()),
                Commit::Changed(_) if generate.is_some() && attempt < NAME_ATTEMPTS => attempt += 1,
                Commit::Changed(_) => {
                    return Err(ApiError::already_exists(&descriptor.group, &descriptor.plural, &target.name));
                }
            }
            if !begins_anew {
                object = new;
            }
        }
    }
}

/// Puts the object where the URL says, if it does not say otherwise.
pub(crate) fn place(target: &Target, object: &mut Value) -> Result<(), ApiError> {
    if !object.is_object() {
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {})",
            target.descriptor.kind
        )));
    }
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    let namespace = meta(object, "namespace");
    if target.descriptor.namespaced {
        if !namespace.is_empty() && namespace != target.namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        set_meta(object, "namespace", Some(target.namespace.clone().into()));
    } else if !namespace.is_empty() {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    } else {
        set_meta(object, "namespace", None);
    }
    let name = meta(object, "name");
    if !target.name.is_empty() && name != target.name {
        if !name.is_empty() {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                target.name
            )));
        }
        set_meta(object, "name", Some(target.name.clone().into()));
    }
    object["apiVersion"] = target.descriptor.api_version().into();
    object["kind"] = target.descriptor.kind.clone().into();
    Ok(())
}

/// What the server alone says of a new object.
fn system_fields(object: &mut Value, now: &str) {
    for field in ["resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
        set_meta(object, field, None);
    }
    set_meta(object, "uid", Some(uuid::Uuid::new_v4().to_string().into()));
    set_meta(object, "creationTimestamp", Some(now.into()));
}

/// Parses a time in an object.
pub(crate) fn time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}
