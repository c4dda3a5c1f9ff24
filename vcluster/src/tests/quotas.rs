use vctl_runtime::tasks::Tasks;

use super::*;
use crate::controllers::Controllers;

const PODS: &str = "/api/v1/namespaces/default/pods";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

/// Runs the controllers until nothing is left to be done.
async fn settle(f: &Fixture, uri: &str, done: impl Fn(&Value) -> bool) -> Value {
    let tasks = Tasks::new();
    let controllers = Controllers::new(f.store.clone(), Arc::new(f.planes.clone()), f.clock.clone(), tasks.clone());
    controllers.run();
    let seen = until(f, uri, done).await;
    tasks.stop();
    seen
}

async fn until(f: &Fixture, uri: &str, done: impl Fn(&Value) -> bool) -> Value {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let object = f.ok("GET", uri, Value::Null).await;
        if done(&object) {
            return object;
        }
        assert!(tokio::time::Instant::now() < deadline, "{object}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

fn quota(name: &str, hard: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": name }, "spec": { "hard": hard } })
}

fn sized(name: &str, requests: Value, limits: Value) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["resources"] = json!({ "requests": requests, "limits": limits });
    pod
}

#[tokio::test]
async fn what_exceeds_a_quota_is_refused_in_upstreams_words() {
    let f = Fixture::new().await;
    f.ok("POST", QUOTAS, quota("q", json!({ "pods": "2", "requests.cpu": "500m", "count/configmaps": "1" }))).await;
    let small = |name: &str| sized(name, json!({ "cpu": "100m" }), json!({}));
    let (status, early) = f.send("POST", PODS, small("early")).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(
        early["message"],
        "pods \"early\" is forbidden: status unknown for quota: q, resources: pods,requests.cpu"
    );
    let uri = format!("{QUOTAS}/q");
    let counted = settle(&f, &uri, |q| q["status"]["used"].is_object()).await;
    assert_eq!(counted["status"]["used"], json!({ "pods": "0", "requests.cpu": "0", "count/configmaps": "1" }));
    f.ok("POST", PODS, small("a")).await;
    let big = sized("big", json!({ "cpu": "450m" }), json!({}));
    let (status, refused) = f.send("POST", PODS, big).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(
        refused["message"],
        "pods \"big\" is forbidden: exceeded quota: q, requested: requests.cpu=450m, used: requests.cpu=100m, limited: requests.cpu=500m"
    );
    let (_, refused) = f.send("POST", PODS, pod("none")).await;
    assert_eq!(refused["message"], "pods \"none\" is forbidden: failed quota: q: must specify requests.cpu for: c");
    f.ok("POST", &format!("{PODS}?dryRun=All"), small("dry")).await;
    f.ok("POST", PODS, small("b")).await;
    let (_, refused) = f.send("POST", PODS, small("third")).await;
    assert_eq!(
        refused["message"],
        "pods \"third\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    );
    let (_, refused) = f.send("POST", "/api/v1/namespaces/default/configmaps", config_map("m", "1")).await;
    assert_eq!(
        refused["message"],
        "configmaps \"m\" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=1, limited: count/configmaps=1"
    );
    let used = f.ok("GET", &uri, Value::Null).await["status"]["used"].clone();
    assert_eq!(used, json!({ "pods": "2", "requests.cpu": "200m", "count/configmaps": "1" }));
    // What is deleted is given back.
    f.ok("DELETE", &format!("{PODS}/a"), Value::Null).await;
    settle(&f, &uri, |q| q["status"]["used"]["pods"] == "1").await;
    f.ok("POST", PODS, small("third")).await;
}

#[tokio::test]
async fn many_at_once_never_take_more_than_there_is() {
    let f = Arc::new(Fixture::new().await);
    f.ok("POST", QUOTAS, quota("q", json!({ "count/configmaps": "11" }))).await;
    settle(&f, &format!("{QUOTAS}/q"), |q| q["status"]["used"].is_object()).await;
    let requests = (0..40).map(|i| {
        let f = f.clone();
        async move { f.send("POST", "/api/v1/namespaces/default/configmaps", config_map(&format!("m{i}"), "1")).await }
    });
    let answers = futures::future::join_all(requests).await;
    assert_eq!(answers.iter().filter(|(s, _)| *s == StatusCode::CREATED).count(), 10);
    assert!(answers.iter().all(|(s, _)| matches!(s.as_u16(), 201 | 403)), "{answers:?}");
}

#[tokio::test]
async fn scopes_and_services_are_counted() {
    let f = Fixture::new().await;
    let mut scoped = quota("long", json!({ "pods": "1" }));
    scoped["spec"]["scopes"] = json!(["NotTerminating"]);
    f.ok("POST", QUOTAS, scoped).await;
    f.ok("POST", QUOTAS, quota("ports", json!({ "services.nodeports": "1", "services": "3" }))).await;
    settle(&f, &format!("{QUOTAS}/ports"), |q| q["status"]["used"]["services"] == "1").await;
    settle(&f, &format!("{QUOTAS}/long"), |q| q["status"]["used"].is_object()).await;
    f.ok("POST", PODS, pod("a")).await;
    assert_eq!(f.send("POST", PODS, pod("b")).await.0, StatusCode::FORBIDDEN);
    let mut short = pod("short");
    short["spec"]["activeDeadlineSeconds"] = 60.into();
    f.ok("POST", PODS, short).await;
    let services = "/api/v1/namespaces/default/services";
    let service = |name: &str, kind: &str| json!({ "metadata": { "name": name }, "spec": { "type": kind, "selector": { "a": "b" }, "ports": [{ "port": 80 }] } });
    f.ok("POST", services, service("s", "ClusterIP")).await;
    f.ok("POST", services, service("n", "NodePort")).await;
    let patch = json!({ "spec": { "type": "NodePort" } });
    let merge = [("content-type", "application/merge-patch+json")];
    let (status, refused) = f.send_as(&f.admin, &merge, "PATCH", &format!("{services}/s"), patch).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(
        refused["message"],
        "services \"s\" is forbidden: exceeded quota: ports, requested: services.nodeports=1, used: services.nodeports=1, limited: services.nodeports=1"
    );
}

#[tokio::test]
async fn limit_ranges_complete_and_bound() {
    let f = Fixture::new().await;
    let range = json!({ "metadata": { "name": "l" }, "spec": { "limits": [
        { "type": "Container", "default": { "cpu": "500m" }, "defaultRequest": { "cpu": "200m" },
          "min": { "cpu": "100m" }, "max": { "cpu": "800m" }, "maxLimitRequestRatio": { "cpu": "4" } },
        { "type": "PersistentVolumeClaim", "max": { "storage": "1Gi" } },
    ] } });
    f.ok("POST", "/api/v1/namespaces/default/limitranges", range).await;
    let made = f.ok("POST", PODS, pod("p")).await;
    assert_eq!(
        made["spec"]["containers"][0]["resources"],
        json!({ "limits": { "cpu": "500m" }, "requests": { "cpu": "200m" } })
    );
    assert_eq!(made["status"]["qosClass"], "Burstable");
    assert_eq!(
        made["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    );
    for (requests, limits, why) in [
        ("50m", "200m", "minimum cpu usage per Container is 100m, but request is 50m"),
        (
            "200m",
            "1",
            "[maximum cpu usage per Container is 800m, but limit is 1, cpu max limit to request ratio per Container is 4, but provided ratio is 5.000000]",
        ),
        ("110m", "500m", "cpu max limit to request ratio per Container is 4, but provided ratio is 4.545455"),
    ] {
        let (status, refused) =
            f.send("POST", PODS, sized("x", json!({ "cpu": requests }), json!({ "cpu": limits }))).await;
        assert_eq!(status, StatusCode::FORBIDDEN);
        assert_eq!(refused["message"], format!("pods \"x\" is forbidden: {why}"));
    }
    let claim = json!({ "metadata": { "name": "c" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "2Gi" } } } });
    let (_, refused) = f.send("POST", "/api/v1/namespaces/default/persistentvolumeclaims", claim).await;
    assert_eq!(
        refused["message"],
        "persistentvolumeclaims \"c\" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"
    );
}
