//! MutatingAdmissionPolicies: they run before the mutating webhooks, and again with these when something changes after them. Source of
//! rules and texts: apiserver's `pkg/admission/plugin/policy/mutating`.

use serde_json::json;
use vctl_machinery::{apply, catalog::Descriptor, defaults, patch, schema};

use super::{
    ApiError, Attributes, BUDGET, Declared, Expression, Match, Policy, Value, Variables, admission, cel, list,
};
use crate::{
    admission::{
        name_of,
        webhook::{Operation, converted, hook::Invocation, rounds::Rounds},
    },
    document::meta,
};

/// What a mutation's expression makes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    ApplyConfiguration,
    JsonPatch,
}

struct Mutation {
    kind: Kind,
    expression: Expression,
}

/// A policy with its bindings.
pub(in crate::admission::webhook) struct MutatingPolicy {
    policy: Policy,
    mutations: Vec<Mutation>,
    reinvocable: bool,
}

/// Why a mutation could not be carried out.
enum Failure {
    /// The policy's failure policy decides.
    Policy(String),
    /// The request fails.
    Request(ApiError),
}

impl MutatingPolicy {
    pub(in crate::admission::webhook) fn new(policy: &Value, bindings: &[Value]) -> Self {
        let mut declared = Declared::default();
        let of = Policy::new(policy, bindings, &mut declared);
        declared.patches = true;
        let environment = declared.environment();
        let mutation = |m: &Value| {
            let (kind, field, wanted) = if m["patchType"] == "JSONPatch" {
                (Kind::JsonPatch, "jsonPatch", admission::json_patch_type())
            } else {
                (Kind::ApplyConfiguration, "applyConfiguration", admission::apply_configuration_type())
            };
            Mutation { kind, expression: Expression::new(&environment, &m[field]["expression"], &[wanted]) }
        };
        Self {
            mutations: list(&policy["spec"]["mutations"]).map(mutation).collect(),
            reinvocable: policy["spec"]["reinvocationPolicy"] == "IfNeeded",
            policy: of,
        }
    }

    /// Carries out the mutations of one match, one after the other. What fails is noted; the others go on.
    async fn mutate(
        &self,
        request: &Attributes<'_>,
        invocation: &Invocation,
        matched: &Match<'_>,
        object: &mut Value,
        fail: &mut impl FnMut(&Match<'_>, String),
    ) -> Result<(), ApiError> {
        let (call, own) = (request.call, &request.target.descriptor);
        for mutation in &self.mutations {
            if object.is_null() {
                return Ok(());
            }
            let mut budget = BUDGET;
            let mut variables = self.policy.subject(request, invocation, object, &matched.params).await?;
            self.policy.compute(&mut variables, &mut budget);
            let shown = converted(call, own, &invocation.descriptor, object).await?;
            match mutation.apply(&invocation.descriptor, &shown, &variables, &mut budget) {
                Ok(patched) => *object = converted(call, &invocation.descriptor, own, &patched).await?,
                Err(Failure::Policy(why)) => fail(matched, why),
                Err(Failure::Request(e)) => return Err(e),
            }
        }
        Ok(())
    }
}

impl Mutation {
    /// The object as the expression wants it to be.
    fn apply(
        &self,
        descriptor: &Descriptor,
        object: &Value,
        variables: &Variables,
        budget: &mut u64,
    ) -> Result<Value, Failure> {
        let value = self.expression.evaluate(variables, budget).map_err(Failure::Policy)?;
        let mut patched = match self.kind {
            Kind::ApplyConfiguration => configure(descriptor, object, &value).map_err(Failure::Policy)?,
            Kind::JsonPatch => match edit(object, &value).map_err(Failure::Policy)? {
                Some(patched) => patched,
                None => return Ok(object.clone()),
            },
        };
        // A Scale or an Eviction is no object of the resource.
        if patched["kind"] == descriptor.kind {
            let internal = |why: String| Failure::Request(ApiError::internal(why));
            let unknown = schema::decode(descriptor, &mut patched).map_err(internal)?;
            if !unknown.is_empty() && !descriptor.custom {
                return Err(internal(format!("strict decoding error: {}", unknown.join(", "))));
            }
            defaults::apply(descriptor, &mut patched).map_err(Failure::Request)?;
        }
        Ok(patched)
    }
}

/// Merges an apply configuration.
fn configure(descriptor: &Descriptor, object: &Value, made: &cel::Value) -> Result<Value, String> {
    let cel::Value::Message(message) = made else {
        return Err(format!("unsupported return type from ApplyConfiguration expression: {made}"));
    };
    message.check_names().map_err(|why| format!("type mismatch: {why}"))?;
    let mut configuration =
        made.to_json().ok_or("invalid return type: the object contains values that have no form in JSON")?;
    for field in ["apiVersion", "kind"] {
        configuration[field] = object[field].clone();
    }
    if object["kind"] != descriptor.kind {
        let kind = object["kind"].as_str().unwrap_or_default();
        return Err(format!("error applying patch: ApplyConfiguration is not supported for {kind}; use JSONPatch"));
    }
    apply::overlay(descriptor, object, &configuration).map_err(|why| format!("error applying patch: {why}"))
}

/// Carries out a JSON patch; none when one of its tests fails.
fn edit(object: &Value, made: &cel::Value) -> Result<Option<Value>, String> {
    let cel::Value::List(operations) = made else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".into());
    };
    let mut patch = Vec::with_capacity(operations.items.len());
    for operation in &operations.items {
        let cel::Value::Message(message) = operation else {
            return Err("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch".into());
        };
        if let Some(cel::Value::Message(value)) = message.fields.get("value") {
            value.check_names().map_err(|why| format!("type mismatch: {why}"))?;
        }
        patch.push(operation.to_json().ok_or(
            "JSONPath valueExpression evaluated to a type that could not marshal to JSON: it has no form there",
        )?);
    }
    let patch = Value::Array(patch);
    let error = match patch::json(object, &patch) {
        Ok(patched) => return Ok(Some(patched)),
        Err(error) => error,
    };
    let why = error.details.pointer("/causes/0/message").and_then(Value::as_str).unwrap_or(&error.message);
    // `operation '/3' failed ..`: what is not there is not equal to anything either.
    let failed = why.split('\'').nth(1).and_then(|at| patch.pointer(at));
    if failed.is_some_and(|operation| operation["op"] == "test") {
        return Ok(None);
    }
    Err(format!("JSON Patch: {why}"))
}

/// Lets the policies that are about a request change its object.
pub(in crate::admission::webhook) async fn mutate(
    policies: &[MutatingPolicy],
    request: &Attributes<'_>,
    object: &mut Value,
    rounds: &mut Rounds,
) -> Result<(), ApiError> {
    // A deletion has no object.
    if policies.is_empty() || request.operation == Operation::Delete {
        return Ok(());
    }
    rounds.begin_policies(object);
    let mut failures: Vec<(String, &'static str)> = Vec::new();
    let mut active = Vec::new();
    for mutating in policies {
        let policy = &mutating.policy;
        let Some(invocation) = policy.matching.invocation(request, Some(object)).await? else { continue };
        for (binding, matches) in policy.matches(request, object).await? {
            match matches {
                Ok(matches) => active.extend(matches.into_iter().map(|m| (mutating, invocation.clone(), m))),
                Err(_) if policy.ignore_failure => {}
                Err(why) => {
                    let by = format!("policy '{}' with binding '{}'", policy.name, binding.name);
                    failures.push((format!("{by} denied request: failed to configure binding: {why}"), "Forbidden"));
                }
            }
        }
    }
    for (mutating, invocation, matched) in &active {
        let policy = &mutating.policy;
        let mut fail = |matched: &Match<'_>, why: String| {
            if !policy.ignore_failure {
                let by = format!("policy '{}' with binding '{}'", policy.name, matched.binding.name);
                failures.push((format!("{by} denied request: {why}"), "Invalid"));
            }
        };
        let variables = policy.subject(request, invocation, object, &matched.params).await?;
        match policy.conditions.hold(&variables) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(why) => {
                fail(matched, why);
                continue;
            }
        }
        let key = format!(
            "{}/{}/{}/{}",
            policy.name,
            matched.binding.name,
            meta(&matched.params, "namespace"),
            meta(&matched.params, "name")
        );
        if !rounds.runs_policy(&key) {
            continue;
        }
        let before = object.clone();
        mutating.mutate(request, invocation, matched, object, &mut fail).await?;
        rounds.ran_policy(key, before != *object, mutating.reinvocable);
    }
    rounds.end_policies(object);
    let Some((message, reason)) = failures.first() else { return Ok(()) };
    let mut error = request.target.forbidden(name_of(object), message);
    error.message.clone_from(message);
    error.reason = reason;
    error.details["causes"] = failures.iter().map(|(message, _)| json!({ "message": message })).collect();
    Err(error)
}
