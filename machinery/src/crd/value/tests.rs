use serde_json::json;

use super::*;

fn errors_of(schema: &Value, value: &Value) -> Vec<String> {
    check(value, &Schema::parse(schema), "", None).iter().map(ToString::to_string).collect()
}

fn spec(schema: Value, value: Value) -> Vec<String> {
    errors_of(&json!({ "type": "object", "properties": { "spec": schema } }), &json!({ "spec": value }))
}

#[test]
fn types() {
    for (schema, value, text) in [
        (
            json!({ "type": "integer" }),
            json!("a"),
            "spec: Invalid value: \"string\": spec in body must be of type integer: \"string\"",
        ),
        (
            json!({ "type": "string" }),
            json!(1),
            "spec: Invalid value: \"integer\": spec in body must be of type string: \"integer\"",
        ),
        (
            json!({ "type": "object" }),
            json!([]),
            "spec: Invalid value: \"array\": spec in body must be of type object: \"array\"",
        ),
        (
            json!({ "type": "boolean" }),
            json!(1.5),
            "spec: Invalid value: \"number\": spec in body must be of type boolean: \"number\"",
        ),
        (
            json!({ "type": "string" }),
            json!(null),
            "spec: Invalid value: \"null\": spec in body must be of type string: \"null\"",
        ),
        (
            json!({ "x-kubernetes-int-or-string": true }),
            json!(true),
            "spec: Invalid value: \"boolean\": spec in body must be of type integer,string: \"boolean\"",
        ),
    ] {
        assert_eq!(spec(schema, value), [text]);
    }
    for (schema, value) in [
        (json!({ "type": "integer" }), json!(2.0)),
        (json!({ "type": "number" }), json!(2)),
        (json!({ "type": "string", "nullable": true }), json!(null)),
        (json!({ "x-kubernetes-int-or-string": true }), json!("50%")),
        (json!({ "x-kubernetes-preserve-unknown-fields": true }), json!([1, {}])),
        (json!({ "type": "integer", "format": "int32" }), json!(7)),
    ] {
        assert_eq!(spec(schema.clone(), value), Vec::<String>::new(), "{schema}");
    }
}

#[test]
fn constraints() {
    for (schema, value, text) in [
        (
            json!({ "type": "string", "enum": ["a", "b"] }),
            json!("c"),
            "spec: Unsupported value: \"c\": supported values: \"a\", \"b\"",
        ),
        (
            json!({ "type": "integer", "enum": [1, 2] }),
            json!(3),
            "spec: Unsupported value: 3: supported values: \"1\", \"2\"",
        ),
        (
            json!({ "type": "string", "pattern": "^a+$" }),
            json!("b"),
            "spec: Invalid value: \"b\": spec in body should match '^a+$'",
        ),
        (json!({ "type": "string", "maxLength": 2 }), json!("abc"), "spec: Too long: may not be more than 2 bytes"),
        (
            json!({ "type": "string", "minLength": 2 }),
            json!("a"),
            "spec: Invalid value: \"a\": spec in body should be at least 2 chars long",
        ),
        (
            json!({ "type": "integer", "minimum": 1 }),
            json!(0),
            "spec: Invalid value: 0: spec in body should be greater than or equal to 1",
        ),
        (
            json!({ "type": "integer", "minimum": 0, "exclusiveMinimum": true }),
            json!(0),
            "spec: Invalid value: 0: spec in body should be greater than 0",
        ),
        (
            json!({ "type": "number", "maximum": 1.5 }),
            json!(2.25),
            "spec: Invalid value: 2.25: spec in body should be less than or equal to 1.5",
        ),
        (
            json!({ "type": "integer", "multipleOf": 5 }),
            json!(7),
            "spec: Invalid value: 7: spec in body should be a multiple of 5",
        ),
        (
            json!({ "type": "array", "minItems": 2, "items": { "type": "integer" } }),
            json!([1]),
            "spec: Invalid value: 1: spec in body should have at least 2 items",
        ),
        (
            json!({ "type": "array", "maxItems": 1, "items": { "type": "integer" } }),
            json!([1, 2]),
            "spec: Too many: 2: must have at most 1 items",
        ),
        (
            json!({ "type": "object", "maxProperties": 1, "additionalProperties": { "type": "integer" } }),
            json!({ "a": 1, "b": 2 }),
            "spec: Too many: 2: must have at most 1 items",
        ),
        (
            json!({ "type": "object", "minProperties": 1, "additionalProperties": { "type": "integer" } }),
            json!({}),
            "spec: Invalid value: 0: spec in body should have at least 1 properties",
        ),
        (json!({ "type": "object", "required": ["a"] }), json!({}), "spec.a: Required value"),
        (
            json!({ "type": "object", "additionalProperties": { "type": "integer" } }),
            json!({ "a": "x" }),
            "spec.a: Invalid value: \"string\": spec.a in body must be of type integer: \"string\"",
        ),
        (
            json!({ "type": "array", "items": { "type": "object", "properties": { "p": { "type": "string" } } } }),
            json!([{}, { "p": 1 }]),
            "spec[1].p: Invalid value: \"integer\": spec[1].p in body must be of type string: \"integer\"",
        ),
        (
            json!({ "type": "string", "format": "ipv4" }),
            json!("x"),
            "spec: Invalid value: \"x\": spec in body must be of type ipv4: \"x\"",
        ),
    ] {
        assert_eq!(spec(schema, value), [text]);
    }
    assert_eq!(spec(json!({ "type": "string", "format": "nobody-knows" }), json!("x")), Vec::<String>::new());
}

#[test]
fn alternatives() {
    let one_of = json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "string" } },
        "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] });
    assert_eq!(spec(one_of.clone(), json!({ "a": "1" })), Vec::<String>::new());
    assert_eq!(
        spec(one_of.clone(), json!({ "a": "1", "b": "2" })),
        [
            "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found 2 valid alternatives"
        ]
    );
    assert_eq!(
        spec(one_of, json!({})),
        [
            "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found none valid",
            "spec.a: Required value",
        ]
    );
    assert_eq!(
        spec(json!({ "type": "integer", "anyOf": [{ "minimum": 10 }, { "multipleOf": 2 }] }), json!(3)),
        [
            "<nil>: Invalid value: \"\": \"spec\" must validate at least one schema (anyOf)",
            "spec: Invalid value: 3: spec in body should be greater than or equal to 10",
        ]
    );
    assert_eq!(
        spec(json!({ "type": "integer", "allOf": [{ "minimum": 10 }, { "maximum": 20 }] }), json!(3)),
        [
            "spec: Invalid value: 3: spec in body should be greater than or equal to 10",
            "<nil>: Invalid value: \"\": \"spec\" must validate all the schemas (allOf)",
        ]
    );
    assert_eq!(
        spec(json!({ "type": "string", "not": { "enum": ["x"] } }), json!("x")),
        ["<nil>: Invalid value: \"\": \"spec\" must not validate the schema (not)"]
    );
}

#[test]
fn what_has_not_changed_is_not_refused() {
    let schema = Schema::parse(&json!({ "type": "object", "properties": {
        "a": { "type": "integer", "maximum": 1 }, "b": { "type": "integer", "maximum": 1 },
        "list": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
            "items": { "type": "object", "properties": { "n": { "type": "string" }, "v": { "type": "integer", "maximum": 1 } } } },
    } }));
    let old = json!({ "a": 5, "b": 1, "list": [{ "n": "x", "v": 9 }] });
    let new = json!({ "a": 5, "b": 2, "list": [{ "n": "y", "v": 3 }, { "n": "x", "v": 9 }] });
    let texts: Vec<String> = check(&new, &schema, "", Some(&old)).iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "b: Invalid value: 2: b in body should be less than or equal to 1",
            "list[0].v: Invalid value: 3: list[0].v in body should be less than or equal to 1",
        ]
    );
}
