//! What can be done with objects: the second half of the pipeline, shared by requests from outside and from inside the process.
//! Authentication and authorization have happened; encoding comes after.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod strategy;
pub(crate) mod update;
pub(crate) mod watch;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::oneshot;
use tracing::Instrument;
use vctl_machinery::{apply::Manager, catalog::Descriptor, schema, status::ApiError};
use vctl_runtime::heavy;
use vctl_store::{Entry, Expect, Key, Revision, StoreError, Write};

use crate::{
    admission::Charges, audit::Audit, convert, document, keys::seconds, limits::counting::Hold, plane::Plane,
    resource_metrics, storage, user::User,
};

/// What to do with unknown and duplicate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// Warnings that are kept of one request. An answer shows far fewer.
const MAX_WARNINGS: usize = 100;

/// One request: who, on which cluster, how.
pub(crate) struct Call {
    pub plane: Arc<Plane>,
    pub user: Arc<User>,
    pub dry_run: bool,
    pub manager: String,
    pub validation: FieldValidation,
    /// Bytes of the request's body.
    pub size: usize,
    /// Where what is recorded of it is noted; none when nothing is, and of requests from inside of the process.
    pub audit: Option<Arc<Audit>>,
    warnings: Mutex<Vec<String>>,
}

impl Call {
    pub(crate) fn new(plane: Arc<Plane>, user: Arc<User>, manager: String) -> Self {
        Self {
            plane,
            user,
            dry_run: false,
            manager,
            validation: FieldValidation::default(),
            size: 0,
            audit: None,
            warnings: Mutex::default(),
        }
    }

    /// Adds a `Warning` header to the answer. Beyond what an answer can show, they are dropped.
    pub(crate) fn warn(&self, text: String) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if warnings.len() < MAX_WARNINGS && !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// Notes something in what is recorded of the request.
    pub(crate) fn annotate(&self, key: &str, value: &str) {
        if let Some(audit) = &self.audit {
            audit.annotate(key, value);
        }
    }

    /// Validates: as heavy work where the request or the object that is stored is large, and definitions in any case, for a small one may
    /// have much to compile.
    pub(crate) async fn validated<T>(&self, target: &Target, stored: usize, work: impl FnOnce() -> T) -> T {
        if target.descriptor.group == "apiextensions.k8s.io" {
            return heavy::run(work).await;
        }
        heavy::sized(self.size.max(stored), work).await
    }

    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn now(&self) -> String {
        seconds(self.plane.now())
    }

    /// The field manager for managedFields.
    pub(crate) fn manager<'a>(&'a self, target: &'a Target, now: &'a str) -> Manager<'a> {
        Manager { name: &self.manager, subresource: &target.subresource, now }
    }

    /// Reads the object as stored, in the version of the target.
    pub(crate) async fn find(&self, target: &Target) -> Result<Option<(Entry, Value)>, ApiError> {
        let Some(entry) = self.plane.entry(&target.key()).await? else { return Ok(None) };
        let object = self.read(&target.descriptor, &entry).await?;
        Ok(Some((entry, object)))
    }

    /// Reads the object.
    pub(crate) async fn get(&self, target: &Target) -> Result<Value, ApiError> {
        if resource_metrics::serves(&target.descriptor) {
            return resource_metrics::get(self, target).await;
        }
        self.find(target).await?.map(|f| f.1).ok_or_else(|| target.not_found())
    }

    /// A stored document as an object of the descriptor's version, whatever version it is stored in.
    pub(crate) async fn read(&self, descriptor: &Descriptor, entry: &Entry) -> Result<Value, ApiError> {
        self.read_document(descriptor, &entry.key, &entry.value, entry.revision).await
    }

    /// As [`Call::read`], of a document that is not the current one.
    pub(crate) async fn read_document(
        &self,
        descriptor: &Descriptor,
        key: &Key,
        value: &[u8],
        revision: Revision,
    ) -> Result<Value, ApiError> {
        let converted = self.converted(descriptor, [(key, value, revision)].into_iter()).await?;
        match converted.and_then(|mut c| c.pop()) {
            Some(object) => Ok(object),
            None => self.object(descriptor, key, value, revision),
        }
    }

    /// Stored documents of a resource that a webhook converts, as objects of the descriptor's version; none for all other resources,
    /// whose documents [`Call::object`] reads one by one.
    pub(crate) async fn converted<'e>(
        &self,
        descriptor: &Descriptor,
        entries: impl Iterator<Item = (&'e Key, &'e [u8], Revision)> + Send,
    ) -> Result<Option<Vec<Value>>, ApiError> {
        let Some(converter) = self.plane.converter(descriptor).await? else { return Ok(None) };
        let origin = &self.plane.keys.origin;
        let decode = |(key, value, revision)| Ok((document::decode(origin, key, value, revision)?, revision));
        let mut objects: Vec<(Value, Revision)> = entries.map(decode).collect::<Result<_, ApiError>>()?;
        converter.read(&self.plane, &mut objects, &descriptor.version).await?;
        let finish = |(mut object, _)| {
            if let Some(definition) = &descriptor.definition {
                definition.read(&mut object);
            }
            object
        };
        Ok(Some(objects.into_iter().map(finish).collect()))
    }

    /// What a client sees of what it wrote: what a webhook made of it on its way into the store and back.
    pub(crate) async fn written(&self, target: &Target, mut new: Value, revision: Revision) -> Result<Value, ApiError> {
        let descriptor = &target.descriptor;
        if descriptor.version != descriptor.storage_version && self.plane.converter(descriptor).await?.is_some() {
            // Somebody may have written in between: that is not what this client wrote.
            if let Some(entry) = self.plane.entry(&target.key()).await?.filter(|e| e.revision == revision) {
                return self.read(descriptor, &entry).await;
            }
        }
        document::set_meta(&mut new, "resourceVersion", Some(revision.to_string().into()));
        Ok(new)
    }

    /// A stored document as an object of the descriptor's version. Not for resources that a webhook converts: see [`Call::converted`].
    pub(crate) fn object(
        &self,
        descriptor: &Descriptor,
        key: &Key,
        value: &[u8],
        revision: Revision,
    ) -> Result<Value, ApiError> {
        let mut object = document::decode(&self.plane.keys.origin, key, value, revision)?;
        convert::from_storage(descriptor, &mut object);
        if let Some(definition) = &descriptor.definition {
            definition.read(&mut object);
        }
        Ok(object)
    }

    /// Checks types, notes or refuses unknown fields, prunes them. `noted` are duplicates found while parsing.
    pub(crate) fn check(
        &self,
        descriptor: &Descriptor,
        object: &mut Value,
        noted: Vec<String>,
    ) -> Result<(), ApiError> {
        self.decode(descriptor, object, noted).map_err(|why| {
            ApiError::bad_request(format!(
                "{} in version {:?} cannot be handled as a {}: {why}",
                descriptor.kind, descriptor.version, descriptor.kind
            ))
        })
    }

    /// As [`Call::check`], with only the reason when it cannot be read.
    pub(crate) fn decode(&self, descriptor: &Descriptor, object: &mut Value, noted: Vec<String>) -> Result<(), String> {
        let unknown = schema::decode(descriptor, object)?;
        let mut strict = noted;
        strict.extend(unknown);
        match self.validation {
            _ if strict.is_empty() => {}
            FieldValidation::Ignore => {}
            FieldValidation::Warn => strict.into_iter().for_each(|w| self.warn(w)),
            FieldValidation::Strict => return Err(format!("strict decoding error: {}", strict.join(", "))),
        }
        Ok(())
    }

    /// An object as it is stored.
    pub(crate) async fn document(&self, target: &Target, object: &Value) -> Result<Bytes, ApiError> {
        let descriptor = &target.descriptor;
        if convert::is_stored_form(descriptor) {
            return document::encode(object);
        }
        // As upstream, a dry run ends before anything is encoded.
        if descriptor.version != descriptor.storage_version
            && !self.dry_run
            && let Some(converter) = self.plane.converter(descriptor).await?
        {
            return document::encode(&converter.store(&self.plane, object).await?);
        }
        let mut stored = object.clone();
        convert::to_storage(descriptor, &mut stored);
        document::encode(&stored)
    }

    /// Writes an object with what belongs to it, or pretends to. `None` means that something else was written in between.
    pub(crate) async fn commit(
        &self,
        target: &Target,
        expect: Expect,
        object: Option<&Value>,
        more: Charges,
    ) -> Result<Commit, ApiError> {
        let value = match object {
            Some(object) => Some(self.document(target, object).await?),
            None => None,
        };
        self.write(target, expect, value, more).await
    }

    /// As [`Call::commit`], with the document. What is held for the write counts until its outcome is known, also when nobody waits for
    /// that any more.
    pub(crate) async fn write(
        &self,
        target: &Target,
        expect: Expect,
        value: Option<Bytes>,
        more: Charges,
    ) -> Result<Commit, ApiError> {
        if self.dry_run {
            return Ok(Commit::Done(0));
        }
        let resource = target.resource();
        let key = Key::new(&resource, &target.namespace, &target.name);
        let Charges { writes: more, hold } = more;
        let mut writes = Vec::with_capacity(1 + more.len());
        writes.push(Write { key, expect, value });
        writes.extend(more);
        let done = match hold {
            None => self.plane.store().transact(self.plane.tenant, writes).await,
            Some(hold) => self.transact_held(writes, hold).await,
        };
        match done {
            Ok(revisions) => {
                self.plane.changed(&resource);
                Ok(Commit::Done(revisions.first().copied().unwrap_or_default()))
            }
            Err(StoreError::Conflict { index: 0, current }) => Ok(Commit::Changed(current.is_some())),
            Err(StoreError::Conflict { .. }) => Ok(Commit::Taken),
            Err(e) => Err(storage::error(e)),
        }
    }

    /// Writes in a task of its own: a client that goes away ends this future, but not a write that the store has begun.
    async fn transact_held(&self, writes: Vec<Write>, hold: Hold) -> Result<Vec<Revision>, StoreError> {
        let (store, tenant) = (self.plane.shared.store.clone(), self.plane.tenant);
        let (tell, told) = oneshot::channel();
        let write = async move {
            let done = store.transact(tenant, writes).await;
            drop(hold);
            // Nobody may be left to be told.
            let _ = tell.send(done);
        };
        self.plane.shared.tasks.spawn("write that a quota holds for", write.in_current_span());
        told.await.unwrap_or(Err(StoreError::Closed))
    }
}

/// What came of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commit {
    /// Written at this revision; 0 for a dry run.
    Done(Revision),
    /// The object was not as expected; true when there is one.
    Changed(bool),
    /// Something that belongs to it (an address, a port) was taken in the meantime.
    Taken,
}

/// Which object, in which version, through which subresource.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub descriptor: Arc<Descriptor>,
    pub namespace: String,
    pub name: String,
    pub subresource: String,
}

impl Target {
    pub(crate) fn new(descriptor: Arc<Descriptor>, namespace: &str, name: &str) -> Self {
        Self { descriptor, namespace: namespace.into(), name: name.into(), subresource: String::new() }
    }

    pub(crate) fn through(mut self, subresource: &str) -> Self {
        subresource.clone_into(&mut self.subresource);
        self
    }

    /// The store's resource.
    pub(crate) fn resource(&self) -> String {
        convert::storage_resource(&self.descriptor)
    }

    pub(crate) fn key(&self) -> Key {
        Key::new(&self.resource(), &self.namespace, &self.name)
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.descriptor.group == group && self.descriptor.plural == plural
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.descriptor.group, &self.descriptor.plural, &self.name)
    }

    pub(crate) fn conflict(&self, why: &str) -> ApiError {
        ApiError::conflict(&self.descriptor.group, &self.descriptor.plural, &self.name, why)
    }

    pub(crate) fn modified(&self) -> ApiError {
        ApiError::modified(&self.descriptor.group, &self.descriptor.plural, &self.name)
    }

    pub(crate) fn forbidden(&self, name: &str, why: &str) -> ApiError {
        ApiError::forbidden(&self.descriptor.group, &self.descriptor.plural, name, why)
    }

    pub(crate) fn invalid(&self, errors: &[vctl_machinery::validate::FieldError]) -> ApiError {
        ApiError::invalid(&self.descriptor.group, &self.descriptor.kind, &self.name, errors)
    }
}
