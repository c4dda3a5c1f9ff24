//! CEL: expressions compile or are refused, and end within their cost.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use vctl_machinery::cel::{Environment, PER_CALL_LIMIT, Type, Value, Variables};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let environment = Environment::new().variable("object", Type::Dyn).variable("self", Type::Dyn);
    let Ok(program) = environment.compile(text) else { return };
    let object = json!({
        "metadata": { "name": "a", "labels": { "app": "web", "x": "" } },
        "spec": { "replicas": 3, "items": ["a", "b", "c"], "ports": [{ "name": "http", "port": 80 }, { "name": "b", "port": 1.5 }] },
    });
    let variables =
        Variables::new().with("object", Value::from_json(&object)).with("self", Value::from_json(&object["spec"]));
    let evaluation = program.evaluate(&variables, PER_CALL_LIMIT);
    assert_eq!(program.evaluate(&variables, PER_CALL_LIMIT).cost, evaluation.cost, "the same every time");
});
