//! (The columns and cells of all kinds are being written by the lead in table/; leave this module alone.)
//! `meta.k8s.io/v1 Table`: the columns and cells that `kubectl get` prints, as upstream's
//! `pkg/printers/internalversion/printers.go`.

use jiff::Timestamp;
use serde_json::Value;

use crate::catalog::Descriptor;

/// `columnDefinitions` of a resource.
pub fn columns(descriptor: &Descriptor) -> Value {
    let _ = descriptor;
    Value::Array(Vec::new())
}

/// The `cells` of one object.
pub fn cells(descriptor: &Descriptor, object: &Value, now: Timestamp) -> Vec<Value> {
    let _ = (descriptor, object, now);
    Vec::new()
}
