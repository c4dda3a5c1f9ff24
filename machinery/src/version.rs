//! Which Kubernetes a virtual cluster is: its minor version, and what came and went between the versions there are.
//!
//! There is one table of kinds and fields for all versions; whatever not all of them have says which ones do ([`Versions`]).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A minor version of Kubernetes that clusters can have: `1.36`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MinorVersion(u8);

/// A text that names no minor version that there is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a Kubernetes version that is served: take one of {all}", all = MinorVersion::list())]
pub struct UnknownVersion(String);

impl MinorVersion {
    /// The oldest one.
    pub const OLDEST: Self = Self(33);
    /// The newest one.
    pub const NEWEST: Self = Self(37);
    /// The one that clusters have unless another is asked for.
    pub const DEFAULT: Self = Self(36);

    /// All, oldest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (Self::OLDEST.0..=Self::NEWEST.0).map(Self)
    }

    /// All, for people: `1.33, 1.34, ..`.
    pub fn list() -> String {
        Self::all().map(|v| v.to_string()).collect::<Vec<_>>().join(", ")
    }

    /// The number after `1.`.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// As `/version` says it: `v1.36.0`.
    pub fn git_version(self) -> String {
        format!("v1.{}.0", self.0)
    }

    /// Its place among all, from 0.
    pub(crate) const fn index(self) -> usize {
        (self.0 - Self::OLDEST.0) as usize
    }
}

impl Default for MinorVersion {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for MinorVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

impl FromStr for MinorVersion {
    type Err = UnknownVersion;

    /// `1.36`, also with a leading `v` and a patch version, which makes no difference to the API.
    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        let unknown = || UnknownVersion(text.to_owned());
        let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
        let (major, minor, patch) = (parts.next(), parts.next(), parts.next());
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if major != Some("1") || parts.next().is_some() || !patch.is_none_or(is_number) {
            return Err(unknown());
        }
        let minor: u8 = minor.filter(|m| is_number(m)).and_then(|m| m.parse().ok()).ok_or_else(unknown)?;
        Self::all().find(|v| v.0 == minor).ok_or_else(unknown)
    }
}

impl TryFrom<String> for MinorVersion {
    type Error = UnknownVersion;

    fn try_from(text: String) -> Result<Self, UnknownVersion> {
        text.parse()
    }
}

impl From<MinorVersion> for String {
    fn from(version: MinorVersion) -> Self {
        version.to_string()
    }
}

/// The minor versions, in a row, that have something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    since: u8,
    until: u8,
}

impl Versions {
    /// Every version has it.
    pub const ALL: Self = Self { since: 0, until: u8::MAX };

    /// Whether a version has it.
    pub const fn contain(self, version: MinorVersion) -> bool {
        self.since <= version.0 && version.0 <= self.until
    }

    /// Reads `34-` (since), `-35` (until and with) or `34-35`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (since, until) = text.split_once('-')?;
        let number = |text: &str, none: u8| if text.is_empty() { Some(none) } else { text.parse().ok() };
        Some(Self { since: number(since, 0)?, until: number(until, u8::MAX)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_written() {
        for text in ["1.34", "v1.34", "1.34.7", "v1.34.0"] {
            assert_eq!(text.parse::<MinorVersion>().unwrap().git_version(), "v1.34.0", "{text}");
        }
        for text in ["", "1", "2.34", "1.32", "1.38", "1.34.", "1.34.x", "1.34.0.1", "1.+34", "latest"] {
            let refused = text.parse::<MinorVersion>().unwrap_err().to_string();
            assert!(refused.ends_with("take one of 1.33, 1.34, 1.35, 1.36, 1.37"), "{refused}");
        }
        assert_eq!(serde_json::to_value(MinorVersion::DEFAULT).unwrap(), "1.36");
        assert!(serde_json::from_value::<MinorVersion>("1.1".into()).is_err());
    }

    #[test]
    fn ranges_of_versions() {
        let versions = |text: &str| -> Vec<u8> {
            let range = Versions::parse(text).unwrap();
            MinorVersion::all().filter(|v| range.contain(*v)).map(MinorVersion::number).collect()
        };
        assert_eq!(versions("36-"), [36, 37]);
        assert_eq!(versions("-34"), [33, 34]);
        assert_eq!(versions("35-35"), [35]);
        assert_eq!(versions("-"), [33, 34, 35, 36, 37]);
        assert_eq!(Versions::parse("x-"), None);
    }
}
