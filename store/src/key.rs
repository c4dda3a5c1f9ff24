use std::sync::Arc;

/// Where a document lives: `resource` is `plural` or `plural.group` (as Kubernetes' GroupResource prints
/// itself), `namespace` is empty for cluster-scoped resources.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// `pods`, `deployments.apps`, ..
    pub resource: Arc<str>,
    /// Namespace, or empty.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl Key {
    /// Puts the three parts together.
    pub fn new(resource: &str, namespace: &str, name: &str) -> Self {
        Self { resource: resource.into(), namespace: namespace.into(), name: name.into() }
    }
}

/// Which documents a list or watch is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The resource.
    pub resource: Arc<str>,
    /// One namespace, or none for all.
    pub namespace: Option<Arc<str>>,
}

impl Scope {
    /// All documents of a resource, in every namespace.
    pub fn all(resource: &str) -> Self {
        Self { resource: resource.into(), namespace: None }
    }

    /// The documents of a resource in one namespace.
    pub fn namespaced(resource: &str, namespace: &str) -> Self {
        Self { resource: resource.into(), namespace: Some(namespace.into()) }
    }

    /// Whether a document is among them.
    pub fn contains(&self, key: &Key) -> bool {
        self.resource == key.resource && self.namespace.as_ref().is_none_or(|n| *n == key.namespace)
    }
}
