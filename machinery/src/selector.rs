//! Label and field selectors.

mod fields;
mod labels;

pub use fields::FieldSelector;
pub use labels::LabelSelector;

#[cfg(test)]
pub(crate) mod testing {
    use crate::catalog::{Catalog, Descriptor};

    /// A descriptor with a name and nothing else.
    pub(crate) fn descriptor(group_resource: &str) -> Descriptor {
        let (plural, group) = group_resource.split_once('.').unwrap_or((group_resource, ""));
        Descriptor {
            group: group.into(),
            version: "v1".into(),
            kind: Catalog::builtin().resource(group, "v1", plural).map(|d| d.kind.clone()).unwrap_or_default(),
            list_kind: String::new(),
            plural: plural.into(),
            singular: String::new(),
            namespaced: true,
            verbs: Vec::new(),
            short_names: Vec::new(),
            categories: Vec::new(),
            subresources: Vec::new(),
            storage_version: "v1".into(),
            custom: false,
            has_generation: false,
            kubernetes: crate::version::MinorVersion::DEFAULT,
            definition: None,
        }
    }
}
