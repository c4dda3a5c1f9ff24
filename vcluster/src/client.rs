//! Calls into the pipeline from inside the process: the same admission, validation and storage as a request from outside, without
//! HTTP, TLS or encoding. Objects are JSON documents with `metadata.resourceVersion` filled in.

use serde_json::Value;
use vctl_machinery::{selector::LabelSelector, status::ApiError};

/// A list with the revision it shows.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The objects.
    pub items: Vec<Value>,
    /// `metadata.resourceVersion` of the list.
    pub revision: u64,
}

/// One virtual cluster, as one identity. `resource` is a group-resource: `pods`, `deployments.apps`; `namespace` is empty for
/// cluster-scoped resources (and, in `list`, for all namespaces).
#[async_trait::async_trait]
pub trait Client: Send + Sync {
    /// Reads one object.
    async fn get(&self, resource: &str, namespace: &str, name: &str) -> Result<Value, ApiError>;
    /// Lists objects.
    async fn list(&self, resource: &str, namespace: &str, selector: &LabelSelector) -> Result<Listed, ApiError>;
    /// Creates an object; `metadata.generateName` works.
    async fn create(&self, resource: &str, namespace: &str, object: Value) -> Result<Value, ApiError>;
    /// Replaces an object (`subresource` is empty) or a subresource (`status`, `scale`, `binding`, ..). Compare-and-swap when the object
    /// carries a resourceVersion.
    async fn update(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: Value,
    ) -> Result<Value, ApiError>;
    /// Reads the subresource `scale` of an object: an `autoscaling/v1 Scale`.
    async fn scale(&self, resource: &str, namespace: &str, name: &str) -> Result<Value, ApiError>;
    /// Merge-patches (RFC 7386) an object or subresource, retrying conflicts.
    async fn merge_patch(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        subresource: &str,
        patch: Value,
    ) -> Result<Value, ApiError>;
    /// Server-side apply, forced, as the client's field manager.
    async fn apply(&self, resource: &str, namespace: &str, name: &str, object: Value) -> Result<Value, ApiError>;
    /// Deletes an object; `options` is a `meta/v1 DeleteOptions` or null.
    async fn delete(&self, resource: &str, namespace: &str, name: &str, options: Value) -> Result<Value, ApiError>;
}
