//! Objects described for people.

use jiff::Timestamp;
use serde_json::Value;

use crate::cli::output::{age, table};

/// An object of Kubernetes with its events: metadata first, then what it is and how it is, then what happened to it. What a Secret
/// holds is not shown, only how much.
pub(super) fn object(object: &Value, events: &Value, now: Timestamp) -> String {
    let metadata = &object["metadata"];
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            text.push_str(&format!("{:<15}{value}\n", format!("{name}:")));
        }
    };
    line("Name", metadata["name"].as_str().unwrap_or_default());
    line("Namespace", metadata["namespace"].as_str().unwrap_or_default());
    line(
        "Kind",
        &format!(
            "{} ({})",
            object["kind"].as_str().unwrap_or_default(),
            object["apiVersion"].as_str().unwrap_or_default()
        ),
    );
    let created = metadata["creationTimestamp"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
    if let Some(at) = created {
        line("Created", &format!("{} ago ({at})", age(at, now)));
    }
    if let Some(at) = metadata["deletionTimestamp"].as_str() {
        line("Deleted", &format!("since {at}; waits for {}", metadata["finalizers"]));
    }
    for owner in metadata["ownerReferences"].as_array().into_iter().flatten() {
        let of = |field: &str| owner[field].as_str().unwrap_or_default();
        line("Controlled By", &format!("{}/{}", of("kind"), of("name")));
    }
    for (title, field) in [("Labels", "labels"), ("Annotations", "annotations")] {
        for (i, (name, value)) in metadata[field].as_object().into_iter().flatten().enumerate() {
            let first = value.as_str().and_then(|v| v.lines().next()).unwrap_or_default();
            let pair = format!("{name}={first}");
            if i == 0 {
                line(title, &pair);
            } else {
                text_line(&mut line, &pair);
            }
        }
    }
    let secret = object["kind"] == "Secret";
    for (name, value) in object.as_object().into_iter().flatten() {
        if ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            continue;
        }
        text.push_str(&format!("{}:\n", title(name)));
        if secret && ["data", "stringData"].contains(&name.as_str()) {
            for (key, value) in value.as_object().into_iter().flatten() {
                // Base64: four letters are three bytes.
                let letters = value.as_str().unwrap_or_default().trim_end_matches('=').len();
                text.push_str(&format!("  {key}: {} bytes\n", letters * 3 / 4));
            }
            continue;
        }
        branch(value, 1, NAMED.contains(&name.as_str()), &mut text);
    }
    happened(events, now, &mut text);
    text
}

fn text_line(line: &mut impl FnMut(&str, &str), value: &str) {
    line("", value);
}

/// Fields with their values, one a line.
pub(super) fn fields(value: &Value) -> String {
    let mut text = String::new();
    tree(value, 0, &mut text);
    text
}

/// `podIP` as `Pod IP`.
fn title(name: &str) -> String {
    let mut text = String::new();
    let mut before = ' ';
    for (i, c) in name.chars().enumerate() {
        if i == 0 {
            text.extend(c.to_uppercase());
        } else {
            if c.is_uppercase() && before.is_lowercase() {
                text.push(' ');
            }
            text.push(c);
        }
        before = c;
    }
    text
}

/// Fields whose own fields are names that somebody gave.
const NAMED: [&str; 9] =
    ["labels", "annotations", "matchLabels", "selector", "nodeSelector", "data", "limits", "requests", "parameters"];

fn tree(value: &Value, depth: usize, text: &mut String) {
    branch(value, depth, false, text);
}

fn branch(value: &Value, depth: usize, named: bool, text: &mut String) {
    let indent = "  ".repeat(depth);
    let title = |name: &str| if named { name.to_owned() } else { title(name) };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::Object(inner) if inner.is_empty() => {
                        text.push_str(&format!("{indent}{}: {{}}\n", title(name)))
                    }
                    Value::Object(_) | Value::Array(_) => {
                        text.push_str(&format!("{indent}{}:\n", title(name)));
                        branch(value, depth + 1, NAMED.contains(&name.as_str()), text);
                    }
                    value => text.push_str(&format!("{indent}{}: {}\n", title(name), plain(value, depth + 1))),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                match item {
                    Value::Object(_) | Value::Array(_) => {
                        let mut inner = String::new();
                        tree(item, depth + 1, &mut inner);
                        // The first line of an item has the dash.
                        let rest = inner.trim_start();
                        text.push_str(&format!("{indent}- {rest}"));
                    }
                    value => text.push_str(&format!("{indent}- {}\n", plain(value, depth + 1))),
                }
            }
        }
        value => text.push_str(&format!("{indent}{}\n", plain(value, depth))),
    }
}

/// Text as it is; of several lines each in one of its own.
fn plain(value: &Value, depth: usize) -> String {
    match value {
        Value::String(text) if text.contains('\n') => {
            let indent = "  ".repeat(depth);
            text.lines().fold(String::new(), |all, line| all + "\n" + &indent + line)
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn happened(events: &Value, now: Timestamp, text: &mut String) {
    let time = |event: &Value| {
        [&event["series"]["lastObservedTime"], &event["lastTimestamp"], &event["eventTime"]]
            .into_iter()
            .find_map(|at| at.as_str()?.parse::<Timestamp>().ok())
    };
    let mut all: Vec<&Value> = events["items"].as_array().into_iter().flatten().collect();
    all.sort_by_key(|event| time(event));
    let word = |value: &Value| value.as_str().unwrap_or_default().lines().next().unwrap_or_default().to_owned();
    let row = |event: &&Value| {
        let seen = time(event).map_or_else(|| "-".to_owned(), |at| age(at, now));
        [word(&event["type"]), word(&event["reason"]), seen, word(&event["message"])]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    text.push_str("Events:");
    if rows.is_empty() {
        text.push_str(" none\n");
        return;
    }
    text.push('\n');
    for line in table(["TYPE", "REASON", "AGE", "MESSAGE"], &rows).lines() {
        text.push_str(&format!("  {line}\n"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_matters_comes_first_and_secrets_stay_secret() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().expect("time");
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default",
            "creationTimestamp": "2026-01-02T03:00:00Z", "labels": {"a": "1", "b": "2"},
            "ownerReferences": [{"kind": "Deployment", "name": "web"}]}, "data": {"password": "aHVudGVyMg=="}, "type": "Opaque"});
        let events = json!({"items": [{"type": "Normal", "reason": "Seen", "message": "m", "lastTimestamp": "2026-01-02T03:04:00Z"}]});
        let text = object(&secret, &events, now);
        assert!(
            text.starts_with(
                "Name:          s\nNamespace:     default\nKind:          Secret (v1)\nCreated:       4m5s ago"
            ),
            "{text}"
        );
        assert!(
            text.contains("Controlled By: Deployment/web\n") || text.contains("Controlled By: Deployment/web\n"),
            "{text}"
        );
        assert!(text.contains("Data:\n  password: 7 bytes\n") && !text.contains("aHVud"), "{text}");
        assert!(text.contains("Normal   Seen"), "{text}");
    }

    #[test]
    fn fields_are_words_and_lists_have_dashes() {
        let pod = json!({"podIP": "10.0.0.1", "containers": [{"name": "a", "image": "i"}, {"name": "b"}], "list": [1, 2], "none": {}});
        assert_eq!(
            fields(&pod),
            "Containers:\n  - Image: i\n    Name: a\n  - Name: b\nList:\n  - 1\n  - 2\nNone: {}\nPod IP: 10.0.0.1\n"
        );
        assert_eq!(fields(&json!({"labels": {"my-app": "x"}})), "Labels:\n  my-app: x\n");
    }
}
