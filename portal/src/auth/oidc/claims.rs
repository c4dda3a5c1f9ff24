//! What the tokens of a provider say of a person.

use serde_json::Value;

use super::config::ClaimNames;
use crate::auth::ADMIN;

/// Longest text of a claim that is taken, in bytes.
const MAX_TEXT: usize = 256;
/// Most groups that are taken.
const MAX_GROUPS: usize = 1000;

/// A person as their provider describes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) subject: String,
    /// Verified.
    pub(crate) email: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) name: Option<String>,
    /// None when nothing was said.
    pub(crate) groups: Option<Vec<String>>,
    /// The provider's session.
    pub(crate) sid: Option<String>,
}

impl Person {
    /// Reads verified claims. None when they have no subject that can be an id.
    pub(crate) fn read(claims: &Value, names: &ClaimNames) -> Option<Self> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str).filter(|t| plain(t)).map(str::to_owned);
        let unverified = matches!(&claims["email_verified"], Value::Bool(false))
            || claims["email_verified"].as_str().is_some_and(|v| v != "true");
        let groups = match claims.get(&names.groups) {
            Some(Value::Array(all)) => {
                let all = all.iter().filter_map(Value::as_str).filter(|g| plain(g));
                Some(all.take(MAX_GROUPS).map(str::to_owned).collect())
            }
            Some(Value::String(one)) if plain(one) => Some(vec![one.clone()]),
            _ => None,
        };
        Some(Self {
            subject: text("sub")?,
            email: text(&names.email).filter(|e| !unverified && is_address(e)),
            username: text(&names.username).filter(|n| n != ADMIN && !n.starts_with("system:")),
            name: text("name"),
            groups,
            sid: text("sid"),
        })
    }

    /// As the audit trail says it.
    pub(crate) fn actor(&self, id: &str) -> String {
        self.email.clone().or_else(|| self.username.clone()).unwrap_or_else(|| id.to_owned())
    }
}

/// Can be shown and kept: not empty, not endless, no control characters.
fn plain(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_TEXT && !text.chars().any(char::is_control)
}

/// Enough of an address that it is taken for nothing else, such as a user of Kubernetes (`system:admin`).
fn is_address(text: &str) -> bool {
    text.contains('@') && !text.contains(char::is_whitespace) && !text.starts_with("system:")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_are_taken_as_they_are_named_and_only_when_they_are_plain() {
        let names = ClaimNames { groups: "roles".into(), ..ClaimNames::default() };
        let read = |claims: Value| Person::read(&claims, &names);
        let all = read(
            json!({"sub": "1", "email": "a@x", "preferred_username": "a", "roles": ["r", 5, "", "s"], "sid": "z"}),
        );
        let all = all.expect("a person");
        assert_eq!(
            (all.email.as_deref(), all.groups, all.sid.as_deref()),
            (Some("a@x"), Some(vec!["r".into(), "s".into()]), Some("z"))
        );
        assert_eq!(read(json!({"sub": ""})), None);
        assert_eq!(read(json!({"sub": "a\nb"})), None);
        assert_eq!(read(json!({"sub": 5})), None);
        for claims in [
            json!({"sub": "1", "email": "a@x", "email_verified": false}),
            json!({"sub": "1", "email": "a@x", "email_verified": "false"}),
            json!({"sub": "1", "email": "system:masters@x"}),
            json!({"sub": "1", "email": "cluster-admin", "preferred_username": "local-admin"}),
            json!({"sub": "1", "preferred_username": "system:admin"}),
        ] {
            let person = read(claims.clone()).expect("a person");
            assert_eq!(person.actor("corp:1"), "corp:1", "{claims}");
        }
        assert_eq!(read(json!({"sub": "1", "roles": "one"})).and_then(|p| p.groups), Some(vec!["one".to_owned()]));
        assert_eq!(read(json!({"sub": "1"})).and_then(|p| p.groups), None);
    }
}
