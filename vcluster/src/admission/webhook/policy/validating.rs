//! ValidatingAdmissionPolicies. Source of rules and texts: apiserver's `pkg/admission/plugin/policy/validating`.

use super::{
    ApiError, Attributes, BUDGET, Declared, Environment, Expression, Policy, Type, Value, Variables, cel, list,
};
use crate::{admission::name_of, objects::Call};

/// Longest message that an expression may make, in bytes.
const MAX_MESSAGE: usize = 5 << 10;

struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: &'static str,
}

impl Validation {
    fn new(environment: &Environment, messages: &Environment, v: &Value) -> Self {
        Self {
            expression: Expression::new(environment, &v["expression"], &[Type::Bool]),
            message: v["message"].as_str().unwrap_or_default().trim().to_owned(),
            message_expression: v["messageExpression"]
                .as_str()
                .filter(|e| !e.is_empty())
                .map(|_| Expression::new(messages, &v["messageExpression"], &[Type::String])),
            reason: match v["reason"].as_str() {
                Some("Unauthorized") => "Unauthorized",
                Some("Forbidden") => "Forbidden",
                Some("RequestEntityTooLarge") => "RequestEntityTooLarge",
                _ => "Invalid",
            },
        }
    }

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

/// A policy with its bindings.
pub(in crate::admission::webhook) struct ValidatingPolicy {
    policy: Policy,
    validations: Vec<Validation>,
    annotations: Vec<(String, Expression)>,
}

impl ValidatingPolicy {
    pub(in crate::admission::webhook) fn new(policy: &Value, bindings: &[Value]) -> Self {
        let mut declared = Declared::default();
        let of = Policy::new(policy, bindings, &mut declared);
        let environment = declared.environment();
        let messages = Declared { authorizer: false, ..declared }.environment();
        let annotation = |a: &Value| {
            let key = format!("{}/{}", of.name, a["key"].as_str().unwrap_or_default());
            (key, Expression::new(&environment, &a["valueExpression"], &[Type::String, Type::Null]))
        };
        let spec = &policy["spec"];
        Self {
            validations: list(&spec["validations"]).map(|v| Validation::new(&environment, &messages, v)).collect(),
            annotations: list(&spec["auditAnnotations"]).map(annotation).collect(),
            policy: of,
        }
    }

    /// What does not hold: messages with their reasons, by the binding's actions; and what denies a request in any case.
    fn violations(&self, call: &Call, variables: &Variables) -> (Vec<(String, &'static str)>, Vec<String>) {
        let ignore = self.policy.ignore_failure;
        let failed = |why: String| if ignore { Vec::new() } else { vec![(why, "Invalid")] };
        match self.policy.conditions.hold(variables) {
            Ok(true) => {}
            Ok(false) => return Default::default(),
            Err(why) => return (failed(why), Vec::new()),
        }
        let mut budget = BUDGET;
        let mut variables = variables.clone();
        self.policy.compute(&mut variables, &mut budget);
        let (mut found, mut fatal) = (Vec::new(), Vec::new());
        for validation in &self.validations {
            match validation.expression.evaluate(&variables, &mut budget) {
                Ok(cel::Value::Bool(true)) => {}
                Ok(_) => found.push((validation.text(&variables, &mut budget), validation.reason)),
                Err(why) => found.extend(failed(why)),
            }
        }
        for (key, expression) in &self.annotations {
            match expression.evaluate(&variables, &mut budget) {
                Ok(value) => match value.as_str() {
                    Some(text) if !text.is_empty() => call.annotate(key, text),
                    _ => {}
                },
                Err(_) if ignore => {}
                Err(why) => fatal.push(why.replacen("expression", "valueExpression", 1)),
            }
        }
        (found, fatal)
    }
}

/// The refusal of a request.
fn denied(request: &Attributes<'_>, object: &Value, message: &str, reason: &'static str) -> ApiError {
    let mut error = request.target.forbidden(name_of(object), message);
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
pub(in crate::admission::webhook) async fn validate(
    policies: &[ValidatingPolicy],
    request: &Attributes<'_>,
    object: &Value,
) -> Result<(), ApiError> {
    let mut first: Option<(String, &'static str)> = None;
    let mut failures = Vec::new();
    let mut deny = |message: String, reason: &'static str| {
        first.get_or_insert((message, reason));
    };
    for validating in policies {
        let policy = &validating.policy;
        let Some(invocation) = policy.matching.invocation(request, Some(object)).await? else { continue };
        for (binding, matches) in policy.matches(request, object).await? {
            let by = format!("ValidatingAdmissionPolicy '{}' with binding '{}'", policy.name, binding.name);
            let matches = match matches {
                Ok(matches) => matches,
                Err(_) if policy.ignore_failure => continue,
                Err(why) => {
                    deny(format!("{by} denied request: failed to configure binding: {why}"), "Invalid");
                    continue;
                }
            };
            for matched in matches {
                let variables = policy.subject(request, &invocation, object, &matched.params).await?;
                let (violations, fatal) = validating.violations(request.call, &variables);
                for (message, reason) in violations {
                    for action in &matched.binding.actions {
                        match action.as_str() {
                            "Deny" => deny(format!("{by} denied request: {message}"), reason),
                            "Warn" => request.call.warn(format!("Validation failed for {by}: {message}")),
                            _ => failures.push(serde_json::json!({
                                "message": message, "policy": policy.name, "binding": binding.name,
                                "validationActions": matched.binding.actions,
                            })),
                        }
                    }
                }
                for why in fatal {
                    deny(format!("{by} denied request: {why}"), "Invalid");
                }
            }
        }
    }
    if !failures.is_empty() {
        let text = Value::from(failures).to_string();
        request.call.annotate("validation.policy.admission.k8s.io/validation_failure", &text);
    }
    match first {
        Some((message, reason)) => Err(denied(request, object, &message, reason)),
        None => Ok(()),
    }
}
