//! Versions of templates: those that are published, and the content that environments are pinned to. A version is for ever the same;
//! what an environment was made from is kept as it was, wherever it came from. One that was yanked ([`yank`]) is not offered any more.

mod documents;
mod yank;

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use semver::Version;
use serde_json::json;
use vctl_api::{
    names::EnvironmentName,
    rest::{PublishTemplate, TemplateVersion},
};
use vctl_store::{Expect, StoreError, Write};

pub(crate) use self::documents::Origin;
use self::documents::{TemplateFilesDoc, TemplateVersionDoc, of_server, view};
use super::{
    Template, TemplateError,
    catalog::{self, Catalog},
    source::{self, Files},
};
use crate::{
    documents::{Documents, Stored, audit, put},
    environments::Caller,
    error::{Error, nearest},
};

/// The channel that is meant when none is said.
const STABLE: &str = "stable";
/// Most channels of a version.
const CHANNELS_LIMIT: usize = 16;

/// All templates: published ones, and those of the catalog. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Registry {
    pub(crate) catalog: Catalog,
    documents: Documents,
    /// Those who publish go one after the other: whose a template is, is asked before a version of it is written. One process owns the store.
    publishing: Arc<tokio::sync::Mutex<()>>,
}

impl Registry {
    pub(crate) fn new(catalog: Catalog, documents: Documents) -> Self {
        Self { catalog, documents, publishing: Arc::default() }
    }

    /// The newest stable version of every template, or what is wrong with it.
    pub(crate) async fn all(&self) -> Result<BTreeMap<String, Result<Template, TemplateError>>, Error> {
        let mut all = self.catalog.all()?;
        let mut newest: BTreeMap<String, (Version, String)> = BTreeMap::new();
        for (Stored { value: doc, .. }, version) in self.published().await? {
            if doc.is_in(STABLE) && newest.get(&doc.name).is_none_or(|(known, _)| *known < version) {
                newest.insert(doc.name, (version, doc.digest));
            }
        }
        for (name, (version, digest)) in newest {
            let older = all.get(&name).is_none_or(|known| known.as_ref().map_or(true, |t| t.version() <= version));
            if older && let Some(template) = self.pinned(&digest).await? {
                all.insert(name, Ok(template));
            }
        }
        Ok(all)
    }

    /// The newest stable version of every template, by name.
    pub(crate) async fn newest(&self) -> Result<BTreeMap<String, String>, Error> {
        let all = self.all().await?;
        Ok(all.into_iter().filter_map(|(name, t)| Some((name, t.ok()?.manifest.version))).collect())
    }

    /// What a reference means for something new: `NAME`, `NAME@VERSION` or `NAME@CHANNEL`.
    ///
    /// # Errors
    /// [`Error::NotFound`] with near names; [`Error::Invalid`] with file, line and column when it is broken, or for a version that was
    /// yanked.
    pub(crate) async fn find(&self, reference: &str) -> Result<Template, Error> {
        self.look_up(reference, false).await
    }

    /// The same to look at: a version that is named may have been yanked.
    ///
    /// # Errors
    /// As [`Registry::find`].
    pub(crate) async fn show(&self, reference: &str) -> Result<Template, Error> {
        self.look_up(reference, true).await
    }

    async fn look_up(&self, reference: &str, with_yanked: bool) -> Result<Template, Error> {
        let (name, which) = reference.split_once('@').unwrap_or((reference, STABLE));
        let mut all = self.all().await?;
        let current = all.remove(name);
        if which == STABLE || which.is_empty() {
            return match current {
                Some(template) => Ok(template?),
                None => Err(self.no_template(name, all.into_keys()).await?),
            };
        }
        if let Some(Ok(template)) = &current
            && template.manifest.version == which
        {
            return Ok(template.clone());
        }
        if let Ok(Some(template)) = self.catalog.get(name).map(|t| (t.manifest.version == which).then_some(t)) {
            return Ok(template);
        }
        let versions = self.published_of(name).await?;
        let found =
            versions.iter().rev().find(|(_, stored)| stored.value.version == which || stored.value.is_in(which));
        let template = match found.map(|(_, stored)| &stored.value) {
            Some(doc) if doc.yanked.is_some() && !with_yanked => return Err(doc.not_offered()),
            Some(doc) => self.pinned(&doc.digest).await?,
            None => None,
        };
        template.ok_or_else(|| match current {
            None if versions.is_empty() => not_found(name, all.into_keys()),
            _ => {
                let offered = versions.iter().map(|(_, stored)| &stored.value).filter(|doc| doc.yanked.is_none());
                let known: Vec<String> = offered.flat_map(|d| d.channels.iter().chain([&d.version])).cloned().collect();
                let known = known.into_iter().chain(current.and_then(Result::ok).map(|t| t.manifest.version));
                let all: std::collections::BTreeSet<String> = known.collect();
                Error::NotFound {
                    what: "version or channel of the template",
                    name: which.to_owned(),
                    nearest: all.into_iter().take(10).collect(),
                }
            }
        })
    }

    /// What an environment is pinned to.
    pub(crate) async fn pinned(&self, digest: &str) -> Result<Option<Template>, Error> {
        let Some(stored) = self.documents.get::<TemplateFilesDoc>(digest).await? else { return Ok(None) };
        Ok(Some(catalog::read(&stored.value.template, stored.value.files)?))
    }

    /// The write that keeps the content of a template, unless it is kept already.
    pub(crate) async fn pin(&self, template: &Template) -> Result<Option<Write>, Error> {
        if self.documents.get::<TemplateFilesDoc>(&template.digest).await?.is_some() {
            return Ok(None);
        }
        let name = template.manifest.name.clone();
        let doc = TemplateFilesDoc { digest: template.digest.clone(), template: name, files: template.source() };
        // The same content whoever writes it.
        Ok(Some(put(&doc, Expect::Any)?))
    }

    /// The versions of a template, newest first.
    ///
    /// # Errors
    /// [`Error::NotFound`] with near names.
    pub(crate) async fn versions(&self, name: &str) -> Result<Vec<TemplateVersion>, Error> {
        let mut versions: Vec<(Version, TemplateVersion)> = Vec::new();
        for (version, stored) in self.published_of(name).await? {
            versions.push((version, view(stored)));
        }
        let catalog = self.catalog.all()?;
        if let Some(Ok(template)) = catalog.get(name)
            && !versions.iter().any(|(_, known)| known.digest == template.digest && !known.yanked)
        {
            versions.push((template.version(), of_server(template)));
        }
        if versions.is_empty() {
            return Err(not_found(name, self.all().await?.into_keys()));
        }
        versions.sort_by(|a, b| b.0.cmp(&a.0));
        Ok(versions.into_iter().map(|(_, version)| version).collect())
    }

    /// Publishes a version.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a template that cannot be used; [`Error::AlreadyExists`] when the version has other files.
    pub(crate) async fn publish(
        &self,
        caller: Caller<'_>,
        request: PublishTemplate,
        now: Timestamp,
    ) -> Result<TemplateVersion, Error> {
        let channel = request.channel.unwrap_or_else(|| STABLE.to_owned());
        let _turn = self.publishing.lock().await;
        self.publish_from(caller, request.files.into_iter().collect(), &channel, None, now).await
    }

    /// The same of files that came from a template source, of a template that is its own or that it may take over: else whoever can write to
    /// one repository would decide what everybody's environments are made of.
    ///
    /// # Errors
    /// As [`Registry::publish`]; [`Error::Conflict`] for a template that somebody else has.
    pub(crate) async fn publish_of_source(
        &self,
        caller: Caller<'_>,
        files: Files,
        channel: &str,
        (origin, take_over): (Origin, &[String]),
        now: Timestamp,
    ) -> Result<TemplateVersion, Error> {
        let _turn = self.publishing.lock().await;
        let name = catalog::name_of(&files);
        if !take_over.contains(&name)
            && let Some(holder) = self.other_holder(&name, &origin.source).await?
        {
            return Err(Error::Conflict(format!(
                "{holder}: give it another name, or have an administrator let the source take {name:?} over \
                 (`vctl template source add {} .. --take-over {name}`)",
                origin.source
            )));
        }
        self.publish_from(caller, files, channel, Some(origin), now).await
    }

    /// The same of files that came from somewhere, for who has the turn.
    ///
    /// # Errors
    /// As [`Registry::publish`].
    async fn publish_from(
        &self,
        caller: Caller<'_>,
        files: Files,
        channel: &str,
        origin: Option<Origin>,
        now: Timestamp,
    ) -> Result<TemplateVersion, Error> {
        let channel = channel.to_owned();
        if !is_channel(&channel) {
            return Err(Error::invalid("invalid-channel", no_channel(&channel)));
        }
        let name = catalog::name_of(&files);
        source::check(&name, &files)?;
        let template = catalog::read(&name, files)?;
        EnvironmentName::new(name.clone())
            .map_err(|e| Error::invalid("broken-template", format!("template.yaml says `name`: {e}")))?;
        let key = format!("{name}@{}", template.manifest.version);
        let stored = self.documents.get::<TemplateVersionDoc>(&key).await?;
        let (doc, expect) = match stored {
            Some(stored) if stored.value.digest != template.digest => {
                return Err(Error::AlreadyExists(format!(
                    "version {} of template {name:?} is published with other files, and stays as it is: give these another version",
                    template.manifest.version
                )));
            }
            // Whoever has yanked it is not overruled by a directory or repository that still has it.
            Some(stored) if stored.value.yanked.is_some() => return Err(stored.value.not_published()),
            Some(stored) if stored.value.channels.contains(&channel) => return Ok(view(stored)),
            Some(stored) => {
                let mut doc = stored.value;
                if doc.channels.len() >= CHANNELS_LIMIT {
                    return Err(Error::invalid(
                        "invalid-channel",
                        format!("it is in {CHANNELS_LIMIT} channels already"),
                    ));
                }
                doc.channels.push(channel.clone());
                (doc, Expect::Revision(stored.revision))
            }
            None => {
                let doc = TemplateVersionDoc {
                    key,
                    name: name.clone(),
                    version: template.manifest.version.clone(),
                    digest: template.digest.clone(),
                    title: template.manifest.title.clone(),
                    channels: vec![channel.clone()],
                    published_at: now,
                    published_by: caller.actor.to_owned(),
                    origin,
                    yanked: None,
                };
                (doc, Expect::Absent)
            }
        };
        let detail = json!({ "version": doc.version, "digest": doc.digest, "channel": channel, "origin": doc.origin });
        let mut writes =
            vec![put(&doc, expect)?, audit(now, caller.actor, "template.publish", &name, caller.request_id, detail)?];
        writes.extend(self.pin(&template).await?);
        match self.documents.transact(writes).await {
            Ok(revisions) => {
                let revision = revisions.first().copied().unwrap_or_default();
                Ok(view(Stored { value: doc, revision, created: revision }))
            }
            Err(StoreError::Conflict { .. }) => {
                Err(Error::Conflict(format!("template {name:?} is being published at the same moment: try again")))
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Who has a template of this name besides a template source, for people: who publishes a newer version of it decides what everybody
    /// gets.
    async fn other_holder(&self, name: &str, source: &str) -> Result<Option<String>, Error> {
        if self.catalog.all()?.contains_key(name) {
            return Ok(Some("the server has a template of that name itself".to_owned()));
        }
        let published = self.published_of(name).await?;
        let mut others = published.iter().map(|(_, stored)| &stored.value);
        Ok(others.find_map(|doc| match &doc.origin {
            None => Some(format!("{} has published it", doc.published_by)),
            Some(origin) if origin.source != source => {
                Some(format!("template source {:?} has published it", origin.source))
            }
            Some(_) => None,
        }))
    }

    async fn published(&self) -> Result<Vec<(Stored<TemplateVersionDoc>, Version)>, Error> {
        let (all, _) = self.documents.list::<TemplateVersionDoc>().await?;
        let versioned = |stored: Stored<TemplateVersionDoc>| {
            // They were checked when they were published.
            let version = Version::parse(&stored.value.version).ok()?;
            Some((stored, version))
        };
        Ok(all.into_iter().filter_map(versioned).collect())
    }

    /// Those of one template, also yanked ones, oldest first.
    async fn published_of(&self, name: &str) -> Result<Vec<(Version, Stored<TemplateVersionDoc>)>, Error> {
        let all = self.published().await?.into_iter().filter(|(stored, _)| stored.value.name == name);
        let mut versions: Vec<_> = all.map(|(stored, version)| (version, stored)).collect();
        versions.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(versions)
    }
}

/// What to write instead.
pub(crate) fn no_channel(name: &str) -> String {
    format!("{name:?} is no channel: use 1 to 32 lower-case letters, digits and '-', beginning with a letter")
}

pub(crate) fn is_channel(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= 32 && name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(inner)
}

fn not_found(name: &str, all: impl Iterator<Item = String>) -> Error {
    let all: Vec<String> = all.collect();
    let mut near = nearest(name, all.iter().map(String::as_str));
    if near.is_empty() && all.len() <= 5 {
        near = all;
    }
    Error::NotFound { what: "template", name: name.to_owned(), nearest: near }
}

impl Template {
    /// Its version; a template that was read has one.
    pub(crate) fn version(&self) -> Version {
        Version::parse(&self.manifest.version).unwrap_or_else(|_| Version::new(0, 0, 0))
    }

    /// All its files, as they were read.
    pub(crate) fn source(&self) -> Files {
        let manifest = ("template.yaml".to_owned(), self.text.to_string());
        let mut files: Files = self.files.iter().cloned().chain([manifest]).collect();
        files.sort();
        files
    }
}
