use crate::Revision;

/// Number of a tenant; never re-used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(pub u32);

impl Tenant {
    /// The platform's own documents. It always exists and cannot be deleted.
    pub const SYSTEM: Self = Self(0);
}

/// A tenant with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantInfo {
    /// Its number.
    pub tenant: Tenant,
    /// Its unique name: the virtual cluster's.
    pub name: String,
    /// Its newest revision.
    pub revision: Revision,
}
