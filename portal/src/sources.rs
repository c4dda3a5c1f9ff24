//! Templates from Git repositories: which repositories, what their branches and tags have, and a look at them on a schedule or by command.
//! What is good is published as a version of its own, with its commit; what is not changes nothing and says why.

mod read;
mod references;
mod schedule;

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;
use vctl_api::{
    names::EnvironmentName,
    rest::{AddTemplateSource, SourceReference, SourceSync, SourceTemplate, TemplateSource},
};
use vctl_store::{Expect, StoreError};

use crate::{
    documents::{Document, audit, put, remove},
    environments::{CONFLICT_TRIES, Caller, Environments},
    error::{Error, nearest},
    git::{self, Git, GitError, Remote, Repository},
    probes::trust,
    sources::references::{is_good, tag_fits, wanted},
    templates::{
        registry::{self, Origin},
        source::Files,
    },
};

/// Most templates that a source may take over.
const TAKE_OVER_LIMIT: usize = 100;

/// A source as it is kept. Its password is in [`SourceSecretDoc`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SourceDoc {
    source: TemplateSource,
}

/// The password of a source; sealed as everything is, when the server has a key.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SourceSecretDoc {
    name: String,
    password: String,
}

impl Document for SourceDoc {
    const RESOURCE: &'static str = "templatesources.vctl.dev";
    fn name(&self) -> &str {
        &self.source.name
    }
}

impl Document for SourceSecretDoc {
    const RESOURCE: &'static str = "templatesourcesecrets.vctl.dev";
    fn name(&self) -> &str {
        &self.name
    }
}

/// What is looked at, by whom and when.
#[derive(Clone, Copy)]
struct Place<'a> {
    caller: Caller<'a>,
    source: &'a TemplateSource,
    /// A branch or a tag.
    reference: &'a str,
    commit: &'a str,
    /// In which its templates are published.
    channel: &'a str,
    now: Timestamp,
}

/// The sources. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Sources {
    environments: Environments,
    git: Git,
    /// One look at a time: each may take much memory and disk.
    looking: Arc<tokio::sync::Mutex<()>>,
    /// A source is new, or another one.
    added: Arc<Notify>,
}

impl Sources {
    pub(crate) fn new(environments: Environments, git: Git) -> Self {
        Self { environments, git, looking: Arc::default(), added: Arc::default() }
    }

    /// All sources by name.
    pub(crate) async fn list(&self) -> Result<Vec<TemplateSource>, Error> {
        let (all, _) = self.environments.documents.list::<SourceDoc>().await?;
        Ok(all.into_iter().map(|stored| stored.value.source).collect())
    }

    async fn get(&self, name: &str) -> Result<(TemplateSource, u64), Error> {
        if let Some(found) = self.environments.documents.get::<SourceDoc>(name).await? {
            return Ok((found.value.source, found.revision));
        }
        let all = self.list().await?;
        let nearest = nearest(name, all.iter().map(|s| s.name.as_str()));
        Err(Error::NotFound { what: "template source", name: name.to_owned(), nearest })
    }

    /// Registers a source, or replaces one. It is not looked at.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what makes no sense.
    pub(crate) async fn add(&self, caller: Caller<'_>, request: AddTemplateSource) -> Result<TemplateSource, Error> {
        let invalid = |detail: String| Error::invalid("invalid-template-source", detail);
        let name = EnvironmentName::new(request.name.clone()).map_err(|e| invalid(e.to_string()))?.to_string();
        if !git::is_url(&request.url) {
            return Err(invalid(format!(
                "{:?} is no address of a repository: write https://HOST/PATH or file:///PATH, without user and password",
                request.url
            )));
        }
        let path = request.path.trim_matches('/').to_owned();
        if !path.is_empty() && !git::is_reference(&path) {
            return Err(invalid(format!("{path:?} is no directory in a repository")));
        }
        for (reference, channel) in request.branches.iter().chain(&request.tags) {
            if !git::is_reference(reference) {
                return Err(invalid(format!("{reference:?} is no branch, or pattern of tags")));
            }
            if !registry::is_channel(channel) {
                return Err(invalid(registry::no_channel(channel)));
            }
        }
        if request.branches.keys().any(|branch| branch.contains('*')) {
            return Err(invalid("a branch is named whole: only tags are given by patterns".to_owned()));
        }
        if request.branches.is_empty() && request.tags.is_empty() {
            return Err(invalid("neither branches nor tags are given: there would be nothing to look at".to_owned()));
        }
        if request.take_over.len() > TAKE_OVER_LIMIT {
            return Err(invalid(format!("it takes over more than {TAKE_OVER_LIMIT} templates")));
        }
        for template in &request.take_over {
            EnvironmentName::new(template.clone()).map_err(|e| invalid(e.to_string()))?;
        }
        if request.user.chars().any(|c| c.is_control() || c == ':') {
            return Err(invalid("the user has a ':' or is more than a line".to_owned()));
        }
        if !request.ca_bundle.is_empty() {
            trust::roots(&request.ca_bundle).map_err(|why| invalid(format!("bundle of authorities: {why}")))?;
        }
        let documents = &self.environments.documents;
        let now = self.environments.now();
        let before = documents.get::<SourceDoc>(&name).await?;
        let source = TemplateSource {
            url: request.url,
            path,
            branches: request.branches,
            tags: request.tags,
            every: request.every,
            take_over: request.take_over,
            user: request.user,
            has_password: request.password.is_some(),
            ca_bundle: request.ca_bundle,
            created_at: before.as_ref().map_or(now, |b| b.value.source.created_at),
            last_sync: None,
            name: name.clone(),
        };
        let detail = json!({
            "url": source.url, "path": source.path, "branches": source.branches, "tags": source.tags, "takeOver": source.take_over,
            "caBundle": trust::fingerprint(&source.ca_bundle),
        });
        let expect = before.map_or(Expect::Absent, |b| Expect::Revision(b.revision));
        let mut writes = vec![
            put(&SourceDoc { source: source.clone() }, expect)?,
            audit(now, caller.actor, "template-source.add", &name, caller.request_id, detail)?,
        ];
        match request.password {
            Some(password) => writes.push(put(&SourceSecretDoc { name, password }, Expect::Any)?),
            None if documents.get::<SourceSecretDoc>(&name).await?.is_some() => {
                writes.push(remove::<SourceSecretDoc>(&name, Expect::Any));
            }
            None => {}
        }
        documents.transact(writes).await?;
        self.added.notify_one();
        Ok(source)
    }

    /// Forgets a source. What was published of it stays.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub(crate) async fn remove(&self, caller: Caller<'_>, name: &str) -> Result<TemplateSource, Error> {
        let (source, revision) = self.get(name).await?;
        let mut writes = vec![
            remove::<SourceDoc>(name, Expect::Revision(revision)),
            audit(
                self.environments.now(),
                caller.actor,
                "template-source.remove",
                name,
                caller.request_id,
                Value::Null,
            )?,
        ];
        if source.has_password {
            writes.push(remove::<SourceSecretDoc>(name, Expect::Any));
        }
        self.environments.documents.transact(writes).await?;
        Ok(source)
    }

    /// Looks at a source and publishes what is new and good.
    ///
    /// # Errors
    /// [`Error::NotFound`]. What is wrong with the repository is part of the answer.
    pub(crate) async fn sync(&self, caller: Caller<'_>, name: &str) -> Result<TemplateSource, Error> {
        let _turn = self.looking.lock().await;
        let (source, _) = self.get(name).await?;
        let password = self.environments.documents.get::<SourceSecretDoc>(name).await?.map(|s| s.value.password);
        let at = self.environments.now();
        let sync = match self.look(caller, &source, password, at).await {
            Ok(references) => SourceSync { at, error: String::new(), references },
            Err(error) => {
                // What was known of it still stands.
                let references = source.last_sync.as_ref().map(|last| last.references.clone()).unwrap_or_default();
                SourceSync { at, error: error.to_string(), references }
            }
        };
        self.note(caller, name, &source, sync).await
    }

    async fn look(
        &self,
        caller: Caller<'_>,
        source: &TemplateSource,
        password: Option<String>,
        now: Timestamp,
    ) -> Result<Vec<SourceReference>, GitError> {
        let ca_bundle = source.ca_bundle.clone();
        let remote = Remote { url: source.url.clone(), user: source.user.clone(), password, ca_bundle };
        let repository = self.git.open(&remote).await?;
        let there = repository.references().await?;
        let wanted = wanted(source, &there);
        let before = source.last_sync.as_ref().map(|last| last.references.as_slice()).unwrap_or_default();
        // What had problems is looked at again: they may be of the server.
        let known = |name: &str, commit: &str, channel: &str| {
            before.iter().find(|b| b.name == name && b.commit == commit && b.channel == channel && is_good(b))
        };
        let fresh: Vec<String> = wanted
            .iter()
            .filter(|(name, channel)| there.get(name).is_some_and(|commit| known(name, commit, channel).is_none()))
            .map(|(name, _)| name.clone())
            .collect();
        if !fresh.is_empty() {
            repository.fetch(&fresh).await?;
        }
        let mut references = Vec::new();
        for (name, channel) in wanted {
            let Some(commit) = there.get(&name) else {
                let error = "it is not in the repository".to_owned();
                references.push(SourceReference { name, commit: String::new(), channel, templates: Vec::new(), error });
                continue;
            };
            if let Some(known) = known(&name, commit, &channel) {
                references.push(known.clone());
                continue;
            }
            let at = Place { caller, source, reference: &name, commit, channel: &channel, now };
            let (templates, error) = match self.publish(at, &repository).await {
                Ok(templates) if templates.is_empty() => {
                    (templates, "there is no template.yaml under the directory".to_owned())
                }
                Ok(templates) => (templates, String::new()),
                Err(error) => (Vec::new(), error.to_string()),
            };
            references.push(SourceReference { name, commit: commit.clone(), channel, templates, error });
        }
        Ok(references)
    }

    /// Publishes what a commit has.
    async fn publish(&self, at: Place<'_>, repository: &Repository<'_>) -> Result<Vec<SourceTemplate>, GitError> {
        let found = read::templates(repository, at.reference, &at.source.path).await?;
        let alone = found.len() == 1;
        let mut templates = Vec::new();
        for read::Found { directory, name, files } in found {
            let published = match files {
                Err(why) => Err(why),
                Ok(files) => match tag_fits(at.reference, &name, alone, &files) {
                    Ok(true) => self.publish_own(at, files).await.map(Some).map_err(|e| e.to_string()),
                    // The tag is another template's.
                    Ok(false) => Ok(None),
                    Err(why) => Err(why),
                },
            };
            match published {
                Ok(None) => {}
                Ok(version) => templates.push(SourceTemplate { directory, name, version, error: String::new() }),
                Err(error) => {
                    let error = if directory.is_empty() { error } else { format!("{directory}: {error}") };
                    templates.push(SourceTemplate { directory, name, version: None, error });
                }
            }
        }
        Ok(templates)
    }

    /// Publishes a version of a template that is the source's own, or that it may take over; the version.
    async fn publish_own(&self, at: Place<'_>, files: Files) -> Result<String, Error> {
        let Place { caller, source, commit, channel, now, .. } = at;
        let origin = Origin { source: source.name.clone(), commit: commit.to_owned() };
        let registry = &self.environments.registry;
        Ok(registry.publish_of_source(caller, files, channel, (origin, &source.take_over), now).await?.version)
    }

    /// Writes how a look went.
    async fn note(
        &self,
        caller: Caller<'_>,
        name: &str,
        looked_at: &TemplateSource,
        sync: SourceSync,
    ) -> Result<TemplateSource, Error> {
        for _ in 0..CONFLICT_TRIES {
            let (mut source, revision) = self.get(name).await?;
            let asked = |s: &TemplateSource| TemplateSource { last_sync: None, ..s.clone() };
            if asked(&source) != asked(looked_at) {
                return Err(Error::Conflict(format!(
                    "template source {name:?} was changed at the same moment: try again"
                )));
            }
            let news =
                source.last_sync.as_ref().is_none_or(|l| (&l.references, &l.error) != (&sync.references, &sync.error));
            source.last_sync = Some(sync.clone());
            let mut writes = vec![put(&SourceDoc { source: source.clone() }, Expect::Revision(revision))?];
            if news {
                let commits: BTreeMap<_, _> = sync.references.iter().map(|r| (&r.name, &r.commit)).collect();
                let detail = json!({ "commits": commits, "problems": sync.problems() });
                writes.push(audit(sync.at, caller.actor, "template-source.sync", name, caller.request_id, detail)?);
            }
            match self.environments.documents.transact(writes).await {
                Ok(_) => return Ok(source),
                Err(StoreError::Conflict { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Err(Error::Unavailable(format!("template source {name:?} is changing all the time")))
    }
}
