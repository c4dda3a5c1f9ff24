//! Webhooks on a real TLS server on loopback.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use axum::{Json, Router, extract::State, routing::post};
use base64::{Engine, engine::general_purpose::STANDARD};
use tokio::net::{TcpListener, TcpStream};
use vctl_runtime::{
    pki::{Authority, Validity},
    serve::{Server, Tls},
};

use super::*;
use crate::config::OutboundAddresses;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1";

pub(super) type Answer = Arc<dyn Fn(&Value) -> Value + Send + Sync>;

/// A webhook server: what it was asked, and what it answers.
#[derive(Clone)]
pub(super) struct Webhook {
    pub(super) address: SocketAddr,
    pub(super) bundle: String,
    asked: Arc<Mutex<Vec<Value>>>,
    answers: Arc<Mutex<HashMap<String, Answer>>>,
}

async fn answer(
    State(hook): State<Webhook>,
    uri: http::Uri,
    Json(review): Json<Value>,
) -> Result<Json<Value>, (StatusCode, String)> {
    let request = review["request"].clone();
    let answer = hook.answers.lock().unwrap_or_else(PoisonError::into_inner).get(uri.path()).cloned();
    let mut seen = request.clone();
    seen["path"] = uri.path().into();
    hook.asked.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
    let Some(answer) = answer else { return Err((StatusCode::INTERNAL_SERVER_ERROR, "out of order".into())) };
    let mut response = answer(&request);
    if response.get("uid").is_none() {
        response["uid"] = request["uid"].clone();
    }
    Ok(Json(json!({ "kind": review["kind"], "apiVersion": review["apiVersion"], "response": response })))
}

impl Webhook {
    pub(super) async fn start() -> Self {
        let validity = Validity::from_now(jiff::Timestamp::now(), Duration::from_hours(1));
        let authority = Authority::generate("webhooks", validity).unwrap();
        let names = ["127.0.0.1", "localhost", "hook.default.svc"].map(String::from);
        let identity = authority.server(&names, validity).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let hook = Self {
            address: listener.local_addr().unwrap(),
            bundle: STANDARD.encode(authority.certificate_pem()),
            asked: Arc::default(),
            answers: Arc::default(),
        };
        let router = Router::new().fallback(post(answer)).with_state(hook.clone());
        let tls = Tls::new(&identity.certificate_pem, &identity.key_pem).unwrap();
        Server::new(tls, router, Tasks::new()).listen_tcp(listener);
        hook
    }

    pub(super) fn on(&self, path: &str, answer: impl Fn(&Value) -> Value + Send + Sync + 'static) {
        self.answers.lock().unwrap().insert(path.into(), Arc::new(answer));
    }

    pub(super) fn asked(&self) -> Vec<Value> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    /// A webhook of a configuration, by URL.
    pub(super) fn hook(&self, name: &str, path: &str) -> Value {
        json!({
            "name": format!("{name}.example.com"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": { "url": format!("https://{}{path}", self.address), "caBundle": self.bundle },
            "rules": [{ "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"] }],
        })
    }
}

/// Workers whose pods all listen at one address.
struct OneAddress(SocketAddr);

#[async_trait::async_trait]
impl PodStreams for OneAddress {
    async fn logs(&self, _: ContainerTarget, _: LogOptions) -> Result<LogStream, ApiError> {
        Err(ApiError::internal("no logs"))
    }
    async fn exec(&self, _: ContainerTarget, _: ExecOptions) -> Result<ExecSession, ApiError> {
        Err(ApiError::internal("no worker"))
    }
    async fn port_forward(&self, target: ContainerTarget, port: u16) -> Result<Box<dyn Duplex>, ApiError> {
        assert_eq!((&*target.environment, &*target.pod, &*target.node, port), (NAME, "server", "node", 8443));
        Ok(Box::new(TcpStream::connect(self.0).await.map_err(ApiError::internal)?))
    }
}

pub(super) async fn fixture(hook: &Webhook) -> Fixture {
    let streams = Arc::new(OneAddress(hook.address));
    Fixture::with(streams, |config| config.outbound = OutboundAddresses::Any).await
}

pub(super) async fn configure(f: &Fixture, kind: &str, name: &str, hooks: Vec<Value>) {
    f.ok(
        "POST",
        &format!("{HOOKS}/{kind}webhookconfigurations"),
        json!({ "metadata": { "name": name }, "webhooks": hooks }),
    )
    .await;
}

pub(super) fn allow(_: &Value) -> Value {
    json!({ "allowed": true })
}

fn patching(operations: Value) -> impl Fn(&Value) -> Value {
    move |_| json!({ "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string()) })
}

#[tokio::test]
async fn webhooks_mutate_in_order_and_validate_what_comes_of_it() {
    let hook = Webhook::start().await;
    let f = fixture(&hook).await;
    hook.on("/a", patching(json!([{ "op": "add", "path": "/data/a", "value": "1" }])));
    hook.on("/b", |request| {
        assert_eq!(request["object"]["data"]["a"], "1", "the first one's change is seen");
        patching(json!([{ "op": "add", "path": "/metadata/labels", "value": { "b": "2" } }]))(request)
    });
    hook.on("/check", |request| {
        json!({ "allowed": request["object"]["data"]["k"] != "bad", "warnings": ["look out"],
        "status": { "code": 422, "reason": "Invalid", "message": "no bad maps" } })
    });
    configure(&f, "mutating", "z", vec![hook.hook("b", "/b")]).await;
    configure(&f, "mutating", "y", vec![hook.hook("a", "/a")]).await;
    configure(&f, "validating", "v", vec![hook.hook("v", "/check")]).await;

    let response = f.raw(&f.admin, &[], "POST", MAPS, config_map("m", "1")).await;
    assert_eq!(response.status(), StatusCode::CREATED);
    assert_eq!(response.headers()["warning"], "299 - \"look out\"");
    let made = f.ok("GET", &format!("{MAPS}/m"), Value::Null).await;
    assert_eq!((&made["data"], &made["metadata"]["labels"]), (&json!({ "k": "1", "a": "1" }), &json!({ "b": "2" })));
    let asked = hook.asked();
    let paths: Vec<&str> = asked.iter().map(|a| a["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/a", "/b", "/check"]);
    let seen = &asked[2];
    assert_eq!(
        (&seen["operation"], &seen["name"], &seen["namespace"], &seen["dryRun"], &seen["oldObject"]),
        (&json!("CREATE"), &json!("m"), &json!("default"), &json!(false), &Value::Null)
    );
    assert_eq!(seen["kind"], json!({ "group": "", "version": "v1", "kind": "ConfigMap" }));
    assert_eq!(seen["requestResource"], json!({ "group": "", "version": "v1", "resource": "configmaps" }));
    assert_eq!(seen["userInfo"]["username"], "kubernetes-admin");
    assert_eq!(seen["options"]["kind"], "CreateOptions");
    assert_eq!(seen["object"]["data"]["a"], "1");

    let (status, refused) = f.send("POST", MAPS, config_map("n", "bad")).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        (&refused["message"], &refused["reason"]),
        (&json!("admission webhook \"v.example.com\" denied the request: no bad maps"), &json!("Invalid"))
    );
    // Deletions are asked about, too; a patch of nothing is an error.
    hook.on("/a", allow);
    hook.on("/b", allow);
    hook.asked();
    f.ok("DELETE", &format!("{MAPS}/m"), Value::Null).await;
    let asked = hook.asked();
    assert_eq!((&asked[2]["operation"], &asked[2]["object"]), (&json!("DELETE"), &Value::Null));
    assert_eq!(asked[2]["oldObject"]["data"]["k"], "1");
}

#[tokio::test]
async fn a_webhook_in_a_pod_is_reached_through_its_service() {
    let hook = Webhook::start().await;
    let f = fixture(&hook).await;
    hook.on("/in/pod", patching(json!([{ "op": "add", "path": "/data/from", "value": "pod" }])));
    let mut configured = hook.hook("s", "");
    configured["clientConfig"] =
        json!({ "service": { "namespace": "default", "name": "hook", "path": "/in/pod" }, "caBundle": hook.bundle });
    configure(&f, "mutating", "m", vec![configured]).await;
    let refused = async |why: &str| {
        let (status, answer) = f.send("POST", MAPS, config_map("x", "1")).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(
            answer["message"],
            format!(
                "Internal error occurred: failed calling webhook \"s.example.com\": failed to call webhook: Post \"https://hook.default.svc:443/in/pod?timeout=10s\": {why}"
            )
        );
    };
    refused("service \"hook\" not found").await;
    let service = json!({ "metadata": { "name": "hook" }, "spec": { "ports": [{ "port": 443, "targetPort": 8443 }], "selector": { "a": "b" } } });
    f.ok("POST", "/api/v1/namespaces/default/services", service).await;
    refused("no endpoints available for service \"hook\"").await;
    let mut server = pod("server");
    server["spec"]["nodeName"] = "node".into();
    f.ok("POST", "/api/v1/namespaces/default/pods", server).await;
    let slice = json!({
        "metadata": { "name": "hook-1", "labels": { "kubernetes.io/service-name": "hook" } }, "addressType": "IPv4",
        "endpoints": [{ "addresses": ["10.1.1.1"], "conditions": { "ready": true }, "targetRef": { "kind": "Pod", "name": "server", "namespace": "default" } }],
        "ports": [{ "name": "", "port": 8443, "protocol": "TCP" }],
    });
    f.ok("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice).await;
    assert_eq!(f.config_map("x", "1").await["data"]["from"], "pod");
}

#[tokio::test]
async fn failures_follow_the_policy_and_say_what_went_wrong() {
    let hook = Webhook::start().await;
    let f = fixture(&hook).await;
    let mut broken = hook.hook("f", "/nothing");
    configure(&f, "validating", "v", vec![broken.clone()]).await;
    let (status, answer) = f.send("POST", MAPS, config_map("x", "1")).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(
        answer["message"],
        "Internal error occurred: failed calling webhook \"f.example.com\": failed to call webhook: an error on the server (\"out of order\") has prevented the request from succeeding"
    );
    let uri = format!("{HOOKS}/validatingwebhookconfigurations/v");
    let replace = async |hook: Value| {
        let mut live = f.ok("GET", &uri, Value::Null).await;
        live["webhooks"] = json!([hook]);
        f.ok("PUT", &uri, live).await;
    };
    let other =
        Authority::generate("other", Validity::from_now(jiff::Timestamp::now(), Duration::from_hours(1))).unwrap();
    broken["clientConfig"]["caBundle"] = STANDARD.encode(other.certificate_pem()).into();
    replace(broken.clone()).await;
    let (_, answer) = f.send("POST", MAPS, config_map("x", "1")).await;
    let message = answer["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with("x509: certificate signed by unknown authority"), "{message}");
    broken["failurePolicy"] = "Ignore".into();
    replace(broken.clone()).await;
    f.config_map("x", "1").await;
    // A webhook with side effects is not called for a dry run.
    let mut effects = hook.hook("e", "/e");
    effects["sideEffects"] = "NoneOnDryRun".into();
    hook.on("/e", allow);
    replace(effects).await;
    hook.asked();
    f.ok("POST", &format!("{MAPS}?dryRun=All"), config_map("y", "1")).await;
    assert_eq!(hook.asked()[0]["dryRun"], true);
}

#[tokio::test]
async fn a_slow_webhook_times_out() {
    let f = Fixture::with(Arc::new(NoStreams), |config| config.outbound = OutboundAddresses::Any).await;
    // Accepts connections and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hook = json!({
        "name": "slow.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 1,
        "clientConfig": { "url": format!("https://{}/x", listener.local_addr().unwrap()) , "caBundle": Webhook::start().await.bundle },
        "rules": [{ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"] }],
    });
    configure(&f, "validating", "v", vec![hook]).await;
    let (_, answer) = f.send("POST", MAPS, config_map("x", "1")).await;
    assert!(answer["message"].as_str().unwrap().ends_with("/x?timeout=1s\": context deadline exceeded"), "{answer}");
}

#[tokio::test]
async fn private_addresses_are_not_dialled_for_tenants() {
    let hook = Webhook::start().await;
    let f = Fixture::new().await;
    configure(&f, "validating", "v", vec![hook.hook("v", "/x")]).await;
    let (_, answer) = f.send("POST", MAPS, config_map("x", "1")).await;
    assert!(
        answer["message"].as_str().unwrap().contains("does not connect to addresses of its own network"),
        "{answer}"
    );
    assert!(hook.asked().is_empty());
}

#[tokio::test]
async fn selectors_rules_and_equivalence_choose_what_is_asked() {
    let hook = Webhook::start().await;
    let f = fixture(&hook).await;
    hook.on("/x", allow);
    let mut selective = hook.hook("x", "/x");
    selective["objectSelector"] = json!({ "matchLabels": { "watched": "yes" } });
    selective["namespaceSelector"] = json!({ "matchExpressions": [{ "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"] }] });
    configure(&f, "validating", "a", vec![selective]).await;
    let mut labelled = config_map("l", "1");
    f.config_map("plain", "1").await;
    assert!(hook.asked().is_empty());
    labelled["metadata"]["labels"] = json!({ "watched": "yes" });
    f.ok("POST", MAPS, labelled.clone()).await;
    assert_eq!(hook.asked().len(), 1);
    f.ok("POST", "/api/v1/namespaces/kube-system/configmaps", labelled).await;
    assert!(hook.asked().is_empty());
    f.ok("DELETE", &format!("{HOOKS}/validatingwebhookconfigurations/a"), Value::Null).await;

    // A rule for another version of the same resource; and the scale of a deployment is asked about as a Scale.
    let mut rules = hook.hook("r", "/x");
    rules["rules"] = json!([
        { "operations": ["CREATE"], "apiGroups": ["autoscaling"], "apiVersions": ["v2"], "resources": ["horizontalpodautoscalers"] },
        { "operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/scale"] },
    ]);
    configure(&f, "validating", "b", vec![rules]).await;
    let scaler = json!({ "metadata": { "name": "h" }, "spec": { "maxReplicas": 3, "targetCPUUtilizationPercentage": 50,
        "scaleTargetRef": { "kind": "Deployment", "name": "d", "apiVersion": "apps/v1" } } });
    f.ok("POST", "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", scaler).await;
    let asked = hook.asked();
    assert_eq!((&asked[0]["kind"]["version"], &asked[0]["requestKind"]["version"]), (&json!("v2"), &json!("v1")));
    assert_eq!(asked[0]["object"]["apiVersion"], "autoscaling/v2");
    assert_eq!(asked[0]["object"]["spec"]["metrics"][0]["type"], "Resource");
    let deployment = json!({ "metadata": { "name": "d" }, "spec": { "selector": { "matchLabels": { "a": "b" } },
        "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } } } });
    f.ok("POST", "/apis/apps/v1/namespaces/default/deployments", deployment).await;
    let scale = json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "d", "namespace": "default" }, "spec": { "replicas": 4 } });
    f.ok("PUT", "/apis/apps/v1/namespaces/default/deployments/d/scale", scale).await;
    let asked = hook.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!((&asked[0]["kind"]["kind"], &asked[0]["subResource"]), (&json!("Scale"), &json!("scale")));
    assert_eq!(
        (&asked[0]["object"]["spec"]["replicas"], &asked[0]["oldObject"]["spec"]["replicas"]),
        (&json!(4), &json!(1))
    );
}

#[tokio::test]
async fn a_webhook_that_wants_to_is_asked_again_after_later_changes() {
    let hook = Webhook::start().await;
    let f = fixture(&hook).await;
    hook.on("/first", |request| {
        let count = request["object"]["metadata"]["labels"]["seen"].as_str().map_or(0, |s| s.parse::<i32>().unwrap());
        let labels = json!({ "seen": (count + 1).to_string() });
        patching(json!([{ "op": "add", "path": "/metadata/labels", "value": labels }]))(request)
    });
    hook.on("/second", patching(json!([{ "op": "add", "path": "/data/second", "value": "x" }])));
    let mut first = hook.hook("first", "/first");
    first["reinvocationPolicy"] = "IfNeeded".into();
    configure(&f, "mutating", "m", vec![first, hook.hook("second", "/second")]).await;
    let made = f.config_map("m", "1").await;
    let asked = hook.asked();
    let paths: Vec<&str> = asked.iter().map(|a| a["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/first", "/second", "/first"]);
    assert_eq!(made["metadata"]["labels"], json!({ "seen": "2" }));
}

#[tokio::test]
async fn pods_sessions_and_evictions_are_asked_about() {
    let hook = Webhook::start().await;
    let f = fixture(&hook).await;
    hook.on("/p", |request| json!({ "allowed": request["operation"] != "CONNECT" }));
    let mut configured = hook.hook("p", "/p");
    configured["rules"] = json!([{ "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/exec", "pods/eviction"] }]);
    configure(&f, "validating", "v", vec![configured]).await;
    let mut bound = pod("p");
    bound["spec"]["nodeName"] = "node".into();
    f.ok("POST", "/api/v1/namespaces/default/pods", bound).await;
    let (status, refused) =
        f.send("POST", "/api/v1/namespaces/default/pods/p/exec?command=sh&stdout=1", Value::Null).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(refused["message"], "admission webhook \"p.example.com\" denied the request without explanation");
    let asked = hook.asked();
    assert_eq!(
        asked[0]["object"],
        json!({ "kind": "PodExecOptions", "apiVersion": "v1", "container": "c", "command": ["sh"], "stdout": true })
    );
    assert_eq!(asked[0]["kind"]["kind"], "PodExecOptions");
    let eviction =
        json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "p", "namespace": "default" } });
    f.ok("POST", "/api/v1/namespaces/default/pods/p/eviction", eviction).await;
    let asked = hook.asked();
    assert_eq!((&asked[0]["operation"], &asked[0]["kind"]["kind"]), (&json!("CREATE"), &json!("Eviction")));
}

#[tokio::test]
async fn configurations_are_validated_in_upstreams_words() {
    let f = Fixture::new().await;
    let create = async |hook: Value| {
        let body = json!({ "metadata": { "name": "v" }, "webhooks": [hook] });
        let (status, answer) = f.send("POST", &format!("{HOOKS}/validatingwebhookconfigurations"), body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
        let causes = answer["details"]["causes"].as_array().unwrap().clone();
        causes
            .iter()
            .map(|c| format!("{}: {}", c["field"].as_str().unwrap(), c["message"].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        create(json!({ "name": "short", "clientConfig": {}, "timeoutSeconds": 31, "failurePolicy": "Maybe" })).await,
        [
            "webhooks[0].name: Invalid value: \"short\": should be a domain with at least three segments separated by dots",
            "webhooks[0].failurePolicy: Unsupported value: \"Maybe\": supported values: \"Fail\", \"Ignore\"",
            "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
            "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
            "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
        ]
    );
    let rules = json!([{ "operations": ["*", "CREATE"], "apiGroups": [], "apiVersions": ["v1"], "resources": ["*/*", "pods"] }]);
    assert_eq!(
        create(json!({ "name": "a.b.c", "clientConfig": { "url": "http://u@x/y?z" }, "sideEffects": "Some", "admissionReviewVersions": ["v9"], "rules": rules })).await,
        [
            "webhooks[0].rules[0].operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not specify other operations",
            "webhooks[0].rules[0].apiGroups: Required value",
            "webhooks[0].rules[0].resources: Invalid value: [\"*/*\",\"pods\"]: if '*/*' is present, must not specify other resources",
            "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"",
            "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
            "webhooks[0].clientConfig.url: Invalid value: \"u\": user information is not permitted in the URL",
            "webhooks[0].clientConfig.url: Invalid value: \"z\": query parameters are not permitted in the URL",
            "webhooks[0].admissionReviewVersions: Invalid value: [\"v9\"]: must include at least one of v1, v1beta1",
        ]
    );
}
