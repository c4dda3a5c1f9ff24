use serde_json::json;

use super::*;

fn found(check: fn(&At<'_>, &mut Errors), object: &Value) -> Vec<String> {
    let mut errors = Errors::default();
    check(&At::root(object), &mut errors);
    errors.0.iter().map(|e| format!("{}: {}", e.field, e.body)).collect()
}

fn changed(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
    object.pointer_mut(parent).expect("there")[field] = value;
    object
}

#[test]
fn what_every_cluster_has_is_valid() {
    for schema in bootstrap::schemas() {
        assert!(found(flow_schema, &schema).is_empty(), "{schema}");
    }
    for level in bootstrap::levels() {
        assert!(found(priority_level, &level).is_empty(), "{level}");
    }
}

#[test]
fn schemas_are_refused_as_upstream_does() {
    let schema = || {
        let mut schema = bootstrap::schemas().pop().expect("global-default");
        schema["metadata"]["name"] = json!("mine");
        schema
    };
    let rule = "/spec/rules/0";
    let cases = [
        ("/spec/matchingPrecedence", json!(0), "spec.matchingPrecedence: Invalid value: 0: must be a positive value"),
        ("/spec/matchingPrecedence", json!(1), "only the schema named 'exempt' may have matchingPrecedence 1"),
        (
            "/spec/distinguisherMethod",
            json!({"type": "x"}),
            "spec.distinguisherMethod.type: Unsupported value: \"x\": supported values: \"ByNamespace\", \"ByUser\"",
        ),
        (
            "/spec/priorityLevelConfiguration",
            json!({}),
            "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
        ),
        (
            "/spec/rules/0/subjects",
            json!([]),
            "spec.rules[0].subjects: Required value: subjects must contain at least one value",
        ),
        ("/spec/rules/0/subjects/0/kind", json!("x"), "supported values: \"Group\", \"ServiceAccount\", \"User\""),
        (
            "/spec/rules/0/subjects/0/user",
            json!({"name": "a"}),
            "spec.rules[0].subjects[0].user: Forbidden: user is forbidden when subject kind is not 'User'",
        ),
        (
            "/spec/rules/0/resourceRules/0/verbs",
            json!(["get", "x"]),
            "verbs: Unsupported value: [\"get\",\"x\"]: supported values: \"create\", \"delete\"",
        ),
        (
            "/spec/rules/0/resourceRules/0/apiGroups",
            json!(["*", "a"]),
            "if '*' is present, must not specify other api groups",
        ),
        ("/spec/rules/0/nonResourceRules/0/nonResourceURLs", json!(["/a*"]), "wildcard can only do suffix matching"),
    ];
    for (pointer, value, wanted) in cases {
        let errors = found(flow_schema, &changed(schema(), pointer, value));
        assert!(errors.iter().any(|e| e.contains(wanted)), "{pointer}: {errors:?}");
    }
    let neither = changed(
        changed(schema(), &format!("{rule}/resourceRules"), json!([])),
        &format!("{rule}/nonResourceRules"),
        json!([]),
    );
    assert!(found(flow_schema, &neither)[0].contains("at least one of resourceRules and nonResourceRules"));
    let exempt = changed(bootstrap::schemas().remove(0), "/spec/rules", json!([]));
    assert!(found(flow_schema, &exempt)[0].contains("spec of 'exempt' must equal the fixed value"));
}

#[test]
fn levels_are_refused_as_upstream_does() {
    let level = || {
        let mut level = bootstrap::levels().pop().expect("workload-low");
        level["metadata"]["name"] = json!("mine");
        level
    };
    let cases = [
        ("/spec/type", json!("Exempt"), "type must be 'Exempt' if and only if name is 'exempt'"),
        ("/spec/type", json!("x"), "spec.type: Unsupported value: \"x\": supported values: \"Exempt\", \"Limited\""),
        ("/spec/limited", json!(null), "spec.limited: Required value: must not be empty when type is Limited"),
        ("/spec/limited/lendablePercent", json!(101), "must be between 0 and 100, inclusive"),
        ("/spec/limited/nominalConcurrencyShares", json!(-1), "must be a non-negative integer"),
        (
            "/spec/limited/limitResponse/type",
            json!("Reject"),
            "spec.limited.limitResponse.queuing: Forbidden: must be nil if limited.limitResponse.type is not Limited",
        ),
        ("/spec/limited/limitResponse/queuing/handSize", json!(200), "should not be greater than queues (128)"),
        (
            "/spec/limited/limitResponse/queuing/handSize",
            json!(10),
            "required entropy bits of deckSize 128 and handSize 10 should not be greater than 60",
        ),
        ("/spec/limited/limitResponse/queuing/queueLengthLimit", json!(0), "must be positive"),
    ];
    for (pointer, value, wanted) in cases {
        let errors = found(priority_level, &changed(level(), pointer, value));
        assert!(errors.iter().any(|e| e.contains(wanted)), "{pointer}: {errors:?}");
    }
    let catch_all = changed(bootstrap::levels().remove(1), "/spec/limited/nominalConcurrencyShares", json!(7));
    assert!(found(priority_level, &catch_all)[0].contains("spec of 'catch-all' must equal the fixed value"));
    assert!(
        found(
            priority_level,
            &changed(bootstrap::levels().remove(0), "/spec/exempt/nominalConcurrencyShares", json!(7))
        )
        .is_empty()
    );
}
