//! Deployments: rollouts from one ReplicaSet to the next (`pkg/controller/deployment` upstream). The decisions are in [`rollout`].

mod conditions;
mod numbers;
mod revision;
mod rollout;
mod scaling;

use jiff::Timestamp;
use serde_json::{Value, json};
use vctl_machinery::{selector::LabelSelector, status::ApiError};

use super::{
    claim::claim_all,
    context::{Context, Failure, is_namespace_terminating},
    event::{Draft, EventType},
    object::{controller_of, int, is_deleting, name, text, uid, uid_precondition},
};
use rollout::{Act, Plan};

const RESOURCE: &str = "deployments.apps";
const TYPE: (&str, &str, &str) = (RESOURCE, "apps/v1", "Deployment");
const SETS: &str = "replicasets.apps";

fn event(deployment: &Value, kind: EventType, reason: &str, message: String) -> Draft {
    Draft::new("apps/v1", "Deployment", deployment, kind, reason, message)
}

pub(super) async fn reconcile(cx: &Context<'_>, namespace: &str, name: &str) -> Result<Option<Timestamp>, Failure> {
    let Some(mut deployment) = cx.find(RESOURCE, namespace, name).await? else { return Ok(None) };
    let Ok(selector) = LabelSelector::from_object(&deployment["spec"]["selector"]) else { return Ok(None) };
    if selector.is_everything() {
        let message = "This deployment is selecting all pods. A non-empty selector is required.".to_owned();
        cx.record(event(&deployment, EventType::Warning, "SelectingAll", message)).await;
        let mut status = deployment["status"].clone();
        status["observedGeneration"] = deployment["metadata"]["generation"].clone();
        write_status(cx, &deployment, status).await?;
        return Ok(None);
    }
    let candidates = cx.list(SETS, namespace).await?;
    let sets = claim_all(cx, &deployment, TYPE, SETS, candidates, &selector, |s| !is_deleting(s)).await?;
    let old_pods = if text(&deployment, "/spec/strategy/type") == "Recreate" {
        cx.list("pods", namespace).await?.into_iter().filter(|p| controller_of(p).is_some()).collect()
    } else {
        Vec::new()
    };
    let plan = rollout::plan(&deployment, sets, &old_pods, cx.now);
    execute(cx, &mut deployment, plan).await
}

/// Carries a plan out: ReplicaSets, then the revision annotation, then the status.
async fn execute(cx: &Context<'_>, deployment: &mut Value, plan: Plan) -> Result<Option<Timestamp>, Failure> {
    let namespace = super::object::namespace(deployment).to_owned();
    for act in plan.acts {
        match act {
            Act::Create { set, event: message } => match create(cx, deployment, set).await? {
                Created::Yes => {
                    if let Some(message) = message {
                        cx.record(event(deployment, EventType::Normal, "ScalingReplicaSet", message)).await;
                    }
                }
                Created::NamespaceGone => return Ok(None),
            },
            Act::Update { set, event: message } => {
                let set_name = name(&set).to_owned();
                cx.client.update(SETS, &namespace, &set_name, "", set).await?;
                if let Some(message) = message {
                    cx.record(event(deployment, EventType::Normal, "ScalingReplicaSet", message)).await;
                }
            }
            Act::Delete(set) => cx.delete(SETS, &namespace, name(&set), uid_precondition(uid(&set))).await?,
        }
    }
    if let Some(revision) = plan.revision {
        let patch = json!({ "metadata": { "annotations": { revision::REVISION: revision } } });
        let patched = cx.client.merge_patch(RESOURCE, &namespace, name(deployment), "", patch).await?;
        deployment["metadata"] = patched["metadata"].clone();
    }
    write_status(cx, deployment, plan.status).await?;
    Ok(plan.again)
}

async fn write_status(cx: &Context<'_>, deployment: &Value, status: Value) -> Result<(), Failure> {
    if status == deployment["status"] {
        return Ok(());
    }
    let mut changed = deployment.clone();
    changed["status"] = status;
    cx.client.update(RESOURCE, super::object::namespace(deployment), name(deployment), "status", changed).await?;
    Ok(())
}

enum Created {
    Yes,
    NamespaceGone,
}

/// Creates the new ReplicaSet. When its name is taken by one of another template the deployment's collision count grows, so that the
/// next attempt has another hash.
async fn create(cx: &Context<'_>, deployment: &Value, set: Value) -> Result<Created, Failure> {
    let (namespace, set_name) = (super::object::namespace(deployment), name(&set).to_owned());
    let template = set["spec"]["template"].clone();
    let error = match cx.client.create(SETS, namespace, set).await {
        Ok(_) => return Ok(Created::Yes),
        Err(e) if is_namespace_terminating(&e) => return Ok(Created::NamespaceGone),
        Err(e) => e,
    };
    if error.reason == "AlreadyExists" {
        if let Some(there) = cx.find(SETS, namespace, &set_name).await? {
            let ours = controller_of(&there).is_some_and(|o| text(o, "/uid") == uid(deployment));
            if !(ours && revision::same_template(&there["spec"]["template"], &template)) {
                let mut status = deployment["status"].clone();
                status["collisionCount"] = (int(&status, "/collisionCount").unwrap_or(0) + 1).into();
                write_status(cx, deployment, status).await?;
            }
        }
        return Err(error.into());
    }
    failed_to_create(cx, deployment, &set_name, &error).await?;
    Err(error.into())
}

async fn failed_to_create(cx: &Context<'_>, deployment: &Value, set: &str, error: &ApiError) -> Result<(), Failure> {
    let message = format!("Failed to create new replica set \"{set}\": {error}");
    if numbers::progress_deadline(deployment).is_some() {
        let mut status = deployment["status"].clone();
        if !status.is_object() {
            status = json!({});
        }
        conditions::set(
            &mut status,
            conditions::progressing("False", "ReplicaSetCreateError", message.clone(), cx.now),
        );
        write_status(cx, deployment, status).await?;
    }
    cx.record(event(deployment, EventType::Warning, "ReplicaSetCreateError", message)).await;
    Ok(())
}
