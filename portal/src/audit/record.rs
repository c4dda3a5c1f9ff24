//! What an entry says.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use vctl_store::Write;

use crate::{
    documents::{AuditDoc, EnvironmentDoc, audit_document},
    environments::Caller,
    error::Error,
};

/// What is put in the place of something secret.
const HIDDEN: &str = "(hidden)";
/// Names of fields whose values are never written.
const SECRET_NAMES: [&str; 8] =
    ["password", "secret", "token", "privatekey", "apikey", "credential", "stringdata", "csrf"];
/// Longest text that is written of a value, in bytes.
const TEXT_LIMIT: usize = 4096;

/// To what something was done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// Its name.
    name: &'a str,
    /// The project it belongs to; empty for what belongs to the platform.
    project: &'a str,
}

impl<'a> Subject<'a> {
    /// Something of the platform; its name may be empty.
    pub(crate) fn platform(name: &'a str) -> Self {
        Self { name, project: "" }
    }

    /// A project.
    pub(crate) fn project(name: &'a str) -> Self {
        Self { name, project: name }
    }

    /// Something of a project.
    pub(crate) fn of_project(name: &'a str, project: &'a str) -> Self {
        Self { name, project }
    }

    /// An environment.
    pub(crate) fn environment(environment: &'a EnvironmentDoc) -> Self {
        Self { name: environment.name.as_str(), project: &environment.project }
    }
}

/// The write that adds an entry to the audit trail.
pub(crate) fn entry(
    at: Timestamp,
    caller: Caller<'_>,
    action: &str,
    subject: Subject<'_>,
    detail: Value,
) -> Result<Write, Error> {
    entry_for("", at, caller, action, subject, detail)
}

/// The write that adds an entry about what somebody does on behalf of somebody else.
pub(crate) fn entry_for(
    on_behalf_of: &str,
    at: Timestamp,
    caller: Caller<'_>,
    action: &str,
    subject: Subject<'_>,
    detail: Value,
) -> Result<Write, Error> {
    audit_document(&AuditDoc {
        key: String::new(),
        at,
        actor: caller.actor.to_owned(),
        action: action.to_owned(),
        subject: subject.name.to_owned(),
        project: subject.project.to_owned(),
        request_id: caller.request_id.to_owned(),
        detail,
        on_behalf_of: on_behalf_of.to_owned(),
        source: super::source(),
        link: None,
    })
}

/// What has changed, as the detail of an entry: `{"changes": [{"path": "/title", "before": .., "after": ..}]}`.
pub(crate) fn changes<T: Serialize>(before: &T, after: &T) -> Result<Value, Error> {
    let read = |value: &T| serde_json::to_value(value).map_err(|e| Error::Internal(e.to_string()));
    let mut changes = Vec::new();
    compare("", Some(&read(before)?), Some(&read(after)?), &mut changes);
    Ok(json!({ "changes": changes }))
}

fn compare(path: &str, before: Option<&Value>, after: Option<&Value>, changes: &mut Vec<Value>) {
    if before == after {
        return;
    }
    if let (Some(Value::Object(before)), Some(Value::Object(after))) = (before, after) {
        let added = after.keys().filter(|name| !before.contains_key(*name));
        for name in before.keys().chain(added) {
            let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
            compare(&path, before.get(name), after.get(name), changes);
        }
        return;
    }
    let mut change = json!({ "path": path });
    let name = path.rsplit('/').next().unwrap_or_default();
    if let Some(before) = before {
        change["before"] = shown(name, before);
    }
    if let Some(after) = after {
        change["after"] = shown(name, after);
    }
    changes.push(change);
}

/// A value as the trail may hold it: nothing that has the name of a secret, and no text without end.
fn shown(name: &str, value: &Value) -> Value {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    if SECRET_NAMES.iter().any(|secret| plain.contains(secret)) {
        return HIDDEN.into();
    }
    match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), shown(name, value))).collect(),
        Value::Array(items) => items.iter().map(|item| shown(name, item)).collect(),
        Value::String(text) if text.len() > TEXT_LIMIT => {
            let end = (0..=TEXT_LIMIT).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
            format!("{}.. ({} bytes)", &text[..end], text.len()).into()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_names_what_was_and_what_is() {
        let before = json!({"title": "a", "quota": {"environments": 3}, "same": [1]});
        let after = json!({"title": "b", "quota": {}, "same": [1], "members": [{"name": "ann"}]});
        let changes = changes(&before, &after).expect("changes");
        assert_eq!(
            changes,
            json!({"changes": [
                {"path": "/quota/environments", "before": 3},
                {"path": "/title", "before": "a", "after": "b"},
                {"path": "/members", "after": [{"name": "ann"}]},
            ]})
        );
    }

    #[test]
    fn what_has_the_name_of_a_secret_is_never_written() {
        let before = json!({"adminPassword": "old-one", "nested": {"api_key": "k1", "list": [{"token": "t1"}]}});
        let after = json!({"adminPassword": "new-one", "nested": {"api_key": "k2", "list": [{"token": "t2"}]}});
        let text = changes(&before, &after).expect("changes").to_string();
        for secret in ["old-one", "new-one", "k1", "k2", "t1", "t2"] {
            assert!(!text.contains(secret), "{text}");
        }
        assert!(text.contains("adminPassword"), "that it has changed is said: {text}");
    }
}
