//! What a reconcile works with.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use vctl_machinery::{selector::LabelSelector, status::ApiError};
use vctl_store::{Entry, ListOptions, Scope, Store, StoreError, Tenant};

use super::{
    Clients, Shared,
    event::Draft,
    hints::Hints,
    queue::{Controller, Key, WorkQueue},
};
use crate::client::Client;

/// Why a reconcile must be repeated.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0}")]
    Api(#[from] ApiError),
    #[error("{0}")]
    Store(#[from] StoreError),
    /// Part of the work could not be done; the rest was.
    #[error("{0}")]
    Partly(String),
}

impl Failure {
    /// Happens in normal operation: somebody else was faster, or a limit was hit that is shown in the object's status.
    pub(super) fn is_routine(&self) -> bool {
        match self {
            Self::Api(e) => matches!(e.code, 403 | 404 | 409 | 422 | 429),
            Self::Store(StoreError::Closed | StoreError::NoTenant(_)) => true,
            Self::Store(_) => false,
            Self::Partly(_) => true,
        }
    }
}

/// Whether a create failed because its namespace is being deleted: nothing is left to do then.
pub(super) fn is_namespace_terminating(error: &ApiError) -> bool {
    error.code == 403
        && super::object::list(&error.details, "/causes")
            .iter()
            .any(|c| super::object::text(c, "/reason") == "NamespaceTerminating")
}

/// One reconcile: a tenant, an identity, a time.
pub(super) struct Context<'a> {
    pub(super) tenant: Tenant,
    pub(super) controller: Controller,
    pub(super) client: Arc<dyn Client>,
    pub(super) clients: &'a dyn Clients,
    pub(super) store: &'a dyn Store,
    pub(super) queue: &'a WorkQueue,
    pub(super) hints: &'a Hints,
    pub(super) now: Timestamp,
    shared: &'a Shared,
}

impl<'a> Context<'a> {
    pub(super) fn new(shared: &'a Shared, key: &Key) -> Self {
        Self {
            tenant: key.tenant,
            controller: key.controller,
            client: shared.clients.client(key.tenant, key.controller.user()),
            clients: &*shared.clients,
            store: &*shared.store,
            queue: &shared.queue,
            hints: &shared.hints,
            now: shared.clock.now(),
            shared,
        }
    }

    /// Reads an object; none when it does not exist.
    pub(super) async fn find(&self, resource: &str, namespace: &str, name: &str) -> Result<Option<Value>, Failure> {
        match self.client.get(resource, namespace, name).await {
            Ok(object) => Ok(Some(object)),
            Err(e) if e.code == 404 => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// All objects of a namespace.
    pub(super) async fn list(&self, resource: &str, namespace: &str) -> Result<Vec<Value>, Failure> {
        Ok(self.client.list(resource, namespace, &LabelSelector::default()).await?.items)
    }

    /// Documents as stored, of a namespace or (none) of all.
    pub(super) async fn stored(&self, resource: &str, namespace: Option<&str>) -> Result<Vec<Entry>, Failure> {
        let scope = Scope { resource: resource.into(), namespace: namespace.map(Into::into) };
        let options = ListOptions { scope, at: None, after: None, limit: 0 };
        Ok(self.store.list(self.tenant, options).await?.entries)
    }

    /// Deletes an object with this UID; gone already, or another one there, is success.
    pub(super) async fn delete(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        options: Value,
    ) -> Result<(), ApiError> {
        match self.client.delete(resource, namespace, name, options).await {
            Err(e) if e.code != 404 && e.code != 409 => Err(e),
            _ => Ok(()),
        }
    }

    /// Wakes another controller.
    pub(super) fn wake(&self, controller: Controller, namespace: &str, name: &str) {
        self.queue.add(Key { tenant: self.tenant, controller, namespace: namespace.into(), name: name.into() });
    }

    /// Records an event about an object. Events are best effort, as upstream: a failure is logged and does not fail the reconcile.
    pub(super) async fn record(&self, draft: Draft) {
        if let Err(error) =
            self.shared.recorder.record(&*self.client, self.tenant, self.controller.component(), draft, self.now).await
        {
            tracing::debug!(%error, "an event could not be recorded");
        }
    }
}
