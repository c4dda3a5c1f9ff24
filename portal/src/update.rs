//! Another version of the template, or other parameters, for an environment: the difference shown beforehand, a job that applies it and
//! removes what is gone, and the way back.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vctl_api::rest::{Job, Operation, Phase, UpdateEnvironment, UpdatePreview};
use vctl_store::{Expect, Write};

use crate::{
    access::{documents::ProjectDoc, limits},
    documents::{EnvironmentDoc, SecretsDoc, Stored, put},
    environments::{Besides, Caller, Environments},
    error::Error,
    jobs::{
        create::all_parameters,
        enqueue::{Plan, Planned},
    },
    size,
    sleep::busy,
    templates::{Template, diff, parameters},
};

/// What an environment is made of, so that it can be made so again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Made {
    pub(crate) template_version: String,
    pub(crate) template_digest: Option<String>,
    pub(crate) parameters: BTreeMap<String, Value>,
    pub(crate) given: Option<BTreeSet<String>>,
}

impl Made {
    fn of(doc: &EnvironmentDoc) -> Self {
        Self {
            template_version: doc.template_version.clone(),
            template_digest: doc.template_digest.clone(),
            parameters: doc.parameters.clone(),
            given: doc.given.clone(),
        }
    }
}

/// An update that has been checked.
pub(crate) struct Prepared {
    pub(crate) of: Stored<EnvironmentDoc>,
    pub(crate) made: Made,
    /// What it is made of now.
    previous: Made,
    pub(crate) before: Vec<Value>,
    pub(crate) after: Vec<Value>,
    /// The content it would be made of.
    pub(crate) template: Template,
    /// All secrets, old and new.
    hidden: Vec<String>,
    writes: Vec<Write>,
    /// Helm has something to do.
    charts: bool,
}

impl Environments {
    /// What an update would change.
    ///
    /// # Errors
    /// As [`Environments::prepare_update`] and [`Environments::commit_update`], but also while something works on the environment.
    pub(crate) async fn preview_update(&self, name: &str, request: &UpdateEnvironment) -> Result<UpdatePreview, Error> {
        let prepared = self.prepare_update(name, request, None).await?;
        Ok(UpdatePreview {
            from: prepared.of.value.template_version.clone(),
            to: prepared.made.template_version,
            changes: diff::changes(&prepared.before, &prepared.after, &prepared.hidden),
        })
    }

    /// Asks for an update that was checked; a job, of the id that is given, does it. `besides` is written with it.
    ///
    /// # Errors
    /// [`Error::Conflict`] unless the environment is awake and nothing works on it; [`Error::Raced`] when it is not as it was when the update
    /// was checked.
    pub(crate) async fn commit_update(
        &self,
        caller: Caller<'_>,
        prepared: &Prepared,
        request: &UpdateEnvironment,
        job_id: &str,
        besides: &Besides,
    ) -> Result<Job, Error> {
        let name = prepared.of.value.name.as_str();
        self.enqueue(caller, name, |stored, job| {
            if stored.revision != prepared.of.revision {
                return Err(Error::Raced);
            }
            let doc = &stored.value;
            match (doc.phase, job) {
                (Phase::Ready | Phase::Failed, None) => {}
                (Phase::Sleeping, _) => {
                    return Err(Error::Conflict(format!("environment {name:?} sleeps: `vctl wake {name}` first")));
                }
                _ => return Err(busy(name)),
            }
            if doc.ready_at.is_none() {
                return Err(Error::Conflict(format!(
                    "environment {name:?} was never ready: delete it with `vctl delete {name}` and create it again"
                )));
            }
            let mut environment = doc.clone();
            let Made { template_version, template_digest, parameters, given } = prepared.made.clone();
            environment.previous = Some(Box::new(prepared.previous.clone()));
            environment.template_version = template_version;
            environment.template_digest = template_digest;
            environment.parameters = parameters;
            environment.given = given;
            environment.size = Some(size::of(&prepared.after));
            environment.phase = Phase::Updating;
            environment.message.clear();
            let action = if request.rollback { "environment.rollback" } else { "environment.update" };
            let mut detail = json!({
                "from": doc.template_version, "to": environment.template_version,
                // Names only: a password may be among them.
                "parameters": request.parameters.keys().collect::<Vec<_>>(),
            });
            for (name, value) in &besides.detail {
                detail[*name] = value.clone();
            }
            let mut plan = Plan::new(environment, Operation::Update, action, detail);
            plan.more.clone_from(&prepared.writes);
            plan.charts = prepared.charts;
            plan.more.extend_from_slice(&besides.writes);
            plan.job_id = Some(job_id.to_owned());
            Ok(Planned::New(Box::new(plan)))
        })
        .await
    }

    /// Checks an update. `pinned`: the content to bring it to, when it is not what the request's version means now.
    ///
    /// # Errors
    /// [`Error::NotFound`], also of a version; [`Error::Invalid`] for a parameter, a template that does not render, or something that the
    /// project does not allow.
    pub(crate) async fn prepare_update(
        &self,
        name: &str,
        request: &UpdateEnvironment,
        pinned: Option<Template>,
    ) -> Result<Prepared, Error> {
        let of = self.stored(name).await?;
        let doc = &of.value;
        let stored_secrets = self.documents.get::<SecretsDoc>(name).await?;
        let old_secrets = stored_secrets.as_ref().map(|s| s.value.parameters.clone()).unwrap_or_default();
        let present = self.template_of(doc).await?;
        let (template, made, secrets) = if request.rollback {
            if request.to.is_some() || !request.parameters.is_empty() {
                return Err(Error::invalid("invalid-update", "a rollback goes to what was before: say nothing else"));
            }
            let Some(previous) = doc.previous.as_deref() else {
                return Err(Error::Conflict(format!("environment {name:?} was never updated: there is no way back")));
            };
            let template = match &previous.template_digest {
                Some(digest) => self.registry.pinned(digest).await?,
                None => None,
            };
            let template = template.ok_or_else(|| {
                Error::Conflict(format!(
                    "version {} of template {:?} was not kept: there is no way back",
                    previous.template_version, doc.template
                ))
            })?;
            let secrets = stored_secrets.as_ref().and_then(|s| s.value.previous.clone());
            (template, previous.clone(), secrets.unwrap_or_else(|| old_secrets.clone()))
        } else {
            let template = match (pinned, &request.to) {
                (Some(pinned), _) => {
                    // What it is made of already stays.
                    if present.as_ref().is_none_or(|present| present.digest != pinned.digest) {
                        self.registry.check_offered(&pinned).await?;
                    }
                    pinned
                }
                (None, Some(to)) => self.registry.find(&format!("{}@{to}", doc.template)).await?,
                (None, None) => present.clone().ok_or_else(|| self.unknown_content(doc))?,
            };
            let (made, secrets) = merge(doc, &old_secrets, &template, &request.parameters)?;
            (template, made, secrets)
        };
        let project = self.documents.get::<ProjectDoc>(&doc.project).await?.map(|p| p.value);
        let place = (doc.project.as_str(), project.as_ref());
        self.check_bound(&template, doc, place).await?;
        self.check_references(&template, &made.parameters, &doc.parameters, place).await?;
        let parameters = all_parameters(&made.parameters, &secrets);
        let mut after = self.documents_of(&template, doc, &parameters).await?;
        after.extend(self.charted(&template, doc, &parameters).await?);
        let charts = self.has_charts(&template, doc).await?;
        if let Some(project) = &project {
            limits::check_images(project, &after)?;
        }
        let before = match &present {
            Some(present) => {
                let parameters = all_parameters(&doc.parameters, &old_secrets);
                let mut before = self.documents_of(present, doc, &parameters).await?;
                before.extend(self.charted(present, doc, &parameters).await?);
                before
            }
            None => Vec::new(),
        };
        let mut writes: Vec<Write> = self.registry.pin(&template).await?.into_iter().collect();
        if let Some(present) = &present {
            writes.extend(self.registry.pin(present).await?);
        }
        if !secrets.is_empty() || !old_secrets.is_empty() {
            let kept =
                SecretsDoc { name: doc.name.clone(), parameters: secrets.clone(), previous: Some(old_secrets.clone()) };
            let expect = stored_secrets.map_or(Expect::Absent, |s| Expect::Revision(s.revision));
            writes.push(put(&kept, expect)?);
        }
        let hidden = secrets.values().chain(old_secrets.values()).cloned().collect();
        let mut made = made;
        made.template_digest = Some(template.digest.clone());
        let mut previous = Made::of(&of.value);
        previous.template_digest = previous.template_digest.or(present.map(|p| p.digest));
        Ok(Prepared { of, made, previous, before, after, template, hidden, writes, charts })
    }

    /// The template of an environment as it was when it was made from it; none when that was not kept.
    pub(crate) async fn template_of(&self, doc: &EnvironmentDoc) -> Result<Option<Template>, Error> {
        if let Some(digest) = &doc.template_digest {
            return self.registry.pinned(digest).await;
        }
        // From before content was kept.
        match self.registry.show(&format!("{}@{}", doc.template, doc.template_version)).await {
            Ok(template) => Ok(Some(template)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn unknown_content(&self, doc: &EnvironmentDoc) -> Error {
        Error::Conflict(format!(
            "version {} of template {:?} is not there any more: say which one to go to (`vctl upgrade {} --to VERSION`)",
            doc.template_version, doc.template, doc.name
        ))
    }
}

/// What was given before and is still declared, what is given now, and the template's defaults for the rest. Passwords stay.
fn merge(
    doc: &EnvironmentDoc,
    secrets: &BTreeMap<String, String>,
    template: &Template,
    asked: &BTreeMap<String, Value>,
) -> Result<(Made, BTreeMap<String, String>), Error> {
    let declared = &template.manifest.parameters;
    let is_declared = |name: &str| declared.iter().any(|p| p.name == name);
    let was_given = |name: &String| doc.given.as_ref().is_none_or(|given| given.contains(name));
    let old = doc.parameters.iter().filter(|(name, value)| was_given(name) && !value.is_null());
    let old = old.map(|(name, value)| (name.clone(), value.clone()));
    let kept = secrets.iter().map(|(name, text)| (name.clone(), Value::String(text.clone())));
    let mut given: BTreeMap<String, Value> = old.chain(kept).filter(|(name, _)| is_declared(name)).collect();
    let mut named: BTreeSet<String> = given.keys().filter(|name| was_given(name)).cloned().collect();
    for (name, value) in asked {
        if value.is_null() && is_declared(name) {
            given.remove(name);
            named.remove(name);
        } else {
            given.insert(name.clone(), value.clone());
            named.insert(name.clone());
        }
    }
    let resolved = parameters::resolve(declared, &given)?;
    let made = Made {
        template_version: template.manifest.version.clone(),
        template_digest: Some(template.digest.clone()),
        parameters: resolved.public,
        given: Some(named),
    };
    Ok((made, resolved.secret))
}
