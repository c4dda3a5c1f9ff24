//! Admission: what a cluster adds to objects and refuses, beyond what their schema says.

mod certificate;
mod default_class;
mod disruption;
mod limit_range;
mod namespace;
mod platform;
mod pod;
mod pod_security;
mod quota;
mod rbac;
pub(crate) mod service;
mod service_account;
pub(crate) mod storage;
mod webhook;

pub(crate) use disruption::evict;
pub(crate) use webhook::{Configurations, Hooks, Operation};

use std::time::Instant;

use serde_json::Value;
use vctl_machinery::status::ApiError;
use vctl_store::Write;
use webhook::{Attributes, Rounds};

use crate::{
    api_metrics::Step,
    custom,
    document::meta,
    limits::counting::Hold,
    objects::{Call, Target},
    subresource,
};

/// The name of an object, or what its name will be made from, as errors show it.
fn name_of(object: &Value) -> &str {
    match meta(object, "name") {
        "" => meta(object, "generateName"),
        name => name,
    }
}

/// The name that an object has already.
fn name_of_existing(object: &Value) -> &str {
    meta(object, "name")
}

/// Completes or refuses a new object before it gets a generated name. The order is upstream's: what is built in, then webhooks; both
/// once more when a webhook changed something.
pub(crate) async fn admit_create(call: &Call, target: &Target, object: &mut Value) -> Result<(), ApiError> {
    timed(call, Operation::Create, Step::Admit, change_new(call, target, object)).await
}

/// Takes the time of a step.
async fn timed<T>(
    call: &Call,
    operation: Operation,
    step: Step,
    work: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    let started = Instant::now();
    let done = work.await;
    call.plane.metrics.admission_step(operation.as_str(), step, done.is_err(), started.elapsed());
    done
}

async fn change_new(call: &Call, target: &Target, object: &mut Value) -> Result<(), ApiError> {
    let request = Attributes { call, target, operation: Operation::Create, old: None };
    let mut rounds = Rounds::default();
    loop {
        complete(call, target, object).await?;
        webhook::mutate(&request, object, &mut rounds).await?;
        if !rounds.second() {
            return Ok(());
        }
    }
}

/// What is built in of it.
async fn complete(call: &Call, target: &Target, object: &mut Value) -> Result<(), ApiError> {
    if target.descriptor.namespaced {
        namespace::exists(call, target, object).await?;
    }
    match (&*target.descriptor.group, &*target.descriptor.plural) {
        ("", "pods") => {
            limit_range::defaults(call, target, object).await?;
            service_account::admit(call, target, object).await?;
            pod::priority(call, target, object).await?;
            pod::tolerations(object);
            pod::runtime(call, target, object).await?;
        }
        ("", "persistentvolumeclaims") => {
            default_class::storage(call, object).await?;
            storage::protect(object, storage::CLAIM_PROTECTION);
        }
        ("", "persistentvolumes") => storage::protect(object, storage::VOLUME_PROTECTION),
        ("networking.k8s.io", "ingresses") => default_class::ingress(call, object).await?,
        _ => {}
    }
    Ok(())
}

/// Gives a new object what the cluster has only once; returns what must be written together with it.
pub(crate) async fn allocate_create(call: &Call, target: &Target, object: &mut Value) -> Result<Vec<Write>, ApiError> {
    match (&*target.descriptor.group, &*target.descriptor.plural) {
        ("", "services") => service::create(call, target, object).await,
        ("certificates.k8s.io", "certificatesigningrequests") => {
            signed_for(call, object);
            Ok(Vec::new())
        }
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => {
            webhook::check_types(call, object).await?;
            Ok(Vec::new())
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            custom::names::establish(call, object).await?;
            Ok(Vec::new())
        }
        _ => Ok(Vec::new()),
    }
}

/// What a write costs.
#[derive(Default)]
pub(crate) struct Charges {
    /// What must be written together with it.
    pub(crate) writes: Vec<Write>,
    /// To be kept until it is known whether it was written.
    pub(crate) hold: Option<Hold>,
}

impl Charges {
    /// With more that must be written together with it.
    pub(crate) fn and(mut self, more: Vec<Write>) -> Self {
        self.writes.extend(more);
        self
    }
}

/// Refuses a new object that is complete and valid, or returns what it costs.
pub(crate) async fn validate_create(call: &Call, target: &Target, object: &Value) -> Result<Charges, ApiError> {
    timed(call, Operation::Create, Step::Validate, check_new(call, target, object)).await
}

async fn check_new(call: &Call, target: &Target, object: &Value) -> Result<Charges, ApiError> {
    limit_range::check(call, target, object).await?;
    pod_security::check(call, target, None, object).await?;
    if target.is("scheduling.k8s.io", "priorityclasses") {
        pod::one_default(call, target, object).await?;
    }
    if target.descriptor.group == "rbac.authorization.k8s.io" {
        rbac::no_escalation(call, target, object).await?;
    }
    if certificate::is_request(target) {
        certificate::create(target, object)?;
    }
    let request = Attributes { call, target, operation: Operation::Create, old: None };
    webhook::validate(&request, object).await?;
    let writes = quota::charge(call, target, None, object).await?;
    Ok(Charges { writes, hold: platform::admit(call, target, None, object).await? })
}

/// A certificate signing request says who made it; nobody can say so for another.
fn signed_for(call: &Call, request: &mut Value) {
    let spec = &mut request["spec"];
    spec["username"] = call.user.name.clone().into();
    spec["groups"] = call.user.groups.clone().into();
    for (field, value) in [("uid", serde_json::json!(call.user.uid)), ("extra", serde_json::json!(call.user.extra))] {
        let empty =
            value.as_str().is_some_and(str::is_empty) || value.as_object().is_some_and(serde_json::Map::is_empty);
        if let Some(spec) = spec.as_object_mut() {
            if empty {
                spec.remove(field)
            } else {
                spec.insert(field.to_owned(), value)
            };
        }
    }
}

/// Completes or refuses a change, and keeps or gives it what the cluster has only once; returns what must be written together with it.
pub(crate) async fn admit_update(
    call: &Call,
    target: &Target,
    old: &Value,
    new: &mut Value,
) -> Result<Vec<Write>, ApiError> {
    timed(call, Operation::Update, Step::Admit, change(call, target, old, new)).await
}

async fn change(call: &Call, target: &Target, old: &Value, new: &mut Value) -> Result<Vec<Write>, ApiError> {
    if certificate::is_request(target) && target.subresource == "approval" {
        certificate::stamp(old, new, &call.now());
    }
    // A binding has been asked about as what it is.
    if target.subresource != "binding" && webhook::any(call).await? {
        let old = subresource::show(target, old)?;
        let request = Attributes { call, target, operation: Operation::Update, old: Some(&old) };
        let mut rounds = Rounds::default();
        let mut view = subresource::show(target, new)?;
        loop {
            webhook::mutate(&request, &mut view, &mut rounds).await?;
            if !rounds.second() {
                break;
            }
        }
        *new = if target.subresource == "scale" { subresource::merge(target, new, view)? } else { view };
    }
    if target.subresource.is_empty() && target.is("", "services") {
        return service::update(call, target, old, new).await;
    }
    if target.subresource.is_empty() && target.is("admissionregistration.k8s.io", "validatingadmissionpolicies") {
        webhook::check_types(call, new).await?;
    }
    let spec_changes = target.subresource.is_empty() && new.get("spec") != old.get("spec");
    if spec_changes && target.is("apiextensions.k8s.io", "customresourcedefinitions") {
        custom::names::establish(call, new).await?;
    }
    Ok(Vec::new())
}

/// Refuses a change that is complete and valid, or returns what it costs.
pub(crate) async fn validate_update(
    call: &Call,
    target: &Target,
    old: &Value,
    new: &Value,
) -> Result<Charges, ApiError> {
    timed(call, Operation::Update, Step::Validate, check_change(call, target, old, new)).await
}

async fn check_change(call: &Call, target: &Target, old: &Value, new: &Value) -> Result<Charges, ApiError> {
    pod_security::check(call, target, Some(old), new).await?;
    if certificate::is_request(target) {
        certificate::update(call, target, old, new).await?;
    }
    if target.subresource.is_empty() {
        if target.is("", "persistentvolumeclaims") {
            limit_range::check(call, target, new).await?;
            storage::may_grow(call, target, old, new).await?;
        } else if target.is("scheduling.k8s.io", "priorityclasses") {
            pod::one_default(call, target, new).await?;
        }
        let granted = |o: &Value| (o.get("rules").cloned(), o.get("subjects").cloned());
        if target.descriptor.group == "rbac.authorization.k8s.io" && granted(new) != granted(old) {
            rbac::no_escalation(call, target, new).await?;
        }
    }
    if target.subresource != "binding" && webhook::any(call).await? {
        let (before, after) = (subresource::show(target, old)?, subresource::show(target, new)?);
        let request = Attributes { call, target, operation: Operation::Update, old: Some(&before) };
        webhook::validate(&request, &after).await?;
    }
    let writes = quota::charge(call, target, Some(old), new).await?;
    Ok(Charges { writes, hold: platform::admit(call, target, Some(old), new).await? })
}

/// Refuses a deletion, or returns what must be written when the object goes.
pub(crate) async fn delete(call: &Call, target: &Target, object: &Value) -> Result<Vec<Write>, ApiError> {
    timed(call, Operation::Delete, Step::Validate, check_deletion(call, target, object)).await
}

async fn check_deletion(call: &Call, target: &Target, object: &Value) -> Result<Vec<Write>, ApiError> {
    if target.is("", "namespaces") {
        namespace::may_be_deleted(target)?;
    }
    let request = Attributes { call, target, operation: Operation::Delete, old: Some(object) };
    webhook::mutate(&request, &mut Value::Null, &mut Rounds::default()).await?;
    webhook::validate(&request, &Value::Null).await?;
    release(call, target, object).await
}

/// Lets webhooks change or refuse what is posted to a subresource, or a session with a pod; returns what is left of it.
pub(crate) async fn admit_action(
    call: &Call,
    target: &Target,
    operation: Operation,
    mut object: Value,
) -> Result<Value, ApiError> {
    let request = Attributes { call, target, operation, old: None };
    let mut rounds = Rounds::default();
    loop {
        webhook::mutate(&request, &mut object, &mut rounds).await?;
        if !rounds.second() {
            break;
        }
    }
    webhook::validate(&request, &object).await?;
    Ok(object)
}

/// What goes together with an object.
pub(crate) async fn release(call: &Call, target: &Target, object: &Value) -> Result<Vec<Write>, ApiError> {
    if target.is("", "services") { service::release(call, object).await } else { Ok(Vec::new()) }
}
