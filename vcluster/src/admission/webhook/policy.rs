//! Admission policies: rules in CEL that are evaluated here; and the match conditions of webhooks, which are such rules, too. Source of
//! rules and texts: apiserver's `pkg/admission/plugin/{cel,policy}`.

mod authorizer;
mod mutating;
mod types;
mod validating;

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;
use vctl_machinery::{
    cel::{
        self, BUDGET, Environment, MATCH_CONDITIONS_BUDGET, Opaque, PER_CALL_LIMIT, Program, Type, Variables,
        admission::{self, Declared, REQUEST_RESOURCE, VARIABLES, namespace_value},
    },
    selector::LabelSelector,
    status::ApiError,
};

use super::{
    Attributes, converted,
    hook::{Invocation, Matching},
    review,
};
use crate::{
    document::meta,
    objects::{Target, list::Selection},
};
pub(super) use mutating::{MutatingPolicy, mutate};
pub(in crate::admission) use types::check as check_types;
pub(super) use validating::{ValidatingPolicy, validate};

/// What ends the evaluation of a policy.
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The values of what every expression may refer to.
pub(super) async fn variables(
    request: &Attributes<'_>,
    invocation: &Invocation,
    object: &Value,
) -> Result<Variables, ApiError> {
    let (call, own) = (request.call, &request.target.descriptor);
    let old = match request.old {
        Some(old) => Some(converted(call, own, &invocation.descriptor, old).await?),
        None => None,
    };
    let shown = converted(call, own, &invocation.descriptor, object).await?;
    let mut about = review::request(request, invocation, "v1", "", object, None)["request"].take();
    if let Some(about) = about.as_object_mut() {
        for field in ["uid", "object", "oldObject"] {
            about.remove(field);
        }
    }
    let (all, requested) = authorizer::of(request, invocation, &call.plane.rbac().await?);
    Ok(Variables::new()
        .with("object", cel::Value::from_json(&shown))
        .with("oldObject", old.as_ref().map_or(cel::Value::Null, cel::Value::from_json))
        .with("request", cel::Value::from_json(&about))
        .with("namespaceObject", cel::Value::Null)
        .with("authorizer", all)
        .with(REQUEST_RESOURCE, requested))
}

/// An expression, compiled or not.
struct Expression {
    text: String,
    program: Result<Program, String>,
}

impl Expression {
    fn new(environment: &Environment, text: &Value, wanted: &[Type]) -> Self {
        let text = text.as_str().unwrap_or_default().to_owned();
        let program = admission::compile(environment, text.trim(), wanted);
        Self { program: program.map_err(|e| format!("compilation error: {e}")), text }
    }

    fn evaluate(&self, variables: &Variables, budget: &mut u64) -> Result<cel::Value, String> {
        let program = self.program.as_ref().map_err(Clone::clone)?;
        let evaluation = program.evaluate(variables, PER_CALL_LIMIT.min(*budget));
        *budget = budget.saturating_sub(evaluation.cost);
        if *budget == 0 {
            return Err(OUT_OF_BUDGET.into());
        }
        evaluation.result.map_err(|e| format!("expression '{}' resulted in error: {e}", self.text))
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// `matchConditions`.
pub(super) struct Conditions(Vec<Expression>);

impl Conditions {
    /// Of a webhook.
    pub(super) fn new(conditions: &Value) -> Self {
        Self::within(&Declared { authorizer: true, ..Declared::default() }.environment(), conditions)
    }

    fn within(environment: &Environment, conditions: &Value) -> Self {
        Self(list(conditions).map(|c| Expression::new(environment, &c["expression"], &[Type::Bool])).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all hold. One that does not hold decides, whatever is wrong with others.
    pub(super) fn hold(&self, variables: &Variables) -> Result<bool, String> {
        let mut budget = MATCH_CONDITIONS_BUDGET;
        let mut errors = Vec::new();
        for condition in &self.0 {
            match condition.evaluate(variables, &mut budget) {
                Ok(cel::Value::Bool(true)) => {}
                Ok(cel::Value::Bool(false)) => return Ok(false),
                Ok(_) => errors.push(format!("expression '{}' does not evaluate to a bool", condition.text)),
                Err(why) => errors.push(why),
            }
        }
        match errors.as_slice() {
            [] => Ok(true),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }
}

/// The values of a policy's variables. A variable that cannot be computed fails only what uses it.
#[derive(Debug)]
struct Computed(BTreeMap<String, Result<cel::Value, String>>);

impl Opaque for Computed {
    fn type_name(&self) -> &'static str {
        VARIABLES
    }

    fn field(&self, name: &str) -> Result<cel::Value, String> {
        match self.0.get(name) {
            Some(Ok(value)) => Ok(value.clone()),
            Some(Err(why)) => Err(format!("composited variable {name:?} fails to evaluate: {why}")),
            None => Err(format!("no such key: {name}")),
        }
    }

    fn call(&self, method: &str, _: &[cel::Value]) -> Result<cel::Value, String> {
        Err(format!("no such overload: {method}"))
    }
}

/// A binding of a policy.
struct Binding {
    name: String,
    matching: Option<Matching>,
    actions: Vec<String>,
    params: Value,
}

/// What both kinds of policies have in common.
struct Policy {
    name: String,
    matching: Matching,
    ignore_failure: bool,
    conditions: Conditions,
    variables: Vec<(String, Expression)>,
    param_kind: Option<(String, String)>,
    bindings: Vec<Binding>,
}

/// A policy that is about a request, by one of its bindings, with one of its parameters.
struct Match<'p> {
    binding: &'p Binding,
    /// Null for a policy without.
    params: Value,
}

impl Policy {
    /// Reads a policy and its bindings; what its other expressions may refer to is added to `declared`.
    fn new(policy: &Value, bindings: &[Value], declared: &mut Declared) -> Self {
        let (spec, name) = (&policy["spec"], meta(policy, "name"));
        let kind = &spec["paramKind"];
        declared.params = kind.is_object();
        declared.authorizer = true;
        let conditions = Conditions::within(&declared.environment(), &spec["matchConditions"]);
        let mut variables = Vec::new();
        for variable in list(&spec["variables"]) {
            let (name, text) = (text(&variable["name"]), text(&variable["expression"]));
            let program = declared.add_variable(&name, &text).map_err(|e| format!("compilation error: {e}"));
            variables.push((name, Expression { text, program }));
        }
        let binding = |b: &Value| Binding {
            name: meta(b, "name").to_owned(),
            matching: Some(&b["spec"]["matchResources"])
                .filter(|m| m.is_object())
                .map(|m| Matching::new(m, "resourceRules")),
            actions: list(&b["spec"]["validationActions"]).map(text).collect(),
            params: b["spec"]["paramRef"].clone(),
        };
        Self {
            name: name.to_owned(),
            matching: Matching::new(&spec["matchConstraints"], "resourceRules"),
            ignore_failure: spec["failurePolicy"] == "Ignore",
            conditions,
            variables,
            param_kind: kind.is_object().then(|| (text(&kind["apiVersion"]), text(&kind["kind"]))),
            bindings: bindings.iter().filter(|b| b["spec"]["policyName"] == name).map(binding).collect(),
        }
    }

    /// The bindings that are about a request, each with its parameters, or why a binding has none.
    async fn matches(
        &self,
        request: &Attributes<'_>,
        object: &Value,
    ) -> Result<Vec<(&Binding, Result<Vec<Match<'_>>, String>)>, ApiError> {
        let mut all = Vec::new();
        for binding in &self.bindings {
            if let Some(matching) = &binding.matching
                && !binding_matches(matching, request, object).await?
            {
                continue;
            }
            let params = self.params(request, binding).await;
            let of = |params: Vec<Value>| params.into_iter().map(|params| Match { binding, params }).collect();
            all.push((binding, params.map(of)));
        }
        Ok(all)
    }

    /// The parameters of a binding: null for a policy without.
    async fn params(&self, request: &Attributes<'_>, binding: &Binding) -> Result<Vec<Value>, String> {
        let Some((version, kind)) = &self.param_kind else { return Ok(vec![Value::Null]) };
        let reference = &binding.params;
        if !reference.is_object() {
            return Ok(vec![Value::Null]);
        }
        let call = request.call;
        let catalog = call.plane.catalog().await.map_err(|e| e.to_string())?;
        let (group, v) = version.rsplit_once('/').unwrap_or(("", version));
        let Some(descriptor) = catalog.kind(group, v, kind) else {
            return Err(format!("failed to find resource referenced by paramKind: '{version}, Kind={kind}'"));
        };
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let namespace = match (descriptor.namespaced, text("namespace")) {
            (false, "") => "",
            (false, _) => {
                return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".into());
            }
            (true, "") => &request.target.namespace,
            (true, given) => given,
        };
        if descriptor.namespaced && namespace.is_empty() {
            return Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".into());
        }
        let target = Target::new(descriptor.clone(), namespace, text("name"));
        let found = if text("name").is_empty() {
            let labels = LabelSelector::from_object(&reference["selector"])?;
            let selection = Selection { labels, ..Selection::default() };
            call.list_all(&target, &selection).await.map_err(|e| e.to_string())?.items
        } else {
            call.find(&target).await.map_err(|e| e.to_string())?.into_iter().map(|(_, object)| object).collect()
        };
        if found.is_empty() && text("parameterNotFoundAction") != "Allow" {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".into());
        }
        Ok(found)
    }

    /// The values that its expressions see, without those of `variables`.
    async fn subject(
        &self,
        request: &Attributes<'_>,
        invocation: &Invocation,
        object: &Value,
        params: &Value,
    ) -> Result<Variables, ApiError> {
        let mut variables = variables(request, invocation, object).await?;
        variables.set("params", cel::Value::from_json(params));
        if !request.target.namespace.is_empty()
            && let Some(namespace) = request.call.plane.object("namespaces", "", &request.target.namespace).await?
        {
            variables.set("namespaceObject", namespace_value(&namespace));
        }
        Ok(variables)
    }

    /// Computes the policy's variables, one after the other: each may use those before it.
    fn compute(&self, variables: &mut Variables, budget: &mut u64) {
        let mut computed = BTreeMap::new();
        for (name, expression) in &self.variables {
            let value = expression.evaluate(variables, budget);
            computed.insert(name.clone(), value);
            variables.set("variables", cel::Value::Opaque(Arc::new(Computed(computed.clone()))));
        }
    }
}

/// A binding without rules narrows by selectors only.
async fn binding_matches(matching: &Matching, request: &Attributes<'_>, object: &Value) -> Result<bool, ApiError> {
    if matching.has_no_rules() {
        return matching.selects(request, Some(object)).await;
    }
    Ok(matching.invocation(request, Some(object)).await?.is_some())
}
