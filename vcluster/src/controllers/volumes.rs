//! PersistentVolumes and PersistentVolumeClaims: binds them to each other, makes volumes for claims whose class is ours, reclaims what was
//! released, and keeps both from going while they are used (`pkg/controller/volume/persistentvolume`, `pvcprotection`, `pvprotection` and
//! sig-storage's external-provisioner upstream).
//!
//! One reconcile serves all claims and volumes of a tenant, so that two claims never take the same volume. What is to be done with one
//! object is decided by pure functions ([`claims`], [`released`]); each write brings the reconcile back, until nothing is left to do.
//!
//! A volume of the provisioner [`PROVISIONER`] is a directory on the worker its node affinity names. Its finalizer
//! [`RECLAIM_FINALIZER`] stays until that worker has said that the directory is gone (the syncer asks it).

mod claims;
pub(super) mod matching;
mod protection;
mod provision;
mod released;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use vctl_machinery::status::ApiError;

use super::{
    context::{Context, Failure},
    event::{Draft, EventType},
    object::{annotation, list, name, namespace, set_annotation, text, uid, uid_precondition},
};
use claims::ClaimStep;
use matching::{BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, is_for};
use released::VolumeStep;

pub(super) use provision::PROVISIONER;

pub(super) const CLAIMS: &str = "persistentvolumeclaims";
pub(super) const VOLUMES: &str = "persistentvolumes";
pub(super) const CLASSES: &str = "storageclasses.storage.k8s.io";

/// Held by a volume of ours until its directory is gone: the finalizer of upstream's external-provisioner.
pub(super) const RECLAIM_FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// Something to tell about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    kind: EventType,
    reason: &'static str,
    message: String,
}

impl Told {
    fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind: EventType::Normal, reason, message: message.into() }
    }

    fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind: EventType::Warning, reason, message: message.into() }
    }
}

/// All of a tenant that decisions are made from.
pub(super) struct View {
    pub(super) claims: Vec<Value>,
    pub(super) volumes: Vec<Value>,
    pub(super) classes: Vec<Value>,
    pub(super) nodes: Vec<Value>,
    pub(super) pods: Vec<Value>,
}

pub(super) async fn reconcile(cx: &Context<'_>) -> Result<Option<Timestamp>, Failure> {
    // Said before reading, so that what changes from here on brings us back.
    cx.hints.set_waiting_claims(cx.tenant, true);
    let view = View {
        claims: cx.list(CLAIMS, "").await?,
        volumes: cx.list(VOLUMES, "").await?,
        classes: Vec::new(),
        nodes: Vec::new(),
        pods: Vec::new(),
    };
    if view.claims.is_empty() && view.volumes.is_empty() {
        cx.hints.set_waiting_claims(cx.tenant, false);
        cx.hints.keep_told(cx.tenant, &BTreeSet::new());
        return Ok(None);
    }
    let mut nodes = cx.list("nodes", "").await?;
    nodes.sort_by(|a, b| name(a).cmp(name(b)));
    let view = View { classes: cx.list(CLASSES, "").await?, nodes, pods: cx.list("pods", "").await?, ..view };

    let mut failures = Vec::new();
    let mut waiting = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for volume in &view.volumes {
        if let Err(e) = reclaim(cx, &view, volume).await {
            failures.push(format!("volume {}: {e}", name(volume)));
        }
    }
    for claim in &view.claims {
        let step = claims::step(claim, &view, &taken);
        if let ClaimStep::Bind(volume) = &step {
            taken.insert(name(volume).to_owned());
        }
        if !matches!(step, ClaimStep::Nothing | ClaimStep::Bind(_)) {
            waiting.insert(uid(claim).to_owned());
        }
        if let Err(e) = carry_out(cx, claim, step).await {
            failures.push(format!("claim {}/{}: {e}", namespace(claim), name(claim)));
        }
    }
    if let Err(e) = protection::release(cx, &view).await {
        failures.push(e.to_string());
    }
    cx.hints.keep_told(cx.tenant, &waiting);
    if !failures.is_empty() {
        return Err(Failure::Partly(failures.join("; ")));
    }
    cx.hints.set_waiting_claims(cx.tenant, !waiting.is_empty());
    Ok(None)
}

/// Does what was decided about a claim.
async fn carry_out(cx: &Context<'_>, claim: &Value, step: ClaimStep<'_>) -> Result<(), Failure> {
    match step {
        ClaimStep::Nothing => Ok(()),
        ClaimStep::Bind(volume) => bind(cx, claim, volume).await,
        ClaimStep::Lost(told) => {
            tell(cx, "PersistentVolumeClaim", claim, told).await;
            claim_status(cx, claim.clone(), "Lost", None).await
        }
        ClaimStep::Wait(told) => {
            tell(cx, "PersistentVolumeClaim", claim, told).await;
            claim_status(cx, claim.clone(), "Pending", None).await
        }
        ClaimStep::Reselect => {
            let mut changed = claim.clone();
            if let Some(annotations) = changed.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
                annotations.remove(SELECTED_NODE);
            }
            save_claim(cx, changed).await.map(drop)
        }
        ClaimStep::External { provisioner } => {
            let claim = provision::announce(cx, claim, provisioner).await?;
            let message = format!(
                "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system \
                 administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
            );
            tell(cx, "PersistentVolumeClaim", &claim, Told::normal("ExternalProvisioning", message)).await;
            Ok(())
        }
        ClaimStep::Provision { class, node } => provision::provision(cx, claim, class, node).await,
        ClaimStep::Grow { volume, capacity } => {
            let mut changed = volume.clone();
            changed["spec"]["capacity"]["storage"] = capacity;
            let volume = save_volume(cx, changed).await?;
            let told = Told::normal("VolumeResizeSuccessful", "Resize volume succeeded");
            tell(cx, "PersistentVolumeClaim", claim, told).await;
            claim_status(cx, claim.clone(), "Bound", Some(&volume)).await
        }
    }
}

/// Ties a claim and a volume to each other: the volume first, so that nobody else takes it.
async fn bind(cx: &Context<'_>, claim: &Value, volume: &Value) -> Result<(), Failure> {
    let mut volume = volume.clone();
    if text(&volume, "/spec/claimRef/uid") != uid(claim) {
        if text(&volume, "/spec/claimRef/name").is_empty() {
            set_annotation(&mut volume, BOUND_BY_CONTROLLER, "yes");
        }
        volume["spec"]["claimRef"] = reference(claim);
        volume = save_volume(cx, volume).await?;
    }
    if text(&volume, "/status/phase") != "Bound" {
        volume = volume_phase(cx, volume, "Bound", "").await?;
    }
    let mut bound = claim.clone();
    if text(claim, "/spec/volumeName") != name(&volume) {
        bound["spec"]["volumeName"] = name(&volume).into();
        set_annotation(&mut bound, BOUND_BY_CONTROLLER, "yes");
    }
    set_annotation(&mut bound, BIND_COMPLETED, "yes");
    let bound = if bound == *claim { bound } else { save_claim(cx, bound).await? };
    claim_status(cx, bound, "Bound", Some(&volume)).await
}

/// `spec.claimRef` of a volume.
fn reference(claim: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace(claim), "name": name(claim), "uid": uid(claim),
        "resourceVersion": text(claim, "/metadata/resourceVersion"),
    })
}

/// Brings the phase of a volume in line with its claim, and gives back what no claim holds any more.
async fn reclaim(cx: &Context<'_>, view: &View, volume: &Value) -> Result<(), Failure> {
    match released::step(volume, &view.claims) {
        VolumeStep::Nothing => Ok(()),
        VolumeStep::Phase(phase) => volume_phase(cx, volume.clone(), phase, "").await.map(drop),
        VolumeStep::Unbind { by_controller } => {
            let mut changed = volume.clone();
            if by_controller {
                if let Some(spec) = changed["spec"].as_object_mut() {
                    spec.remove("claimRef");
                }
                if let Some(annotations) = changed.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
                    annotations.remove(BOUND_BY_CONTROLLER);
                }
            } else if let Some(reference) = changed.pointer_mut("/spec/claimRef").and_then(Value::as_object_mut) {
                reference.remove("uid");
            }
            let changed = save_volume(cx, changed).await?;
            volume_phase(cx, changed, "Available", "").await.map(drop)
        }
        VolumeStep::Delete => {
            cx.delete(VOLUMES, "", name(volume), uid_precondition(uid(volume))).await.map_err(Failure::from)
        }
        VolumeStep::Failed(told) => {
            let message = told.message.clone();
            tell(cx, "PersistentVolume", volume, told).await;
            volume_phase(cx, volume.clone(), "Failed", &message).await.map(drop)
        }
    }
}

/// Tells something about an object once; again only after it has told something else.
async fn tell(cx: &Context<'_>, kind: &str, object: &Value, told: Told) {
    if cx.hints.tell_once(cx.tenant, uid(object), told.reason) {
        cx.record(Draft::new("v1", kind, object, told.kind, told.reason, told.message)).await;
    }
}

/// Writes an object that may have gone meanwhile: then there is nothing left to do.
fn or_gone(result: Result<Value, ApiError>, before: Value) -> Result<Value, Failure> {
    match result {
        Ok(object) => Ok(object),
        Err(e) if e.code == 404 => Ok(before),
        Err(e) => Err(e.into()),
    }
}

async fn save_volume(cx: &Context<'_>, volume: Value) -> Result<Value, Failure> {
    or_gone(cx.client.update(VOLUMES, "", name(&volume), "", volume.clone()).await, volume)
}

async fn save_claim(cx: &Context<'_>, claim: Value) -> Result<Value, Failure> {
    or_gone(cx.client.update(CLAIMS, namespace(&claim), name(&claim), "", claim.clone()).await, claim)
}

async fn volume_phase(cx: &Context<'_>, volume: Value, phase: &str, message: &str) -> Result<Value, Failure> {
    if text(&volume, "/status/phase") == phase && text(&volume, "/status/message") == message {
        return Ok(volume);
    }
    let mut changed = volume.clone();
    if text(&volume, "/status/phase") != phase {
        changed["status"]["lastPhaseTransitionTime"] = super::object::rfc3339(cx.now).into();
    }
    changed["status"]["phase"] = phase.into();
    changed["status"]["message"] = if message.is_empty() { Value::Null } else { message.into() };
    or_gone(cx.client.update(VOLUMES, "", name(&volume), "status", changed).await, volume)
}

/// Writes the status of a claim: its phase and, when it is bound, what its volume has.
async fn claim_status(cx: &Context<'_>, claim: Value, phase: &str, volume: Option<&Value>) -> Result<(), Failure> {
    let mut changed = claim.clone();
    changed["status"]["phase"] = phase.into();
    if let Some(volume) = volume {
        changed["status"]["accessModes"] = volume["spec"]["accessModes"].clone();
        changed["status"]["capacity"] = volume["spec"]["capacity"].clone();
    }
    if changed == claim {
        return Ok(());
    }
    or_gone(cx.client.update(CLAIMS, namespace(&claim), name(&claim), "status", changed).await, claim).map(drop)
}

/// Whether a volume was made by our provisioner.
fn is_ours(volume: &Value) -> bool {
    annotation(volume, provision::PROVISIONED_BY) == Some(PROVISIONER)
}

/// The claims that a pod's volumes name.
pub(super) fn claims_of(pod: &Value) -> impl Iterator<Item = &str> {
    list(pod, "/spec/volumes")
        .iter()
        .map(|v| text(v, "/persistentVolumeClaim/claimName"))
        .filter(|claim| !claim.is_empty())
}

/// The claim that a volume refers to, if it is there and the same one.
fn claim_of<'a>(volume: &Value, claims: &'a [Value]) -> Option<&'a Value> {
    claims.iter().find(|claim| is_for(volume, claim) && text(volume, "/spec/claimRef/uid") == uid(claim))
}
