//! The condition Available of APIServices: whether the server behind each answers.
//! Source of rules and texts: kube-aggregator's `pkg/controllers/status`.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    context::{Context, Failure},
    object::{condition, int, is_deleting, list, rfc3339, text},
    queue::Controller,
};
use crate::aggregation::API_SERVICES;

/// A server that answers is asked again after this, one that does not sooner.
const AGAIN: SignedDuration = SignedDuration::from_secs(30);
const SOON: SignedDuration = SignedDuration::from_secs(3);

/// What the condition is to be: status, reason, message.
type Verdict = (&'static str, &'static str, String);

/// What can be said without asking the server; none when it must be asked.
fn judge(api: &Value, service: Option<&Value>, slices: &[Value]) -> Option<Verdict> {
    let own = &api["spec"]["service"];
    let (namespace, name) = (text(own, "/namespace"), text(own, "/name"));
    let port = int(own, "/port").unwrap_or(443);
    let refused = |reason, message| Some(("False", reason, message));
    let Some(service) = service else {
        return refused("ServiceNotFound", format!("service/{name} in {namespace:?} is not present"));
    };
    if !matches!(text(service, "/spec/type"), "" | "ClusterIP") {
        return None;
    }
    let Some(found) = list(service, "/spec/ports").iter().find(|p| int(p, "/port") == Some(port)) else {
        return refused("ServicePortError", format!("service/{name} in {namespace:?} is not listening on port {port}"));
    };
    let port_name = text(found, "/name");
    let mut of_service = slices
        .iter()
        .filter(|s| s.pointer("/metadata/labels/kubernetes.io~1service-name").is_some_and(|n| n == name))
        .peekable();
    if of_service.peek().is_none() {
        return refused("EndpointsNotFound", format!("cannot find endpointslices for service/{name} in {namespace:?}"));
    }
    let ready = |s: &Value| list(s, "/endpoints").iter().any(|e| e["conditions"]["ready"] != false);
    let serves = |s: &Value| list(s, "/ports").iter().any(|p| text(p, "/name") == port_name && !p["port"].is_null());
    if !of_service.any(|s| ready(s) && serves(s)) {
        return refused(
            "MissingEndpoints",
            format!(
                "endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}"
            ),
        );
    }
    None
}

/// With an empty name: looks at all.
pub(super) async fn reconcile(cx: &Context<'_>, name: &str) -> Result<Option<Timestamp>, Failure> {
    if name.is_empty() {
        let all = cx.stored(API_SERVICES, None).await?;
        cx.hints.set_api_services(cx.tenant, !all.is_empty());
        for entry in all {
            cx.wake(Controller::ApiServices, "", &entry.key.name);
        }
        return Ok(None);
    }
    let Some(api) = cx.find(API_SERVICES, "", name).await? else { return Ok(None) };
    cx.hints.set_api_services(cx.tenant, true);
    if is_deleting(&api) {
        return Ok(None);
    }
    let own = &api["spec"]["service"];
    let remote = own.is_object();
    let verdict = if !remote {
        ("True", "Local", "Local APIServices are always available".to_owned())
    } else {
        let namespace = text(own, "/namespace");
        let service = cx.find("services", namespace, text(own, "/name")).await?;
        let slices = cx.list("endpointslices.discovery.k8s.io", namespace).await?;
        match judge(&api, service.as_ref(), &slices) {
            Some(verdict) => verdict,
            None => match cx.clients.check_api_service(cx.tenant, &api).await {
                Ok(()) => ("True", "Passed", "all checks passed".to_owned()),
                Err(why) => ("False", "FailedDiscoveryCheck", why),
            },
        }
    };
    let available = verdict.0 == "True";
    write(cx, api, verdict).await?;
    let again = if available { AGAIN } else { SOON };
    Ok(remote.then(|| cx.now.checked_add(again).unwrap_or(Timestamp::MAX)))
}

async fn write(cx: &Context<'_>, mut api: Value, (status, reason, message): Verdict) -> Result<(), Failure> {
    let before = condition(&api, "Available").cloned();
    let since = match &before {
        Some(c) if c["status"] == status => c["lastTransitionTime"].clone(),
        _ => rfc3339(cx.now).into(),
    };
    let wanted = json!({
        "type": "Available", "status": status, "reason": reason, "message": message, "lastTransitionTime": since,
    });
    if before.as_ref() == Some(&wanted) {
        return Ok(());
    }
    let mut conditions = list(&api, "/status/conditions").to_vec();
    conditions.retain(|c| c["type"] != "Available");
    conditions.push(wanted);
    api["status"]["conditions"] = conditions.into();
    let name = super::object::name(&api).to_owned();
    cx.client.update(API_SERVICES, "", &name, "status", api).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_in_upstreams_words() {
        let api = json!({ "spec": { "service": { "namespace": "n", "name": "s", "port": 443 } } });
        let service = json!({ "spec": { "type": "ClusterIP", "ports": [{ "port": 443, "name": "https" }] } });
        let slice = |ready: bool| {
            json!({
                "metadata": { "labels": { "kubernetes.io/service-name": "s" } },
                "endpoints": [{ "conditions": { "ready": ready } }], "ports": [{ "name": "https", "port": 8443 }],
            })
        };
        let reason = |service: Option<&Value>, slices: &[Value]| judge(&api, service, slices).map(|v| (v.1, v.2));
        assert_eq!(reason(None, &[]), Some(("ServiceNotFound", "service/s in \"n\" is not present".into())));
        let other = json!({ "spec": { "ports": [{ "port": 80 }] } });
        assert_eq!(
            reason(Some(&other), &[]),
            Some(("ServicePortError", "service/s in \"n\" is not listening on port 443".into()))
        );
        assert_eq!(reason(Some(&service), &[]).unwrap().0, "EndpointsNotFound");
        assert_eq!(
            reason(Some(&service), &[slice(false)]),
            Some((
                "MissingEndpoints",
                "endpointslices for service/s in \"n\" have no addresses with port name \"https\"".into()
            ))
        );
        assert_eq!(reason(Some(&service), &[slice(true)]), None);
    }
}
