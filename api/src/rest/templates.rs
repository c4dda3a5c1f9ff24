//! Versions of templates, and changes of environments that they lead to.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Environment, Period, access::ONE_LINE};
use crate::names::PATTERN;

/// The name of a channel, for JSON Schema.
const CHANNEL: &str = "^[a-z][-a-z0-9]{0,31}$";

/// One version of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateVersion {
    /// The template.
    pub name: String,
    /// Its version (semver).
    pub version: String,
    /// SHA-256 of its files, in hex: what an environment is pinned to.
    pub digest: String,
    /// One line for lists.
    pub title: String,
    /// Channels that it is in. `NAME@CHANNEL` means the newest version of the channel; `NAME` alone means `stable`.
    pub channels: Vec<String>,
    /// When it was published; none for what is part of the server or of its templates directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_at: Option<Timestamp>,
    /// Who published it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub published_by: String,
    /// The Git repository that it came from, and its commit there: `SOURCE@COMMIT`; empty when it came otherwise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub origin: String,
    /// It is not offered any more: nothing new is made from it, and no channel means it. What was made from it goes on.
    #[serde(default)]
    pub yanked: bool,
    /// Why it was yanked, for people; empty when nobody said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub yank_reason: String,
    /// When it was yanked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yanked_at: Option<Timestamp>,
    /// Who yanked it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub yanked_by: String,
    /// Revision for conditional requests (`ETag`); 0 for what is part of the server or of its templates directory.
    #[serde(default)]
    pub revision: u64,
}

/// Body of `PATCH /api/v1/templates/NAME/versions/VERSION`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("examples" = [{"yanked": true, "yankReason": "its database is not backed up"}]))]
pub struct ChangeTemplateVersion {
    /// Whether it is offered no more.
    pub yanked: bool,
    /// Why, for people; not when it is taken back.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 500), regex(pattern = ONE_LINE))]
    pub yank_reason: String,
}

/// Body of `POST /api/v1/templates`: publishes a version, which stays as it is for ever. Publishing the same files again only
/// adds the channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PublishTemplate {
    /// Its files by their path inside the template: `template.yaml`, `manifests/web.yaml`.
    pub files: BTreeMap<String, String>,
    /// The channel it goes to; `stable` unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = CHANNEL))]
    pub channel: Option<String>,
}

/// Body of `POST /api/v1/environments/NAME/update`, and of `/update/preview`, which only tells what would change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("examples" = [{"to": "stable"}]))]
pub struct UpdateEnvironment {
    /// Version or channel of the template to go to; the present version when nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Parameters to set; those that were given before stay, others follow the template's defaults. Null takes one back.
    #[serde(default)]
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Goes back to what was before the last update; with nothing else.
    #[serde(default)]
    pub rollback: bool,
    /// Why it is wanted, as for a new environment.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// What an update would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdatePreview {
    /// Version that it has.
    pub from: String,
    /// Version that it would have.
    pub to: String,
    /// Objects that would come, change or go, in the order in which that would happen.
    pub changes: Vec<ObjectChange>,
}

/// What a create would make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatePreview {
    /// The environment as it would be.
    pub environment: Environment,
    /// Objects that its template would make, in this order. Those that it makes by the names of others (charts) are among them.
    pub changes: Vec<ObjectChange>,
}

/// What becomes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// It comes.
    Create,
    /// It changes.
    Update,
    /// It goes.
    Delete,
}

/// A change of one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectChange {
    /// What becomes of it.
    pub change: ChangeKind,
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty when the template does not say.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Unified diff of its YAML, without secrets.
    pub diff: String,
}

/// A Git repository that templates come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateSource {
    /// Unique name.
    pub name: String,
    /// Where it is: `https://..`, or `file:///..` on the machine of the server.
    pub url: String,
    /// Directory inside it under which templates are looked for; empty for all of it.
    #[serde(default)]
    pub path: String,
    /// Channels by the branches whose templates go there.
    #[serde(default)]
    pub branches: BTreeMap<String, String>,
    /// Channels by the patterns of tags (with `*`) whose templates go there.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// How often it is looked at; only by command when nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Period>,
    /// Templates that it may publish versions of although the server has them itself, or somebody else has published some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub take_over: Vec<String>,
    /// User name for a repository that asks for one.
    #[serde(default)]
    pub user: String,
    /// Whether a password or token is kept for it. It is never shown.
    pub has_password: bool,
    /// Certificates of authorities (PEM) that may vouch for its server; empty: those that the machine of the platform trusts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ca_bundle: String,
    /// When it was registered.
    pub created_at: Timestamp,
    /// How the last look at it went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync: Option<SourceSync>,
}

/// Body of `POST /api/v1/template-sources`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddTemplateSource {
    /// Unique name: a DNS-1123 label.
    #[schemars(regex(pattern = PATTERN))]
    pub name: String,
    /// Where it is: `https://HOST/PATH`, or `file:///PATH` on the machine of the server; without user and password.
    #[schemars(length(max = 2000), regex(pattern = "^(https://[^\\s\"/?#@]+(/[^\\s\"?]*)?|file:///[^\\s\"?]*)$"))]
    pub url: String,
    /// Directory inside it.
    #[serde(default)]
    pub path: String,
    /// Channels by branches.
    #[serde(default)]
    pub branches: BTreeMap<String, String>,
    /// Channels by patterns of tags.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// How often it is looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Period>,
    /// Templates that it may publish versions of although the server has them itself, or somebody else has published some. Others it
    /// publishes only under names that nobody else has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(regex(pattern = PATTERN)))]
    pub take_over: Vec<String>,
    /// User name.
    #[serde(default)]
    #[schemars(regex(pattern = "^[^:\\x00-\\x1f\\x7f-\\x9f]*$"))]
    pub user: String,
    /// Password or token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Certificates of authorities (PEM, nothing else in it) that may vouch for its server; empty: those that the machine of the platform
    /// trusts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 65536))]
    pub ca_bundle: String,
}

/// A look at a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceSync {
    /// When.
    pub at: Timestamp,
    /// Why it could not be looked at; empty when it could.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// What its branches and tags have.
    #[serde(default)]
    pub references: Vec<SourceReference>,
}

/// A branch or tag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceReference {
    /// `refs/heads/main`, `refs/tags/v1.0.0`.
    pub name: String,
    /// Its commit.
    pub commit: String,
    /// The channel that its templates go to.
    pub channel: String,
    /// Its templates.
    pub templates: Vec<SourceTemplate>,
    /// Why it has none; empty when it has.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// A template of a branch or tag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceTemplate {
    /// Its directory in the repository; empty for the repository itself.
    pub directory: String,
    /// Its name, as far as it says one.
    pub name: String,
    /// The version that is published of it; none when it is not good: the last good one stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Why it is not published; empty when it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

impl SourceSync {
    /// What went wrong, each with its place.
    pub fn problems(&self) -> Vec<String> {
        let mut all = Vec::new();
        if !self.error.is_empty() {
            all.push(self.error.clone());
        }
        for reference in &self.references {
            if !reference.error.is_empty() {
                all.push(format!("{}: {}", reference.name, reference.error));
            }
            for template in reference.templates.iter().filter(|t| !t.error.is_empty()) {
                all.push(format!("{}: {}", reference.name, template.error));
            }
        }
        all
    }
}
