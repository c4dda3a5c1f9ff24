//! What the platform holds the cluster to ([`crate::limits`]): images, workers, and how much all its pods, claims and volumes may request.

use std::sync::Arc;

use serde_json::Value;
use vctl_machinery::{image, requests::Requests, status::ApiError};

use crate::{
    limits::{
        Limited, PlatformLimits, Rules, Take,
        counting::{self, Hold, Requested, volumes::slot},
    },
    objects::{Call, Target},
    quota,
};

const VOLUMES: &str = "persistentvolumes";
const CLAIMS: &str = "persistentvolumeclaims";

/// Refuses what the platform does not allow. What is returned is to be kept until it is known whether the object was written: so long it
/// counts as if it were.
pub(super) async fn admit(
    call: &Call,
    target: &Target,
    old: Option<&Value>,
    new: &Value,
) -> Result<Option<Hold>, ApiError> {
    let Some(limits) = &call.plane.shared.config.limits else { return Ok(None) };
    let Some(change) = Change::of(call, target, old, new) else { return Ok(None) };
    let name = super::name_of(new);
    let unknown = |why: String| ApiError::internal(format!("what this cluster is limited to is not known now: {why}"));
    let Some(rules) = limits.rules(&call.plane.name).await.map_err(unknown)? else { return Ok(None) };
    if let Some(why) = change.refusal(&rules, new) {
        return Err(target.forbidden(name, &why));
    }
    let Limited { cpu, memory, storage } = &rules.limited;
    let more = change.more;
    let counts = |limit: &Option<String>, more: u64| limit.is_some() && more > 0;
    if !(counts(cpu, more.cpu) || counts(memory, more.memory) || counts(storage, more.storage)) {
        return Ok(None);
    }
    take(call, target, &**limits, change).await
}

async fn take(
    call: &Call,
    target: &Target,
    limits: &dyn PlatformLimits,
    change: Change<'_>,
) -> Result<Option<Hold>, ApiError> {
    let plane = &call.plane;
    let unknown = |why: String| ApiError::internal(format!("what this cluster may use is not known now: {why}"));
    let Change { requests, slot, more: most, may_be_counted, .. } = change;
    let requested = Requested { key: target.key(), requests, slot };
    let grows = async || {
        if may_be_counted {
            plane.shared.counting.grows(&*plane.shared.store, plane.tenant, plane.now(), &requested).await
        } else {
            Ok(most)
        }
    };
    // Outside of the turn it is a guess.
    let mut more = grows().await?;
    loop {
        match limits.take(&plane.name, more).await.map_err(unknown)? {
            Take::Exceeded(why) => return Err(target.forbidden(&target.name, &why)),
            Take::Taken(_) if call.dry_run => return Ok(None),
            Take::Taken(turn) => {
                if grows().await?.minus(more) != Requests::NONE {
                    // What it was counted with has gone meanwhile.
                    more = most;
                    continue;
                }
                let hold = plane.shared.counting.hold(plane.tenant, requested);
                // From here on the next one counts it.
                drop(turn);
                return Ok(Some(hold));
            }
        }
    }
}

/// What a write changes of what the platform looks at.
struct Change<'a> {
    resource: &'static str,
    created: bool,
    /// Images that were not there before.
    images: Vec<&'a str>,
    /// The worker that the pod is put on.
    worker: Option<&'a str>,
    /// What the object requests afterwards.
    requests: Requests,
    /// Of a claim and of a volume: what it counts with ([`slot`]).
    slot: Option<Arc<str>>,
    /// How much more than before, at most.
    more: Requests,
    /// Some or all of that may be counted already: of a claim whose volume is there, and of a volume that is made for a claim.
    may_be_counted: bool,
    /// Somebody says that a pod has ended, who cannot know.
    ends: bool,
    /// Somebody says that a volume has less than before.
    shrinks: bool,
}

impl<'a> Change<'a> {
    /// None when there is nothing to look at.
    fn of(call: &Call, target: &Target, old: Option<&Value>, new: &'a Value) -> Option<Self> {
        let resource = match (&*target.descriptor.group, &*target.descriptor.plural) {
            ("", "pods") => "pods",
            ("", CLAIMS) => CLAIMS,
            ("", VOLUMES) => VOLUMES,
            _ => return None,
        };
        if target.subresource == "status" && call.user.is_internal() {
            // A worker says how it is; to refuse that would not change it.
            return None;
        }
        let now = call.plane.now();
        let of = |object: &Value| counting::of(resource, object, now);
        let (requests, before) = (of(new), old.map(of).unwrap_or_default());
        let (mut images, mut worker, mut ends) = (Vec::new(), None, false);
        if resource == "pods" {
            let known: Vec<&str> = old.map(|o| image::of_pod_spec(&o["spec"]).collect()).unwrap_or_default();
            images = image::of_pod_spec(&new["spec"]).filter(|i| !known.contains(i)).collect();
            let on = |pod: &'a Value| pod["spec"]["nodeName"].as_str().filter(|n| !n.is_empty());
            worker = on(new).filter(|on| old.is_none_or(|o| o["spec"]["nodeName"] != **on));
            let ended = |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
            // Also of one that waits: it could be bound afterwards.
            ends = ended(new) && old.is_some_and(|o| !ended(o));
        }
        let (slot, was) = (slot(resource, new), old.and_then(|old| slot(resource, old)));
        let counts_elsewhere = old.is_some() && slot != was;
        let more = if counts_elsewhere { requests } else { requests.minus(before) };
        let named = new["spec"]["volumeName"].as_str().is_some_and(|name| !name.is_empty());
        // Nothing else can count with a new claim that names no volume.
        let may_be_counted = slot.is_some() && (old.is_some() || resource == VOLUMES || named);
        let shrinks = resource == VOLUMES && before.minus(requests) != Requests::NONE;
        let change = Self {
            resource,
            created: old.is_none(),
            images,
            worker,
            requests,
            slot,
            more,
            may_be_counted,
            ends,
            shrinks,
        };
        let looked_at = change.created || !change.images.is_empty() || change.worker.is_some() || ends || shrinks;
        (looked_at || more != Requests::NONE).then_some(change)
    }

    /// Why a rule does not allow it.
    fn refusal(&self, rules: &Rules, new: &Value) -> Option<String> {
        let Rules { project, images, limited, .. } = rules;
        if !images.is_empty()
            && let Some(refused) = self.images.iter().find(|i| !image::is_allowed(images, i))
        {
            return Some(format!(
                "project {project:?} does not allow image {refused:?}, but {}: use one of these, or ask an administrator of the project",
                images.join(", ")
            ));
        }
        if let Some(worker) = self.worker.filter(|w| !rules.allows_worker(w)) {
            return Some(not_allowed(rules, worker));
        }
        let named = [("cpu", &limited.cpu), ("memory", &limited.memory)];
        if self.ends && named.iter().any(|(_, limit)| limit.is_some()) {
            return Some(format!(
                "only the worker of a pod says that it has ended, where project {project:?} counts what pods request: delete it instead"
            ));
        }
        if self.shrinks && limited.storage.is_some() {
            return Some(format!(
                "a volume is not made smaller, where project {project:?} counts storage: delete it instead"
            ));
        }
        if self.resource == "pods" && self.created {
            for (amount, limit) in named {
                let missing = quota::missing(new, &[&amount.to_owned()]);
                if let (Some(limit), Some(missing)) = (limit, missing) {
                    return Some(format!("failed quota: {limit}: {missing}"));
                }
            }
        }
        None
    }
}

/// Why a pod cannot be on a worker.
fn not_allowed(rules: &Rules, worker: &str) -> String {
    format!(
        "project {:?} does not allow worker {worker:?}, but {}: use one of these, or ask an administrator of the project",
        rules.project,
        rules.workers.join(", ")
    )
}
