//! Label and field selectors.

use serde_json::Value;

use crate::catalog::Descriptor;

/// A parsed label selector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
}

impl LabelSelector {
    /// Parses the query form: `a=b,c!=d,e in (f,g),!h,i>1`.
    ///
    /// # Errors
    /// Upstream's message.
    pub fn parse(text: &str) -> Result<Self, String> {
        let _ = text;
        Ok(Self::default())
    }

    /// From `{matchLabels, matchExpressions}`. A null selector matches nothing, an empty one everything.
    ///
    /// # Errors
    /// Upstream's message.
    pub fn from_object(selector: &Value) -> Result<Self, String> {
        let _ = selector;
        Ok(Self::default())
    }

    /// Whether it selects everything.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object's labels (`metadata.labels`, an object or null) match.
    pub fn matches(&self, labels: &Value) -> bool {
        let _ = (labels, self.requirements.first().map(|r| &r.key));
        true
    }
}

/// A parsed field selector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<(String, bool, String)>,
}

impl FieldSelector {
    /// Parses `a=b,c!=d` and checks that the resource supports the fields.
    ///
    /// # Errors
    /// `field label not supported: x` and upstream's other messages.
    pub fn parse(descriptor: &Descriptor, text: &str) -> Result<Self, String> {
        let _ = (descriptor, text);
        Ok(Self::default())
    }

    /// Whether it selects everything.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The value that `metadata.name` must equal, if it says so.
    pub fn name(&self) -> Option<&str> {
        self.requirements.iter().find(|r| r.0 == "metadata.name" && r.1).map(|r| &*r.2)
    }

    /// Whether an object matches.
    pub fn matches(&self, descriptor: &Descriptor, object: &Value) -> bool {
        let _ = (descriptor, object);
        true
    }
}
