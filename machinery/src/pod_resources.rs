//! What a pod asks for as a whole. Source: component-helpers `resource` (PodRequests, PodLimits).

use serde_json::Value;

use crate::amounts::{Amounts, add, amounts, raise};

/// Names of what a pod can ask for as a whole, besides huge pages (`SupportedPodLevelResources`).
const OF_A_WHOLE_POD: [&str; 2] = ["cpu", "memory"];
/// How names of huge pages begin.
pub const HUGE_PAGES: &str = "hugepages-";

/// Whether a pod can ask for a resource as a whole, in `spec.resources`.
pub fn is_of_a_whole_pod(name: &str) -> bool {
    OF_A_WHOLE_POD.contains(&name) || name.starts_with(HUGE_PAGES)
}

/// What the containers of a pod ask for together: `what` is `requests` or `limits`. Containers and sidecars run together; other init
/// containers run one after the other beside the sidecars before them.
pub fn of_containers(spec: &Value, what: &str) -> Amounts {
    let of = |container: &Value| amounts(&container["resources"][what]);
    let mut total = Amounts::new();
    for container in spec["containers"].as_array().into_iter().flatten() {
        add(&mut total, &of(container));
    }
    let (mut sidecars, mut start) = (Amounts::new(), Amounts::new());
    for container in spec["initContainers"].as_array().into_iter().flatten() {
        let mut own = of(container);
        if container["restartPolicy"] == "Always" {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            own = sidecars.clone();
        } else {
            add(&mut own, &sidecars);
        }
        raise(&mut start, &own);
    }
    raise(&mut total, &start);
    total
}

/// The same, and what the pod says as a whole.
fn aggregate(pod: &Value, what: &str) -> Amounts {
    let spec = &pod["spec"];
    let mut total = of_containers(spec, what);
    // What the pod says as a whole counts instead. Requests cannot be less than those of its containers.
    let whole = amounts(&spec["resources"][what]);
    if what == "requests" {
        raise(&mut total, &whole);
    } else {
        total.extend(whole);
    }
    total
}

/// What the scheduler reserves.
pub fn requests(pod: &Value) -> Amounts {
    let mut total = aggregate(pod, "requests");
    add(&mut total, &amounts(&pod["spec"]["overhead"]));
    total
}

/// What it may use at most; resources without a limit are absent.
pub fn limits(pod: &Value) -> Amounts {
    let mut total = aggregate(pod, "limits");
    for (name, amount) in amounts(&pod["spec"]["overhead"]) {
        if let Some(limit) = total.get_mut(&name) {
            *limit = limit.plus(amount);
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::amounts::listed;

    #[test]
    fn init_containers_raise_and_sidecars_add() {
        let container = |cpu: &str| json!({ "resources": { "requests": { "cpu": cpu } } });
        let sidecar = json!({ "restartPolicy": "Always", "resources": { "requests": { "cpu": "100m" } } });
        let pod = json!({ "spec": {
            "containers": [container("200m"), container("300m")],
            "initContainers": [sidecar, container("700m"), container("1m")],
            "overhead": { "cpu": "10m", "memory": "1Mi" },
        } });
        assert_eq!(listed(&requests(&pod)), "cpu=810m,memory=1Mi");
        assert_eq!(listed(&limits(&pod)), "");
        let mut whole = pod.clone();
        whole["spec"]["resources"]["requests"] = json!({ "cpu": "0", "memory": "2Gi" });
        assert_eq!(listed(&requests(&whole)), "cpu=810m,memory=2049Mi", "no less than what its containers request");
    }
}
