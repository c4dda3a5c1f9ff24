//! JSON patches.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use vctl_fuzz::{Bytes, two};
use vctl_machinery::patch;

fuzz_target!(|data: &[u8]| {
    let documents = if data.first() == Some(&b'[') {
        two(data)
    } else {
        let mut bytes = Bytes(data);
        let object = bytes.any(0);
        let operations: Vec<Value> = (0..bytes.below(12)).map(|_| operation(&mut bytes)).collect();
        Some((object, json!(operations)))
    };
    let Some((object, operations)) = documents else { return };
    let _ = patch::json(&object, &operations);
});

fn operation(bytes: &mut Bytes<'_>) -> Value {
    let op = ["add", "remove", "replace", "move", "copy", "test", "nothing"][bytes.below(7)];
    let mut operation = json!({ "op": op, "path": pointer(bytes) });
    if bytes.byte() & 1 == 0 {
        operation["value"] = bytes.any(3);
    } else {
        operation["from"] = json!(pointer(bytes));
    }
    operation
}

fn pointer(bytes: &mut Bytes<'_>) -> String {
    (0..bytes.below(4))
        .map(|_| ["/".to_owned() + &bytes.word(), "/-".into(), "/0".into(), "/1".into()][bytes.below(4)].clone())
        .collect()
}
