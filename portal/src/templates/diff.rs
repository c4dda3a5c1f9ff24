//! What differs between two renderings, as people read it.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::Value;
use vctl_api::rest::{ChangeKind, ObjectChange};

/// Lines around a change.
const CONTEXT: usize = 3;
/// Texts of more lines are shown as replaced.
const LINES_LIMIT: usize = 2000;
/// In place of a secret.
const HIDDEN: &str = "(hidden)";
/// In place of another one than before.
const CHANGED: &str = "(hidden, changed)";
/// In place of a difference that is nowhere shown.
const ONLY_SECRETS: &str = "(only passwords change)\n";

/// An object's place: apiVersion without the version, kind, namespace, name.
pub(crate) type Place = (String, String, String, String);

/// Where a document goes; one without a namespace to `default`, as far as its kind has any.
pub(crate) fn place(document: &Value) -> Place {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let group = text("/apiVersion");
    let group = group.split_once('/').map_or(String::new(), |(group, _)| group.to_owned());
    (group, text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

/// The changes from one rendering to another, in the order of the new one, what goes last. `secrets` are nowhere shown.
pub(crate) fn changes(before: &[Value], after: &[Value], secrets: &[String]) -> Vec<ObjectChange> {
    let old: BTreeMap<Place, &Value> = before.iter().map(|d| (place(d), d)).collect();
    let new: BTreeMap<Place, &Value> = after.iter().map(|d| (place(d), d)).collect();
    let one = |place: Place, change: ChangeKind, from: Option<&Value>, to: Option<&Value>| {
        let (_, kind, namespace, name) = place;
        let diff = unified(&shown(from, None, secrets), &shown(to, from, secrets));
        let diff = if diff.is_empty() { ONLY_SECRETS.to_owned() } else { diff };
        ObjectChange { diff, change, kind, namespace, name }
    };
    let mut changes = Vec::new();
    for document in after {
        let place = place(document);
        match old.get(&place) {
            None => changes.push(one(place, ChangeKind::Create, None, Some(document))),
            Some(before) if *before != document => {
                changes.push(one(place, ChangeKind::Update, Some(before), Some(document)));
            }
            Some(_) => {}
        }
    }
    for document in before {
        let place = place(document);
        if !new.contains_key(&place) {
            changes.push(one(place, ChangeKind::Delete, Some(document), None));
        }
    }
    changes
}

/// A document as YAML without secrets. A value of a Secret that was another one `before` is shown as changed.
fn shown(document: Option<&Value>, before: Option<&Value>, secrets: &[String]) -> String {
    let Some(document) = document else { return String::new() };
    let mut document = document.clone();
    if document["kind"] == "Secret" {
        for field in ["data", "stringData"] {
            for (key, value) in document.get_mut(field).and_then(Value::as_object_mut).into_iter().flatten() {
                let same = before.is_none_or(|before| before[field][key] == *value);
                *value = if same { HIDDEN } else { CHANGED }.into();
            }
        }
    }
    hide(&mut document, secrets);
    serde_yaml::to_string(&document).unwrap_or_else(|e| format!("cannot be shown: {e}\n"))
}

/// Replaces secrets wherever they are in a text.
fn hide(value: &mut Value, secrets: &[String]) {
    match value {
        Value::String(text) => {
            for secret in secrets.iter().filter(|s| !s.is_empty() && text.contains(*s)).collect::<Vec<_>>() {
                *text = text.replace(secret.as_str(), HIDDEN);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|v| hide(v, secrets)),
        Value::Object(fields) => fields.values_mut().for_each(|v| hide(v, secrets)),
        _ => {}
    }
}

/// A unified diff without a head; empty for equal texts.
pub(crate) fn unified(before: &str, after: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let edits = edits(&a, &b);
    let mut text = String::new();
    let mut at = 0;
    while let Some(first) = (at..edits.len()).find(|i| edits[*i].0 != ' ') {
        let start = first.saturating_sub(CONTEXT).max(at);
        let mut end = first;
        // Changes that are near each other are one hunk.
        while let Some(next) = (end + 1..edits.len().min(end + 2 * CONTEXT + 2)).find(|i| edits[*i].0 != ' ') {
            end = next;
        }
        let stop = (end + CONTEXT + 1).min(edits.len());
        let count =
            |from: usize, to: usize, side: char| edits[from..to].iter().filter(|e| e.0 == ' ' || e.0 == side).count();
        let range = |side: char| {
            let lines = count(start, stop, side);
            let line = count(0, start, side) + usize::from(lines > 0);
            format!("{line},{lines}")
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "@@ -{} +{} @@", range('-'), range('+'));
        for (sign, line) in &edits[start..stop] {
            let _ = writeln!(text, "{sign}{line}");
        }
        at = stop;
    }
    text
}

/// What becomes of each line: kept, taken away, added.
fn edits<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<(char, &'a str)> {
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let tail = a[head..].iter().rev().zip(b[head..].iter().rev()).take_while(|(x, y)| x == y).count();
    let (middle_a, middle_b) = (&a[head..a.len() - tail], &b[head..b.len() - tail]);
    let mut edits: Vec<(char, &str)> = a[..head].iter().map(|line| (' ', *line)).collect();
    if middle_a.len() > LINES_LIMIT || middle_b.len() > LINES_LIMIT {
        edits.extend(middle_a.iter().map(|line| ('-', *line)));
        edits.extend(middle_b.iter().map(|line| ('+', *line)));
    } else {
        // The longest common subsequence, by lengths of what follows.
        let width = middle_b.len() + 1;
        let mut longest = vec![0_u16; (middle_a.len() + 1) * width];
        for i in (0..middle_a.len()).rev() {
            for j in (0..middle_b.len()).rev() {
                longest[i * width + j] = if middle_a[i] == middle_b[j] {
                    longest[(i + 1) * width + j + 1] + 1
                } else {
                    longest[(i + 1) * width + j].max(longest[i * width + j + 1])
                };
            }
        }
        let (mut i, mut j) = (0, 0);
        while i < middle_a.len() || j < middle_b.len() {
            if i < middle_a.len() && j < middle_b.len() && middle_a[i] == middle_b[j] {
                edits.push((' ', middle_a[i]));
                (i, j) = (i + 1, j + 1);
            } else if i < middle_a.len()
                && (j == middle_b.len() || longest[(i + 1) * width + j] >= longest[i * width + j + 1])
            {
                edits.push(('-', middle_a[i]));
                i += 1;
            } else {
                edits.push(('+', middle_b[j]));
                j += 1;
            }
        }
    }
    edits.extend(a[a.len() - tail..].iter().map(|line| (' ', *line)));
    edits
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_shown_with_what_is_around_them() {
        assert_eq!(unified("a\nb\n", "a\nb\n"), "");
        assert_eq!(unified("", "a\n"), "@@ -0,0 +1,1 @@\n+a\n");
        assert_eq!(
            unified("1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\nx\n6\n7\n8\n"),
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n"
        );
        let far = (1..30).map(|i| i.to_string()).collect::<Vec<_>>().join("\n") + "\n";
        let changed = far.replace("\n3\n", "\nx\n").replace("\n25\n", "\n");
        let diff = unified(&far, &changed);
        assert_eq!(diff.matches("@@ -").count(), 2, "{diff}");
        assert!(diff.contains("\n-3\n+x\n") && diff.contains("\n-25\n"), "{diff}");
    }

    #[test]
    fn objects_come_change_and_go_and_secrets_are_not_shown() {
        let map = |name: &str, data: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": data}});
        let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": value}});
        let before = [map("same", "1"), map("changes", "1"), map("goes", "1"), secret("hunter2")];
        let after = [map("same", "1"), map("changes", "url?hunter3"), map("comes", "1"), secret("hunter3")];
        let changes = changes(&before, &after, &["hunter2".into(), "hunter3".into()]);
        let seen: Vec<_> = changes.iter().map(|c| (c.change, c.name.as_str())).collect();
        assert_eq!(
            seen,
            [
                (ChangeKind::Update, "changes"),
                (ChangeKind::Create, "comes"),
                (ChangeKind::Update, "s"),
                (ChangeKind::Delete, "goes")
            ]
        );
        let all: String = changes.iter().map(|c| c.diff.as_str()).collect();
        assert!(!all.contains("hunter"), "{all}");
        assert!(changes[0].diff.contains("+  a: url?(hidden)"), "{all}");
        assert!(changes[2].diff.contains("changed"), "{all}");
    }
}
