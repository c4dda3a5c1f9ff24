//! Documents shown as they are stored: their bytes, with the resourceVersion put in and without being parsed.

use vctl_machinery::catalog::Descriptor;
use vctl_store::Revision;

/// How the documents of a resource begin. What does not begin so (bootstrap constants, which have no uid; documents of earlier
/// versions of this server) has to be parsed.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// `{"apiVersion":"v1","kind":"Pod","metadata":{`
    head: String,
    /// How long the head is up to its `"metadata":{`.
    type_len: usize,
}

const METADATA: &str = "\"metadata\":{";
const UID: &[u8] = b"\"uid\":\"";

impl Layout {
    /// Of a resource whose objects are shown as they are stored; none for one whose objects are converted or defaulted when they are
    /// read.
    pub(crate) fn of(descriptor: &Descriptor) -> Option<Self> {
        let as_stored = descriptor.version == descriptor.storage_version
            && descriptor.definition.is_none()
            && !descriptor.custom
            && crate::convert::storage_resource(descriptor) == descriptor.group_resource();
        as_stored.then(|| {
            let head = format!("{{\"apiVersion\":\"{}\",\"kind\":\"{}\",", descriptor.api_version(), descriptor.kind);
            Self { type_len: head.len(), head: head + METADATA }
        })
    }

    /// The document, if it can be shown as it is.
    pub(crate) fn read<'a>(&'a self, document: &'a [u8]) -> Option<Stored<'a>> {
        let rest = document.strip_prefix(self.head.as_bytes())?;
        rest.starts_with(UID).then_some(Stored { layout: self, rest })
    }
}

/// A document that can be shown as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored<'a> {
    layout: &'a Layout,
    /// From the first field of metadata on.
    rest: &'a [u8],
}

impl Stored<'_> {
    /// Appends the object.
    pub(crate) fn object(&self, revision: Revision, out: &mut Vec<u8>) {
        out.extend_from_slice(self.layout.head.as_bytes());
        version(revision, out);
        out.extend_from_slice(self.rest);
    }

    /// Appends the object as an item of a typed list: without its type.
    pub(crate) fn item(&self, revision: Revision, out: &mut Vec<u8>) {
        out.push(b'{');
        out.extend_from_slice(&self.layout.head.as_bytes()[self.layout.type_len..]);
        version(revision, out);
        out.extend_from_slice(self.rest);
    }

    /// Appends its PartialObjectMetadata of a version of `meta.k8s.io`. False when the document is not JSON after all.
    pub(crate) fn partial(&self, meta_version: &str, revision: Revision, out: &mut Vec<u8>) -> bool {
        let Some(end) = closed(self.rest) else { return false };
        out.extend_from_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/");
        out.extend_from_slice(meta_version.as_bytes());
        out.extend_from_slice(b"\",\"metadata\":{");
        version(revision, out);
        out.extend_from_slice(&self.rest[..end]);
        out.push(b'}');
        true
    }
}

fn version(revision: Revision, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"resourceVersion\":\"");
    let mut digits = [0; 20];
    let (mut at, mut left) = (digits.len(), revision);
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\",");
}

/// Where the JSON object ends inside of which the bytes begin: behind its closing brace.
fn closed(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut depth) = (0, 1_usize);
    loop {
        at += memchr::memchr3(b'"', b'{', b'}', bytes.get(at..)?)?;
        match bytes[at] {
            b'"' => {
                at += 1;
                loop {
                    at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
                    if bytes[at] == b'"' {
                        break;
                    }
                    at += 2;
                }
            }
            b'{' => depth += 1,
            _ => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use vctl_machinery::catalog::Catalog;

    use super::*;
    use crate::document;

    fn layout_of(group: &str, version: &str, plural: &str) -> Option<Layout> {
        Layout::of(Catalog::builtin().resource(group, version, plural).unwrap())
    }

    fn object() -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": "}{\"\\" },
            "metadata": { "annotations": { "b": "\\\"}{" }, "name": "n", "resourceVersion": "1", "uid": "u", "zone": {} },
        })
    }

    #[test]
    fn what_is_stored_is_shown_with_its_version() {
        let layout = layout_of("", "v1", "configmaps").unwrap();
        let document = document::encode(&object()).unwrap();
        let stored = layout.read(&document).unwrap();
        for revision in [0, 7, 1_234_567_890, u64::MAX] {
            let mut expected = object();
            expected["metadata"]["resourceVersion"] = revision.to_string().into();
            let mut bytes = Vec::new();
            stored.object(revision, &mut bytes);
            assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), expected);

            bytes.clear();
            assert!(stored.partial("v1", revision, &mut bytes));
            let partial = json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": expected["metadata"] });
            assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), partial);

            bytes.clear();
            stored.item(revision, &mut bytes);
            let item = json!({ "metadata": expected["metadata"], "data": expected["data"] });
            assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), item);
        }
    }

    #[test]
    fn what_has_to_be_read_first_is_not_shown_as_it_is() {
        let layout = layout_of("", "v1", "configmaps").unwrap();
        let constant = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "n" } });
        assert!(layout.read(&document::encode(&constant).unwrap()).is_none(), "without uid");
        assert!(layout.read(object().to_string().as_bytes()).is_none(), "in another order");
        assert!(layout_of("autoscaling", "v1", "horizontalpodautoscalers").is_none(), "stored as v2");
        assert!(layout_of("events.k8s.io", "v1", "events").is_none(), "stored as core/v1");
        assert!(layout_of("", "v1", "events").is_some());
    }
}
