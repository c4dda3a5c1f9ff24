//! Versions of templates: those that are published, and the content that environments are pinned to. A version is for ever the same;
//! what an environment was made from is kept as it was, wherever it came from.

use std::collections::BTreeMap;

use jiff::Timestamp;
use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::json;
use vctl_api::{
    names::EnvironmentName,
    rest::{PublishTemplate, TemplateVersion},
};
use vctl_store::{Expect, StoreError, Write};

use super::{
    Template, TemplateError,
    catalog::{self, Catalog},
    source::{self, Files},
};
use crate::{
    documents::{Document, Documents, audit, put},
    environments::Caller,
    error::{Error, nearest},
};

/// The channel that is meant when none is said.
const STABLE: &str = "stable";
/// Most channels of a version.
const CHANNELS_LIMIT: usize = 16;

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
    key: String,
    name: String,
    version: String,
    digest: String,
    title: String,
    channels: Vec<String>,
    published_at: Timestamp,
    published_by: String,
    /// The Git repository that it came from, and its commit there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
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

/// All templates: published ones, and those of the catalog. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Registry {
    pub(crate) catalog: Catalog,
    documents: Documents,
}

impl Registry {
    pub(crate) fn new(catalog: Catalog, documents: Documents) -> Self {
        Self { catalog, documents }
    }

    /// The newest stable version of every template, or what is wrong with it.
    pub(crate) async fn all(&self) -> Result<BTreeMap<String, Result<Template, TemplateError>>, Error> {
        let mut all = self.catalog.all()?;
        let mut newest: BTreeMap<String, (Version, String)> = BTreeMap::new();
        for (stored, version) in self.published().await? {
            if stored.channels.iter().any(|c| c == STABLE)
                && newest.get(&stored.name).is_none_or(|(known, _)| *known < version)
            {
                newest.insert(stored.name, (version, stored.digest));
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

    /// What a reference means: `NAME`, `NAME@VERSION` or `NAME@CHANNEL`.
    ///
    /// # Errors
    /// [`Error::NotFound`] with near names; [`Error::Invalid`] with file, line and column when it is broken.
    pub(crate) async fn find(&self, reference: &str) -> Result<Template, Error> {
        let (name, which) = reference.split_once('@').unwrap_or((reference, STABLE));
        let mut all = self.all().await?;
        let current = all.remove(name);
        if which == STABLE || which.is_empty() {
            return match current {
                Some(template) => Ok(template?),
                None => Err(not_found(name, all.into_keys())),
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
        let of_name = |(doc, version): (TemplateVersionDoc, Version)| (doc.name == name).then_some((version, doc));
        let mut versions: Vec<(Version, TemplateVersionDoc)> =
            self.published().await?.into_iter().filter_map(of_name).collect();
        versions.sort_by(|a, b| a.0.cmp(&b.0));
        let found =
            versions.iter().rev().find(|(_, doc)| doc.version == which || doc.channels.iter().any(|c| c == which));
        let template = match found {
            Some((_, doc)) => self.pinned(&doc.digest).await?,
            None => None,
        };
        template.ok_or_else(|| match current {
            None if versions.is_empty() => not_found(name, all.into_keys()),
            _ => {
                let known: Vec<String> =
                    versions.iter().flat_map(|(_, d)| d.channels.iter().chain([&d.version])).cloned().collect();
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
        for (doc, version) in self.published().await?.into_iter().filter(|(doc, _)| doc.name == name) {
            versions.push((version, view(doc)));
        }
        let catalog = self.catalog.all()?;
        if let Some(Ok(template)) = catalog.get(name)
            && !versions.iter().any(|(_, known)| known.digest == template.digest)
        {
            let one = TemplateVersion {
                name: name.to_owned(),
                version: template.manifest.version.clone(),
                digest: template.digest.clone(),
                title: template.manifest.title.clone(),
                channels: vec![STABLE.to_owned()],
                published_at: None,
                published_by: String::new(),
                origin: String::new(),
            };
            versions.push((template.version(), one));
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
        self.publish_from(caller, request.files.into_iter().collect(), &channel, None, now).await
    }

    /// The same of files that came from somewhere.
    ///
    /// # Errors
    /// As [`Registry::publish`].
    pub(crate) async fn publish_from(
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
            Some(stored) if stored.value.channels.contains(&channel) => return Ok(view(stored.value)),
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
                };
                (doc, Expect::Absent)
            }
        };
        let detail = json!({ "version": doc.version, "digest": doc.digest, "channel": channel, "origin": doc.origin });
        let mut writes =
            vec![put(&doc, expect)?, audit(now, caller.actor, "template.publish", &name, caller.request_id, detail)?];
        writes.extend(self.pin(&template).await?);
        match self.documents.transact(writes).await {
            Ok(_) => Ok(view(doc)),
            Err(StoreError::Conflict { .. }) => {
                Err(Error::Conflict(format!("template {name:?} is being published at the same moment: try again")))
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Who has a template of this name besides a template source, for people: who publishes a newer version of it decides what everybody
    /// gets.
    pub(crate) async fn other_holder(&self, name: &str, source: &str) -> Result<Option<String>, Error> {
        if self.catalog.all()?.contains_key(name) {
            return Ok(Some("the server has a template of that name itself".to_owned()));
        }
        let published = self.published().await?;
        let mut others = published.iter().map(|(doc, _)| doc).filter(|doc| doc.name == name);
        Ok(others.find_map(|doc| match &doc.origin {
            None => Some(format!("{} has published it", doc.published_by)),
            Some(origin) if origin.source != source => {
                Some(format!("template source {:?} has published it", origin.source))
            }
            Some(_) => None,
        }))
    }

    async fn published(&self) -> Result<Vec<(TemplateVersionDoc, Version)>, Error> {
        let (all, _) = self.documents.list::<TemplateVersionDoc>().await?;
        // They were checked when they were published.
        Ok(all.into_iter().filter_map(|d| Some((d.value.clone(), Version::parse(&d.value.version).ok()?))).collect())
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

fn view(doc: TemplateVersionDoc) -> TemplateVersion {
    let TemplateVersionDoc { name, version, digest, title, channels, published_at, published_by, origin, .. } = doc;
    let origin = origin.map(|o| format!("{}@{}", o.source, o.commit)).unwrap_or_default();
    TemplateVersion { name, version, digest, title, channels, published_at: Some(published_at), published_by, origin }
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
