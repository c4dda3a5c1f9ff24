//! Who makes a request.

use std::collections::BTreeMap;

/// An authenticated identity, as `authentication.k8s.io` UserInfo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// User name.
    pub name: String,
    /// UID; empty when unknown.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Extra attributes.
    pub extra: BTreeMap<String, Vec<String>>,
    internal: bool,
}

/// The group that may do everything.
pub const MASTERS: &str = "system:masters";
/// The group of everyone who is known.
pub const AUTHENTICATED: &str = "system:authenticated";

impl User {
    /// A user who is subject to RBAC.
    pub fn new(name: impl Into<String>, groups: impl IntoIterator<Item = String>) -> Self {
        Self {
            name: name.into(),
            uid: String::new(),
            groups: groups.into_iter().collect(),
            extra: BTreeMap::new(),
            internal: false,
        }
    }

    /// A component of this process, such as `system:serviceaccount:kube-system:deployment-controller`: authorization is skipped,
    /// everything else is as for anyone. Never make one from what a request says.
    pub fn internal(name: impl Into<String>) -> Self {
        let mut user = Self::new(name, [MASTERS.to_owned(), AUTHENTICATED.to_owned()]);
        user.internal = true;
        user
    }

    /// Nobody in particular: what upstream calls `system:anonymous`.
    pub fn anonymous() -> Self {
        Self::new("system:anonymous", ["system:unauthenticated".to_owned()])
    }

    /// Whether authorization is skipped.
    pub fn is_internal(&self) -> bool {
        self.internal
    }

    /// Whether the user belongs to a group.
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// `authentication.k8s.io` UserInfo.
    pub fn info(&self) -> serde_json::Value {
        let mut info = serde_json::json!({ "username": self.name });
        if !self.uid.is_empty() {
            info["uid"] = self.uid.clone().into();
        }
        if !self.groups.is_empty() {
            info["groups"] = self.groups.clone().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = serde_json::json!(self.extra);
        }
        info
    }
}
