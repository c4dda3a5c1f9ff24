//! ValidatingAdmissionPolicies: rules in CEL that are evaluated here; and the match conditions of webhooks, which are such rules, too.
//! Not declared yet: `authorizer`. Source of rules and texts: apiserver's `pkg/admission/plugin/policy/validating`.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;
use vctl_machinery::{
    cel::{self, BUDGET, Environment, MATCH_CONDITIONS_BUDGET, Opaque, PER_CALL_LIMIT, Program, Type, Variables},
    selector::LabelSelector,
    status::ApiError,
    validate::FieldError,
};

use super::{
    Attributes, converted,
    hook::{Invocation, Matching},
    review,
};
use crate::{document::meta, objects::Target};

const VARIABLES: Type = Type::Opaque("kubernetes.variables");
/// Longest message that an expression may make, in bytes.
const MAX_MESSAGE: usize = 5 << 10;

/// What every expression may refer to.
fn environment() -> Environment {
    ["object", "oldObject", "request"].into_iter().fold(Environment::new(), |e, name| e.variable(name, Type::Dyn))
}

/// What the expressions of a policy may refer to.
fn policy_environment() -> Environment {
    environment()
        .variable("params", Type::Dyn)
        .variable("namespaceObject", Type::Dyn)
        .variable("variables", VARIABLES)
        .method(".", VARIABLES, Vec::new(), Type::Dyn)
}

/// The values of what every expression may refer to.
pub(super) async fn variables(
    request: &Attributes<'_>,
    invocation: &Invocation,
    object: &Value,
) -> Result<Variables, ApiError> {
    let own = &request.target.descriptor;
    let old = match request.old {
        Some(old) => Some(converted(request.call, own, &invocation.descriptor, old).await?),
        None => None,
    };
    let shown = converted(request.call, own, &invocation.descriptor, object).await?;
    let mut about = review::request(request, invocation, "v1", "", &Value::Null, None)["request"].take();
    if let Some(about) = about.as_object_mut() {
        for field in ["uid", "object", "oldObject"] {
            about.remove(field);
        }
    }
    Ok(Variables::new()
        .with("object", cel::Value::from_json(&shown))
        .with("oldObject", old.as_ref().map_or(cel::Value::Null, cel::Value::from_json))
        .with("request", cel::Value::from_json(&about)))
}

/// An expression, compiled or not.
struct Expression {
    text: String,
    program: Result<Program, String>,
}

impl Expression {
    fn new(environment: &Environment, text: &Value) -> Self {
        let text = text.as_str().unwrap_or_default().to_owned();
        let program = environment.compile(&text).map_err(|e| format!("compilation error: compilation failed: {e}"));
        Self { text, program }
    }

    fn evaluate(&self, variables: &Variables, budget: &mut u64) -> Result<cel::Value, String> {
        let program = self.program.as_ref().map_err(Clone::clone)?;
        let evaluation = program.evaluate(variables, PER_CALL_LIMIT.min(*budget));
        *budget = budget.saturating_sub(evaluation.cost);
        if *budget == 0 {
            return Err(
                "validation failed due to running out of cost budget, no further validation rules will be run".into()
            );
        }
        evaluation.result.map_err(|e| format!("expression '{}' resulted in error: {e}", self.text))
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// `matchConditions`.
pub(super) struct Conditions(Vec<Expression>);

impl Conditions {
    pub(super) fn new(conditions: &Value) -> Self {
        Self::within(&environment(), conditions)
    }

    fn within(environment: &Environment, conditions: &Value) -> Self {
        Self(list(conditions).map(|c| Expression::new(environment, &c["expression"])).collect())
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

struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: &'static str,
}

struct Binding {
    name: String,
    matching: Option<Matching>,
    actions: Vec<String>,
    params: Value,
}

/// A policy with its bindings.
pub(super) struct Policy {
    name: String,
    matching: Matching,
    ignore_failure: bool,
    conditions: Conditions,
    variables: Vec<(String, Expression)>,
    validations: Vec<Validation>,
    param_kind: Option<(String, String)>,
    bindings: Vec<Binding>,
}

/// The values of a policy's variables. A variable that cannot be computed fails only what uses it.
#[derive(Debug)]
struct Computed(BTreeMap<String, Result<cel::Value, String>>);

impl Opaque for Computed {
    fn type_name(&self) -> &'static str {
        "kubernetes.variables"
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

fn texts(value: &Value) -> Vec<String> {
    list(value).filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

impl Policy {
    pub(super) fn new(policy: &Value, bindings: &[Value]) -> Self {
        let (spec, name) = (&policy["spec"], meta(policy, "name"));
        let environment = policy_environment();
        let validation = |v: &Value| Validation {
            expression: Expression::new(&environment, &v["expression"]),
            message: v["message"].as_str().unwrap_or_default().trim().to_owned(),
            message_expression: v["messageExpression"]
                .as_str()
                .filter(|e| !e.is_empty())
                .map(|_| Expression::new(&environment, &v["messageExpression"])),
            reason: match v["reason"].as_str() {
                Some("Unauthorized") => "Unauthorized",
                Some("Forbidden") => "Forbidden",
                Some("RequestEntityTooLarge") => "RequestEntityTooLarge",
                _ => "Invalid",
            },
        };
        let binding = |b: &Value| Binding {
            name: meta(b, "name").to_owned(),
            matching: Some(&b["spec"]["matchResources"])
                .filter(|m| m.is_object())
                .map(|m| Matching::new(m, "resourceRules")),
            actions: texts(&b["spec"]["validationActions"]),
            params: b["spec"]["paramRef"].clone(),
        };
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let kind = &spec["paramKind"];
        Self {
            name: name.to_owned(),
            matching: Matching::new(&spec["matchConstraints"], "resourceRules"),
            ignore_failure: spec["failurePolicy"] == "Ignore",
            conditions: Conditions::within(&environment, &spec["matchConditions"]),
            variables: list(&spec["variables"])
                .map(|v| (text(&v["name"]), Expression::new(&environment, &v["expression"])))
                .collect(),
            validations: list(&spec["validations"]).map(validation).collect(),
            param_kind: kind.is_object().then(|| (text(&kind["apiVersion"]), text(&kind["kind"]))),
            bindings: bindings.iter().filter(|b| b["spec"]["policyName"] == name).map(binding).collect(),
        }
    }

    /// The parameters of a binding: null for a policy without.
    async fn params(&self, request: &Attributes<'_>, binding: &Binding) -> Result<Vec<Value>, String> {
        let Some((version, kind)) = &self.param_kind else { return Ok(vec![Value::Null]) };
        let reference = &binding.params;
        if !reference.is_object() {
            return Ok(vec![Value::Null]);
        }
        let plane = &request.call.plane;
        let catalog = plane.catalog().await.map_err(|e| e.to_string())?;
        let (group, v) = version.rsplit_once('/').unwrap_or(("", version));
        let Some(descriptor) = catalog.kind(group, v, kind) else {
            return Err(format!("failed to find resource referenced by paramKind: '{version}, Kind={kind}'"));
        };
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let namespace = match (descriptor.namespaced, text("namespace")) {
            (false, _) => "",
            (true, "") => &request.target.namespace,
            (true, given) => given,
        };
        if descriptor.namespaced && namespace.is_empty() {
            return Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".into());
        }
        let resource = Target::new(descriptor.clone(), namespace, "").resource();
        let found = if text("name").is_empty() {
            let selector = LabelSelector::from_object(&reference["selector"])?;
            let scope = descriptor.namespaced.then_some(namespace);
            let mut all = plane.objects(&resource, scope).await.map_err(|e| e.to_string())?;
            all.retain(|o| selector.matches(o.pointer("/metadata/labels").unwrap_or(&Value::Null)));
            all
        } else {
            let one = plane.object(&resource, namespace, text("name")).await.map_err(|e| e.to_string())?;
            one.into_iter().collect()
        };
        if found.is_empty() && text("parameterNotFoundAction") != "Allow" {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".into());
        }
        Ok(found)
    }

    /// What does not hold: messages with their reasons.
    fn violations(&self, variables: &Variables) -> Vec<(String, &'static str)> {
        let failed = |why: String| if self.ignore_failure { Vec::new() } else { vec![(why, "Invalid")] };
        match self.conditions.hold(variables) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(why) => return failed(why),
        }
        let mut budget = BUDGET;
        let mut variables = variables.clone();
        let mut computed = BTreeMap::new();
        for (name, expression) in &self.variables {
            let value = expression.evaluate(&variables, &mut budget);
            computed.insert(name.clone(), value);
            variables.set("variables", cel::Value::Opaque(Arc::new(Computed(computed.clone()))));
        }
        let mut found = Vec::new();
        for validation in &self.validations {
            match validation.expression.evaluate(&variables, &mut budget) {
                Ok(cel::Value::Bool(true)) => {}
                Ok(_) => found.push((validation.text(&variables, &mut budget), validation.reason)),
                Err(why) => found.extend(failed(why)),
            }
        }
        found
    }
}

impl Validation {
    fn text(&self, variables: &Variables, budget: &mut u64) -> String {
        let made = self.message_expression.as_ref().and_then(|e| e.evaluate(variables, budget).ok());
        let made = made.as_ref().and_then(cel::Value::as_str).map(str::trim).unwrap_or_default();
        if !made.is_empty() && made.len() <= MAX_MESSAGE && !made.contains('\n') {
            made.to_owned()
        } else if !self.message.is_empty() {
            self.message.clone()
        } else {
            format!("failed expression: {}", self.expression.text.trim())
        }
    }
}

/// The refusal of a request.
fn denied(request: &Attributes<'_>, object: &Value, message: &str, reason: &'static str) -> ApiError {
    let mut error = request.target.forbidden(super::super::name_of(object), message);
    error.reason = reason;
    error.code = match reason {
        "Unauthorized" => 401,
        "Forbidden" => 403,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    error.details["causes"] = serde_json::json!([{ "message": message }]);
    error
}

/// Evaluates the policies that are about a request.
pub(super) async fn validate(policies: &[Policy], request: &Attributes<'_>, object: &Value) -> Result<(), ApiError> {
    let mut first: Option<(String, &'static str)> = None;
    let mut deny = |message: String, reason: &'static str| {
        first.get_or_insert((message, reason));
    };
    for policy in policies {
        let Some(invocation) = policy.matching.invocation(request, Some(object)).await? else { continue };
        for binding in &policy.bindings {
            if let Some(matching) = &binding.matching
                && !binding_matches(matching, request, object).await?
            {
                continue;
            }
            let by = format!("ValidatingAdmissionPolicy '{}' with binding '{}'", policy.name, binding.name);
            let params = match policy.params(request, binding).await {
                Ok(params) => params,
                Err(_) if policy.ignore_failure => continue,
                Err(why) => {
                    deny(format!("{by} denied request: failed to configure binding: {why}"), "Invalid");
                    continue;
                }
            };
            let namespace = match request.target.namespace.as_str() {
                "" => None,
                name => request.call.plane.object("namespaces", "", name).await?,
            };
            for params in params {
                let variables = variables(request, &invocation, object)
                    .await?
                    .with("params", cel::Value::from_json(&params))
                    .with("namespaceObject", namespace.as_ref().map_or(cel::Value::Null, cel::Value::from_json))
                    .with("variables", cel::Value::Opaque(Arc::new(Computed(BTreeMap::new()))));
                for (message, reason) in policy.violations(&variables) {
                    for action in &binding.actions {
                        match action.as_str() {
                            "Deny" => deny(format!("{by} denied request: {message}"), reason),
                            "Warn" => request.call.warn(format!(
                                "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                                policy.name, binding.name
                            )),
                            _ => tracing::debug!(policy = %policy.name, %message, "a policy would refuse a request"),
                        }
                    }
                }
            }
        }
    }
    match first {
        Some((message, reason)) => Err(denied(request, object, &message, reason)),
        None => Ok(()),
    }
}

/// A binding without rules narrows by selectors only.
async fn binding_matches(matching: &Matching, request: &Attributes<'_>, object: &Value) -> Result<bool, ApiError> {
    if matching.has_no_rules() {
        return matching.selects(request, Some(object)).await;
    }
    Ok(matching.invocation(request, Some(object)).await?.is_some())
}

/// Refuses a policy whose expressions do not compile.
pub(in crate::admission) fn check(target: &Target, policy: &Value) -> Result<(), ApiError> {
    if !target.is("admissionregistration.k8s.io", "validatingadmissionpolicies") {
        return Ok(());
    }
    let spec = &policy["spec"];
    let environment = policy_environment();
    let mut errors = Vec::new();
    for (field, truth) in [("variables", false), ("validations", true), ("matchConditions", true)] {
        for (i, item) in list(&spec[field]).enumerate() {
            let at = format!("spec.{field}[{i}].expression");
            let text = item["expression"].as_str().unwrap_or_default();
            if text.trim().is_empty() {
                errors.push(FieldError {
                    reason: "FieldValueRequired",
                    field: at,
                    body: "Required value: expression is not specified".into(),
                });
                continue;
            }
            let wrong = match environment.compile(text) {
                Err(e) => format!("compilation failed: {e}"),
                Ok(program) if truth && !matches!(program.output(), Type::Bool | Type::Dyn) => {
                    "must evaluate to bool".into()
                }
                Ok(_) => continue,
            };
            let body = format!("Invalid value: {text:?}: {wrong}");
            errors.push(FieldError { reason: "FieldValueInvalid", field: at, body });
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(target.invalid(&errors)) }
}
