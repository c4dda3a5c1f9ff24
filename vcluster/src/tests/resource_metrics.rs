//! `metrics.k8s.io` over HTTP.

use super::*;
use crate::streams::{ContainerUsage, PodUsage};

/// Workers that have measured what they are told.
#[derive(Default)]
pub(crate) struct Measured(pub(crate) std::sync::Mutex<Vec<PodUsage>>);

impl Measured {
    /// Says what the only container of a pod uses.
    pub(crate) fn set(&self, uid: &str, time: jiff::Timestamp, cpu_nano_cores: i64, memory_bytes: i64) {
        let container = ContainerUsage { name: "c".into(), cpu_nano_cores, memory_bytes };
        let mut all = self.0.lock().unwrap();
        all.retain(|u| u.uid != uid);
        all.push(PodUsage {
            uid: uid.into(),
            time_ms: time.as_millisecond(),
            window_ms: 15_000,
            containers: vec![container],
        });
    }
}

#[async_trait::async_trait]
impl PodStreams for Measured {
    async fn logs(&self, _: ContainerTarget, _: LogOptions) -> Result<LogStream, ApiError> {
        Err(ApiError::internal("no worker"))
    }
    async fn exec(&self, _: ContainerTarget, _: ExecOptions) -> Result<ExecSession, ApiError> {
        Err(ApiError::internal("no worker"))
    }
    async fn port_forward(&self, _: ContainerTarget, _: u16) -> Result<Box<dyn Duplex>, ApiError> {
        Err(ApiError::internal("no worker"))
    }
    fn usage(&self, environment: &str) -> Vec<PodUsage> {
        assert_eq!(environment, NAME);
        self.0.lock().unwrap().clone()
    }
}

const PODS: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods";
const NODES: &str = "/apis/metrics.k8s.io/v1beta1/nodes";

/// A cluster with a node and two pods on it that run, of which `a` has been measured.
async fn measured() -> (Fixture, Arc<Measured>) {
    let workers = Arc::new(Measured::default());
    let f = Fixture::with(workers.clone(), |_| {}).await;
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n1" },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    f.ok("POST", "/api/v1/nodes", node).await;
    for name in ["a", "b"] {
        let mut object = pod(name);
        object["spec"]["nodeName"] = "n1".into();
        object["spec"]["automountServiceAccountToken"] = false.into();
        f.ok("POST", "/api/v1/namespaces/default/serviceaccounts", json!({ "metadata": { "name": name } })).await;
        object["spec"]["serviceAccountName"] = name.into();
        let made = f.ok("POST", "/api/v1/namespaces/default/pods", object).await;
        let status = json!({ "status": { "phase": "Running",
            "containerStatuses": [{ "name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
                "state": { "running": { "startedAt": "2026-01-02T03:04:05Z" } } }] } });
        let uri = format!("/api/v1/namespaces/default/pods/{name}/status");
        let merge = [("content-type", "application/merge-patch+json")];
        let (code, answer) = f.send_as(&f.admin, &merge, "PATCH", &uri, status).await;
        assert_eq!(code, StatusCode::OK, "{answer}");
        if name == "a" {
            workers.set(made["metadata"]["uid"].as_str().unwrap(), f.clock.now(), 125_000_000, 64 << 20);
        }
    }
    (f, workers)
}

#[tokio::test]
async fn what_pods_and_nodes_use_can_be_asked_for() {
    let (f, _workers) = measured().await;
    let list = f.ok("GET", PODS, Value::Null).await;
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("PodMetricsList"), &json!("metrics.k8s.io/v1beta1")));
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    let expected = json!({ "cpu": "125m", "memory": "64Mi" });
    assert_eq!(list["items"][0]["containers"], json!([{ "name": "c", "usage": expected }]));
    assert_eq!(
        (&list["items"][0]["timestamp"], &list["items"][0]["window"]),
        (&json!("2026-01-02T03:04:05Z"), &json!("15s"))
    );
    let one = f.ok("GET", &format!("{PODS}/a"), Value::Null).await;
    assert_eq!((&one["kind"], &one["metadata"]["labels"]["app"]), (&json!("PodMetrics"), &json!("a")));
    let everywhere = f.ok("GET", "/apis/metrics.k8s.io/v1beta1/pods?labelSelector=app%3Da", Value::Null).await;
    assert_eq!(everywhere["items"][0]["metadata"]["name"], "a");
    for none in ["labelSelector=app%3Db", "fieldSelector=metadata.name%3Db"] {
        assert_eq!(f.ok("GET", &format!("{PODS}?{none}"), Value::Null).await["items"], json!([]), "{none}");
    }
    let node = f.ok("GET", &format!("{NODES}/n1"), Value::Null).await;
    assert_eq!((&node["kind"], &node["usage"]), (&json!("NodeMetrics"), &expected));
    assert_eq!(f.ok("GET", NODES, Value::Null).await["items"].as_array().unwrap().len(), 1);

    let (code, missing) = f.send("GET", &format!("{PODS}/b"), Value::Null).await;
    assert_eq!(
        (code, &missing["message"]),
        (StatusCode::NOT_FOUND, &json!("podmetrics.metrics.k8s.io \"default/b\" not found"))
    );
    let (code, missing) = f.send("GET", &format!("{PODS}/x"), Value::Null).await;
    assert_eq!((code, &missing["message"]), (StatusCode::NOT_FOUND, &json!("pods \"x\" not found")));
    for (method, uri) in
        [("POST", PODS.to_owned()), ("DELETE", format!("{PODS}/a")), ("GET", format!("{PODS}?watch=1"))]
    {
        let (code, answer) = f.send(method, &uri, json!({})).await;
        assert_eq!(code, StatusCode::METHOD_NOT_ALLOWED, "{method} {uri} {answer}");
    }
}

#[tokio::test]
async fn old_measurements_are_not_told() {
    let (f, workers) = measured().await;
    f.clock.advance(119);
    assert_eq!(f.ok("GET", PODS, Value::Null).await["items"].as_array().unwrap().len(), 1);
    f.clock.advance(2);
    assert_eq!(f.ok("GET", PODS, Value::Null).await["items"], json!([]));
    assert_eq!(f.ok("GET", NODES, Value::Null).await["items"][0]["usage"]["cpu"], "0");
    drop(workers);
}

#[tokio::test]
async fn it_is_in_discovery_and_viewers_may_read_it() {
    let (f, _workers) = measured().await;
    let group = f.ok("GET", "/apis/metrics.k8s.io/v1beta1", Value::Null).await;
    let names: Vec<&Value> = group["resources"].as_array().unwrap().iter().map(|r| &r["name"]).collect();
    assert_eq!(names, ["nodes", "pods"]);
    assert_eq!(group["resources"][1]["verbs"], json!(["get", "list"]));
    let groups = f.ok("GET", "/apis", Value::Null).await;
    assert_eq!(groups["groups"].as_array().unwrap().last().unwrap()["name"], "metrics.k8s.io");
    let viewer = f.ok("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/view", Value::Null).await;
    let reads =
        |r: &Value| r["apiGroups"] == json!(["metrics.k8s.io"]) && r["verbs"] == json!(["get", "list", "watch"]);
    assert!(viewer["rules"].as_array().unwrap().iter().any(reads), "{viewer}");
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")];
    let (_, table) = f.send_as(&f.admin, &table, "GET", PODS, Value::Null).await;
    assert_eq!(table["rows"][0]["cells"], json!(["a", "125m", "64Mi", "15s"]), "{table}");
}
