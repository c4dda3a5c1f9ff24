//! Finds the services and disruption budgets that select a changed pod and the controllers that may adopt an orphan, for all changes of a namespace at once.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value};
use vctl_machinery::selector::LabelSelector;

use super::{
    context::{Context, Failure},
    hints::{Changed, Labels},
    object::name,
    queue::Controller,
};

/// Controllers that adopt orphans, with the resource they are.
const ADOPTERS: [(&str, Controller); 6] = [
    ("replicasets.apps", Controller::ReplicaSet),
    ("deployments.apps", Controller::Deployment),
    ("replicationcontrollers", Controller::ReplicationController),
    ("statefulsets.apps", Controller::StatefulSet),
    ("daemonsets.apps", Controller::DaemonSet),
    ("jobs.batch", Controller::Job),
];

/// Labels as the selector wants them.
fn as_value(labels: &Labels) -> Value {
    Value::Object(labels.iter().map(|(k, v)| (k.clone(), Value::from(v.as_str()))).collect::<Map<_, _>>())
}

/// Whether a Service selects one of the label sets. A service without selector selects nothing.
fn selects(service: &Value, labels: &[Value]) -> bool {
    let Some(selector) = service.pointer("/spec/selector").and_then(Value::as_object).filter(|s| !s.is_empty()) else {
        return false;
    };
    labels.iter().any(|l| selector.iter().all(|(k, v)| l.get(k) == Some(v)))
}

pub(super) async fn reconcile(cx: &Context<'_>, namespace: &str) -> Result<Option<Timestamp>, Failure> {
    let changed = cx.hints.take(cx.tenant, namespace);
    match wake(cx, namespace, &changed).await {
        Ok(()) => Ok(None),
        Err(e) => {
            cx.hints.put_back(cx.tenant, namespace, changed);
            Err(e)
        }
    }
}

async fn wake(cx: &Context<'_>, namespace: &str, changed: &Changed) -> Result<(), Failure> {
    if !changed.services_of.is_empty() {
        let labels: Vec<Value> = changed.services_of.iter().map(as_value).collect();
        for service in parsed(cx, "services", namespace).await? {
            if selects(&service, &labels) {
                cx.wake(Controller::Endpoints, namespace, name(&service));
                cx.wake(Controller::EndpointSlice, namespace, name(&service));
            }
        }
    }
    if !changed.budgets_of.is_empty() {
        let labels: Vec<Value> = changed.budgets_of.iter().map(as_value).collect();
        for budget in parsed(cx, "poddisruptionbudgets.policy", namespace).await? {
            let selector = budget.pointer("/spec/selector").unwrap_or(&Value::Null);
            if LabelSelector::from_object(selector).is_ok_and(|s| labels.iter().any(|l| s.matches(l))) {
                cx.wake(Controller::Disruption, namespace, name(&budget));
            }
        }
    }
    if !changed.adopters_of.is_empty() {
        let labels: Vec<Value> = changed.adopters_of.iter().map(as_value).collect();
        for (resource, controller) in ADOPTERS {
            for adopter in parsed(cx, resource, namespace).await? {
                let selector = adopter.pointer("/spec/selector").unwrap_or(&Value::Null);
                let selector = if controller == Controller::ReplicationController {
                    Ok(LabelSelector::from_map(selector))
                } else {
                    LabelSelector::from_object(selector)
                };
                if selector.is_ok_and(|s| labels.iter().any(|l| s.matches(l))) {
                    cx.wake(controller, namespace, name(&adopter));
                }
            }
        }
    }
    Ok(())
}

/// Stored documents of a namespace, parsed.
async fn parsed(cx: &Context<'_>, resource: &str, namespace: &str) -> Result<Vec<Value>, Failure> {
    let entries = cx.stored(resource, Some(namespace)).await?;
    Ok(entries
        .iter()
        .filter_map(|e| {
            let mut object: Value = serde_json::from_slice(&e.value).ok()?;
            object["metadata"]["name"] = Arc::as_ref(&e.key.name).into();
            Some(object)
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_selects_by_all_of_its_labels_and_without_selector_nothing() {
        let web = json!({ "spec": { "selector": { "app": "web", "tier": "front" } } });
        assert!(selects(&web, &[json!({}), json!({ "app": "web", "tier": "front", "x": "y" })]));
        assert!(!selects(&web, &[json!({ "app": "web" })]));
        assert!(!selects(&json!({ "spec": {} }), &[json!({ "app": "web" })]));
        assert!(!selects(&json!({ "spec": { "selector": {} } }), &[json!({ "app": "web" })]));
    }
}
