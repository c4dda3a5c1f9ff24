//! ConversionReview: what a webhook is asked, and whether what it answered is a conversion.

use serde_json::{Map, Value, json};
use vctl_machinery::validate::embedded_metadata;

/// `group/version, Kind=Kind`, as Go prints it.
pub(super) fn kind(object: &Value) -> String {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    format!("{}, Kind={}", text("apiVersion"), text("kind"))
}

/// The document to post.
pub(super) fn request(version: &str, uid: &str, wanted: &str, objects: &[Value]) -> Value {
    json!({
        "kind": "ConversionReview", "apiVersion": format!("apiextensions.k8s.io/{version}"),
        "request": { "uid": uid, "desiredAPIVersion": wanted, "objects": objects },
        "response": { "uid": "", "convertedObjects": null, "result": { "metadata": {} } },
    })
}

/// The objects of an answer, or what is wrong with it.
pub(super) fn converted(mut answer: Value, version: &str, uid: &str) -> Result<Vec<Value>, String> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    if version == "v1" && (answer["apiVersion"] != "apiextensions.k8s.io/v1" || answer["kind"] != "ConversionReview") {
        return Err(format!(
            "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got {}",
            kind(&answer)
        ));
    }
    let response = &mut answer["response"];
    if !response.is_object() {
        return Err("no response provided".into());
    }
    if version == "v1" && response["uid"] != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", text(&response["uid"])));
    }
    let result = &response["result"];
    if result["status"] != "Success" {
        return Err(match text(&result["message"]) {
            none if none.is_empty() => {
                format!("response.result.status was '{}', not 'Success'", text(&result["status"]))
            }
            message => message,
        });
    }
    match response["convertedObjects"].take() {
        Value::Array(objects) => Ok(objects),
        _ => Ok(Vec::new()),
    }
}

/// Checks that `new` is `old` in the wanted version, and gives it what a conversion does not change: all metadata but labels and
/// annotations. `index` is its place among several.
pub(super) fn accept(old: &Value, new: &mut Value, wanted: &str, index: Option<usize>) -> Result<(), String> {
    let numbered = |what: &str, why: String| match index {
        Some(i) => format!("{what} in object at index {i}: {why}").replace("object in object", "object"),
        None => format!("{what}: {why}"),
    };
    let text = |v: &Value, path: &str| v.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let object = if index.is_some() { "invalid converted object" } else { "invalid object" };
    let at = format!("{object} at index {}", index.unwrap_or_default());
    if text(new, "/kind").is_empty() {
        return Err(format!("{at}: Object 'Kind' is missing in '{new}'"));
    }
    for (path, what) in [("/apiVersion", "groupVersion"), ("/kind", "kind")] {
        let (expected, received) = (if path == "/kind" { text(old, path) } else { wanted.to_owned() }, text(new, path));
        if expected != received {
            return Err(format!("{at}: invalid {what} (expected {expected}, received {received})"));
        }
    }
    for (field, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let path = format!("/metadata/{field}");
        let (before, after) = (text(old, &path), text(new, &path));
        if before != after {
            let why = format!("must have the same {shown}: {before} != {after}");
            return Err(if index.is_some() { format!("{at}: {why}") } else { format!("{object}: {why}") });
        }
    }
    restore_metadata(old, new).map_err(|why| numbered("invalid metadata", why))
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn restore_metadata(old: &Value, new: &mut Value) -> Result<(), String> {
    let answered = match new.get_mut("metadata").map(Value::take) {
        None => return Err("missing metadata in converted object".into()),
        Some(Value::Object(map)) => map,
        Some(other) => return Err(format!("invalid metadata of type {} in converted object", go_type(&other))),
    };
    let mut metadata: Map<String, Value> = old["metadata"].as_object().cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        let changed = match answered.get(field) {
            None | Some(Value::Null) => {
                metadata.remove(field);
                continue;
            }
            Some(Value::Object(changed)) => changed,
            Some(other) => {
                return Err(format!("invalid metadata.{field} of type {} in converted object", go_type(other)));
            }
        };
        if let Some((key, value)) = changed.iter().find(|(_, v)| !v.is_string()) {
            let kind = go_type(value);
            return Err(format!("metadata.{field}[{key}] must be a string, but is {kind} in converted object"));
        }
        if metadata.get(field).and_then(Value::as_object) != Some(changed) {
            let wrong = embedded_metadata(&json!({ field: changed }), "metadata");
            let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
            match wrong.as_slice() {
                [] => {}
                [one] => return Err(one.clone()),
                many => return Err(format!("[{}]", many.join(", "))),
            }
        }
        metadata.insert(field.to_owned(), Value::Object(changed.clone()));
    }
    new["metadata"] = Value::Object(metadata);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(version: &str, metadata: &Value) -> Value {
        json!({ "apiVersion": format!("x.io/{version}"), "kind": "Thing", "metadata": metadata })
    }

    #[test]
    fn answers_are_checked_as_upstream_does() {
        let review = |response: Value| json!({ "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": response });
        let wrong = |answer: Value| converted(answer, "v1", "u").unwrap_err();
        assert_eq!(
            wrong(json!({ "apiVersion": "v1", "kind": "Pod" })),
            "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got v1, Kind=Pod"
        );
        assert_eq!(wrong(review(Value::Null)), "no response provided");
        assert_eq!(wrong(review(json!({ "uid": "v" }))), "expected response.uid=\"u\", got \"v\"");
        assert_eq!(wrong(review(json!({ "uid": "u" }))), "response.result.status was '', not 'Success'");
        let refused = json!({ "uid": "u", "result": { "status": "Failure", "message": "no way" } });
        assert_eq!(wrong(review(refused)), "no way");
        let fine = json!({ "uid": "u", "result": { "status": "Success" }, "convertedObjects": [1] });
        assert_eq!(converted(review(fine), "v1", "u").unwrap(), [json!(1)]);
        // Old webhooks said neither who they are nor whom they answer.
        let old = json!({ "response": { "result": { "status": "Success" }, "convertedObjects": [] } });
        assert_eq!(converted(old, "v1beta1", "u"), Ok(Vec::new()));
    }

    #[test]
    fn a_conversion_changes_no_identity() {
        let old = object("v1", &json!({ "name": "a", "uid": "1", "labels": { "l": "1" }, "finalizers": ["f"] }));
        let wrong = |new: Value, index| accept(&old, &mut new.clone(), "x.io/v2", index).unwrap_err();
        let named = |name: &str| object("v2", &json!({ "name": name, "uid": "1" }));
        assert_eq!(
            wrong(object("v1", &json!({})), None),
            "invalid object at index 0: invalid groupVersion (expected x.io/v2, received x.io/v1)"
        );
        assert_eq!(wrong(named("b"), None), "invalid object: must have the same name: a != b");
        assert_eq!(wrong(named("b"), Some(3)), "invalid converted object at index 3: must have the same name: a != b");
        let mut labelled = named("a");
        labelled["metadata"]["labels"] = json!({ "l": 1 });
        assert_eq!(
            wrong(labelled.clone(), Some(1)),
            "invalid metadata in object at index 1: metadata.labels[l] must be a string, but is int64 in converted object"
        );
        labelled["metadata"]["labels"] = json!({ "l": "not valid" });
        assert!(
            wrong(labelled.clone(), None)
                .starts_with("invalid metadata: metadata.labels: Invalid value: \"not valid\"")
        );
        labelled["metadata"] =
            json!({ "name": "a", "uid": "1", "labels": { "l": "2" }, "finalizers": [], "generation": 7 });
        accept(&old, &mut labelled, "x.io/v2", None).unwrap();
        assert_eq!(
            labelled["metadata"],
            json!({ "name": "a", "uid": "1", "labels": { "l": "2" }, "finalizers": ["f"] })
        );
    }
}
