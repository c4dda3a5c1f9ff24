//! One webhook, as configured: what it wants to see.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use vctl_machinery::{catalog::Descriptor, selector::LabelSelector, status::ApiError};

use super::Attributes;
use crate::{convert, document::meta, objects::Target, outbound};

/// The webhooks of a cluster, in the order in which they are called.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(super) mutating: Vec<Hook>,
    pub(super) validating: Vec<Hook>,
}

impl Hooks {
    /// From the configuration objects.
    pub(crate) fn new(mutating: &[Value], validating: &[Value]) -> Self {
        Self { mutating: hooks(mutating), validating: hooks(validating) }
    }
}

fn hooks(configurations: &[Value]) -> Vec<Hook> {
    let mut sorted: Vec<&Value> = configurations.iter().collect();
    sorted.sort_by_key(|c| meta(c, "name"));
    let of = |configuration: &Value| {
        let name = meta(configuration, "name").to_owned();
        let list = configuration["webhooks"].as_array().cloned().unwrap_or_default();
        list.into_iter().enumerate().map(move |(i, hook)| Hook::new(&name, i, &hook)).collect::<Vec<_>>()
    };
    sorted.into_iter().flat_map(of).collect()
}

struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<(String, String)>,
    scope: String,
}

pub(super) struct Hook {
    /// Unique among all webhooks.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) client: Result<outbound::Hook, String>,
    pub(super) timeout: Duration,
    pub(super) reinvocable: bool,
    /// Whether it may be called for a dry run.
    pub(super) dry_run: bool,
    /// The first AdmissionReview version of its list that is known here.
    pub(super) review_version: Option<&'static str>,
    rules: Vec<Rule>,
    ignore_failure: bool,
    equivalent: bool,
    namespaces: Result<LabelSelector, String>,
    objects: Result<LabelSelector, String>,
    has_conditions: bool,
}

/// That a webhook is to be called, with the resource in the version that it asked for.
pub(super) struct Invocation {
    pub(super) descriptor: Arc<Descriptor>,
}

/// Configuration of admission is never subject to webhooks: a broken one could otherwise not be repaired.
pub(super) fn is_exempt(target: &Target) -> bool {
    target.descriptor.group == "admissionregistration.k8s.io"
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

impl Hook {
    fn new(configuration: &str, index: usize, hook: &Value) -> Self {
        let text = |field: &str| hook[field].as_str().unwrap_or_default();
        let selector = |field: &str| match &hook[field] {
            Value::Null => Ok(LabelSelector::default()),
            selector => LabelSelector::from_object(selector),
        };
        let split = |r: String| match r.split_once('/') {
            Some((resource, subresource)) => (resource.to_owned(), subresource.to_owned()),
            None => (r, String::new()),
        };
        let rules = hook["rules"].as_array().into_iter().flatten().map(|rule| Rule {
            operations: texts(&rule["operations"]),
            groups: texts(&rule["apiGroups"]),
            versions: texts(&rule["apiVersions"]),
            resources: texts(&rule["resources"]).into_iter().map(split).collect(),
            scope: rule["scope"].as_str().unwrap_or("*").to_owned(),
        });
        let known = |version: String| match version.as_str() {
            "v1" => Some("v1"),
            "v1beta1" => Some("v1beta1"),
            _ => None,
        };
        Self {
            id: format!("{configuration}/{}/{index}", text("name")),
            name: text("name").to_owned(),
            client: outbound::Hook::new(&hook["clientConfig"]).map_err(|e| e.to_string()),
            timeout: Duration::from_secs(hook["timeoutSeconds"].as_u64().unwrap_or(10).clamp(1, 30)),
            reinvocable: text("reinvocationPolicy") == "IfNeeded",
            dry_run: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            review_version: texts(&hook["admissionReviewVersions"]).into_iter().find_map(known),
            rules: rules.collect(),
            ignore_failure: text("failurePolicy") == "Ignore",
            equivalent: text("matchPolicy") != "Exact",
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            has_conditions: hook["matchConditions"].as_array().is_some_and(|c| !c.is_empty()),
        }
    }

    /// Applies the failure policy to a call that failed.
    pub(super) fn failed(&self, why: &str) -> Result<(), ApiError> {
        if self.ignore_failure {
            tracing::debug!(webhook = %self.name, why, "a webhook failed and is ignored, as its failurePolicy says");
            return Ok(());
        }
        Err(ApiError::internal(format!("failed calling webhook {:?}: {why}", self.name)))
    }

    /// Whether and how the webhook is to be called.
    pub(super) async fn invocation(
        &self,
        request: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<Option<Invocation>, ApiError> {
        let object = object.filter(|o| !o.is_null());
        if !self.selects_object(request, object)? {
            return Ok(None);
        }
        let Some(descriptor) = self.descriptor(request).await? else { return Ok(None) };
        if !self.selects_namespace(request, object).await? {
            return Ok(None);
        }
        if self.has_conditions {
            if self.ignore_failure {
                return Ok(None);
            }
            let why = "this server cannot evaluate matchConditions yet: remove them, or set failurePolicy to Ignore";
            return Err(request.target.forbidden(&request.target.name, why));
        }
        Ok(Some(Invocation { descriptor }))
    }

    /// The version of the request's resource that a rule names: the request's own or, if that is equivalent, another.
    async fn descriptor(&self, request: &Attributes<'_>) -> Result<Option<Arc<Descriptor>>, ApiError> {
        let own = &request.target.descriptor;
        if self.rules.iter().any(|r| r.matches(request, own)) {
            return Ok(Some(own.clone()));
        }
        if !self.equivalent {
            return Ok(None);
        }
        let stored = convert::storage_resource(own);
        let catalog = request.call.plane.catalog().await?;
        let others: Vec<&Arc<Descriptor>> = catalog
            .rows()
            .iter()
            .filter(|d| convert::storage_resource(d) == stored && (d.version != own.version || d.group != own.group))
            .collect();
        let matching = |r: &Rule| others.iter().find(|d| r.matches(request, d)).map(|d| (*d).clone());
        Ok(self.rules.iter().find_map(matching))
    }

    fn selects_object(&self, request: &Attributes<'_>, object: Option<&Value>) -> Result<bool, ApiError> {
        let selector = self.objects.as_ref().map_err(ApiError::internal)?;
        let labels = |o: &Value| o.pointer("/metadata/labels").cloned().unwrap_or_default();
        Ok(selector.is_everything()
            || [object, request.old].into_iter().flatten().any(|o| selector.matches(&labels(o))))
    }

    async fn selects_namespace(&self, request: &Attributes<'_>, object: Option<&Value>) -> Result<bool, ApiError> {
        let namespace = request.namespace();
        let selector = self.namespaces.as_ref().map_err(ApiError::internal)?;
        if selector.is_everything() || (namespace.is_empty() && !request.target.is("", "namespaces")) {
            return Ok(true);
        }
        let own = request.target.is("", "namespaces") && request.target.subresource.is_empty();
        let found = match object.filter(|_| own) {
            Some(object) => object.clone(),
            None => match request.call.plane.object("namespaces", "", namespace).await? {
                Some(object) => object,
                None => return Err(ApiError::not_found("", "namespaces", namespace)),
            },
        };
        Ok(selector.matches(found.pointer("/metadata/labels").unwrap_or(&Value::Null)))
    }
}

fn has(list: &[String], value: &str) -> bool {
    list.iter().any(|v| v == "*" || v == value)
}

impl Rule {
    fn matches(&self, request: &Attributes<'_>, descriptor: &Descriptor) -> bool {
        let subresource = &request.target.subresource;
        let inside = descriptor.namespaced && !request.target.namespace.is_empty();
        let scope = match self.scope.as_str() {
            "Namespaced" => inside,
            "Cluster" => !inside,
            _ => true,
        };
        scope
            && has(&self.operations, request.operation.as_str())
            && has(&self.groups, &descriptor.group)
            && has(&self.versions, &descriptor.version)
            && self
                .resources
                .iter()
                .any(|(r, s)| (r == "*" || *r == descriptor.plural) && (s == "*" || s == subresource))
    }
}
