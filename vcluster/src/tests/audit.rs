//! What of requests is recorded, and how.

use std::sync::{Mutex, PoisonError};

use super::{
    webhooks::{Webhook, allow, configure},
    *,
};
use crate::{
    audit::{AuditBackend, AuditEvent, AuditPolicy},
    config::OutboundAddresses,
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Keeps what it is given.
#[derive(Default)]
struct Kept(Mutex<Vec<AuditEvent>>);

impl Kept {
    fn take(&self) -> Vec<AuditEvent> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait::async_trait]
impl AuditBackend for Kept {
    async fn process(&self, event: AuditEvent) {
        self.offer(event);
    }

    fn offer(&self, event: AuditEvent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

/// A cluster that records by these rules; none: every change, at Metadata.
async fn recorded(rules: Option<Value>) -> (Fixture, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    let f = Fixture::with(no_streams(), |config| {
        config.outbound = OutboundAddresses::Any;
        config.audit = Some(kept.clone());
        let changes = || {
            let omit = json!(["RequestReceived", "ResponseStarted"]);
            json!([{ "level": "None", "verbs": ["get", "list", "watch"] }, { "level": "Metadata", "omitStages": omit }])
        };
        let rules = rules.unwrap_or_else(changes);
        let policy = json!({ "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules });
        config.audit_policy = Arc::new(AuditPolicy::new(&policy).unwrap());
    })
    .await;
    kept.take();
    (f, kept)
}

#[tokio::test]
async fn a_change_is_an_event_of_upstreams_form() {
    let (f, kept) = recorded(None).await;
    let account = json!({ "metadata": { "name": "default" } });
    f.send("POST", "/api/v1/namespaces/default/serviceaccounts", account).await;
    kept.take();
    let uri = format!("{PODS}?fieldManager=me");
    let headers = [("user-agent", "kubectl/v1"), ("audit-id", "abc-1")];
    let response = f.raw(&f.admin, &headers, "POST", &uri, pod("web")).await;
    assert_eq!(response.headers()["audit-id"], "abc-1");
    f.ok("GET", PODS, Value::Null).await;
    let [event] = <[AuditEvent; 1]>::try_from(kept.take()).unwrap();
    assert_eq!((&*event.environment, &*event.user, event.changes), (NAME, "kubernetes-admin", true));
    assert_eq!(
        event.event,
        json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": "abc-1", "stage": "ResponseComplete",
            "requestURI": uri, "verb": "create",
            "user": event.event["user"], "sourceIPs": ["127.0.0.1"], "userAgent": "kubectl/v1",
            "objectRef": { "resource": "pods", "namespace": "default", "name": "web", "apiVersion": "v1" },
            "responseStatus": { "metadata": {}, "code": 201 },
            "requestReceivedTimestamp": "2026-01-02T03:04:05.000000Z", "stageTimestamp": "2026-01-02T03:04:05.000000Z",
            "annotations": event.event["annotations"],
        })
    );
    assert_eq!(event.event["user"]["username"], "kubernetes-admin");
    assert_eq!(event.event["annotations"]["authorization.k8s.io/decision"], "allow");
    assert_eq!(event.event["annotations"]["pod-security.kubernetes.io/enforce-policy"], "privileged:latest");
    let given = f.raw(&f.admin, &[("audit-id", "a b")], "GET", "/version", Value::Null).await;
    assert_eq!(given.headers()["audit-id"].len(), 36, "an id of our own");
}

#[tokio::test]
async fn refusals_say_why_and_who_acted_as_whom() {
    let (f, kept) = recorded(None).await;
    let (status, _) =
        f.send_as(&f.admin, &[("impersonate-user", "ann")], "DELETE", &format!("{MAPS}/m"), Value::Null).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let [event] = <[AuditEvent; 1]>::try_from(kept.take()).unwrap();
    assert_eq!((&*event.user, &*event.impersonated), ("kubernetes-admin", "ann"));
    assert_eq!(event.event["impersonatedUser"]["username"], "ann");
    assert_eq!(event.event["annotations"]["authorization.k8s.io/decision"], "forbid");
    // A ConfigMap may hold secrets: texts are left out.
    let failed = json!({ "metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403 });
    assert_eq!(event.event["responseStatus"], failed);
    f.send("DELETE", &format!("{PODS}/none"), Value::Null).await;
    let [event] = <[AuditEvent; 1]>::try_from(kept.take()).unwrap();
    assert_eq!(event.event["responseStatus"]["message"], "pods \"none\" not found");
    // Nobody in particular leaves no entry.
    let stranger = Peer { certificates: Arc::default(), ..f.admin.clone() };
    f.send_as(&stranger, &[("authorization", "Bearer x")], "POST", PODS, pod("p")).await;
    assert!(kept.take().is_empty());
}

#[tokio::test]
async fn levels_say_what_is_recorded_and_secrets_never_are() {
    let rules = json!([
        { "level": "RequestResponse", "verbs": ["create", "patch", "list"], "omitStages": ["RequestReceived"],
          "omitManagedFields": true },
        { "level": "Request", "verbs": ["delete"], "omitStages": ["RequestReceived"] },
    ]);
    let (f, kept) = recorded(Some(rules)).await;
    f.ok("POST", "/api/v1/namespaces", json!({ "metadata": { "name": "n", "labels": { "a": "b" } } })).await;
    let event = kept.take().remove(0).event;
    assert_eq!(event["requestObject"]["metadata"]["labels"]["a"], "b");
    assert_eq!(event["responseObject"]["metadata"]["name"], "n");
    assert!(event["responseObject"]["metadata"]["uid"].is_string());
    assert!(event["responseObject"]["metadata"].get("managedFields").is_none(), "{event}");
    let merge = [("content-type", "application/merge-patch+json")];
    let patch = json!({ "metadata": { "labels": { "a": "c" } } });
    f.send_as(&f.admin, &merge, "PATCH", "/api/v1/namespaces/n", patch.clone()).await;
    assert_eq!(kept.take().remove(0).event["requestObject"], patch);
    f.ok("DELETE", "/api/v1/namespaces/n", json!({ "gracePeriodSeconds": 0 })).await;
    let event = kept.take().remove(0).event;
    assert_eq!(event["requestObject"]["gracePeriodSeconds"], 0);
    assert!(event.get("responseObject").is_none());
    let protobuf = [("accept", "application/vnd.kubernetes.protobuf")];
    f.raw(&f.admin, &protobuf, "GET", "/api/v1/namespaces", Value::Null).await;
    assert_eq!(kept.take().remove(0).event["responseObject"]["kind"], "NamespaceList");

    for (uri, kind) in [("secrets", "Secret"), ("configmaps", "ConfigMap")] {
        let uri = format!("/api/v1/namespaces/default/{uri}");
        f.ok(
            "POST",
            &uri,
            json!({ "kind": kind, "apiVersion": "v1", "metadata": { "name": "s" }, "data": { "k": "aHVudGVyMg==" } }),
        )
        .await;
        f.send(
            "POST",
            &uri,
            json!({ "metadata": { "name": "s" }, "data": { "k": "aHVudGVyMg==", "l": ["aHVudGVyMg=="] } }),
        )
        .await;
        f.ok("GET", &uri, Value::Null).await;
    }
    f.ok("POST", "/api/v1/namespaces/default/serviceaccounts", json!({ "metadata": { "name": "sa" } })).await;
    let token = f.ok("POST", "/api/v1/namespaces/default/serviceaccounts/sa/token", json!({ "spec": {} })).await;
    let all: String = kept.take().iter().map(|e| e.event.to_string()).collect();
    assert!(!all.contains("aHVudGVyMg"), "{all}");
    assert!(!all.contains(token["status"]["token"].as_str().unwrap()));
}

#[tokio::test]
async fn what_goes_on_has_two_stages_and_what_is_large_is_cut() {
    let rules = json!([{ "level": "RequestResponse" }]);
    let (f, kept) = recorded(Some(rules)).await;
    let stages = |events: &[AuditEvent]| -> Vec<Value> { events.iter().map(|e| e.event["stage"].clone()).collect() };
    let response = f.raw(&f.admin, &[], "GET", &format!("{PODS}?watch=1"), Value::Null).await;
    assert_eq!(stages(&kept.take()), ["RequestReceived", "ResponseStarted"]);
    drop(response);
    assert_eq!(stages(&kept.take()), ["ResponseComplete"]);
    let mut large = json!({ "metadata": { "name": "large" } });
    large["metadata"]["annotations"]["a"] = "x".repeat(120_000).into();
    f.ok("POST", "/api/v1/namespaces", large).await;
    let events = kept.take();
    let last = &events.last().unwrap().event;
    assert!(last.get("requestObject").is_none() && last.get("responseObject").is_none());
    assert_eq!(last["annotations"]["audit.k8s.io/truncated"], "true");
}

#[tokio::test]
async fn webhooks_and_policies_annotate() {
    let hook = Webhook::start().await;
    let (f, kept) = recorded(None).await;
    hook.on("/a", |_| json!({ "allowed": true, "auditAnnotations": { "why": "because" } }));
    configure(&f, "validating", "a", vec![hook.hook("a", "/a")]).await;
    hook.on("/b", allow);
    let group = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({ "metadata": { "name": "maps" }, "spec": {
        "matchConstraints": { "resourceRules": [
            { "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"] }] },
        "validations": [{ "expression": "false", "message": "not so" }],
        "auditAnnotations": [{ "key": "name", "valueExpression": "'it is ' + object.metadata.name" }],
    } });
    f.ok("POST", &format!("{group}/validatingadmissionpolicies"), policy).await;
    let binding =
        json!({ "metadata": { "name": "b" }, "spec": { "policyName": "maps", "validationActions": ["Audit"] } });
    f.ok("POST", &format!("{group}/validatingadmissionpolicybindings"), binding).await;
    kept.take();
    f.config_map("m", "1").await;
    let annotations = kept.take().remove(0).event["annotations"].clone();
    assert_eq!(annotations["a.example.com/why"], "because");
    assert_eq!(annotations["maps/name"], "it is m");
    let failures = annotations["validation.policy.admission.k8s.io/validation_failure"].as_str().unwrap();
    let failures: Value = serde_json::from_str(failures).unwrap();
    assert_eq!(failures[0]["message"], "not so");
}

#[tokio::test]
async fn a_cluster_can_have_a_policy_of_its_own() {
    let (f, kept) = recorded(None).await;
    let name = EnvironmentName::new(NAME).unwrap();
    let policy = json!({ "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{ "level": "None" }] });
    f.planes.set_audit_policy(&name, Some(policy)).await.unwrap();
    f.config_map("m", "1").await;
    assert!(kept.take().is_empty());
    assert_eq!(f.planes.set_audit_policy(&name, Some(json!({}))).await.unwrap_err().code, 400);
    f.planes.set_audit_policy(&name, None).await.unwrap();
    f.config_map("n", "1").await;
    assert_eq!(kept.take().len(), 1);
}

#[tokio::test]
async fn the_shipped_policy_leaves_programs_alone() {
    let kept = Arc::new(Kept::default());
    let f = Fixture::with(no_streams(), |config| config.audit = Some(kept.clone())).await;
    kept.take();
    f.config_map("m", "1").await;
    assert!(kept.take().is_empty(), "by the certificate of the cluster's own administrator");
    f.send("POST", &format!("{PODS}/none/exec?command=ls"), Value::Null).await;
    assert_eq!(kept.take().len(), 1, "a session, by whomever");
    let nobody = Peer { certificates: Arc::default(), ..f.admin.clone() };
    let (status, _) = f.send_as(&nobody, &[], "POST", PODS, json!({})).await;
    assert!(status.is_client_error() && kept.take().is_empty(), "anybody could fill the trail: {status}");
}
