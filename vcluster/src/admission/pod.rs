//! Priority, runtime class and default tolerations of pods.

use serde_json::{Value, json};
use vctl_machinery::{amounts::amounts, status::ApiError};

use crate::objects::{Call, Target};

const PRIORITY_CLASSES: &str = "priorityclasses.scheduling.k8s.io";
const RUNTIME_CLASSES: &str = "runtimeclasses.node.k8s.io";

/// Resolves the priority class.
pub(super) async fn priority(call: &Call, target: &Target, pod: &mut Value) -> Result<(), ApiError> {
    let wanted = pod["spec"]["priorityClassName"].as_str().unwrap_or_default().to_owned();
    let class = if wanted.is_empty() {
        let classes = call.plane.objects(PRIORITY_CLASSES, None).await?;
        classes.into_iter().filter(|c| c["globalDefault"] == true).min_by_key(|c| c["value"].as_i64())
    } else {
        let class = call.plane.object(PRIORITY_CLASSES, "", &wanted).await?;
        if class.is_none() {
            let why = format!("no PriorityClass with name {wanted} was found");
            return Err(target.forbidden(super::name_of(pod), &why));
        }
        class
    };
    let (name, value, policy) = match &class {
        Some(c) => (c["metadata"]["name"].as_str(), c["value"].as_i64().unwrap_or(0), c["preemptionPolicy"].as_str()),
        None => (None, 0, None),
    };
    let policy = policy.unwrap_or("PreemptLowerPriority");
    let refuse = |what: &str, given: &str, computed: &str| {
        let why = format!(
            "the {what} ({given}) must not be provided in pod spec; priority admission controller computed {computed} from the given \
             PriorityClass name"
        );
        Err(target.forbidden(super::name_of(pod), &why))
    };
    if let Some(given) = pod["spec"]["priority"].as_i64()
        && given != value
    {
        return refuse("integer value of priority", &given.to_string(), &value.to_string());
    }
    if let Some(given) = pod["spec"]["preemptionPolicy"].as_str()
        && given != policy
    {
        return refuse("string value of PreemptionPolicy", given, policy);
    }
    let spec = &mut pod["spec"];
    if let Some(name) = name {
        spec["priorityClassName"] = name.into();
    }
    spec["priority"] = value.into();
    spec["preemptionPolicy"] = policy.into();
    Ok(())
}

/// There is at most one default priority.
pub(super) async fn one_default(call: &Call, target: &Target, class: &Value) -> Result<(), ApiError> {
    if class["globalDefault"] != true {
        return Ok(());
    }
    for other in call.plane.objects(PRIORITY_CLASSES, None).await? {
        let name = other["metadata"]["name"].as_str().unwrap_or_default();
        if other["globalDefault"] == true && name != target.name {
            let why = format!("PriorityClass {name} is already marked as default. Only one default can exist");
            return Err(target.forbidden(&target.name, &why));
        }
    }
    Ok(())
}

/// What the runtime class adds to the pod: overhead, node selector, tolerations.
pub(super) async fn runtime(call: &Call, target: &Target, pod: &mut Value) -> Result<(), ApiError> {
    let wanted = pod["spec"]["runtimeClassName"].as_str().unwrap_or_default().to_owned();
    let name = super::name_of(pod).to_owned();
    let refuse = |why: &str| Err(target.forbidden(&name, why));
    let class = if wanted.is_empty() {
        Value::Null
    } else {
        match call.plane.object(RUNTIME_CLASSES, "", &wanted).await? {
            Some(class) => class,
            None => return refuse(&format!("pod rejected: RuntimeClass {wanted:?} not found")),
        }
    };
    let spec = &mut pod["spec"];
    let empty = |v: &Value| v.as_object().is_none_or(serde_json::Map::is_empty);
    let fixed = &class["overhead"]["podFixed"];
    if !empty(fixed) {
        if empty(&spec["overhead"]) {
            spec["overhead"] = fixed.clone();
        } else if amounts(&spec["overhead"]) != amounts(fixed) {
            return refuse("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead");
        }
    } else if !empty(&spec["overhead"]) {
        return refuse("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead");
    }
    for (key, value) in class["scheduling"]["nodeSelector"].as_object().into_iter().flatten() {
        match spec["nodeSelector"].get(key) {
            Some(own) if own != value => {
                let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
                return refuse(&format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                    text(value),
                    text(own)
                ));
            }
            Some(_) => {}
            None => {
                if !spec["nodeSelector"].is_object() {
                    spec["nodeSelector"] = json!({});
                }
                spec["nodeSelector"][key] = value.clone();
            }
        }
    }
    for toleration in class["scheduling"]["tolerations"].as_array().into_iter().flatten() {
        match spec["tolerations"].as_array_mut() {
            Some(list) if list.contains(toleration) => {}
            Some(list) => list.push(toleration.clone()),
            None => spec["tolerations"] = json!([toleration]),
        }
    }
    Ok(())
}

/// Pods stay for five minutes on a node that is not ready or cannot be reached, unless they say otherwise.
pub(super) fn tolerations(pod: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        add_toleration(pod, key, 300);
    }
}

/// Adds a NoExecute toleration unless there is one for the taint.
fn add_toleration(pod: &mut Value, key: &str, seconds: i64) {
    let tolerates = |t: &Value| {
        let of = |field: &str| t[field].as_str().unwrap_or_default();
        (of("key") == key || of("key").is_empty()) && matches!(of("effect"), "" | "NoExecute")
    };
    let tolerations = &mut pod["spec"]["tolerations"];
    match tolerations.as_array_mut() {
        Some(list) if list.iter().any(tolerates) => {}
        Some(list) => list.push(toleration(key, seconds)),
        None => *tolerations = json!([toleration(key, seconds)]),
    }
}

fn toleration(key: &str, seconds: i64) -> Value {
    json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds })
}
