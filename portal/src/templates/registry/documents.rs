//! Versions as they are kept, and as people see them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vctl_api::rest::TemplateVersion;

use super::{STABLE, yank::Yanked};
use crate::{
    documents::{Document, Stored},
    templates::{Template, source::Files},
};

/// The files of a version, by their digest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TemplateFilesDoc {
    pub(crate) digest: String,
    pub(crate) template: String,
    pub(crate) files: Files,
}

/// A published version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TemplateVersionDoc {
    /// `NAME@VERSION`.
    pub(super) key: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) digest: String,
    pub(super) title: String,
    pub(super) channels: Vec<String>,
    pub(super) published_at: Timestamp,
    pub(super) published_by: String,
    /// The Git repository that it came from, and its commit there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<Origin>,
    /// It is not offered any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) yanked: Option<Yanked>,
}

/// Where a version came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// Name of the template source.
    pub(crate) source: String,
    /// Commit in its repository.
    pub(crate) commit: String,
}

impl Document for TemplateFilesDoc {
    const RESOURCE: &'static str = "templatefiles.vctl.dev";
    fn name(&self) -> &str {
        &self.digest
    }
}

impl Document for TemplateVersionDoc {
    const RESOURCE: &'static str = "templateversions.vctl.dev";
    #[expect(clippy::misnamed_getters, reason = "a version's document is named by template and version")]
    fn name(&self) -> &str {
        &self.key
    }
}

/// What people see of a published version.
pub(super) fn view(stored: Stored<TemplateVersionDoc>) -> TemplateVersion {
    let TemplateVersionDoc {
        name, version, digest, title, channels, published_at, published_by, origin, yanked, ..
    } = stored.value;
    let origin = origin.map(|o| format!("{}@{}", o.source, o.commit)).unwrap_or_default();
    TemplateVersion {
        name,
        version,
        digest,
        title,
        channels,
        published_at: Some(published_at),
        published_by,
        origin,
        yanked: yanked.is_some(),
        yank_reason: yanked.as_ref().map(|y| y.reason.clone()).unwrap_or_default(),
        yanked_at: yanked.as_ref().map(|y| y.at),
        yanked_by: yanked.map(|y| y.by).unwrap_or_default(),
        revision: stored.revision,
    }
}

/// What is part of the server, or of its templates directory.
pub(super) fn of_server(template: &Template) -> TemplateVersion {
    TemplateVersion {
        name: template.manifest.name.clone(),
        version: template.manifest.version.clone(),
        digest: template.digest.clone(),
        title: template.manifest.title.clone(),
        channels: vec![STABLE.to_owned()],
        published_at: None,
        published_by: String::new(),
        origin: String::new(),
        yanked: false,
        yank_reason: String::new(),
        yanked_at: None,
        yanked_by: String::new(),
        revision: 0,
    }
}
