//! The status of PodDisruptionBudgets: how many pods may be evicted now (`pkg/controller/disruption` upstream).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use vctl_machinery::{selector::LabelSelector, status::ApiError};

use super::{
    context::{Context, Failure},
    event::{Draft, EventType},
    int_or_percent::scaled,
    object::{condition, controller_of, int, is_deleting, labels, list, name, namespace, rfc3339, text, uid},
    pod,
};

const RESOURCE: &str = "poddisruptionbudgets.policy";
/// An evicted pod that is not being deleted after this time counts as healthy again.
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_secs(120);

/// Everything of a pod that matters to budgets.
pub(super) fn view(pod: &Value) -> impl PartialEq + '_ {
    (labels(pod), is_deleting(pod), pod::is_ready(pod), pod::is_terminal(pod), controller_of(pod).map(uid))
}

async fn tell(cx: &Context<'_>, budget: &Value, kind: EventType, reason: &str, message: String) {
    cx.record(Draft::new("policy/v1", "PodDisruptionBudget", budget, kind, reason, message)).await;
}

/// What the pods of a budget are to be.
#[derive(Debug, PartialEq, Eq)]
struct Expected {
    pods: i64,
    healthy: i64,
}

pub(super) async fn reconcile(cx: &Context<'_>, ns: &str, of: &str) -> Result<Option<Timestamp>, Failure> {
    let Some(budget) = cx.find(RESOURCE, ns, of).await? else { return Ok(None) };
    let pods: Vec<Value> = match LabelSelector::from_object(&budget["spec"]["selector"]) {
        Ok(selector) => cx.list("pods", ns).await?.into_iter().filter(|p| selector.matches(labels(p))).collect(),
        Err(_) => Vec::new(),
    };
    if pods.is_empty() {
        tell(cx, &budget, EventType::Normal, "NoPods", "No matching pods found".to_owned()).await;
    }
    let expected = match expected(cx, &budget, &pods).await? {
        Ok(expected) => expected,
        Err(why) => {
            let message = format!("Failed to calculate the number of expected pods: {why}");
            tell(cx, &budget, EventType::Warning, "CalculateExpectedPodCountFailed", message).await;
            // Nothing may be evicted as long as nobody knows how many there are to be.
            let mut status = budget["status"].clone();
            status["disruptionsAllowed"] = 0.into();
            set_condition(&mut status, &budget, "False", "SyncFailed", &why, cx.now);
            write(cx, &budget, status).await?;
            return Ok(None);
        }
    };
    let disrupted = disrupted(&budget, &pods, cx.now);
    for pod in disrupted.overdue {
        let message = format!("Pod was expected by PDB {ns}/{of} to be deleted but it wasn't");
        cx.record(Draft::new("v1", "Pod", pod, EventType::Warning, "NotDeleted", message)).await;
    }
    let status = status(&budget, &pods, &expected, &disrupted.current, cx.now);
    write(cx, &budget, status).await?;
    Ok(disrupted.current.values().filter_map(|at| at.checked_add(DELETION_TIMEOUT).ok()).min())
}

async fn write(cx: &Context<'_>, budget: &Value, status: Value) -> Result<(), Failure> {
    if status == budget["status"] {
        return Ok(());
    }
    let mut changed = budget.clone();
    changed["status"] = status;
    match cx.client.update(RESOURCE, namespace(budget), name(budget), "status", changed).await {
        Ok(_) | Err(ApiError { code: 404, .. }) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// How many pods there are to be, and how many of them healthy; `Err` says why that cannot be told.
async fn expected(cx: &Context<'_>, budget: &Value, pods: &[Value]) -> Result<Result<Expected, String>, Failure> {
    let field = |f: &str| budget["spec"].get(f).filter(|v| !v.is_null());
    if let Some(least) = field("minAvailable").filter(|l| !l.is_string()) {
        return Ok(Ok(Expected { pods: pods.len() as i64, healthy: least.as_i64().unwrap_or(0) }));
    }
    let (Some(value), least) =
        (field("maxUnavailable").or_else(|| field("minAvailable")), field("maxUnavailable").is_none())
    else {
        return Ok(Ok(Expected { pods: 0, healthy: 0 }));
    };
    let total = match scale(cx, budget, pods).await? {
        Ok(total) => total,
        Err(why) => return Ok(Err(why)),
    };
    let number = scaled(value, total, true);
    Ok(Ok(Expected { pods: total, healthy: if least { number } else { (total - number).max(0) } }))
}

/// The replicas wanted by all controllers of the pods together.
async fn scale(cx: &Context<'_>, budget: &Value, pods: &[Value]) -> Result<Result<i64, String>, Failure> {
    let mut scales: BTreeMap<String, i64> = BTreeMap::new();
    let mut unmanaged = false;
    for pod in pods {
        let Some(owner) = controller_of(pod) else {
            unmanaged = true;
            continue;
        };
        if scales.contains_key(text(owner, "/uid")) {
            continue;
        }
        match controller_scale(cx, namespace(pod), owner).await? {
            Ok((counted, replicas)) => {
                // Pods of all ReplicaSets of a Deployment count once.
                scales.insert(text(owner, "/uid").to_owned(), 0);
                scales.insert(counted, replicas);
            }
            Err(why) if why.is_empty() => return Ok(Err(format!("found no controllers for pod {:?}", name(pod)))),
            Err(why) => return Ok(Err(why)),
        }
    }
    if unmanaged {
        let selector = &budget["spec"]["selector"];
        let message = format!(
            "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result, the status of the \
             PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \
             \".spec.minAvailable\" field of the PDB to an integer value."
        );
        tell(cx, budget, EventType::Warning, "UnmanagedPods", message).await;
    }
    Ok(Ok(scales.values().sum()))
}

/// UID and `spec.replicas` of what scales a controller: itself, or the Deployment of a ReplicaSet. `Err`, empty when it is gone, when
/// there is no such thing.
async fn controller_scale(cx: &Context<'_>, ns: &str, owner: &Value) -> Result<Result<(String, i64), String>, Failure> {
    let (api_version, kind, of) = (text(owner, "/apiVersion"), text(owner, "/kind"), text(owner, "/name"));
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let catalog = cx.clients.catalog(cx.tenant).await;
    let Some(descriptor) = catalog.kind(group, version, kind) else {
        return Ok(Err(format!("no matches for kind {kind:?} in version {api_version:?}")));
    };
    let resource = descriptor.group_resource();
    if descriptor.subresource("scale").is_none() {
        return Ok(Err(format!("{resource} does not implement the scale subresource")));
    }
    let found = cx.find(&resource, ns, of).await?.filter(|o| uid(o) == text(owner, "/uid"));
    let Some(object) = found else { return Ok(Err(String::new())) };
    if kind == "ReplicaSet"
        && let Some(deployment) = controller_of(&object).filter(|o| text(o, "/kind") == "Deployment")
        && let Some(deployment) = cx.find("deployments.apps", ns, text(deployment, "/name")).await?
    {
        return Ok(Ok((uid(&deployment).to_owned(), int(&deployment, "/spec/replicas").unwrap_or(1))));
    }
    let path =
        if descriptor.custom { replicas_path(cx, &resource, version).await? } else { "/spec/replicas".to_owned() };
    Ok(Ok((uid(&object).to_owned(), int(&object, &path).unwrap_or(i64::from(!descriptor.custom)))))
}

/// Where a custom resource has its replicas, as a JSON pointer.
async fn replicas_path(cx: &Context<'_>, resource: &str, version: &str) -> Result<String, Failure> {
    let definition = cx.find(crate::custom::DEFINITIONS, "", resource).await?.unwrap_or_default();
    let path = list(&definition, "/spec/versions")
        .iter()
        .find(|v| text(v, "/name") == version)
        .map(|v| text(v, "/subresources/scale/specReplicasPath"))
        .filter(|p| !p.is_empty())
        .unwrap_or(".spec.replicas");
    Ok(path.replace('.', "/"))
}

/// Pods that are evicted but not yet being deleted.
struct Disrupted<'a> {
    current: BTreeMap<String, Timestamp>,
    /// They should be deleted by now.
    overdue: Vec<&'a Value>,
}

fn disrupted<'a>(budget: &Value, pods: &'a [Value], now: Timestamp) -> Disrupted<'a> {
    let mut disrupted = Disrupted { current: BTreeMap::new(), overdue: Vec::new() };
    let noted = budget.pointer("/status/disruptedPods").and_then(Value::as_object);
    for pod in pods.iter().filter(|p| !is_deleting(p)) {
        let at = noted.and_then(|n| n.get(name(pod))).and_then(Value::as_str).and_then(|t| t.parse::<Timestamp>().ok());
        let Some(at) = at else { continue };
        if at.checked_add(DELETION_TIMEOUT).is_ok_and(|latest| latest < now) {
            disrupted.overdue.push(pod);
        } else {
            disrupted.current.insert(name(pod).to_owned(), at);
        }
    }
    disrupted
}

fn set_condition(status: &mut Value, budget: &Value, value: &str, reason: &str, message: &str, now: Timestamp) {
    let before = condition(budget, "DisruptionAllowed");
    let since = before
        .filter(|c| text(c, "/status") == value)
        .map_or_else(|| rfc3339(now), |c| text(c, "/lastTransitionTime").to_owned());
    let mut conditions: Vec<Value> = list(budget, "/status/conditions")
        .iter()
        .filter(|c| text(c, "/type") != "DisruptionAllowed")
        .cloned()
        .collect();
    conditions.push(json!({
        "type": "DisruptionAllowed", "status": value, "observedGeneration": int(budget, "/metadata/generation").unwrap_or(0),
        "lastTransitionTime": since, "reason": reason, "message": message,
    }));
    status["conditions"] = conditions.into();
}

fn status(
    budget: &Value,
    pods: &[Value],
    expected: &Expected,
    disrupted: &BTreeMap<String, Timestamp>,
    now: Timestamp,
) -> Value {
    let healthy =
        pods.iter().filter(|p| !is_deleting(p) && !disrupted.contains_key(name(p)) && pod::is_ready(p)).count() as i64;
    let allowed = if expected.pods <= 0 { 0 } else { (healthy - expected.healthy).max(0) };
    let mut status = Map::new();
    for (field, number) in [
        ("currentHealthy", healthy),
        ("desiredHealthy", expected.healthy),
        ("disruptionsAllowed", allowed),
        ("expectedPods", expected.pods),
        ("observedGeneration", int(budget, "/metadata/generation").unwrap_or(0)),
    ] {
        status.insert(field.into(), number.into());
    }
    if !disrupted.is_empty() {
        let noted: Map<String, Value> = disrupted.iter().map(|(pod, at)| (pod.clone(), rfc3339(*at).into())).collect();
        status.insert("disruptedPods".into(), noted.into());
    }
    let mut status = Value::Object(status);
    let (value, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    set_condition(&mut status, budget, value, reason, "", now);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn healthy_pods_above_the_desired_number_may_be_disrupted() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let pod = |name: &str| json!({ "metadata": { "name": name }, "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
        let pods = [pod("a"), pod("b"), pod("c")];
        let mut budget = json!({ "metadata": { "generation": 2 } });
        let expected = Expected { pods: 3, healthy: 2 };
        let first = status(&budget, &pods, &expected, &BTreeMap::new(), now);
        assert_eq!((&first["disruptionsAllowed"], &first["currentHealthy"]), (&json!(1), &json!(3)));
        assert_eq!(first["conditions"][0]["reason"], "SufficientPods");

        // One was evicted a minute ago, another longer ago than anybody waits.
        budget["status"] = first;
        budget["status"]["disruptedPods"] =
            json!({ "a": "2026-01-01T00:09:00Z", "b": "2026-01-01T00:01:00Z", "gone": "2026-01-01T00:09:00Z" });
        let found = disrupted(&budget, &pods, now);
        assert_eq!((found.current.len(), name(found.overdue[0])), (1, "b"));
        let second = status(&budget, &pods, &expected, &found.current, now);
        assert_eq!(
            (&second["disruptionsAllowed"], &second["disruptedPods"]),
            (&json!(0), &json!({ "a": "2026-01-01T00:09:00Z" }))
        );
        assert_eq!(second["conditions"][0]["reason"], "InsufficientPods");
    }
}
