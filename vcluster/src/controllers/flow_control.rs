//! FlowSchemas and PriorityLevelConfigurations: the mandatory ones are there, and each schema says whether its level is. Sources:
//! apiserver `pkg/util/flowcontrol/apf_controller.go`, kube-apiserver `pkg/registry/flowcontrol/ensurer`.

use jiff::Timestamp;
use serde_json::{Value, json};
use vctl_machinery::flow_control::{EXEMPT, bootstrap, dangling};
use vctl_store::Key as StoreKey;

use super::{
    context::{Context, Failure},
    object::{list, name, rfc3339, text},
    queue::Controller,
};
use crate::fairness::{LEVELS, SCHEMAS};

/// Wakes the controller for a cluster from before there were any.
pub(super) async fn look(cx: &Context<'_>) -> Result<(), Failure> {
    if cx.store.get(cx.tenant, &StoreKey::new(SCHEMAS, "", EXEMPT)).await?.0.is_none() {
        cx.wake(Controller::FlowControl, "", "");
    }
    Ok(())
}

pub(super) async fn reconcile(cx: &Context<'_>) -> Result<Option<Timestamp>, Failure> {
    let levels = ensure(cx, LEVELS, &bootstrap::mandatory_levels(), bootstrap::levels()).await?;
    let schemas = ensure(cx, SCHEMAS, &bootstrap::mandatory_schemas(), bootstrap::schemas()).await?;
    for schema in &schemas {
        let level = text(schema, "/spec/priorityLevelConfiguration/name");
        let condition = dangling(level, levels.iter().any(|l| name(l) == level), &rfc3339(cx.now));
        let found = list(schema, "/status/conditions").iter().find(|c| c["type"] == condition["type"]);
        if found.is_some_and(|f| ["status", "reason", "message"].iter().all(|field| f[*field] == condition[*field])) {
            continue;
        }
        let mut changed = schema.clone();
        let others = list(schema, "/status/conditions").iter().filter(|c| c["type"] != condition["type"]).cloned();
        let conditions: Vec<Value> = others.chain([condition.clone()]).collect();
        changed["status"]["conditions"] = conditions.into();
        cx.client.update(SCHEMAS, "", name(schema), "status", changed).await?;
    }
    Ok(None)
}

/// All objects of a resource, with the mandatory ones; a cluster that has nothing but those gets the suggested ones, too.
async fn ensure(cx: &Context<'_>, resource: &str, mandatory: &[Value], all: Vec<Value>) -> Result<Vec<Value>, Failure> {
    let mut there = cx.list(resource, "").await?;
    let is_new = there.iter().all(|o| mandatory.iter().any(|m| name(m) == name(o)));
    for mut object in all {
        let wanted = is_new || mandatory.iter().any(|m| name(m) == name(&object));
        if !wanted || there.iter().any(|o| name(o) == name(&object)) {
            continue;
        }
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        object["metadata"] = json!({ "name": name(&object), "annotations": object["metadata"]["annotations"] });
        there.push(cx.client.create(resource, "", object).await?);
    }
    Ok(there)
}
