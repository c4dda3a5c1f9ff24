//! Strategic merge patches, and JSON merge patches with the same documents.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vctl_fuzz::{Bytes, two};
use vctl_machinery::{catalog::Catalog, patch};

fuzz_target!(|data: &[u8]| {
    let (kind, documents) = if data.first() == Some(&b'[') {
        (("apps", "v1", "Deployment"), two(data))
    } else {
        let mut bytes = Bytes(data);
        let kind = bytes.kind();
        (kind, Some((bytes.object(kind), bytes.patch(kind))))
    };
    let Some((object, change)) = documents else { return };
    let descriptor = Catalog::builtin().kind(kind.0, kind.1, kind.2).expect("a kind of the catalog");
    if let Ok(patched) = patch::strategic(descriptor, &object, &change) {
        let _ = patch::strategic(descriptor, &patched, &change);
    }
    let merged = patch::merge(&object, &change);
    assert_eq!(patch::merge(&merged, &change), merged, "a merge patch twice is as once");
});
