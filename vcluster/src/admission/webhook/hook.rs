//! One webhook, as configured: what it wants to see.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use vctl_machinery::{catalog::Descriptor, selector::LabelSelector, status::ApiError};

use super::{
    Attributes,
    policy::{self, Conditions, MutatingPolicy, ValidatingPolicy},
};
use crate::{convert, document::meta, objects::Target, outbound};

/// The objects that configure webhooks and policies: those that mutate, then those that validate.
pub(crate) struct Configurations {
    pub(crate) webhooks: [Vec<Value>; 2],
    pub(crate) policies: [Vec<Value>; 2],
    pub(crate) bindings: [Vec<Value>; 2],
}

/// The webhooks of a cluster, in the order in which they are called, and its admission policies.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(super) mutating: Vec<Hook>,
    pub(super) validating: Vec<Hook>,
    pub(super) mutating_policies: Vec<MutatingPolicy>,
    pub(super) policies: Vec<ValidatingPolicy>,
}

impl Hooks {
    /// From the configuration objects.
    pub(crate) fn new(configurations: &Configurations) -> Self {
        let Configurations { webhooks, policies, bindings } = configurations;
        let [mutating, validating] = webhooks;
        let sorted = |policies: &[Value]| -> Vec<Value> {
            let mut sorted = policies.to_vec();
            sorted.sort_by(|a, b| meta(a, "name").cmp(meta(b, "name")));
            sorted
        };
        let [mutating_policies, policies] = [sorted(&policies[0]), sorted(&policies[1])];
        Self {
            mutating: hooks(mutating),
            validating: hooks(validating),
            mutating_policies: mutating_policies.iter().map(|p| MutatingPolicy::new(p, &bindings[0])).collect(),
            policies: policies.iter().map(|p| ValidatingPolicy::new(p, &bindings[1])).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.mutating.is_empty()
            && self.validating.is_empty()
            && self.mutating_policies.is_empty()
            && self.policies.is_empty()
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
    names: Vec<String>,
    scope: String,
}

/// Which requests a webhook or policy is about.
pub(super) struct Matching {
    rules: Vec<Rule>,
    exclude: Vec<Rule>,
    equivalent: bool,
    namespaces: Result<LabelSelector, String>,
    objects: Result<LabelSelector, String>,
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
    matching: Matching,
    ignore_failure: bool,
    conditions: Conditions,
}

/// That a webhook is to be called, or a policy evaluated, with the resource in the version that it asked for.
#[derive(Clone)]
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
            matching: Matching::new(hook, "rules"),
            ignore_failure: text("failurePolicy") == "Ignore",
            conditions: Conditions::new(&hook["matchConditions"]),
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
        let Some(invocation) = self.matching.invocation(request, object).await? else { return Ok(None) };
        if self.conditions.is_empty() {
            return Ok(Some(invocation));
        }
        let variables = policy::variables(request, &invocation, object.unwrap_or(&Value::Null)).await?;
        match self.conditions.hold(&variables) {
            Ok(true) => Ok(Some(invocation)),
            Ok(false) => Ok(None),
            Err(_) if self.ignore_failure => Ok(None),
            Err(why) => Err(request.target.forbidden(&request.target.name, &why)),
        }
    }
}

impl Matching {
    /// From a webhook (whose rules are `rules`) or from `matchConstraints` (`resourceRules`).
    pub(super) fn new(from: &Value, rules: &str) -> Self {
        let selector = |field: &str| match &from[field] {
            Value::Null => LabelSelector::from_object(&serde_json::json!({})),
            selector => LabelSelector::from_object(selector),
        };
        let split = |r: String| match r.split_once('/') {
            Some((resource, subresource)) => (resource.to_owned(), subresource.to_owned()),
            None => (r, String::new()),
        };
        let of = |field: &str| -> Vec<Rule> {
            let list = from[field].as_array().into_iter().flatten();
            list.map(|rule| Rule {
                operations: texts(&rule["operations"]),
                groups: texts(&rule["apiGroups"]),
                versions: texts(&rule["apiVersions"]),
                resources: texts(&rule["resources"]).into_iter().map(split).collect(),
                names: texts(&rule["resourceNames"]),
                scope: rule["scope"].as_str().unwrap_or("*").to_owned(),
            })
            .collect()
        };
        Self {
            rules: of(rules),
            exclude: of("excludeResourceRules"),
            equivalent: from["matchPolicy"] != "Exact",
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }

    /// Whether it is about a request, and in which version. Without rules it is about every resource.
    pub(super) async fn invocation(
        &self,
        request: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<Option<Invocation>, ApiError> {
        let object = object.filter(|o| !o.is_null());
        let own = &request.target.descriptor;
        if !self.selects_object(request, object)? || self.exclude.iter().any(|r| r.matches(request, own)) {
            return Ok(None);
        }
        let Some(descriptor) = self.descriptor(request).await? else { return Ok(None) };
        if !self.selects_namespace(request, object).await? {
            return Ok(None);
        }
        Ok(Some(Invocation { descriptor }))
    }

    /// Whether the selectors alone choose a request.
    pub(super) async fn selects(&self, request: &Attributes<'_>, object: Option<&Value>) -> Result<bool, ApiError> {
        let object = object.filter(|o| !o.is_null());
        let excluded = self.exclude.iter().any(|r| r.matches(request, &request.target.descriptor));
        Ok(!excluded && self.selects_object(request, object)? && self.selects_namespace(request, object).await?)
    }

    /// Whether it names no resources at all.
    pub(super) fn has_no_rules(&self) -> bool {
        self.rules.is_empty()
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
            && (self.names.is_empty() || self.names.contains(&request.target.name))
            && self
                .resources
                .iter()
                .any(|(r, s)| (r == "*" || *r == descriptor.plural) && (s == "*" || s == subresource))
    }
}
