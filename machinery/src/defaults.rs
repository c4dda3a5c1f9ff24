//! Defaulting per kind, as upstream's `pkg/apis/*/v1/defaults.go`.

use serde_json::Value;

use crate::catalog::Descriptor;

/// Fills in what the client left out, in place; idempotent.
pub fn apply(descriptor: &Descriptor, object: &mut Value) {
    let _ = (descriptor, object);
}
