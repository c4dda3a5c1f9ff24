//! Server-side apply by several managers, with updates in between.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use vctl_fuzz::Bytes;
use vctl_machinery::{
    apply::{Manager, apply, record_update},
    catalog::Catalog,
    schema,
};

fuzz_target!(|data: &[u8]| {
    let mut bytes = Bytes(data);
    let (group, version, kind) = bytes.kind();
    let descriptor = Catalog::builtin().kind(group, version, kind).expect("a kind of the catalog");
    let mut live: Option<Value> = None;
    for _ in 0..4 {
        if bytes.0.is_empty() {
            break;
        }
        let choice = bytes.byte();
        let mut wanted = bytes.object((group, version, kind));
        if !wanted["metadata"].is_object() {
            wanted["metadata"] = json!({});
        }
        wanted["metadata"]["name"] = json!("a");
        let manager = Manager {
            name: ["one", "two", "three"][usize::from(choice) % 3],
            subresource: if choice & 0x40 == 0 { "" } else { "status" },
            now: "2026-01-02T03:04:05Z",
        };
        if schema::decode_kind(Default::default(), group, version, kind, &mut wanted).is_err() {
            continue;
        }
        if choice & 0x80 != 0 {
            record_update(descriptor, live.as_ref(), &mut wanted, &manager);
            live = Some(wanted);
            continue;
        }
        if let Some(metadata) = wanted["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        let Ok(applied) = apply(descriptor, live.as_ref(), &wanted, &manager, choice & 8 == 0) else { continue };
        let again = apply(descriptor, Some(&applied), &wanted, &manager, true).expect("what was applied applies again");
        // Where nobody owns anything, what is there is taken to be somebody's from before.
        if applied["metadata"]["managedFields"].is_array() {
            assert_eq!(again, applied, "a second time changes nothing");
        }
        live = Some(applied);
    }
});
