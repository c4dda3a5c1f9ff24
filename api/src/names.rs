//! Names that people choose.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of an environment and of its virtual cluster: a DNS-1123 label of at most 50 characters,
/// so that host names derived from it stay within 63.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = PATTERN, "examples" = ["my-env"]))]
pub struct EnvironmentName(String);

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is not a valid name: use at most {max} lower-case letters, digits and '-', starting and ending \
     with a letter or digit (a DNS-1123 label), for example {suggestion:?}"
)]
pub struct InvalidName {
    /// What was given.
    pub name: String,
    /// The longest that is allowed, in characters.
    pub max: usize,
    /// A valid name near the one that was given.
    pub suggestion: String,
}

const MAX: usize = 50;

/// What a name matches, for JSON Schema.
pub const PATTERN: &str = "^[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?$";

impl EnvironmentName {
    /// Checks and wraps a name.
    ///
    /// # Errors
    /// [`InvalidName`] with a suggestion when it is not a DNS-1123 label of 1 to 50 characters.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidName> {
        let name = name.into();
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.len() <= MAX && edge(name.chars().next()) && edge(name.chars().last()) && name.chars().all(inner) {
            return Ok(Self(name));
        }
        let suggestion = suggest(&name);
        Err(InvalidName { name, max: MAX, suggestion })
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The nearest valid name: lower case, other characters as `-`, cut at the limit.
fn suggest(name: &str) -> String {
    let mapped: String = name
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' })
        .take(MAX)
        .collect();
    let trimmed = mapped.trim_matches('-');
    if trimmed.is_empty() { "my-env".to_owned() } else { trimmed.to_owned() }
}

impl TryFrom<String> for EnvironmentName {
    type Error = InvalidName;
    fn try_from(name: String) -> Result<Self, InvalidName> {
        Self::new(name)
    }
}

impl From<EnvironmentName> for String {
    fn from(name: EnvironmentName) -> Self {
        name.0
    }
}

impl std::fmt::Display for EnvironmentName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for EnvironmentName {
    type Err = InvalidName;
    fn from_str(name: &str) -> Result<Self, InvalidName> {
        Self::new(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_dns_1123_labels() {
        for name in ["a", "my-env", "0a", "a--b", &"x".repeat(50)] {
            assert_eq!(EnvironmentName::new(name).map(String::from).as_deref(), Ok(name));
        }
    }

    #[test]
    fn refuses_others_and_suggests_a_valid_name() {
        for (name, suggestion) in
            [("My_Env", "my-env"), ("-a-", "a"), ("", "my-env"), ("a.b", "a-b"), (&"y".repeat(51), &"y".repeat(50))]
        {
            let refused = EnvironmentName::new(name).expect_err(name);
            assert_eq!(refused.suggestion, suggestion);
            assert!(EnvironmentName::new(&*refused.suggestion).is_ok());
        }
    }
}
