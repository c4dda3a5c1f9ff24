//! Eviction: deletion of a pod that its disruption budgets allow.

use serde_json::{Value, json};
use vctl_machinery::{catalog::Catalog, selector::LabelSelector, status::ApiError};

use crate::{
    document::{is_terminating, meta},
    objects::{Call, Target, delete::DeleteOptions},
};

const BUDGETS: &str = "poddisruptionbudgets.policy";

/// Evicts a pod; 429 when a budget says no.
pub(crate) async fn evict(call: &Call, pod: &Target, eviction: &Value, catalog: &Catalog) -> Result<(), ApiError> {
    let options = DeleteOptions::parse(eviction.get("deleteOptions").unwrap_or(&Value::Null))?;
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
            let target = Target::new(descriptor.clone(), &pod.namespace, meta(budget, "name")).through("status");
            let now = call.now();
            call.modify(&target, false, |current| spend(current, &pod.name, &now)).await?;
        }
    }
    call.delete(pod, &options).await?;
    Ok(())
}

/// Takes one disruption from the budget.
fn spend(budget: &Value, pod: &str, now: &str) -> Result<Value, ApiError> {
    let status = &budget["status"];
    let name = meta(budget, "name");
    let generation = budget["metadata"]["generation"].as_i64().unwrap_or(0);
    let refused = |message: String| {
        let mut error =
            ApiError::too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.", 10);
        error.details["causes"] = json!([{ "reason": "DisruptionBudget", "message": message }]);
        error
    };
    if status["observedGeneration"].as_i64().unwrap_or(0) < generation {
        return Err(refused(format!("The disruption budget {name} is still being processed by the server.")));
    }
    let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
    if allowed <= 0 {
        return Err(refused(format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            status["desiredHealthy"].as_i64().unwrap_or(0),
            status["currentHealthy"].as_i64().unwrap_or(0)
        )));
    }
    let mut spent = budget.clone();
    spent["status"]["disruptionsAllowed"] = (allowed - 1).into();
    spent["status"]["disruptedPods"][pod] = now.into();
    Ok(spent)
}
