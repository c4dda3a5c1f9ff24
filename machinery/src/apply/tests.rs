use super::*;
use crate::{catalog::Catalog, selector::testing::descriptor};

fn deployments() -> Descriptor {
    let mut d = descriptor("deployments.apps");
    d.kind = "Deployment".into();
    d.subresources = vec![crate::catalog::Subresource {
        name: "status".into(),
        group: String::new(),
        version: String::new(),
        kind: "Deployment".into(),
        verbs: Vec::new(),
    }];
    d
}

fn manager(name: &str) -> Manager<'_> {
    Manager { name, subresource: "", now: "2026-01-01T00:00:00Z" }
}

fn later(name: &str) -> Manager<'_> {
    Manager { name, subresource: "", now: "2026-01-02T00:00:00Z" }
}

fn config(spec: Value) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" }, "spec": spec })
}

fn fields<'v>(object: &'v Value, manager: &str) -> &'v Value {
    object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|e| e["manager"] == manager)
        .map_or(&Value::Null, |e| &e["fieldsV1"])
}

#[test]
fn create_owns_what_it_sets() {
    let d = deployments();
    let object = apply(
        &d,
        None,
        &config(json!({ "replicas": 3, "selector": { "matchLabels": { "a": "b" } } })),
        &manager("a"),
        false,
    )
    .unwrap();
    assert_eq!(object["spec"]["replicas"], 3);
    assert_eq!(fields(&object, "a"), &json!({ "f:spec": { "f:replicas": {}, "f:selector": {} } }));
    let entry = &object["metadata"]["managedFields"][0];
    assert_eq!((entry["operation"].as_str(), entry["apiVersion"].as_str()), (Some("Apply"), Some("apps/v1")));
}

#[test]
fn an_apply_that_changes_nothing_touches_nothing() {
    let d = deployments();
    let wanted = config(
        json!({ "replicas": 3, "template": { "spec": { "containers": [{ "name": "c", "image": "i", "ports": [{ "containerPort": 80 }] }] } } }),
    );
    let object = apply(&d, None, &wanted, &manager("a"), false).unwrap();
    assert_eq!(apply(&d, Some(&object), &wanted, &later("a"), false).unwrap(), object);
}

#[test]
fn conflicts_name_manager_and_field() {
    let d = deployments();
    let mut object = config(json!({ "replicas": 1 }));
    record_update(&d, None, &mut object, &manager("kubectl-client-side-apply"));
    let wanted = config(json!({ "replicas": 3 }));
    let error = apply(&d, Some(&object), &wanted, &later("b"), false).unwrap_err();
    assert_eq!(error.code, 409);
    assert_eq!(
        error.message,
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.replicas"
    );
    assert_eq!(error.details["causes"][0]["reason"], "FieldManagerConflict");
    assert_eq!(error.details["causes"][0]["field"], ".spec.replicas");
    let forced = apply(&d, Some(&object), &wanted, &later("b"), true).unwrap();
    assert_eq!(forced["spec"]["replicas"], 3);
    assert_eq!(fields(&forced, "b"), &json!({ "f:spec": { "f:replicas": {} } }));
    assert_eq!(fields(&forced, "kubectl-client-side-apply"), &Value::Null);
}

#[test]
fn the_same_value_is_shared_and_conflicts_are_listed_by_manager() {
    let d = deployments();
    let object = apply(&d, None, &config(json!({ "replicas": 1, "paused": true })), &manager("a"), false).unwrap();
    let object = apply(&d, Some(&object), &config(json!({ "replicas": 1 })), &manager("b"), false).unwrap();
    assert!(fields(&object, "a")["f:spec"].get("f:replicas").is_some());
    let error =
        apply(&d, Some(&object), &config(json!({ "replicas": 2, "paused": false })), &manager("c"), false).unwrap_err();
    assert_eq!(
        error.message,
        "Apply failed with 3 conflicts: conflicts with \"a\":\n- .spec.paused\n- .spec.replicas\nconflicts with \"b\":\n- .spec.replicas"
    );
}

#[test]
fn what_is_left_out_goes_unless_another_owns_it() {
    let d = deployments();
    let labels =
        |l: Value| json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "labels": l } });
    let object = apply(&d, None, &labels(json!({ "x": "1", "y": "2", "z": "3" })), &manager("a"), false).unwrap();
    let object = apply(&d, Some(&object), &labels(json!({ "y": "2" })), &manager("b"), false).unwrap();
    let object = apply(&d, Some(&object), &labels(json!({ "z": "3" })), &manager("a"), false).unwrap();
    assert_eq!(object["metadata"]["labels"], json!({ "y": "2", "z": "3" }));
    let object = apply(&d, Some(&object), &labels(json!({})), &manager("b"), false).unwrap();
    assert_eq!(object["metadata"]["labels"], json!({ "z": "3" }));
}

#[test]
fn a_struct_that_was_applied_empty_keeps_what_nobody_owns() {
    let d = deployments();
    let mut live = config(json!({ "progressDeadlineSeconds": 0 }));
    live["metadata"]["labels"] = json!({ "a": "b" });
    // A manager of the status owns the label, and nothing of the spec.
    record_update(&d, None, &mut live, &Manager { subresource: "status", ..manager("u") });
    let applied = apply(&d, Some(&live), &config(json!({})), &manager("a"), false).unwrap();
    assert_eq!(applied["spec"]["progressDeadlineSeconds"], 0);
    assert_eq!(apply(&d, Some(&applied), &config(json!({})), &later("a"), false).unwrap(), applied);
}

#[test]
fn a_struct_that_loses_all_that_was_applied_is_there_again_the_next_time() {
    let hpa = Catalog::builtin().kind("autoscaling", "v2", "HorizontalPodAutoscaler").expect("a kind");
    let config = |behavior: Value| {
        json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "a" },
            "spec": { "maxReplicas": 3, "behavior": behavior },
        })
    };
    let turn =
        |live: Option<&Value>, behavior: Value| apply(hpa, live, &config(behavior), &manager("a"), true).unwrap();
    let first = turn(None, json!({ "scaleDown": { "selectPolicy": "Min" } }));
    assert_eq!(first["spec"]["behavior"]["scaleDown"]["selectPolicy"], "Min");
    let mut bare = first.clone();
    // As when nobody had set defaults: all of it was applied.
    bare["spec"]["behavior"] = json!({ "scaleDown": { "selectPolicy": "Min" } });
    let emptied = turn(Some(&bare), json!({}));
    assert_eq!(emptied["spec"].get("behavior"), None);
    let again = turn(Some(&emptied), json!({}));
    assert_eq!(again["spec"]["behavior"]["scaleDown"]["selectPolicy"], "Max");
    assert_eq!(turn(Some(&again), json!({})), again);
}

#[test]
fn items_of_keyed_lists_are_owned_one_by_one() {
    let d = deployments();
    let containers = |c: Value| config(json!({ "template": { "spec": { "containers": c } } }));
    let object = apply(
        &d,
        None,
        &containers(json!([{ "name": "a", "image": "1" }, { "name": "b", "image": "1" }])),
        &manager("m"),
        false,
    )
    .unwrap();
    assert_eq!(
        fields(&object, "m")["f:spec"]["f:template"]["f:spec"]["f:containers"],
        json!({
            "k:{\"name\":\"a\"}": { ".": {}, "f:image": {}, "f:name": {} },
            "k:{\"name\":\"b\"}": { ".": {}, "f:image": {}, "f:name": {} },
        })
    );
    let object =
        apply(&d, Some(&object), &containers(json!([{ "name": "s", "image": "9" }])), &manager("n"), false).unwrap();
    let names = |o: &Value| -> Vec<String> {
        let items = o["spec"]["template"]["spec"]["containers"].as_array().unwrap();
        items.iter().map(|c| c["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&object), ["a", "b", "s"]);
    let object =
        apply(&d, Some(&object), &containers(json!([{ "name": "b", "image": "2" }])), &manager("m"), false).unwrap();
    assert_eq!(names(&object), ["b", "s"]);
    let error = apply(&d, Some(&object), &containers(json!([{ "name": "b" }, { "name": "b" }])), &manager("m"), false)
        .unwrap_err();
    assert_eq!(error.code, 400);
    let error = apply(&d, Some(&object), &containers(json!([{ "image": "b" }])), &manager("m"), false).unwrap_err();
    assert!(error.message.contains("omits key field \"name\""), "{}", error.message);
}

#[test]
fn keys_have_their_defaults() {
    let d = deployments();
    let ports = |p: Value| config(json!({ "template": { "spec": { "containers": [{ "name": "a", "ports": p }] } } }));
    let object = apply(
        &d,
        None,
        &ports(json!([{ "containerPort": 53 }, { "containerPort": 53, "protocol": "UDP" }])),
        &manager("m"),
        false,
    )
    .unwrap();
    let ports =
        &fields(&object, "m")["f:spec"]["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"a\"}"]["f:ports"];
    assert!(ports.get("k:{\"containerPort\":53,\"protocol\":\"TCP\"}").is_some(), "{ports}");
    assert!(ports.get("k:{\"containerPort\":53,\"protocol\":\"UDP\"}").is_some(), "{ports}");
}

#[test]
fn an_unmanaged_object_gets_before_first_apply() {
    let d = deployments();
    let object = config(json!({ "replicas": 1 }));
    let error = apply(&d, Some(&object), &config(json!({ "replicas": 2 })), &manager("a"), false).unwrap_err();
    assert!(error.message.contains("\"before-first-apply\" using apps/v1"), "{}", error.message);
}

#[test]
fn kubectl_may_take_over_what_it_applied_on_the_client_side() {
    let d = deployments();
    let last = config(json!({ "replicas": 1 }));
    let mut object = last.clone();
    object["metadata"]["annotations"] = json!({ LAST_APPLIED: last.to_string() });
    record_update(&d, None, &mut object, &manager("kubectl-client-side-apply"));
    let wanted = config(json!({ "replicas": 2 }));
    let object = apply(&d, Some(&object), &wanted, &later("kubectl"), false).unwrap();
    assert_eq!(object["spec"]["replicas"], 2);
    let annotation: Value =
        serde_json::from_str(object["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap()).unwrap();
    assert_eq!(annotation, wanted);
}

#[test]
fn updates_own_what_they_change_and_status_apart() {
    let d = deployments();
    let mut object = config(json!({ "replicas": 1, "template": { "metadata": { "labels": { "a": "b" } } } }));
    record_update(&d, None, &mut object, &manager("a"));
    assert_eq!(
        fields(&object, "a"),
        &json!({ "f:spec": { "f:replicas": {}, "f:template": { "f:metadata": { "f:labels": { ".": {}, "f:a": {} } } } } })
    );
    let mut new = object.clone();
    new["status"] = json!({ "replicas": 1 });
    record_update(&d, Some(&object), &mut new, &Manager { subresource: "status", ..later("c") });
    let entry = new["metadata"]["managedFields"].as_array().unwrap().iter().find(|e| e["manager"] == "c").unwrap();
    assert_eq!(
        (entry["subresource"].as_str(), &entry["fieldsV1"]),
        (Some("status"), &json!({ "f:status": { "f:replicas": {} } }))
    );
    let mut same = new.clone();
    record_update(&d, Some(&new), &mut same, &later("d"));
    assert_eq!(same, new);
    let mut removed = new.clone();
    removed["spec"].as_object_mut().unwrap().remove("replicas");
    record_update(&d, Some(&new), &mut removed, &later("d"));
    assert!(fields(&removed, "a")["f:spec"].get("f:replicas").is_none());
}

#[test]
fn updates_are_capped_and_can_be_cleared() {
    let d = deployments();
    let mut object = config(json!({ "replicas": 0 }));
    record_update(&d, None, &mut object, &manager("m0"));
    for i in 1..=14 {
        let mut new = object.clone();
        new["metadata"]["labels"][format!("l{i}")] = "x".into();
        let now = format!("2026-01-01T00:00:{i:02}Z");
        record_update(&d, Some(&object), &mut new, &Manager { name: &format!("m{i}"), subresource: "", now: &now });
        object = new;
    }
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 10);
    assert!(entries.iter().any(|e| e["manager"] == "ancient-changes"));
    let mut cleared = object.clone();
    cleared["metadata"]["managedFields"] = json!([{}]);
    record_update(&d, Some(&object), &mut cleared, &manager("z"));
    assert!(cleared["metadata"].get("managedFields").is_none(), "{}", cleared["metadata"]);
}

#[test]
fn wrong_configurations_are_refused() {
    let d = deployments();
    let mut wrong = config(json!({}));
    wrong["apiVersion"] = "apps/v1beta1".into();
    assert_eq!(apply(&d, None, &wrong, &manager("a"), false).unwrap_err().code, 400);
    let mut wrong = config(json!({}));
    wrong["metadata"]["managedFields"] = json!([]);
    assert_eq!(
        apply(&d, None, &wrong, &manager("a"), false).unwrap_err().message,
        "metadata.managedFields must be nil"
    );
}
