//! The registry of refusals: requests with the Status that upstream answers with, each with its origin in upstream's sources.
//!
//! An entry of `golden/*.yaml`: `name`, `origin`, `given` (requests that must succeed first), `wait` (a path, and what must be there before), `request` and `answer`. A request is
//! `METHOD PATH` under `do`, with `body`, or `raw` text, `type` (media type or patch type), `as` (a user) and `headers`. The answer is `code`, `reason` and `message`, and
//! `details` where upstream has some; or `invalid: [Kind.group, name, [[reason, field, text], ..]]`, from which all of these follow. `<..>` in a message is any text.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::{
    api::{Answer, Api, subset},
    suite::Suite,
};

const FILES: &[(&str, &str)] = &[
    ("metadata", include_str!("golden/metadata.yaml")),
    ("requests", include_str!("golden/requests.yaml")),
    ("workloads", include_str!("golden/workloads.yaml")),
    ("pods", include_str!("golden/pods.yaml")),
    ("cluster", include_str!("golden/cluster.yaml")),
    ("updates", include_str!("golden/updates.yaml")),
];

pub(crate) fn checks(suite: &mut Suite) -> Result<()> {
    for (file, text) in FILES {
        let entries: Vec<Value> = serde_yaml::from_str(text).with_context(|| format!("golden/{file}.yaml"))?;
        for entry in entries {
            let text = |field: &str| entry[field].as_str().map(str::to_owned);
            let name = text("name").with_context(|| format!("an entry of {file} without name: {entry}"))?;
            let origin = text("origin").with_context(|| format!("{name} has no origin"))?;
            suite.check(format!("{file}: {name}"), origin, move |api| run(&entry, api));
        }
    }
    Ok(())
}

fn send(api: &Api, request: &Value) -> Result<Answer> {
    let (method, path) = request["do"].as_str().and_then(|d| d.split_once(' ')).context("METHOD PATH")?;
    let mut api = api.clone();
    if let Some(user) = request["as"].as_str() {
        api = api.impersonate(user);
    }
    for (name, value) in request["headers"].as_object().into_iter().flatten() {
        api = api.with(name, value.as_str().unwrap_or_default());
    }
    let media = match request["type"].as_str().unwrap_or("application/json") {
        "json" => "application/json-patch+json",
        "merge" => "application/merge-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        other => other,
    };
    let body = match (&request["raw"], &request["body"]) {
        (Value::String(raw), _) => Some(raw.replace("{ns}", &api.ns)),
        (_, Value::Null) => None,
        (_, body) => Some(body.to_string().replace("{ns}", &api.ns)),
    };
    Ok(api.send(method, path, body.map(|b| (media, b.into_bytes()))))
}

fn run(entry: &Value, api: &Api) -> Result<()> {
    for step in entry["given"].as_array().into_iter().flatten() {
        send(api, step)?.ok().context("given")?;
    }
    if let Some(path) = entry["wait"]["path"].as_str() {
        api.wait_for(path, entry["wait"]["has"].as_str().unwrap_or("{}"))?;
    }
    let answer = send(api, &entry["request"])?;
    let wanted: Value = serde_json::from_str(&entry["answer"].to_string().replace("{ns}", &api.ns))?;
    let wanted = expand(&wanted)?;
    let code = wanted["code"].as_u64().context("a code")? as u16;
    let answer = answer.is(code)?;
    answer.clone().has("{kind: Status, apiVersion: v1, status: Failure, metadata: {}}")?;
    ensure!(answer.body["code"] == wanted["code"], "code in the body: {}", answer.body);
    ensure!(answer.body["reason"] == wanted["reason"], "reason {} was expected: {}", wanted["reason"], answer.body);
    let (said, expected) = (answer.text("/message"), wanted["message"].as_str().unwrap_or_default());
    ensure!(matches(said, expected), "the message is\n      {said}\n    not\n      {expected}");
    if !wanted["details"].is_null() {
        let (mut said, mut expected) = (answer.at("/details").clone(), wanted["details"].clone());
        // Causes are compared one by one, their texts as messages are.
        let (causes, wanted) = (said["causes"].take(), expected["causes"].take());
        subset(&said, &expected, "details").with_context(|| answer.body.to_string())?;
        let (causes, wanted) =
            (causes.as_array().cloned().unwrap_or_default(), wanted.as_array().cloned().unwrap_or_default());
        ensure!(causes.len() == wanted.len(), "{} causes, not {}: {causes:?}", causes.len(), wanted.len());
        for (said, expected) in causes.iter().zip(&wanted) {
            for field in ["reason", "field"] {
                ensure!(said[field] == expected[field], "cause {said} is not {expected}");
            }
            let text = |v: &Value| v["message"].as_str().unwrap_or_default().to_owned();
            ensure!(matches(&text(said), &text(expected)), "cause {said} is not {expected}");
        }
    }
    Ok(())
}

/// `invalid` written out.
fn expand(wanted: &Value) -> Result<Value> {
    let Some(invalid) = wanted["invalid"].as_array() else { return Ok(wanted.clone()) };
    let [Value::String(kind), Value::String(name), Value::Array(errors)] = invalid.as_slice() else {
        anyhow::bail!("invalid is [Kind.group, name, errors]");
    };
    let texts: Vec<String> = errors.iter().map(|e| format!("{}: {}", text(&e[1]), text(&e[2]))).collect();
    let list = if let [one] = texts.as_slice() { one.clone() } else { format!("[{}]", texts.join(", ")) };
    let causes: Vec<Value> = errors.iter().map(|e| json!({ "reason": e[0], "field": e[1], "message": e[2] })).collect();
    let (bare, group) = kind.split_once('.').unwrap_or((kind, ""));
    let mut details = json!({ "kind": bare, "causes": causes });
    if !group.is_empty() {
        details["group"] = group.into();
    }
    if !name.is_empty() {
        details["name"] = name.as_str().into();
    }
    Ok(
        json!({ "code": 422, "reason": "Invalid", "message": format!("{kind} {name:?} is invalid: {list}"), "details": details }),
    )
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether a text is as expected; `<..>` stands for any text.
fn matches(said: &str, expected: &str) -> bool {
    let mut parts = expected.split("<..>");
    let Some(mut rest) = parts.next().and_then(|first| said.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
