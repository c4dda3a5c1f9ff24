//! Quality of service class.

use serde_json::Value;
use vctl_machinery::quantity;

use crate::json::Json;

/// `Guaranteed`, `Burstable` or `BestEffort`, from requests and limits of CPU and memory.
pub fn qos_class(pod: &Value) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    for container in pod.items("/spec/containers").iter().chain(pod.items("/spec/initContainers")) {
        for resource in ["cpu", "memory"] {
            let amount = |kind: &str| {
                container
                    .pointer(&format!("/resources/{kind}/{resource}"))
                    .and_then(quantity::of)
                    .filter(|amount| *amount > 0)
            };
            let (request, limit) = (amount("requests"), amount("limits"));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request.unwrap_or(limit.unwrap_or_default()) == limit.unwrap_or_default();
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
