use serde_json::json;

use super::*;

fn definition(schema: Value) -> Value {
    json!({
        "metadata": { "name": "things.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "conversion": { "strategy": "None" },
            "names": { "plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
        "status": { "storedVersions": ["v1"] },
    })
}

fn errors_of(definition: &Value) -> Vec<String> {
    let mut found = Vec::new();
    validate_create(definition, &mut found);
    found.iter().map(ToString::to_string).collect()
}

fn spec(schema: Value) -> Vec<String> {
    errors_of(&definition(json!({ "type": "object", "properties": { "spec": schema } })))
}

#[test]
fn what_is_right_passes() {
    assert_eq!(
        spec(json!({ "type": "object", "required": ["a"], "properties": {
            "a": { "type": "string", "default": "x", "pattern": "^x+$" },
            "p": { "x-kubernetes-int-or-string": true, "anyOf": [{ "type": "integer" }, { "type": "string" }] },
            "l": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": { "type": "object", "required": ["k"], "properties": { "k": { "type": "string" } } } },
            "f": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            "t": { "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true },
        }, "x-kubernetes-validations": [{ "rule": "self.a != 'y'" }], "oneOf": [{ "required": ["p"] }, { "required": ["l"] }] })),
        Vec::<String>::new()
    );
}

#[test]
fn what_is_no_structural_schema() {
    for (schema, text) in [
        (
            json!({}),
            "spec.validation.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields",
        ),
        (
            json!({ "type": "array" }),
            "spec.validation.openAPIV3Schema.properties[spec].items: Required value: must be specified",
        ),
        (
            json!({ "type": "object", "anyOf": [{ "type": "object" }] }),
            "spec.validation.openAPIV3Schema.properties[spec].anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            json!({ "type": "string", "pattern": "[" }),
            "spec.validation.openAPIV3Schema.properties[spec].pattern: Invalid value: \"[\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ]: `[`",
        ),
        (
            json!({ "type": "string", "default": 1 }),
            "spec.validation.openAPIV3Schema.properties[spec].default: Invalid value: \"integer\":  in body must be of type string: \"integer\"",
        ),
        (
            json!({ "type": "object", "default": { "a": 1 } }),
            "spec.validation.openAPIV3Schema.properties[spec].default: Invalid value: {\"a\":1}: must not have unknown fields",
        ),
        (
            json!({ "type": "array", "uniqueItems": true, "items": { "type": "string" } }),
            "spec.validation.openAPIV3Schema.properties[spec].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
        (
            json!({ "type": "array", "x-kubernetes-list-type": "map", "items": { "type": "object" } }),
            "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            json!({ "type": "object", "additionalProperties": { "type": "string" }, "properties": { "a": { "type": "string" } } }),
            "spec.validation.openAPIV3Schema.properties[spec].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "x-kubernetes-validations": [{ "rule": "self.b > 1" }] }),
            "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {\"Rule\":\"self.b > 1\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}: compilation failed: ERROR: <input>:1:5: undefined field 'b'\n | self.b > 1\n | ....^",
        ),
        (
            json!({ "type": "integer", "x-kubernetes-validations": [{ "rule": "self + 1" }] }),
            "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {\"Rule\":\"self + 1\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}: cel expression must evaluate to a bool",
        ),
        (
            json!({ "type": "array", "items": { "type": "integer", "x-kubernetes-validations": [{ "rule": "self > oldSelf" }] } }),
            "spec.validation.openAPIV3Schema.properties[spec].items.x-kubernetes-validations[0].rule: Invalid value: \"self > oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within spec.validation.openAPIV3Schema.properties[spec]",
        ),
    ] {
        assert_eq!(spec(schema), [text]);
    }
    assert_eq!(
        errors_of(&definition(
            json!({ "type": "object", "properties": { "metadata": { "type": "object", "properties": { "labels": { "type": "object" } } } } })
        )),
        [
            "spec.validation.openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified"
        ]
    );
}

#[test]
fn names_versions_columns_and_paths() {
    let mut wrong = definition(json!({ "type": "object" }));
    wrong["metadata"]["name"] = "x".into();
    wrong["spec"]["scope"] = "Global".into();
    wrong["spec"]["names"]["kind"] = "thing_x".into();
    wrong["spec"]["versions"][0]["storage"] = false.into();
    wrong["spec"]["versions"][0]["additionalPrinterColumns"] =
        json!([{ "name": "A", "type": "text", "jsonPath": "spec.a" }]);
    wrong["spec"]["versions"][0]["subresources"] =
        json!({ "scale": { "specReplicasPath": ".status.r", "statusReplicasPath": ".status.r" } });
    wrong["spec"]["versions"][0]["selectableFields"] = json!([{ "jsonPath": ".spec.a" }]);
    let found = errors_of(&wrong);
    for text in [
        "metadata.name: Invalid value: \"x\": must be spec.names.plural+\".\"+spec.group",
        "spec.scope: Unsupported value: \"Global\": supported values: \"Cluster\", \"Namespaced\"",
        "spec.additionalPrinterColumns[0].type: Invalid value: \"text\": must be one of boolean,date,integer,number,string",
        "spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"spec.a\": must be a simple json path starting with .",
        "spec.subresources.scale.specReplicasPath: Invalid value: \".status.r\": should be a json path under .spec",
        "spec.selectableFields[0].jsonPath: Invalid value: \".spec.a\": is an invalid path: does not refer to a valid field",
    ] {
        assert!(found.iter().any(|f| f == text), "{text} in {found:#?}");
    }
    assert!(found.iter().any(|f| f.ends_with("must have exactly one version marked as storage version")), "{found:#?}");
    assert!(
        found.iter().any(|f| f.starts_with("spec.names.kind: Invalid value: \"thing_x\": may have mixed case")),
        "{found:#?}"
    );
    let mut bare = definition(Value::Null);
    bare["spec"]["versions"][0].as_object_mut().unwrap().remove("schema");
    assert_eq!(errors_of(&bare), ["spec.versions[0].schema.openAPIV3Schema: Required value"]);
    let mut protected = definition(json!({ "type": "object" }));
    protected["spec"]["group"] = "x.k8s.io".into();
    protected["metadata"]["name"] = "things.x.k8s.io".into();
    assert!(
        errors_of(&protected)[0]
            .starts_with("metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups")
    );
}

#[test]
fn what_must_not_change() {
    let mut old = definition(json!({ "type": "object" }));
    old["status"]["conditions"] = json!([{ "type": "Established", "status": "True" }]);
    let mut new = old.clone();
    new["spec"]["scope"] = "Cluster".into();
    new["spec"]["versions"][0]["name"] = "v2".into();
    let mut found = Vec::new();
    validate_update(&new, &old, &mut found);
    let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(texts[0], "spec.scope: Invalid value: \"Cluster\": field is immutable");
    assert!(
        texts[1].starts_with("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions;"),
        "{texts:?}"
    );
}
