//! Named resources outside of the platform, and what environments are bound to: stand-ins that the template runs, or such resources.

pub(crate) mod references;

use std::{collections::BTreeMap, time::Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vctl_api::{
    names::EnvironmentName,
    rest::{
        ALL_PROJECTS, AddResource, Binding, Bindings, Bound, DEFAULT_PROJECT, EnvironmentKind, ProbeResult, Resource,
        ResourceKind,
    },
};
use vctl_store::{Expect, StoreError};

use self::references::references;
use crate::{
    access::{documents::ProjectDoc, limits},
    documents::{Document, EnvironmentDoc, audit, put, remove},
    environments::{Caller, Environments},
    error::{Error, nearest},
    probes::{self, Target, trust},
    templates::{Template, render::Input},
};

/// Most projects that a resource names.
const PROJECTS_LIMIT: usize = 100;

/// A resource as it is kept. Its password is in [`ResourceSecretDoc`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResourceDoc {
    resource: Resource,
}

/// The password of a resource; sealed as everything is, when the server has a key.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResourceSecretDoc {
    name: String,
    password: String,
}

impl Document for ResourceDoc {
    const RESOURCE: &'static str = "resources.vctl.dev";
    fn name(&self) -> &str {
        &self.resource.name
    }
}

impl Document for ResourceSecretDoc {
    const RESOURCE: &'static str = "resourcesecrets.vctl.dev";
    fn name(&self) -> &str {
        &self.name
    }
}

impl Environments {
    /// All resources by name.
    pub(crate) async fn resources(&self) -> Result<Vec<Resource>, Error> {
        Ok(self.documents.list::<ResourceDoc>().await?.0.into_iter().map(|d| d.value.resource).collect())
    }

    /// One resource.
    ///
    /// # Errors
    /// [`Error::NotFound`] with near names.
    pub(crate) async fn resource(&self, name: &str) -> Result<Resource, Error> {
        if let Some(found) = self.documents.get::<ResourceDoc>(name).await? {
            return Ok(found.value.resource);
        }
        let all = self.resources().await?;
        let nearest = nearest(name, all.iter().map(|r| r.name.as_str()));
        Err(Error::NotFound { what: "resource", name: name.to_owned(), nearest })
    }

    /// Registers a resource, or replaces one of the same name and kind. It is not asked: that is what a probe is for.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what makes no sense; [`Error::AlreadyExists`] when the name has another kind.
    pub(crate) async fn add_resource(&self, caller: Caller<'_>, request: AddResource) -> Result<Resource, Error> {
        let invalid = |detail: String| Error::invalid("invalid-resource", detail);
        let name = EnvironmentName::new(request.name.clone()).map_err(|e| invalid(e.to_string()))?.to_string();
        let plain = |text: &str| !text.chars().any(|c| c.is_control());
        let host_like = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '_');
        if request.host.is_empty() || request.host.len() > 253 || !request.host.chars().all(host_like) {
            return Err(invalid(format!("{:?} is no host name or address", request.host)));
        }
        let by_user = matches!(request.kind, ResourceKind::Postgres | ResourceKind::Mysql)
            || request.password.is_some() && matches!(request.kind, ResourceKind::Kafka | ResourceKind::S3);
        if by_user && request.user.is_empty() {
            return Err(invalid(format!("a {} resource needs a user", request.kind.as_str())));
        }
        if !plain(&request.user) || !plain(&request.database) {
            return Err(invalid("user and database are one line of text".to_owned()));
        }
        if !request.ca_bundle.is_empty() {
            if !request.tls {
                return Err(invalid("authorities are for TLS: register it with TLS, or without them".to_owned()));
            }
            trust::roots(&request.ca_bundle).map_err(|why| invalid(format!("bundle of authorities: {why}")))?;
        }
        let now = self.now();
        let before = self.documents.get::<ResourceDoc>(&name).await?;
        let was_for = before.as_ref().map(|b| b.value.resource.projects.clone());
        let projects = request.projects.or(was_for).unwrap_or_else(|| vec![DEFAULT_PROJECT.to_owned()]);
        self.check_projects(&projects).await?;
        if before.as_ref().is_some_and(|b| b.value.resource.kind != request.kind) {
            return Err(Error::AlreadyExists(format!("resource {name:?} has another kind: take another name")));
        }
        let resource = Resource {
            kind: request.kind,
            host: request.host,
            port: request.port.unwrap_or_else(|| request.kind.usual_port(request.tls)),
            user: request.user,
            database: request.database,
            tls: request.tls,
            ca_bundle: request.ca_bundle,
            projects,
            has_password: request.password.is_some(),
            created_at: before.as_ref().map_or(now, |b| b.value.resource.created_at),
            name: name.clone(),
        };
        let detail = json!({
            "kind": resource.kind, "host": resource.host, "port": resource.port, "tls": resource.tls, "projects": resource.projects,
            "caBundle": trust::fingerprint(&resource.ca_bundle),
        });
        let expect = before.map_or(Expect::Absent, |b| Expect::Revision(b.revision));
        let mut writes = vec![
            put(&ResourceDoc { resource: resource.clone() }, expect)?,
            audit(now, caller.actor, "resource.add", &name, caller.request_id, detail)?,
        ];
        match request.password {
            Some(password) => writes.push(put(&ResourceSecretDoc { name: name.clone(), password }, Expect::Any)?),
            None if self.documents.get::<ResourceSecretDoc>(&name).await?.is_some() => {
                writes.push(remove::<ResourceSecretDoc>(&name, Expect::Any));
            }
            None => {}
        }
        self.documents.transact(writes).await?;
        Ok(resource)
    }

    /// That a resource can be for these projects.
    async fn check_projects(&self, projects: &[String]) -> Result<(), Error> {
        if projects.is_empty() || projects.len() > PROJECTS_LIMIT {
            return Err(Error::invalid(
                "invalid-resource",
                format!("a resource is for 1 to {PROJECTS_LIMIT} projects, or for all: `*`"),
            ));
        }
        let policy = self.access.policy().await?;
        let unknown = projects.iter().find(|p| *p != ALL_PROJECTS && !policy.projects.contains_key(p.as_str()));
        match unknown {
            None => Ok(()),
            Some(unknown) => Err(Error::Invalid {
                kind: "unknown-project",
                detail: format!("there is no project {unknown:?} that the resource could be for"),
                nearest: nearest(unknown, policy.projects.keys().map(String::as_str)),
            }),
        }
    }

    /// Forgets a resource.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Conflict`] while environments are bound to it.
    pub(crate) async fn remove_resource(&self, caller: Caller<'_>, name: &str) -> Result<Resource, Error> {
        let resource = self.resource(name).await?;
        self.check_unused(name).await?;
        let mut writes = vec![
            remove::<ResourceDoc>(name, Expect::Any),
            audit(self.now(), caller.actor, "resource.remove", name, caller.request_id, Value::Null)?,
        ];
        if resource.has_password {
            writes.push(remove::<ResourceSecretDoc>(name, Expect::Any));
        }
        match self.documents.transact(writes).await {
            Ok(_) => Ok(resource),
            Err(StoreError::Conflict { .. }) => self.resource(name).await,
            Err(e) => Err(e.into()),
        }
    }

    /// Asks a resource whether it can be used as it was registered.
    ///
    /// # Errors
    /// [`Error::NotFound`]. That it cannot be used is an answer.
    pub(crate) async fn probe_resource(&self, name: &str) -> Result<ProbeResult, Error> {
        let resource = self.resource(name).await?;
        self.ask(resource).await
    }

    async fn ask(&self, resource: Resource) -> Result<ProbeResult, Error> {
        let password = self.documents.get::<ResourceSecretDoc>(&resource.name).await?.map(|s| s.value.password);
        let Resource { kind, host, port, user, database, tls, ca_bundle, .. } = resource;
        let target = Target { kind, host, port, user, database, tls, ca_bundle, password, now: self.now() };
        let begun = Instant::now();
        let asked = probes::probe(&target).await;
        let millis = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(match asked {
            Ok(message) => ProbeResult { ok: true, message, millis },
            Err(e) => ProbeResult { ok: false, message: e.to_string(), millis },
        })
    }

    /// Checks what a new environment asks to be bound to: each binding of a real one to a resource of its kind that answers.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the binding.
    pub(crate) async fn check_bindings(
        &self,
        template: &Template,
        kind: EnvironmentKind,
        asked: &BTreeMap<String, String>,
        project: &ProjectDoc,
    ) -> Result<(), Error> {
        let declared = &template.manifest.bindings;
        let invalid = |detail: String| Error::invalid("invalid-binding", detail);
        if let Some(unknown) = asked.keys().find(|name| !declared.iter().any(|b| b.name == **name)) {
            let near = nearest(unknown, declared.iter().map(|b| b.name.as_str()));
            let detail = format!("the template has no binding {unknown:?}");
            return Err(Error::Invalid { kind: "invalid-binding", detail, nearest: near });
        }
        if kind == EnvironmentKind::Mocked {
            return match asked.keys().next() {
                Some(name) => {
                    Err(invalid(format!("binding {name:?} is given, but the environment is mocked: say --kind real")))
                }
                None => Ok(()),
            };
        }
        if declared.is_empty() {
            return Err(invalid("the template has no bindings: it has no real kind".to_owned()));
        }
        for Binding { name, kind, .. } in declared {
            let Some(resource) = asked.get(name) else {
                return Err(invalid(format!(
                    "binding {name:?} ({}) is not given: say --bind {name}=RESOURCE; `vctl resource list` shows them",
                    kind.as_str()
                )));
            };
            let what = format!("binding {name:?}");
            limits::check_resource(project, &what, resource)?;
            self.usable("invalid-binding", &what, Some(*kind), (&project.name, resource), true).await?;
        }
        Ok(())
    }

    /// Checks that something in a project can be bound to a resource: it is there for the project, of the kind that is wanted, and, when it is
    /// asked, answers. Of one that is not for the project nothing is told.
    async fn usable(
        &self,
        error: &'static str,
        what: &str,
        wanted: Option<ResourceKind>,
        (project, resource): (&str, &str),
        ask: bool,
    ) -> Result<(), Error> {
        let mut all = self.resources().await?;
        all.retain(|r| r.is_for(project));
        let Some(found) = all.iter().find(|r| r.name == resource).cloned() else {
            let nearest = nearest(resource, all.iter().map(|r| r.name.as_str()));
            let near =
                if nearest.is_empty() { String::new() } else { format!(" (did you mean {}?)", nearest.join(", ")) };
            let detail = format!(
                "{what}: there is no resource {resource:?}{near} for project {project:?}; `vctl resource list` shows those there are, and \
                 whoever registers them says for whom (`vctl resource add .. --project {project}`)"
            );
            return Err(Error::Invalid { kind: error, detail, nearest });
        };
        if let Some(wanted) = wanted.filter(|wanted| *wanted != found.kind) {
            let (wanted, kind) = (wanted.as_str(), found.kind.as_str());
            return Err(Error::invalid(error, format!("{what} is {wanted}, but resource {resource:?} is {kind}")));
        }
        let answer = if ask { self.ask(found).await? } else { return Ok(()) };
        if answer.ok {
            return Ok(());
        }
        Err(Error::invalid(error, format!("{what}: resource {resource:?}: {}", answer.message)))
    }

    /// The documents of an environment, with the Secrets of what it is bound to.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a template that does not render; [`Error::NotFound`] for a resource that is gone.
    pub(crate) async fn documents_of(
        &self,
        template: &Template,
        doc: &EnvironmentDoc,
        parameters: &BTreeMap<String, Value>,
    ) -> Result<Vec<Value>, Error> {
        let (bindings, mut documents) = self.bound(template, doc, parameters).await?;
        let input =
            Input { environment: doc.name.as_str(), kind: doc.kind, parameters, bindings: &bindings, values: None };
        // After namespaces, before what uses them: they are Secrets of `default`.
        let rendered = self.renderer.render(template, &input).await;
        documents.extend(rendered.map_err(|mut errors| errors.swap_remove(0))?);
        Ok(documents)
    }

    /// What an environment's manifests know of its bindings, and the Secrets with the passwords of real ones.
    pub(crate) async fn bound(
        &self,
        template: &Template,
        doc: &EnvironmentDoc,
        parameters: &BTreeMap<String, Value>,
    ) -> Result<(Bindings, Vec<Value>), Error> {
        let (mut bindings, mut secrets) = (Bindings::new(), Vec::new());
        for binding in &template.manifest.bindings {
            let bound = match doc.kind {
                EnvironmentKind::Mocked => stand_in(binding),
                EnvironmentKind::Real => {
                    let resource = doc.bindings.get(&binding.name).cloned().ok_or_else(|| {
                        let name = &binding.name;
                        Error::invalid(
                            "invalid-binding",
                            format!("binding {name:?} is new in this version: create another environment with --bind {name}=RESOURCE"),
                        )
                    })?;
                    self.real(&binding.name, &resource, &mut secrets).await?
                }
            };
            bindings.insert(binding.name.clone(), bound);
        }
        for (parameter, resource) in references(&template.manifest.parameters, parameters) {
            bindings.insert(parameter.name.clone(), self.real(&parameter.name, resource, &mut secrets).await?);
        }
        Ok((bindings, secrets))
    }

    /// What manifests know of a resource; adds the Secret with its password.
    async fn real(&self, binding: &str, resource: &str, secrets: &mut Vec<Value>) -> Result<Bound, Error> {
        let found = self.resource(resource).await?;
        let password = self.documents.get::<ResourceSecretDoc>(resource).await?.map(|s| s.value.password);
        let secret = password.as_ref().map(|_| secret_name(binding)).unwrap_or_default();
        secrets.extend(password.map(|password| secret_of(&secret, binding, &password)));
        let Resource { kind, host, port, user, database, tls, ca_bundle: ca, .. } = found;
        Ok(Bound { kind, host, port, user, database, tls, ca, secret })
    }
}

/// Name of the Secret with the password of a real resource: a DNS label, which a name of a binding need not be.
pub(crate) fn secret_name(binding: &str) -> String {
    let name = format!("binding-{}", binding.to_lowercase().replace('_', "-"));
    name.trim_end_matches('-').to_owned()
}

/// A binding of a mocked environment.
pub(crate) fn stand_in(binding: &Binding) -> Bound {
    let mocked = binding.mocked.clone();
    Bound {
        kind: binding.kind,
        host: mocked.host,
        port: mocked.port,
        user: mocked.user,
        database: mocked.database,
        tls: false,
        ca: String::new(),
        secret: mocked.secret,
    }
}

fn secret_of(name: &str, binding: &str, password: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": { "name": name, "labels": { "vctl.dev/binding": binding } },
        "stringData": { "password": password },
    })
}
