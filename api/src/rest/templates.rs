//! Versions of templates, and changes of environments that they lead to.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
