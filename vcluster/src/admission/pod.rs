//! Priority and default tolerations of pods.

use serde_json::{Value, json};
use vctl_machinery::status::ApiError;

use crate::objects::{Call, Target};

const CLASSES: &str = "priorityclasses.scheduling.k8s.io";

/// Resolves the priority class.
pub(super) async fn priority(call: &Call, target: &Target, pod: &mut Value) -> Result<(), ApiError> {
    let wanted = pod["spec"]["priorityClassName"].as_str().unwrap_or_default().to_owned();
    let class = if wanted.is_empty() {
        let classes = call.plane.objects(CLASSES, None).await?;
        classes.into_iter().filter(|c| c["globalDefault"] == true).min_by_key(|c| c["value"].as_i64())
    } else {
        let class = call.plane.object(CLASSES, "", &wanted).await?;
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
    if let Some(given) = pod["spec"]["priority"].as_i64()
        && given != value
        && !call.user.is_internal()
    {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        );
        return Err(target.forbidden(super::name_of(pod), &why));
    }
    let spec = &mut pod["spec"];
    if let Some(name) = name {
        spec["priorityClassName"] = name.into();
    }
    spec["priority"] = value.into();
    if spec["preemptionPolicy"].is_null() {
        spec["preemptionPolicy"] = policy.unwrap_or("PreemptLowerPriority").into();
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
