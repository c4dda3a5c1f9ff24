//! The PersistentVolumeClaims of a StatefulSet's pods, and who owns them (`persistentVolumeClaimRetentionPolicy`).

use serde_json::{Value, json};
use vctl_machinery::status::ApiError;

use super::{OWNER, identity};
use crate::controllers::{
    context::{Context, Failure},
    event::EventType,
    object::{controller_of, controller_reference, is_deleting, list, name, namespace, text, uid},
    pod_control,
};

const CLAIMS: &str = "persistentvolumeclaims";

fn ordinal(set: &Value, pod: &Value) -> Option<i64> {
    identity::ordinal(name(set), name(pod))
}

/// Creates the claims of a pod that are not there.
pub(super) async fn ensure(cx: &Context<'_>, set: &Value, pod: &Value) -> Result<(), Failure> {
    let Some(ordinal) = ordinal(set, pod) else { return Ok(()) };
    for claim in identity::claims(set, ordinal) {
        let claim_name = name(&claim).to_owned();
        match cx.find(CLAIMS, namespace(set), &claim_name).await? {
            Some(there) if is_deleting(&there) => {
                return Err(Failure::Partly(format!("pvc {claim_name} is being deleted")));
            }
            Some(_) => {}
            None => {
                let result = cx.client.create(CLAIMS, namespace(set), claim).await;
                tell(cx, set, &claim_name, name(pod), result.as_ref().err()).await;
                result?;
            }
        }
    }
    Ok(())
}

async fn tell(cx: &Context<'_>, set: &Value, claim: &str, pod: &str, error: Option<&ApiError>) {
    let (kind, reason, message) = match error {
        None => (
            EventType::Normal,
            "SuccessfulCreate",
            format!("create Claim {claim} Pod {pod} in StatefulSet {} success", name(set)),
        ),
        Some(e) => (
            EventType::Warning,
            "FailedCreate",
            format!("create Claim {claim} for Pod {pod} in StatefulSet {} failed error: {e}", name(set)),
        ),
    };
    cx.record(pod_control::event(set, OWNER, kind, reason, message)).await;
}

/// (whenDeleted, whenScaled) say Delete.
fn policy(set: &Value) -> (bool, bool) {
    let says = |field: &str| text(set, &format!("/spec/persistentVolumeClaimRetentionPolicy/{field}")) == "Delete";
    (says("whenDeleted"), says("whenScaled"))
}

/// The owner references that a claim is to have; none when they are right, or when another controller manages the claim.
fn owners(set: &Value, pod: &Value, claim: &Value) -> Option<Vec<Value>> {
    let (when_deleted, when_scaled) = policy(set);
    let condemned = !ordinal(set, pod).is_some_and(|o| identity::in_range(set, o));
    let (by_set, by_pod) = (when_deleted && !(when_scaled && condemned), when_scaled && condemned);
    let refers = |to: &Value| list(claim, "/metadata/ownerReferences").iter().any(|r| text(r, "/uid") == uid(to));
    if (refers(set), refers(pod)) == (by_set, by_pod) {
        return None;
    }
    let mut references: Vec<Value> = list(claim, "/metadata/ownerReferences")
        .iter()
        .filter(|r| text(r, "/uid") != uid(set) && text(r, "/uid") != uid(pod))
        .cloned()
        .collect();
    if by_set {
        references.push(controller_reference(set, OWNER.0, OWNER.1));
    }
    if by_pod {
        references.push(controller_reference(pod, "v1", "Pod"));
    }
    Some(references)
}

/// Whether somebody else's controller manages the claim: then the policy does not apply to it.
fn is_managed_by_another(set: &Value, pod: &Value, claim: &Value) -> bool {
    controller_of(claim).is_some_and(|r| {
        let owner = text(r, "/uid");
        let former = text(r, "/kind") == "Pod" && text(r, "/name") == name(pod);
        owner != uid(set) && owner != uid(pod) && !former
    })
}

/// Makes the claims of a pod go when the policy says so: with the set, or with the pod of an ordinal that is no longer wanted.
pub(super) async fn retain(cx: &Context<'_>, set: &Value, pod: &Value) -> Result<(), Failure> {
    let Some(ordinal) = ordinal(set, pod) else { return Ok(()) };
    for wanted in identity::claims(set, ordinal) {
        let Some(claim) = cx.find(CLAIMS, namespace(set), name(&wanted)).await? else { continue };
        let Some(references) = owners(set, pod, &claim) else { continue };
        if is_managed_by_another(set, pod, &claim) {
            let message = format!(
                "PersistentVolumeClaim {} has a conflicting OwnerReference that acts as a managing controller, the retention policy is \
                 ignored for this claim",
                name(&claim)
            );
            cx.record(pod_control::event(set, OWNER, EventType::Warning, "ConflictingController", message)).await;
            continue;
        }
        let patch = json!({ "metadata": {
            "ownerReferences": references, "uid": uid(&claim), "resourceVersion": text(&claim, "/metadata/resourceVersion"),
        } });
        match cx.client.merge_patch(CLAIMS, namespace(set), name(&claim), "", patch).await {
            Ok(_) | Err(ApiError { code: 404, .. }) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Whether a claim of a pod to be created still belongs to a former pod of the same name, with which it is about to go.
pub(super) async fn is_stale(cx: &Context<'_>, set: &Value, new: &Value) -> Result<bool, Failure> {
    let Some(ordinal) = ordinal(set, new).filter(|_| policy(set).1) else { return Ok(false) };
    for wanted in identity::claims(set, ordinal) {
        if let Some(claim) = cx.find(CLAIMS, namespace(set), name(&wanted)).await?
            && list(&claim, "/metadata/ownerReferences")
                .iter()
                .any(|r| text(r, "/kind") == "Pod" && text(r, "/name") == name(new))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_decides_who_owns_a_claim() {
        let set = |deleted: &str, scaled: &str| {
            json!({ "metadata": { "name": "web", "uid": "set" }, "spec": { "replicas": 1,
                "persistentVolumeClaimRetentionPolicy": { "whenDeleted": deleted, "whenScaled": scaled } } })
        };
        let pod = |n: u8| json!({ "metadata": { "name": format!("web-{n}"), "uid": "pod" } });
        let claim = |owners: &[&str]| json!({ "metadata": { "ownerReferences": owners.iter().map(|u| json!({ "uid": u })).collect::<Vec<_>>() } });
        let uids = |references: Option<Vec<Value>>| {
            references.map(|r| r.iter().map(|o| text(o, "/uid").to_owned()).collect::<Vec<_>>().join(","))
        };
        for (deleted, scaled, ordinal, before, expected) in [
            ("Retain", "Retain", 0, &[][..], None),
            ("Retain", "Retain", 0, &["set", "x"], Some("x")),
            ("Delete", "Retain", 0, &[], Some("set")),
            ("Delete", "Retain", 1, &["pod"], Some("set")),
            ("Retain", "Delete", 0, &[], None),
            ("Retain", "Delete", 1, &[], Some("pod")),
            ("Delete", "Delete", 0, &[], Some("set")),
            ("Delete", "Delete", 1, &["set"], Some("pod")),
            ("Delete", "Delete", 1, &["pod"], None),
        ] {
            let result = uids(owners(&set(deleted, scaled), &pod(ordinal), &claim(before)));
            assert_eq!(result.as_deref(), expected, "{deleted} {scaled} {ordinal} {before:?}");
        }
    }
}
