//! LimitRange: default requests and limits of containers, and bounds for containers, pods and claims.
//! Source of rules and texts: upstream's `plugin/pkg/admission/limitranger`.

use serde_json::{Value, json};
use vctl_machinery::{
    amounts::{Amounts, Quantity, amounts},
    pod_resources,
    status::ApiError,
};

use crate::objects::{Call, Target};

const RANGES: &str = "limitranges";

fn applies(target: &Target) -> bool {
    target.subresource.is_empty() && (target.is("", "pods") || target.is("", "persistentvolumeclaims"))
}

/// Gives the containers of a new pod what they do not say themselves.
pub(super) async fn defaults(call: &Call, target: &Target, pod: &mut Value) -> Result<(), ApiError> {
    if !target.is("", "pods") || !target.subresource.is_empty() {
        return Ok(());
    }
    for range in call.plane.objects(RANGES, Some(&target.namespace)).await? {
        complete(pod, &range);
    }
    Ok(())
}

fn items(range: &Value) -> impl Iterator<Item = &Value> {
    range["spec"]["limits"].as_array().into_iter().flatten()
}

fn complete(pod: &mut Value, range: &Value) {
    let of = |field: &str| -> serde_json::Map<String, Value> {
        items(range)
            .filter(|i| i["type"] == "Container")
            .filter_map(|i| i[field].as_object())
            .flat_map(|m| m.iter().map(|(k, v)| (k.clone(), v.clone())))
            .collect()
    };
    let (requests, limits) = (of("defaultRequest"), of("default"));
    let mut notes = Vec::new();
    for (field, what) in [("containers", "container"), ("initContainers", "init container")] {
        for container in pod["spec"][field].as_array_mut().into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            for (kind, singular, values) in [("requests", "request", &requests), ("limits", "limit", &limits)] {
                let set = fill(&mut container["resources"], kind, values);
                if !set.is_empty() {
                    notes.push(format!("{} {singular} for {what} {name}", set.join(", ")));
                }
            }
            if container["resources"].is_null()
                && let Some(container) = container.as_object_mut()
            {
                container.insert("resources".into(), json!({}));
            }
        }
    }
    if !notes.is_empty() {
        if !pod["metadata"]["annotations"].is_object() {
            pod["metadata"]["annotations"] = json!({});
        }
        pod["metadata"]["annotations"]["kubernetes.io/limit-ranger"] =
            format!("LimitRanger plugin set: {}", notes.join("; ")).into();
    }
}

/// Sets what is not there; returns what was set.
fn fill(resources: &mut Value, kind: &str, values: &serde_json::Map<String, Value>) -> Vec<String> {
    let mut set = Vec::new();
    for (name, value) in values {
        if resources[kind].get(name).is_none_or(Value::is_null) {
            if !resources.is_object() {
                *resources = json!({});
            }
            if !resources[kind].is_object() {
                resources[kind] = json!({});
            }
            resources[kind][name] = value.clone();
            set.push(name.clone());
        }
    }
    set
}

/// 403 for what is out of bounds.
pub(super) async fn check(call: &Call, target: &Target, object: &Value) -> Result<(), ApiError> {
    if !applies(target) {
        return Ok(());
    }
    for range in call.plane.objects(RANGES, Some(&target.namespace)).await? {
        let errors = if target.descriptor.plural == "pods" { pod(object, &range) } else { claim(object, &range) };
        if let [one] = errors.as_slice() {
            return Err(target.forbidden(super::name_of(object), one));
        } else if !errors.is_empty() {
            return Err(target.forbidden(super::name_of(object), &format!("[{}]", errors.join(", "))));
        }
    }
    Ok(())
}

/// The bounds of one item for one thing.
struct Bounds<'a> {
    item: &'a Value,
    kind: &'a str,
    requests: Amounts,
    limits: Amounts,
}

impl Bounds<'_> {
    fn violations(&self, errors: &mut Vec<String>) {
        let of = |field: &str| amounts(&self.item[field]);
        errors.extend(of("min").iter().filter_map(|(name, min)| self.below(name, *min)));
        errors.extend(of("max").iter().filter_map(|(name, max)| self.above(name, *max)));
        errors.extend(of("maxLimitRequestRatio").iter().filter_map(|(name, ratio)| self.ratio(name, *ratio)));
    }

    fn below(&self, name: &str, min: Quantity) -> Option<String> {
        let usage = format!("minimum {name} usage per {} is {min}", self.kind);
        match (self.requests.get(name), self.limits.get(name)) {
            (None, _) => Some(format!("{usage}.  No request is specified")),
            (Some(request), _) if *request < min => Some(format!("{usage}, but request is {request}")),
            (_, Some(limit)) if *limit < min => Some(format!("{usage}, but limit is {limit}")),
            _ => None,
        }
    }

    fn above(&self, name: &str, max: Quantity) -> Option<String> {
        let usage = format!("maximum {name} usage per {} is {max}", self.kind);
        match (self.requests.get(name), self.limits.get(name)) {
            (_, None) => Some(format!("{usage}.  No limit is specified")),
            (_, Some(limit)) if *limit > max => Some(format!("{usage}, but limit is {limit}")),
            (Some(request), _) if *request > max => Some(format!("{usage}, but request is {request}")),
            _ => None,
        }
    }

    fn ratio(&self, name: &str, max: Quantity) -> Option<String> {
        let text = format!("{name} max limit to request ratio per {} is {max}", self.kind);
        let some = |amounts: &Amounts| amounts.get(name).copied().filter(|a| !a.is_zero());
        match (some(&self.requests), some(&self.limits)) {
            (None, _) => Some(format!("{text}, but no request is specified or request is 0")),
            (_, None) => Some(format!("{text}, but no limit is specified or limit is 0")),
            (Some(request), Some(limit)) => {
                let ratio = limit.ratio(request);
                (ratio > max.as_f64()).then(|| format!("{text}, but provided ratio is {ratio:.6}"))
            }
        }
    }
}

fn pod(pod: &Value, range: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    for item in items(range) {
        match item["type"].as_str() {
            Some(kind @ "Container") => {
                for field in ["containers", "initContainers"] {
                    for container in pod["spec"][field].as_array().into_iter().flatten() {
                        let of = |what: &str| amounts(&container["resources"][what]);
                        Bounds { item, kind, requests: of("requests"), limits: of("limits") }.violations(&mut errors);
                    }
                }
            }
            Some(kind @ "Pod") => {
                let (requests, limits) = (pod_resources::requests(pod), pod_resources::limits(pod));
                Bounds { item, kind, requests, limits }.violations(&mut errors);
            }
            _ => {}
        }
    }
    errors
}

fn claim(claim: &Value, range: &Value) -> Vec<String> {
    let requests = amounts(&claim["spec"]["resources"]["requests"]);
    let mut errors = Vec::new();
    for item in items(range).filter(|i| i["type"] == "PersistentVolumeClaim") {
        let bounds = Bounds { item, kind: "PersistentVolumeClaim", requests: requests.clone(), limits: Amounts::new() };
        errors.extend(amounts(&item["min"]).iter().filter_map(|(name, min)| bounds.below(name, *min)));
        for (name, max) in amounts(&item["max"]) {
            let usage = format!("maximum {name} usage per PersistentVolumeClaim is {max}");
            match requests.get(&name) {
                None => errors.push(format!("{usage}.  No request is specified")),
                Some(request) if *request > max => errors.push(format!("{usage}, but request is {request}")),
                Some(_) => {}
            }
        }
    }
    errors
}
