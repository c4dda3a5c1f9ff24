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
    /// Checks resources that parameters name, in the project `place` with what it says of itself: each is allowed, there, of the kind that the parameter takes, and answers. Those that `before` names
    /// too are not asked again: an environment can be updated while one of them is away.
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

    /// Whether an environment's parameters name a resource.
    pub(crate) async fn names_resource(&self, doc: &EnvironmentDoc, resource: &str) -> Result<bool, Error> {
        // Its template is read only when some text among its parameters would do.
        if !doc.parameters.values().any(|value| value.as_str() == Some(resource)) {
            return Ok(false);
        }
        let template = self.template_of(doc).await?;
        Ok(template
            .is_some_and(|t| references(&t.manifest.parameters, &doc.parameters).any(|(_, name)| name == resource)))
    }
}
