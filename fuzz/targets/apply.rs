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
        let once_more = |object: &Value| {
            apply(descriptor, Some(object), &wanted, &manager, true).expect("what was applied applies again")
        };
        let again = once_more(&applied);
        // Where nobody owns anything, what is there is taken to be somebody's from before.
        if applied["metadata"]["managedFields"].is_array() {
            if live.is_none() {
                assert_eq!(again, applied, "a second time changes nothing");
            }
            // Otherwise it may, as upstream: a struct of which the last apply had fields, and this one has none, goes with them, although it
            // is applied as an empty one, and only the next apply has it (structured-merge-diff `typed/remove.go`); and what others own as an
            // empty list is theirs until defaults have filled it. From then on nothing changes.
            assert_eq!(once_more(&again), again, "a third time changes nothing");
        }
        live = Some(applied);
    }
});
