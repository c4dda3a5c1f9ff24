//! The protobuf encoding of Kubernetes (`application/vnd.kubernetes.protobuf`): `k8s\0` + `runtime.Unknown`, transcoded from
//! and to JSON by the protobuf numbers in the schemas.
//!
//! JSON comes out as Go would print the decoded object: a zero scalar is there only if the field is required or a pointer in Go.

mod read;
pub(crate) mod wire;
mod write;

use serde_json::{Map, Value};

use crate::schema::{self, Type};

const MAGIC: &[u8] = b"k8s\0";

/// Deepest nesting of messages; JSON is read to about the same depth.
const MAX_DEPTH: usize = 100;

fn of(api_version: &str, kind: &str) -> Option<&'static Type> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    schema::of(group, version, kind)
}

/// Decodes a request body to JSON, with `apiVersion` and `kind` filled in from the envelope.
///
/// # Errors
/// What is wrong with it, for a 400.
pub fn decode(body: &[u8]) -> Result<Value, String> {
    decode_at(body, 0)
}

fn decode_at(body: &[u8], depth: usize) -> Result<Value, String> {
    let Some(envelope) = body.strip_prefix(MAGIC) else {
        return Err("the body does not start with the prefix of Kubernetes' protobuf encoding".into());
    };
    let (mut api_version, mut kind, mut raw, mut content_type) = (String::new(), String::new(), &[][..], String::new());
    for entry in wire::entries(envelope) {
        let (number, value) = entry?;
        match number {
            1 => {
                for entry in wire::entries(value.bytes()?) {
                    match entry? {
                        (1, value) => api_version = value.text()?,
                        (2, value) => kind = value.text()?,
                        _ => {}
                    }
                }
            }
            2 => raw = value.bytes()?,
            4 => content_type = value.text()?,
            _ => {}
        }
    }
    if content_type == "application/json" {
        return schema::parse_json(raw).map(|(value, _)| value);
    }
    let ty = of(&api_version, &kind)
        .ok_or_else(|| format!("no kind {kind:?} is registered for version {api_version:?} in protobuf: send JSON"))?;
    let mut object = Map::new();
    object.insert("apiVersion".into(), api_version.into());
    object.insert("kind".into(), kind.into());
    read::message(ty, &[], raw, &mut object, depth)?;
    Ok(Value::Object(object))
}

/// Encodes an object (by its `apiVersion` and `kind`), or none when its kind has no protobuf form (custom resources).
pub fn encode(object: &Value) -> Option<Vec<u8>> {
    let api_version = object.get("apiVersion")?.as_str()?;
    let kind = object.get("kind")?.as_str()?;
    let raw = write::message(of(api_version, kind)?, object.as_object()?);
    let mut meta = Vec::new();
    wire::put_bytes(&mut meta, 1, api_version.as_bytes());
    wire::put_bytes(&mut meta, 2, kind.as_bytes());
    let mut body = MAGIC.to_vec();
    wire::put_bytes(&mut body, 1, &meta);
    wire::put_bytes(&mut body, 2, &raw);
    wire::put_bytes(&mut body, 3, b"");
    wire::put_bytes(&mut body, 4, b"");
    Some(body)
}

/// One frame of a watch: 4 bytes of length (big-endian), then a `meta/v1 WatchEvent` whose object is encoded as by [`encode`].
/// None where that has none.
pub fn watch_frame(event: &str, object: &Value) -> Option<Vec<u8>> {
    let mut raw = Vec::new();
    wire::put_bytes(&mut raw, 1, &encode(object)?);
    let mut body = Vec::new();
    wire::put_bytes(&mut body, 1, event.as_bytes());
    wire::put_bytes(&mut body, 2, &raw);
    let mut frame = u32::try_from(body.len()).ok()?.to_be_bytes().to_vec();
    frame.extend(body);
    Some(frame)
}

#[cfg(test)]
mod tests;
