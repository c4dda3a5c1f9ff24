//! Eviction: deletion of a pod that its disruption budgets allow.

use serde_json::{Value, json};
use vctl_machinery::{catalog::Catalog, selector::LabelSelector, status::ApiError};

use crate::{
    document::{is_terminating, meta},
    objects::{Call, Target, delete::DeleteOptions},
};

const BUDGETS: &str = "poddisruptionbudgets.policy";

/// Most pods that may be evicted and not yet gone.
const MOST_DISRUPTED: usize = 2000;

/// Evicts a pod; 429 when a budget says no.
pub(crate) async fn evict(call: &Call, pod: &Target, eviction: &Value, catalog: &Catalog) -> Result<(), ApiError> {
    let mut options = DeleteOptions::parse(eviction.get("deleteOptions").unwrap_or(&Value::Null))?;
    let object = call.get(pod).await?;
    let phase = object["status"]["phase"].as_str().unwrap_or_default();
    if !is_terminating(&object) && !matches!(phase, "Succeeded" | "Failed" | "Pending") {
        let labels = object.pointer("/metadata/labels").unwrap_or(&Value::Null);
        let mut budgets = Vec::new();
        for budget in call.plane.objects(BUDGETS, Some(&pod.namespace)).await? {
            if LabelSelector::from_object(&budget["spec"]["selector"]).is_ok_and(|s| s.matches(labels)) {
                budgets.push(budget);
            }
        }
        if budgets.len() > 1 {
            return Err(ApiError::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        if let (Some(budget), Some(descriptor)) = (budgets.first(), catalog.stored(BUDGETS)) {
            if is_free(budget, &object) {
                // Should it become ready in the meantime, the budget has to be asked after all.
                options.resource_version.get_or_insert_with(|| meta(&object, "resourceVersion").to_owned());
                return match call.delete(pod, &options).await {
                    Err(e) if e.code == 409 => Err(in_process(meta(budget, "name"))),
                    Err(e) => Err(e),
                    Ok(_) => Ok(()),
                };
            }
            let target = Target::new(descriptor.clone(), &pod.namespace, meta(budget, "name")).through("status");
            let now = call.now();
            call.modify(&target, false, |current| spend(current, &pod.name, &now)).await?;
        }
    }
    // A pod of an exact version must stay of that version until it is deleted.
    if !is_terminating(&object) && options.resource_version.is_none() {
        mark(call, pod).await?;
    }
    call.delete(pod, &options).await?;
    Ok(())
}

/// Whether a pod may go without its budget: it is not ready and the others are enough, or the budget does not protect such pods.
fn is_free(budget: &Value, pod: &Value) -> bool {
    let ready = pod["status"]["conditions"]
        .as_array()
        .is_some_and(|c| c.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"));
    if ready {
        return false;
    }
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        || (number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0)
}

/// Shows in the pod's status why it goes, for controllers that tell disruptions from failures.
async fn mark(call: &Call, pod: &Target) -> Result<(), ApiError> {
    let target = Target::new(pod.descriptor.clone(), &pod.namespace, &pod.name).through("status");
    let now = call.now();
    let marked = call.modify(&target, false, |current| {
        let mut pod = current.clone();
        let mut conditions: Vec<Value> = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|c| c["type"] != "DisruptionTarget");
        conditions.push(json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastTransitionTime": now,
        }));
        pod["status"]["conditions"] = conditions.into();
        Ok(pod)
    });
    marked.await?;
    Ok(())
}

fn refused(retry_after_seconds: u32, message: String) -> ApiError {
    let mut error = ApiError::too_many_requests(
        "Cannot evict pod as it would violate the pod's disruption budget.",
        retry_after_seconds,
    );
    error.details["causes"] = json!([{ "reason": "DisruptionBudget", "message": message }]);
    error
}

fn in_process(budget: &str) -> ApiError {
    refused(10, format!("The disruption budget {budget} is still being processed by the server."))
}

/// Takes one disruption from the budget.
fn spend(budget: &Value, pod: &str, now: &str) -> Result<Value, ApiError> {
    let status = &budget["status"];
    let name = meta(budget, "name");
    let generation = budget["metadata"]["generation"].as_i64().unwrap_or(0);
    if status["observedGeneration"].as_i64().unwrap_or(0) < generation {
        return Err(in_process(name));
    }
    let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
    let forbidden = |why: &str| Err(ApiError::forbidden("policy", "poddisruptionbudget", name, why));
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    if status["disruptedPods"].as_object().is_some_and(|d| d.len() > MOST_DISRUPTED) {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if allowed == 0 {
        return Err(refused(
            0,
            format!(
                "The disruption budget {name} needs {} healthy pods and has {} currently",
                status["desiredHealthy"].as_i64().unwrap_or(0),
                status["currentHealthy"].as_i64().unwrap_or(0)
            ),
        ));
    }
    let mut spent = budget.clone();
    spent["status"]["disruptionsAllowed"] = (allowed - 1).into();
    spent["status"]["disruptedPods"][pod] = now.into();
    if allowed == 1 {
        for condition in spent["status"]["conditions"].as_array_mut().into_iter().flatten() {
            if condition["type"] == "DisruptionAllowed" {
                condition["status"] = "False".into();
                condition["reason"] = "InsufficientPods".into();
                condition["lastTransitionTime"] = now.into();
            }
        }
    }
    Ok(spent)
}
