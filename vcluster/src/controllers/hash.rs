//! The hash that names ReplicaSets and ControllerRevisions.

use serde_json::Value;

/// FNV-1a over a document in canonical form and the collision count, in the alphabet of generated names. The value itself need not be
/// upstream's (what is named so is found by its content, not by its hash); length and alphabet are.
pub(super) fn safe_hash(document: &Value, collisions: Option<i64>) -> String {
    let mut hash = Fnv(0x811c_9dc5);
    feed(document, &mut hash);
    if let Some(count) = collisions {
        hash.write(&(count as u32).to_le_bytes());
    }
    hash.0.to_string().bytes().map(|b| char::from(b"bcdfghjklmnpqrstvwxz2456789"[usize::from(b) % 27])).collect()
}

/// 32-bit FNV-1a.
struct Fnv(u32);

impl Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }
}

/// Feeds a document with its keys in order, independent of how the map keeps them.
fn feed(value: &Value, hash: &mut Fnv) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.iter().filter(|(_, v)| !v.is_null()).map(|(k, _)| k).collect();
            keys.sort();
            hash.write(b"{");
            for key in keys {
                hash.write(key.as_bytes());
                hash.write(b":");
                feed(&map[key], hash);
            }
            hash.write(b"}");
        }
        Value::Array(items) => {
            hash.write(b"[");
            for item in items {
                feed(item, hash);
                hash.write(b",");
            }
            hash.write(b"]");
        }
        other => hash.write(other.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_hash_is_stable_short_and_moves_with_document_and_collisions() {
        let template = json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "x": 1, "y": [true, "s"] } });
        let hash = safe_hash(&template, None);
        assert_eq!(hash, safe_hash(&template.clone(), None));
        assert!(hash.len() <= 10 && hash.bytes().all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b)));
        assert_ne!(hash, safe_hash(&template, Some(1)));
        let mut other = template;
        other["spec"]["x"] = 2.into();
        assert_ne!(hash, safe_hash(&other, None));
    }
}
