//! The policy: the first rule that a request matches says its level. Source of rules: `k8s.io/apiserver` `pkg/apis/audit/v1`,
//! `pkg/apis/audit/validation`, `pkg/audit/policy`.

use serde::Deserialize;
use serde_json::Value;

use crate::{authentication::platform::PLATFORM_USER, request::RequestInfo, user::MASTERS};

/// How much is recorded of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) enum Level {
    /// Nothing.
    None,
    /// Who, what, when, and with what result.
    Metadata,
    /// Also what was sent.
    Request,
    /// Also what was answered.
    RequestResponse,
}

impl Level {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// Where a request is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum Stage {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
    Panic,
}

impl Stage {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

/// What is recorded of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) level: Level,
    omitted: Vec<Stage>,
    pub(crate) omit_managed_fields: bool,
}

impl Decision {
    pub(crate) fn omits(&self, stage: Stage) -> bool {
        self.omitted.contains(&stage)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    api_version: String,
    kind: String,
    /// A policy may have a name, which means nothing.
    #[serde(default, rename = "metadata")]
    _metadata: Option<Value>,
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default)]
    omit_managed_fields: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    level: Level,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<GroupResources>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default)]
    omit_managed_fields: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GroupResources {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

/// A policy that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPolicy {
    rules: Vec<Rule>,
    omit_stages: Vec<Stage>,
    omit_managed_fields: bool,
}

/// Why a document is no policy; for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidAuditPolicy(String);

impl AuditPolicy {
    /// What counts where nobody says anything: sessions in pods, and what people change, at Metadata. Nothing of what only reads or asks, nor of
    /// what programs do (service accounts, nodes, and whoever has the cluster's own certificate of an administrator, which names nobody): it may be
    /// thousands of requests in a second. `docs/audit.md` shows it as a document.
    pub fn shipped() -> Self {
        let list = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        let of = |group: &str, resources: &[&str]| GroupResources {
            group: group.to_owned(),
            resources: list(resources),
            resource_names: Vec::new(),
        };
        let sessions = ["pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy", "nodes/proxy"];
        let asking = vec![
            of("", &["events"]),
            of("events.k8s.io", &["events"]),
            of("coordination.k8s.io", &["leases"]),
            of("authorization.k8s.io", &[]),
            of("authentication.k8s.io", &[]),
        ];
        Self {
            rules: vec![
                Rule { resources: vec![of("", &sessions)], ..Rule::of(Level::Metadata) },
                Rule { verbs: list(&["get", "head", "list", "watch", "options"]), ..Rule::of(Level::None) },
                Rule { resources: asking, ..Rule::of(Level::None) },
                Rule { user_groups: list(&[PLATFORM_USER]), ..Rule::of(Level::Metadata) },
                Rule {
                    user_groups: list(&[MASTERS, "system:serviceaccounts", "system:nodes"]),
                    ..Rule::of(Level::None)
                },
                Rule::of(Level::Metadata),
            ],
            omit_stages: vec![Stage::RequestReceived, Stage::ResponseStarted],
            omit_managed_fields: false,
        }
    }

    /// Reads a Policy of `audit.k8s.io/v1`.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn new(document: &Value) -> Result<Self, InvalidAuditPolicy> {
        let read = Document::deserialize(document)
            .map_err(|e| InvalidAuditPolicy(format!("this is no Policy of audit.k8s.io/v1: {e}")))?;
        let mut wrong = Vec::new();
        if (&*read.api_version, &*read.kind) != ("audit.k8s.io/v1", "Policy") {
            wrong.push(format!(
                "apiVersion and kind are {:?} and {:?}: they must be audit.k8s.io/v1 and Policy",
                read.api_version, read.kind
            ));
        }
        if read.rules.is_empty() {
            wrong.push("rules: there must be at least one (a last `- level: None` records nothing else)".to_owned());
        }
        for (i, rule) in read.rules.iter().enumerate() {
            rule.check(&format!("rules[{i}]"), &mut wrong);
        }
        if wrong.is_empty() {
            let Document { rules, omit_stages, omit_managed_fields, .. } = read;
            return Ok(Self { rules, omit_stages, omit_managed_fields });
        }
        Err(InvalidAuditPolicy(wrong.join("; ")))
    }

    /// What is recorded of a request of a user. What holds secrets is never recorded above Metadata.
    pub(crate) fn decide(&self, info: &RequestInfo, user: &str, groups: &[String]) -> Decision {
        let Some(rule) = self.rules.iter().find(|rule| rule.matches(info, user, groups)) else {
            let omit_managed_fields = self.omit_managed_fields;
            return Decision { level: Level::None, omitted: self.omit_stages.clone(), omit_managed_fields };
        };
        if rule.level == Level::None {
            return Decision { level: Level::None, omitted: Vec::new(), omit_managed_fields: false };
        }
        let mut omitted = self.omit_stages.clone();
        omitted.extend(&rule.omit_stages);
        Decision {
            level: if holds_secrets(info) { rule.level.min(Level::Metadata) } else { rule.level },
            omitted,
            omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
        }
    }
}

/// Whether what is sent or answered has secrets in it, or may have: Secrets and ConfigMaps, and tokens of service accounts and others.
pub(crate) fn holds_secrets(info: &RequestInfo) -> bool {
    info.is_resource
        && match (&*info.group, &*info.resource, &*info.subresource) {
            ("", "secrets" | "configmaps", _) | ("", "serviceaccounts", "token") => true,
            ("authentication.k8s.io", resource, _) => resource == "tokenreviews",
            _ => false,
        }
}

impl Rule {
    /// About everything.
    fn of(level: Level) -> Self {
        Self {
            level,
            users: Vec::new(),
            user_groups: Vec::new(),
            verbs: Vec::new(),
            resources: Vec::new(),
            namespaces: Vec::new(),
            non_resource_urls: Vec::new(),
            omit_stages: Vec::new(),
            omit_managed_fields: None,
        }
    }

    fn check(&self, at: &str, wrong: &mut Vec<String>) {
        let resources = !(self.resources.is_empty() && self.namespaces.is_empty());
        if resources && !self.non_resource_urls.is_empty() {
            wrong.push(format!("{at}.nonResourceURLs: a rule cannot be about resources and other URLs at once"));
        }
        for (i, url) in self.non_resource_urls.iter().enumerate().filter(|(_, url)| *url != "*") {
            if !url.starts_with('/') {
                wrong.push(format!("{at}.nonResourceURLs[{i}]: {url:?} must begin with /"));
            }
            if url.trim_end_matches('*').contains('*') || url.ends_with("**") {
                wrong.push(format!("{at}.nonResourceURLs[{i}]: {url:?} may have * at its end only"));
            }
        }
        for (i, of) in self.resources.iter().enumerate() {
            let label = |part: &str| {
                !part.is_empty()
                    && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
                    && !part.starts_with('-')
                    && !part.ends_with('-')
            };
            let is_group = of.group.is_empty() || (of.group.len() <= 253 && of.group.split('.').all(label));
            if !is_group {
                wrong.push(format!("{at}.resources[{i}].group: {:?} is no API group (without its version)", of.group));
            }
            if of.resources.is_empty() && !of.resource_names.is_empty() {
                wrong.push(format!("{at}.resources[{i}].resourceNames: names need resources"));
            }
        }
    }

    fn matches(&self, info: &RequestInfo, user: &str, groups: &[String]) -> bool {
        let any = |wanted: &[String], text: &str| wanted.iter().any(|w| w == text);
        if !(self.users.is_empty() || any(&self.users, user)) {
            return false;
        }
        if !(self.user_groups.is_empty() || groups.iter().any(|group| any(&self.user_groups, group))) {
            return false;
        }
        if !(self.verbs.is_empty() || any(&self.verbs, &info.verb)) {
            return false;
        }
        if !(self.namespaces.is_empty() && self.resources.is_empty()) {
            return info.is_resource
                && (self.namespaces.is_empty() || any(&self.namespaces, &info.namespace))
                && (self.resources.is_empty() || self.resources.iter().any(|of| of.matches(info)));
        }
        self.non_resource_urls.is_empty()
            || (!info.is_resource && self.non_resource_urls.iter().any(|url| is_path(url, &info.path)))
    }
}

fn is_path(wanted: &str, path: &str) -> bool {
    wanted == "*" || wanted == path || wanted.strip_suffix('*').is_some_and(|beginning| path.starts_with(beginning))
}

impl GroupResources {
    fn matches(&self, info: &RequestInfo) -> bool {
        let named = self.resource_names.is_empty() || self.resource_names.contains(&info.name);
        let is = |wanted: &String| match wanted.split_once('/') {
            None => wanted == "*" || (info.subresource.is_empty() && *wanted == info.resource),
            Some((resource, "*")) => resource == info.resource,
            Some((resource, subresource)) => {
                !info.subresource.is_empty()
                    && subresource == info.subresource
                    && (resource == "*" || resource == info.resource)
            }
        };
        self.group == info.group && (self.resources.is_empty() || (named && self.resources.iter().any(is)))
    }
}

#[cfg(test)]
mod tests;
