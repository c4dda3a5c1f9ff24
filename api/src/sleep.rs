//! How a virtual cluster says that it sleeps: by a document in its own part of the store. Where there is one, its controllers do
//! nothing and workers run nothing of it. No Kubernetes resource has this name, so that it is never served.

/// Resource of the document.
pub const RESOURCE: &str = "sleep.vctl.dev";
/// Name of the document; it has no namespace.
pub const NAME: &str = "sleep";
