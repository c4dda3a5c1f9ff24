//! Adoption and release by controller reference: which objects belong to a controller (`ControllerRefManager` upstream).

use serde_json::{Value, json};
use vctl_machinery::{selector::LabelSelector, status::ApiError};

use super::{
    context::{Context, Failure},
    object::{self, controller_of, controller_reference, is_deleting, labels, list, name, text, uid},
};

/// What becomes of one object.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) enum Claim {
    /// Ours already.
    Keep,
    /// An orphan that the selector matches.
    Adopt,
    /// Ours, but the selector does not match any more.
    Release,
    /// Not ours.
    Ignore,
}

/// Decides about one object. `adoptable` says whether this controller takes orphans of its kind of state (upstream's filter).
pub(super) fn claim(owner: &Value, selector: &LabelSelector, candidate: &Value, adoptable: bool) -> Claim {
    let matches = selector.matches(labels(candidate));
    match controller_of(candidate) {
        Some(reference) if text(reference, "/uid") != uid(owner) => Claim::Ignore,
        Some(_) if matches => Claim::Keep,
        Some(_) if is_deleting(owner) => Claim::Ignore,
        Some(_) => Claim::Release,
        None if is_deleting(owner) || !matches || !adoptable || is_deleting(candidate) => Claim::Ignore,
        None => Claim::Adopt,
    }
}

/// Sorts candidates into those that are, or now become, the owner's. Adopts after checking that the owner is still the one in the
/// store and not being deleted; releases what does not match.
pub(super) async fn claim_all(
    cx: &Context<'_>,
    owner: &Value,
    owner_type: (&str, &str, &str),
    resource: &str,
    candidates: Vec<Value>,
    selector: &LabelSelector,
    adoptable: fn(&Value) -> bool,
) -> Result<Vec<Value>, Failure> {
    let (owner_resource, api_version, kind) = owner_type;
    let namespace = object::namespace(owner);
    let mut ours = Vec::new();
    let mut owner_is_live = None;
    for candidate in candidates {
        match claim(owner, selector, &candidate, adoptable(&candidate)) {
            Claim::Ignore => {}
            Claim::Keep => ours.push(candidate),
            Claim::Release => {
                let kept: Vec<&Value> = list(&candidate, "/metadata/ownerReferences")
                    .iter()
                    .filter(|r| text(r, "/uid") != uid(owner))
                    .collect();
                patch_owners(cx, resource, &candidate, json!(kept)).await?;
            }
            Claim::Adopt => {
                if owner_is_live.is_none() {
                    let live = cx.find(owner_resource, namespace, name(owner)).await?;
                    owner_is_live = Some(live.is_some_and(|o| uid(&o) == uid(owner) && !is_deleting(&o)));
                }
                if owner_is_live == Some(true) {
                    let mut owners = list(&candidate, "/metadata/ownerReferences").to_vec();
                    owners.push(controller_reference(owner, api_version, kind));
                    if let Some(adopted) = patch_owners(cx, resource, &candidate, json!(owners)).await? {
                        ours.push(adopted);
                    }
                }
            }
        }
    }
    Ok(ours)
}

/// Replaces owner references if the object is still the same; none when it is gone.
async fn patch_owners(
    cx: &Context<'_>,
    resource: &str,
    candidate: &Value,
    owners: Value,
) -> Result<Option<Value>, Failure> {
    let patch = json!({ "metadata": {
        "ownerReferences": owners,
        "uid": uid(candidate),
        "resourceVersion": text(candidate, "/metadata/resourceVersion"),
    } });
    match cx.client.merge_patch(resource, object::namespace(candidate), name(candidate), "", patch).await {
        Ok(object) => Ok(Some(object)),
        Err(ApiError { code: 404, .. }) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(labels: Value, owner: Option<&str>, deleting: bool) -> Value {
        let mut pod = json!({ "metadata": { "name": "p", "labels": labels } });
        if let Some(owner) = owner {
            pod["metadata"]["ownerReferences"] = json!([{ "uid": owner, "controller": true }]);
        }
        if deleting {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        pod
    }

    #[test]
    fn claims_follow_upstreams_table() {
        let owner = json!({ "metadata": { "uid": "u" } });
        let dying = json!({ "metadata": { "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z" } });
        let selector = LabelSelector::from_object(&json!({ "matchLabels": { "a": "b" } })).unwrap();
        let yes = || json!({ "a": "b" });
        let no = || json!({ "a": "c" });
        for (what, owner, candidate, adoptable, expected) in [
            ("ours", &owner, pod(yes(), Some("u"), false), true, Claim::Keep),
            ("ours, deleting", &owner, pod(yes(), Some("u"), true), true, Claim::Keep),
            ("ours, labels changed", &owner, pod(no(), Some("u"), false), true, Claim::Release),
            ("ours, labels changed, we are dying", &dying, pod(no(), Some("u"), false), true, Claim::Ignore),
            ("somebody else's", &owner, pod(yes(), Some("x"), false), true, Claim::Ignore),
            ("orphan", &owner, pod(yes(), None, false), true, Claim::Adopt),
            ("orphan that ended", &owner, pod(yes(), None, false), false, Claim::Ignore),
            ("orphan, deleting", &owner, pod(yes(), None, true), true, Claim::Ignore),
            ("orphan, we are dying", &dying, pod(yes(), None, false), true, Claim::Ignore),
            ("orphan, other labels", &owner, pod(no(), None, false), true, Claim::Ignore),
        ] {
            assert_eq!(claim(owner, &selector, &candidate, adoptable), expected, "{what}");
        }
    }
}
