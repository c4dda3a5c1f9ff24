//! Label and field selectors: what is parsed prints as what parses to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use vctl_fuzz::Bytes;
use vctl_machinery::{
    catalog::Catalog,
    selector::{FieldSelector, LabelSelector},
};

fuzz_target!(|data: &[u8]| {
    let labels = json!({ "a": "b", "app": "", "x/y": "1" });
    if let Ok(text) = std::str::from_utf8(data) {
        if let Ok(selector) = LabelSelector::parse(text) {
            let again = LabelSelector::parse(&selector.to_string()).expect("what is printed parses");
            assert_eq!(again.matches(&labels), selector.matches(&labels), "{selector}");
            assert_eq!(again.to_string(), selector.to_string());
        }
        let descriptor = Catalog::builtin().resource("", "v1", "pods").expect("pods");
        if let Ok(selector) = FieldSelector::parse(descriptor, text) {
            selector.matches(descriptor, &json!({ "metadata": { "name": "a" }, "spec": { "nodeName": "n" } }));
        }
    }
    let object = Bytes(data).any(0);
    if let Ok(selector) = LabelSelector::from_object(&object) {
        selector.matches(&labels);
    }
    LabelSelector::from_map(&object).matches(&labels);
});
