//! The table of resource descriptors: what kinds there are and what can be done with them. Kinds are data;
//! a CustomResourceDefinition adds a row.

mod builtin;

use std::sync::{Arc, OnceLock};

use crate::version::MinorVersion;

/// One resource in one version.
#[derive(Debug, Clone, PartialEq)]
pub struct Descriptor {
    /// API group; empty for core.
    pub group: String,
    /// Version, such as `v1`.
    pub version: String,
    /// Kind, such as `Pod`.
    pub kind: String,
    /// Kind of a list, such as `PodList`.
    pub list_kind: String,
    /// Resource, such as `pods`.
    pub plural: String,
    /// Singular, such as `pod`.
    pub singular: String,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// `create`, `delete`, `deletecollection`, `get`, `list`, `patch`, `update`, `watch`: sorted.
    pub verbs: Vec<String>,
    /// Short names, such as `po`.
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    /// Subresources, by name.
    pub subresources: Vec<Subresource>,
    /// Version in which objects are stored (the same for all versions of a resource).
    pub storage_version: String,
    /// Comes from a CustomResourceDefinition.
    pub custom: bool,
    /// Whether objects have `metadata.generation` that grows with `spec`.
    pub has_generation: bool,
    /// The version of Kubernetes that the resource is served in: fields that it does not have are unknown.
    pub kubernetes: MinorVersion,
    /// What the CustomResourceDefinition says of this version.
    pub definition: Option<Arc<crate::crd::Version>>,
}

/// A subresource such as `status` or `scale`.
#[derive(Debug, Clone, PartialEq)]
pub struct Subresource {
    /// Its name: `status`, `scale`, `log`, `exec`, `token`, ..
    pub name: String,
    /// Group of its kind.
    pub group: String,
    /// Version of its kind.
    pub version: String,
    /// Its kind, such as `Scale`.
    pub kind: String,
    /// Its verbs, sorted.
    pub verbs: Vec<String>,
}

impl Descriptor {
    /// `plural` or `plural.group`: the store's resource and Go's GroupResource.
    pub fn group_resource(&self) -> String {
        crate::status::group_resource(&self.group, &self.plural)
    }

    /// `v1` or `group/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The subresource of this name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }
}

/// All resources that one virtual cluster serves.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    kubernetes: MinorVersion,
    rows: Vec<Arc<Descriptor>>,
    /// What [`crate::openapi::v3_index`] says of it.
    openapi: OnceLock<Arc<[(String, String)]>>,
}

impl Catalog {
    /// The built-in resources of [`MinorVersion::DEFAULT`].
    pub fn builtin() -> &'static Self {
        Self::of(MinorVersion::DEFAULT)
    }

    /// The built-in resources of a version of Kubernetes (GA and default-on beta), in upstream's order of groups. Made on first use.
    pub fn of(kubernetes: MinorVersion) -> &'static Self {
        static BUILTIN: [OnceLock<Catalog>; MinorVersion::NEWEST.index() + 1] =
            [const { OnceLock::new() }; MinorVersion::NEWEST.index() + 1];
        BUILTIN[kubernetes.index()].get_or_init(|| Self {
            kubernetes,
            rows: builtin::rows(kubernetes),
            openapi: OnceLock::new(),
        })
    }

    /// The version of Kubernetes.
    pub fn kubernetes(&self) -> MinorVersion {
        self.kubernetes
    }

    /// All rows: groups in upstream's priority order, preferred version first, resources by name.
    pub fn rows(&self) -> &[Arc<Descriptor>] {
        &self.rows
    }

    /// The resource served at `/apis/GROUP/VERSION/PLURAL` (`/api/VERSION/PLURAL` for the core group).
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Descriptor>> {
        self.rows.iter().find(|d| d.plural == plural && d.group == group && d.version == version)
    }

    /// The resource of a kind.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Descriptor>> {
        self.rows.iter().find(|d| d.kind == kind && d.group == group && d.version == version)
    }

    /// The resource stored under a group-resource (`deployments.apps`), in its storage version, or in another one where that is not served.
    pub fn stored(&self, group_resource: &str) -> Option<&Arc<Descriptor>> {
        let (plural, group) = group_resource.split_once('.').unwrap_or((group_resource, ""));
        let mut rows = self.rows.iter().filter(|d| d.plural == plural && d.group == group);
        let first = rows.clone().next();
        rows.find(|d| d.version == d.storage_version).or(first)
    }

    /// This catalog with more rows (custom resources).
    pub fn with(&self, rows: impl IntoIterator<Item = Arc<Descriptor>>) -> Self {
        let mut all = self.rows.clone();
        all.extend(rows);
        Self { kubernetes: self.kubernetes, rows: all, openapi: OnceLock::new() }
    }

    /// The index of its documents, made on first use.
    pub(crate) fn openapi_index(&self, make: impl FnOnce() -> Vec<(String, String)>) -> &[(String, String)] {
        self.openapi.get_or_init(|| make().into())
    }
}
