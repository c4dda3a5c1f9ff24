//! Mutating and validating admission webhooks and policies. Mutating ones are called one after the other, ordered by the names of their
//! configurations; validating ones all at once. Source of rules and texts: apiserver's `pkg/admission/plugin/webhook`.

mod hook;
mod policy;
mod review;
mod rounds;

use std::{sync::Arc, time::Instant};

use serde_json::Value;
use vctl_machinery::{catalog::Descriptor, defaults, patch, schema, status::ApiError};

pub(crate) use hook::{Configurations, Hooks};
use hook::{Hook, Invocation};
pub(super) use policy::check_types;
use review::Verdict;
pub(super) use rounds::Rounds;

use crate::{
    convert,
    objects::{Call, Target},
};

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A request on its way through admission.
pub(super) struct Attributes<'a> {
    pub(super) call: &'a Call,
    pub(super) target: &'a Target,
    pub(super) operation: Operation,
    /// The object before an update or deletion, in the target's version.
    pub(super) old: Option<&'a Value>,
}

impl Attributes<'_> {
    /// The request's namespace: that of a Namespace is itself.
    fn namespace(&self) -> &str {
        if self.target.is("", "namespaces") { &self.target.name } else { &self.target.namespace }
    }
}

/// Why a webhook did not let a request pass.
enum Failure {
    /// It said no.
    Rejected(ApiError),
    /// It could not be asked, or its answer makes no sense: its failure policy decides.
    Calling(String),
}

/// Whether there is any webhook or policy.
pub(super) async fn any(call: &Call) -> Result<bool, ApiError> {
    let hooks = call.plane.webhooks().await?;
    Ok(!hooks.is_empty())
}

/// Lets the mutating policies and webhooks change the object (null for a deletion).
pub(super) async fn mutate(request: &Attributes<'_>, object: &mut Value, rounds: &mut Rounds) -> Result<(), ApiError> {
    let hooks = request.call.plane.webhooks().await?;
    if hook::is_exempt(request.target) {
        return Ok(());
    }
    policy::mutate(&hooks.mutating_policies, request, object, rounds).await?;
    if hooks.mutating.is_empty() {
        return Ok(());
    }
    rounds.begin_webhooks(object);
    for hook in &hooks.mutating {
        let Some(invocation) = hook.invocation(request, Some(object)).await? else { continue };
        if !rounds.runs_webhook(&hook.id) {
            continue;
        }
        let outcome = mutate_by(hook, request, &invocation, object).await;
        rounds.ran_webhook(hook.id.clone(), matches!(outcome, Ok(true)), hook.reinvocable);
        match outcome {
            Ok(_) => {}
            Err(Failure::Rejected(e)) => return Err(e),
            Err(Failure::Calling(why)) => hook.failed(&why)?,
        }
    }
    rounds.end_webhooks(object);
    Ok(())
}

/// Calls a webhook and applies its patch; true when that changed something.
async fn mutate_by(
    hook: &Hook,
    request: &Attributes<'_>,
    invocation: &Invocation,
    object: &mut Value,
) -> Result<bool, Failure> {
    let own = &request.target.descriptor;
    let mut shown = converted(request.call, own, &invocation.descriptor, object).await.map_err(Failure::Rejected)?;
    let verdict = ask(hook, request, invocation, &shown, true).await?;
    let Some(operations) = verdict.patch else { return Ok(false) };
    if object.is_null() {
        let why = format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
            hook.name
        );
        return Err(Failure::Rejected(ApiError::internal(why)));
    }
    let mut patched = patch::json(&shown, &operations).map_err(|e| Failure::Rejected(ApiError::internal(e)))?;
    if patched == shown {
        return Ok(false);
    }
    // A Scale or an Eviction is no object of the resource.
    if patched["kind"] == invocation.descriptor.kind {
        // What the schema does not know goes, as when an object is decoded.
        schema::decode(&invocation.descriptor, &mut patched).map_err(|e| Failure::Rejected(ApiError::internal(e)))?;
        defaults::apply(&invocation.descriptor, &mut patched).map_err(Failure::Rejected)?;
    }
    let changed = patched != shown;
    shown = converted(request.call, &invocation.descriptor, own, &patched).await.map_err(Failure::Rejected)?;
    *object = shown;
    Ok(changed)
}

/// Evaluates all policies, then asks all validating webhooks.
pub(super) async fn validate(request: &Attributes<'_>, object: &Value) -> Result<(), ApiError> {
    let hooks = request.call.plane.webhooks().await?;
    if hooks.is_empty() || hook::is_exempt(request.target) {
        return Ok(());
    }
    policy::validate(&hooks.policies, request, object).await?;
    let mut calls = Vec::new();
    for hook in &hooks.validating {
        let Some(invocation) = hook.invocation(request, Some(object)).await? else { continue };
        calls.push(async move {
            let shown = converted(request.call, &request.target.descriptor, &invocation.descriptor, object).await?;
            match ask(hook, request, &invocation, &shown, false).await {
                Ok(_) => Ok(()),
                Err(Failure::Rejected(e)) => Err(e),
                Err(Failure::Calling(why)) => hook.failed(&why),
            }
        });
    }
    futures::future::join_all(calls).await.into_iter().collect()
}

/// One call, with its time taken.
async fn ask(
    hook: &Hook,
    request: &Attributes<'_>,
    invocation: &Invocation,
    object: &Value,
    mutating: bool,
) -> Result<Verdict, Failure> {
    let started = Instant::now();
    let answer = call(hook, request, invocation, object, mutating).await;
    let rejected = matches!(answer, Err(Failure::Rejected(_)));
    let metrics = &request.call.plane.metrics;
    metrics.webhook(&hook.name, request.operation.as_str(), mutating, rejected, started.elapsed());
    answer
}

/// One call; a webhook that allows answers with its patch.
async fn call(
    hook: &Hook,
    request: &Attributes<'_>,
    invocation: &Invocation,
    object: &Value,
    mutating: bool,
) -> Result<Verdict, Failure> {
    if request.call.dry_run && !hook.dry_run {
        let why = format!("admission webhook {:?} does not support dry run", hook.name);
        return Err(Failure::Rejected(ApiError::bad_request(why)));
    }
    let Some(version) = hook.review_version else {
        return Err(Failure::Calling(
            "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
                .into(),
        ));
    };
    let old = match request.old {
        Some(old) => Some(
            converted(request.call, &request.target.descriptor, &invocation.descriptor, old)
                .await
                .map_err(Failure::Rejected)?,
        ),
        None => None,
    };
    let uid = uuid::Uuid::new_v4().to_string();
    let review = review::request(request, invocation, version, &uid, object, old.as_ref());
    let client = match &hook.client {
        Ok(client) => client,
        Err(why) => return Err(Failure::Calling(format!("could not get REST client: {why}"))),
    };
    let answer = client
        .post(&request.call.plane, &review, hook.timeout)
        .await
        .map_err(|e| Failure::Calling(format!("failed to call webhook: {e}")))?;
    let verdict = review::verdict(&answer, version, &uid, mutating)
        .map_err(|e| Failure::Calling(format!("received invalid webhook response: {e}")))?;
    for (key, value) in &verdict.audit {
        request.call.annotate(&format!("{}/{key}", hook.name), value);
    }
    for warning in &verdict.warnings {
        request.call.warn(warning.clone());
    }
    if verdict.allowed { Ok(verdict) } else { Err(Failure::Rejected(review::denied(&hook.name, &verdict.result))) }
}

/// An object in another version of its resource.
async fn converted(
    call: &Call,
    from: &Arc<Descriptor>,
    to: &Arc<Descriptor>,
    object: &Value,
) -> Result<Value, ApiError> {
    let mut object = object.clone();
    if !Arc::ptr_eq(from, to) && !object.is_null() && object["apiVersion"] == from.api_version() {
        if let Some(converter) = call.plane.converter(from).await? {
            let converted = converter.convert(&call.plane, &object, &to.version).await;
            object = converted.map_err(|e| ApiError::internal(e.message))?;
        } else {
            convert::to_storage(from, &mut object);
            convert::from_storage(to, &mut object);
        }
    }
    Ok(object)
}
