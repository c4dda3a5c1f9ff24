//! How lists and maps merge: by key, as a set, or as a whole. Strategic merge patch (`patchStrategy`, `patchMergeKey`) and server-side
//! apply (`listType`, `listMapKeys`, `mapType`) have different answers for the same field; both are given here by the place of a field
//! (its name and that of its parent), which is unambiguous among the built-in kinds. In custom resources only `metadata` has keyed lists.

use serde_json::Value;

use crate::catalog::Descriptor;

/// How server-side apply merges a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListType {
    /// As one value.
    Atomic,
    /// By value.
    Set,
    /// By the values of these fields (sorted).
    Map(&'static [&'static str]),
}

/// How a strategic merge patch merges a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchList {
    /// The patch's list takes the place of the list.
    Replace,
    /// Values that are missing are added.
    MergeValues,
    /// Items with the same value of this field are merged.
    Merge(&'static str),
}

/// A place in an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape<'a> {
    resource: &'a str,
    custom: bool,
    parent: &'a str,
    name: &'a str,
    depth: u8,
}

impl<'a> Shape<'a> {
    /// The object itself.
    pub(crate) fn root(descriptor: &'a Descriptor) -> Self {
        Self { resource: &descriptor.plural, custom: descriptor.custom, parent: "", name: "", depth: 0 }
    }

    /// A field of the map here, or of an item of the list here.
    pub(crate) fn field(&self, name: &'a str) -> Self {
        Self { parent: self.name, name, depth: self.depth.saturating_add(1), ..*self }
    }

    fn in_container(&self) -> bool {
        matches!(self.parent, "containers" | "initContainers" | "ephemeralContainers")
    }

    /// The list type here.
    pub(crate) fn list_type(&self) -> ListType {
        use ListType::{Atomic, Map, Set};
        match (self.parent, self.name) {
            ("metadata", "ownerReferences") => return Map(&["uid"]),
            ("metadata", "finalizers") => return Set,
            _ if self.custom => return Atomic,
            _ => {}
        }
        match (self.parent, self.name) {
            ("spec", "containers" | "initContainers" | "ephemeralContainers" | "volumes" | "schedulingGates" | "resourceClaims")
            | ("resources", "claims") => Map(&["name"]),
            ("spec", "imagePullSecrets") => Map(&["name"]),
            ("spec", "hostAliases") => Map(&["ip"]),
            ("spec", "topologySpreadConstraints") => Map(&["topologyKey", "whenUnsatisfiable"]),
            (_, "env") if self.in_container() => Map(&["name"]),
            (_, "ports") if self.in_container() => Map(&["containerPort", "protocol"]),
            (_, "volumeMounts") if self.in_container() => Map(&["mountPath"]),
            (_, "volumeDevices") if self.in_container() => Map(&["devicePath"]),
            ("containerStatuses" | "initContainerStatuses", "volumeMounts") => Map(&["mountPath"]),
            ("spec", "ports") if self.resource == "services" => Map(&["port", "protocol"]),
            ("status", "conditions") if self.resource != "jobs" => Map(&["type"]),
            ("status", "addresses") if self.resource == "nodes" => Map(&["type"]),
            ("status", "podIPs") => Map(&["ip"]),
            ("status", "resourceClaimStatuses") => Map(&["name"]),
            ("spec", "podCIDRs") | ("uncountedTerminatedPods", "failed" | "succeeded") | ("onExitCodes", "values") => Set,
            ("spec", "volumeLifecycleModes") => Set,
            ("spec", "drivers") if self.resource == "csinodes" => Map(&["name"]),
            ("", "secrets") if self.resource == "serviceaccounts" => Map(&["name"]),
            ("", "webhooks") => Map(&["name"]),
            ("webhooks" | "spec", "matchConditions") | ("spec", "variables") => Map(&["name"]),
            _ => Atomic,
        }
    }

    /// The patch strategy of a list here.
    pub(crate) fn patch_list(&self) -> PatchList {
        use PatchList::{Merge, MergeValues, Replace};
        match (self.parent, self.name) {
            ("", "imagePullSecrets") => Merge("name"),
            ("status", "conditions") => Merge("type"),
            ("status", "hostIPs") => Merge("ip"),
            ("spec", "topologySpreadConstraints") => Merge("topologyKey"),
            ("spec", "ports") if self.resource == "services" => Merge("port"),
            (_, "ports") if self.in_container() => Merge("containerPort"),
            ("resources", "claims") | ("containerStatuses" | "initContainerStatuses", _) => Replace,
            ("onExitCodes" | "uncountedTerminatedPods", _) | ("spec", "volumeLifecycleModes") => Replace,
            _ => match self.list_type() {
                ListType::Atomic => Replace,
                ListType::Set => MergeValues,
                ListType::Map(keys) => Merge(keys[0]),
            },
        }
    }

    /// Whether a strategic merge patch replaces a map here.
    pub(crate) fn patch_map_replaces(&self) -> bool {
        self.resource == "poddisruptionbudgets" && self.parent == "spec" && self.name == "selector"
    }

    /// Whether server-side apply takes a map here as one value (`mapType: atomic`).
    pub(crate) fn map_is_atomic(&self) -> bool {
        if self.custom {
            return false;
        }
        match self.name {
            "labelSelector" | "namespaceSelector" | "podSelector" | "objectSelector" | "scopeSelector" | "nodeTopology" => true,
            "selector" => self.parent == "spec",
            "nodeSelector" => matches!(self.parent, "spec" | "scheduling"),
            "requiredDuringSchedulingIgnoredDuringExecution" => self.parent == "nodeAffinity",
            "configMapKeyRef" | "secretKeyRef" | "fieldRef" | "resourceFieldRef" | "secretRef" | "configMapRef" | "roleRef"
            | "dataSource" | "involvedObject" | "regarding" | "related" | "scaleTargetRef" | "nodePublishSecretRef"
            | "nodeStageSecretRef" | "controllerPublishSecretRef" | "controllerExpandSecretRef" | "nodeExpandSecretRef" => true,
            "resource" => self.parent == "defaultBackend",
            "required" => self.parent == "nodeAffinity",
            "ownerReferences" => true,
            _ => false,
        }
    }

    /// Whether a map here is a value of a Go struct type that is not a pointer, so that it is there even when empty and nobody owns it as such.
    pub(crate) fn is_embedded(&self) -> bool {
        match self.name {
            "metadata" => true,
            "spec" | "status" => self.depth == 1 || matches!(self.parent, "template" | "jobTemplate" | "volumeClaimTemplate"),
            "template" | "jobTemplate" | "strategy" | "updateStrategy" | "resources" => !self.custom,
            _ => false,
        }
    }
}

/// What a key field of a list item is when it is left out.
pub(crate) fn key_default(key: &str) -> Option<Value> {
    (key == "protocol").then(|| Value::from("TCP"))
}
