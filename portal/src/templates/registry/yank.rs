//! Versions that are offered no more. A version is never deleted: environments are pinned to it, and another one of its number would be
//! taken for it. It is yanked, as cargo and crates.io call it: nothing new is made from it, no channel means it, and nobody publishes it
//! again; what was made from it goes on, and it can be taken back.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use vctl_api::rest::{ChangeTemplateVersion, TemplateVersion};
use vctl_store::Revision;

use super::{Registry, STABLE, TemplateVersionDoc, not_found, of_server, view};
use crate::{
    access::expected,
    documents::{Stored, audit, put},
    environments::Caller,
    error::{Error, nearest},
    templates::Template,
};

/// Most characters of a reason.
const REASON_LIMIT: usize = 500;

/// Who has yanked a version, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Yanked {
    pub(super) at: Timestamp,
    pub(super) by: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) reason: String,
}

impl TemplateVersionDoc {
    /// Whether a channel may mean it.
    pub(super) fn is_in(&self, channel: &str) -> bool {
        self.yanked.is_none() && self.channels.iter().any(|c| c == channel)
    }

    /// What happened to it: `version 1.0.0 of template "app" was yanked by ann at ..: REASON`.
    fn yanked_text(&self) -> String {
        let said = self.yanked.as_ref().map(|Yanked { at, by, reason }| {
            let colon = if reason.is_empty() { "" } else { ": " };
            format!(" by {by} at {at:.0}{colon}{reason}")
        });
        format!("version {} of template {:?} was yanked{}", self.version, self.name, said.unwrap_or_default())
    }

    /// Nothing new is made from it.
    pub(super) fn not_offered(&self) -> Error {
        Error::invalid(
            "yanked-version",
            format!(
                "{}; nothing new is made from it: take another version (`vctl template list {}`)",
                self.yanked_text(),
                self.name
            ),
        )
    }

    /// Nobody publishes it again.
    pub(super) fn not_published(&self) -> Error {
        Error::Conflict(format!(
            "{}, and is not published again: give it another version, or take that back (`vctl template yank {} {} --undo`)",
            self.yanked_text(),
            self.name,
            self.version
        ))
    }
}

impl Registry {
    /// One version of a template, also one that was yanked.
    ///
    /// # Errors
    /// [`Error::NotFound`] with the versions that there are.
    pub(crate) async fn version(&self, name: &str, version: &str) -> Result<TemplateVersion, Error> {
        match self.stored_version(name, version).await {
            Ok(stored) => Ok(view(stored)),
            Err(absent) => match self.catalog.get(name) {
                Ok(template) if template.manifest.version == version => Ok(of_server(&template)),
                _ => Err(absent),
            },
        }
    }

    /// Yanks a published version, or takes that back. Says nothing new when it is so already.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Conflict`] for a version that the server has itself; [`Error::Invalid`] for a reason that makes no
    /// sense; [`Error::Changed`].
    pub(crate) async fn change_version(
        &self,
        caller: Caller<'_>,
        (name, version): (&str, &str),
        request: ChangeTemplateVersion,
        if_revision: Option<Revision>,
        now: Timestamp,
    ) -> Result<TemplateVersion, Error> {
        let ChangeTemplateVersion { yanked, yank_reason: reason } = request;
        if reason.chars().count() > REASON_LIMIT || reason.chars().any(char::is_control) {
            return Err(Error::invalid(
                "invalid-reason",
                format!("a reason has at most {REASON_LIMIT} characters, and is one line"),
            ));
        }
        if !yanked && !reason.is_empty() {
            return Err(Error::invalid("invalid-reason", "a version that is offered again has no `yankReason`"));
        }
        // What the server has itself is offered whatever is published: yanking would be believed and would not count.
        if self.catalog.get(name).is_ok_and(|template| template.manifest.version == version) {
            return Err(Error::Conflict(format!(
                "version {version} of template {name:?} is part of the server, or of its `--templates` directory, and cannot be yanked: \
                 publish a newer version, or leave it out of `allowedTemplates` of projects"
            )));
        }
        let stored = self.stored_version(name, version).await?;
        let expect = expected(stored.revision, if_revision)?;
        let mut doc = stored.value.clone();
        let before = doc.yanked.as_ref().map(|y| y.reason.clone());
        if before == yanked.then(|| reason.clone()) {
            return Ok(view(stored));
        }
        let detail =
            json!({ "version": doc.version, "digest": doc.digest, "reason": if yanked { &reason } else { "" } });
        let action = if yanked { "template.yank" } else { "template.unyank" };
        doc.yanked = yanked.then(|| Yanked { at: now, by: caller.actor.to_owned(), reason: reason.clone() });
        let writes = vec![put(&doc, expect)?, audit(now, caller.actor, action, name, caller.request_id, detail)?];
        let revisions = self.documents.transact(writes).await?;
        let revision = revisions.first().copied().unwrap_or_default();
        Ok(view(Stored { value: doc, revision, created: stored.created }))
    }

    /// Why there is no template of this name to make something from.
    pub(super) async fn no_template(&self, name: &str, all: impl Iterator<Item = String>) -> Result<Error, Error> {
        let versions = self.published_of(name).await?;
        let was = versions.iter().rev().map(|(_, stored)| &stored.value);
        let mut yanked = was.filter(|doc| doc.yanked.is_some() && doc.channels.iter().any(|c| c == STABLE));
        Ok(yanked.next().map_or_else(|| not_found(name, all), TemplateVersionDoc::not_offered))
    }

    /// That something may be made from this content, of a version that was found earlier.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it was yanked in between.
    pub(crate) async fn check_offered(&self, template: &Template) -> Result<(), Error> {
        let name = format!("{}@{}", template.manifest.name, template.manifest.version);
        match self.documents.get::<TemplateVersionDoc>(&name).await? {
            Some(stored) if stored.value.yanked.is_some() && stored.value.digest == template.digest => {
                Err(stored.value.not_offered())
            }
            _ => Ok(()),
        }
    }

    async fn stored_version(&self, name: &str, version: &str) -> Result<Stored<TemplateVersionDoc>, Error> {
        if let Some(stored) = self.documents.get::<TemplateVersionDoc>(&format!("{name}@{version}")).await? {
            return Ok(stored);
        }
        let versions = self.versions(name).await?;
        let nearest = nearest(version, versions.iter().map(|v| v.version.as_str()));
        Err(Error::NotFound { what: "version of the template", name: version.to_owned(), nearest })
    }
}
