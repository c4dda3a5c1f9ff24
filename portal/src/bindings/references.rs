//! Parameters of the type `resource`: each names a registered resource, whose connection facts manifests get as those of a binding, in
//! environments of any kind.

use std::collections::BTreeMap;

use serde_json::Value;
use vctl_api::rest::{Bound, Parameter, ParameterType, ResourceKind};

use crate::{
    access::{documents::ProjectDoc, limits},
    documents::EnvironmentDoc,
    environments::Environments,
    error::Error,
    templates::Template,
};

/// Most environments that an error names.
const NAMED: usize = 5;

/// Parameters that name a resource, with its name.
pub(crate) fn references<'a>(
    declared: &'a [Parameter],
    values: &'a BTreeMap<String, Value>,
) -> impl Iterator<Item = (&'a Parameter, &'a str)> {
    let resources = declared.iter().filter(|p| p.kind == ParameterType::Resource);
    resources.filter_map(|p| Some((p, values.get(&p.name)?.as_str()?)))
}

/// What manifests know of a resource where no server says what it is: made up, but for its name, which stands for its host.
pub(crate) fn made_up(parameter: &Parameter, resource: &str) -> Bound {
    let kind = parameter.resource_kind.unwrap_or(ResourceKind::Http);
    Bound {
        kind,
        host: resource.to_owned(),
        port: kind.usual_port(false),
        user: "user".to_owned(),
        database: "database".to_owned(),
        tls: false,
        ca: String::new(),
        secret: super::secret_name(&parameter.name),
    }
}

impl Environments {
    /// Checks resources that parameters name, in the project `place` with what it says of itself: each is allowed, there, of the kind that the
    /// parameter takes, and answers. Those that `before` names too are not asked again: an environment can be updated while one of them is away.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the parameter.
    pub(crate) async fn check_references(
        &self,
        template: &Template,
        values: &BTreeMap<String, Value>,
        before: &BTreeMap<String, Value>,
        (place, project): (&str, Option<&ProjectDoc>),
    ) -> Result<(), Error> {
        for (parameter, resource) in references(&template.manifest.parameters, values) {
            let known = before.get(&parameter.name).and_then(Value::as_str) == Some(resource);
            let what = format!("parameter {:?}", parameter.name);
            if let Some(project) = project {
                limits::check_resource(project, &what, resource)?;
            }
            self.usable("invalid-parameter", &what, parameter.resource_kind, (place, resource), !known).await?;
        }
        Ok(())
    }

    /// Checks that an environment may still have the resources that it is bound to, as far as this content of its template has to do with
    /// them: what is rendered anew gives it what they are now, their passwords too. They are not asked.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the binding.
    pub(crate) async fn check_bound(
        &self,
        template: &Template,
        doc: &EnvironmentDoc,
        (place, project): (&str, Option<&ProjectDoc>),
    ) -> Result<(), Error> {
        for binding in &template.manifest.bindings {
            let Some(resource) = doc.bindings.get(&binding.name) else { continue };
            let what = format!("binding {:?}", binding.name);
            if let Some(project) = project {
                limits::check_resource(project, &what, resource)?;
            }
            self.usable("invalid-binding", &what, Some(binding.kind), (place, resource), false).await?;
        }
        Ok(())
    }

    /// The same of all resources that it uses, also those that parameters name, when it is made as it is once more.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Invalid`] naming the binding or the parameter.
    pub(crate) async fn check_used(&self, name: &str) -> Result<(), Error> {
        let doc = self.stored(name).await?.value;
        let Some(template) = self.template_of(&doc).await? else { return Ok(()) };
        let project = self.documents.get::<ProjectDoc>(&doc.project).await?.map(|p| p.value);
        let place = (doc.project.as_str(), project.as_ref());
        self.check_bound(&template, &doc, place).await?;
        self.check_references(&template, &doc.parameters, &doc.parameters, place).await
    }

    /// The parameter of an environment that names a resource, if one does.
    async fn parameter_naming(&self, doc: &EnvironmentDoc, resource: &str) -> Result<Option<String>, Error> {
        // Its template is read only when some text among its parameters would do.
        if !doc.parameters.values().any(|value| value.as_str() == Some(resource)) {
            return Ok(None);
        }
        let Some(template) = self.template_of(doc).await? else { return Ok(None) };
        let mut named = references(&template.manifest.parameters, &doc.parameters);
        Ok(named.find(|(_, name)| *name == resource).map(|(parameter, _)| parameter.name.clone()))
    }

    /// That no environment uses a resource.
    ///
    /// # Errors
    /// [`Error::Conflict`] with some that do, and what is to be done with them.
    pub(super) async fn check_unused(&self, name: &str) -> Result<(), Error> {
        let (all, _) = self.documents.list::<EnvironmentDoc>().await?;
        let (mut bound, mut naming) = (Vec::new(), Vec::new());
        for environment in all.iter().map(|e| &e.value) {
            if bound.len() + naming.len() == NAMED {
                break;
            }
            let user = environment.name.as_str();
            if environment.bindings.values().any(|r| r == name) {
                bound.push(user);
            } else if let Some(parameter) = self.parameter_naming(environment, name).await? {
                naming.push(format!("`vctl set {user} {parameter}=OTHER`"));
            }
        }
        let mut first = Vec::new();
        if !bound.is_empty() {
            let (are, them) = if bound.len() == 1 { ("is", "it") } else { ("are", "them") };
            first.push(format!("{} {are} bound to it: delete {them} first", bound.join(", ")));
        }
        if !naming.is_empty() {
            first.push(format!("parameters name it: name another one first ({})", naming.join(", ")));
        }
        if first.is_empty() {
            return Ok(());
        }
        Err(Error::Conflict(format!("resource {name:?} is used: {}", first.join("; "))))
    }
}
