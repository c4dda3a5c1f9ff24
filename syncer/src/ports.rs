//! What the syncer needs from the virtual clusters. `vctl/` implements it over `vcluster`.
//!
//! Reads and changes come from the store; everything that is written goes through the pipeline of the virtual API server, as the
//! node that writes it (`system:node:NAME`, group `system:nodes`), so that its admission and validation hold for the syncer too.

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use vctl_machinery::status::ApiError;

/// A two-way byte stream.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// The API of one environment, as one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller<'a> {
    /// Name of the environment.
    pub environment: &'a str,
    /// Name of the node: the caller is `system:node:NODE`.
    pub node: &'a str,
}

/// Access to the API servers of the environments. `resource` is a group-resource (`pods`); objects are JSON documents.
#[async_trait::async_trait]
pub trait VirtualApi: Send + Sync {
    /// Reads an object, with `metadata.resourceVersion`.
    async fn get(&self, caller: Caller<'_>, resource: &str, namespace: &str, name: &str) -> Result<Value, ApiError>;

    /// Creates an object.
    async fn create(
        &self,
        caller: Caller<'_>,
        resource: &str,
        namespace: &str,
        object: Value,
    ) -> Result<Value, ApiError>;

    /// Replaces an object, compare-and-swap by its resourceVersion.
    async fn update(
        &self,
        caller: Caller<'_>,
        resource: &str,
        namespace: &str,
        name: &str,
        object: Value,
    ) -> Result<Value, ApiError>;

    /// Replaces the `status` of an object, compare-and-swap by its resourceVersion.
    async fn update_status(
        &self,
        caller: Caller<'_>,
        resource: &str,
        namespace: &str,
        name: &str,
        object: Value,
    ) -> Result<Value, ApiError>;

    /// Deletes an object; `options` is a `meta/v1 DeleteOptions` (preconditions, grace).
    async fn delete(
        &self,
        caller: Caller<'_>,
        resource: &str,
        namespace: &str,
        name: &str,
        options: Value,
    ) -> Result<(), ApiError>;

    /// Subresource `token` of a ServiceAccount: takes and returns an `authentication.k8s.io/v1 TokenRequest`.
    async fn token(
        &self,
        caller: Caller<'_>,
        namespace: &str,
        service_account: &str,
        request: Value,
    ) -> Result<Value, ApiError>;

    /// Serves the TLS bytes of a pod's connection to its API server until it ends. `peer` is the pod's address.
    async fn tunnel(&self, environment: &str, peer: &str, stream: Box<dyn Duplex>);
}
