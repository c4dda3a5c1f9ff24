//! What the platform holds clusters to.

use std::sync::{Mutex, OnceLock};

use vctl_machinery::requests::Requests;

use super::{gated_store::GatedStore, *};
use crate::limits::{Limited, PlatformLimits, Rules, Take, Turn};

/// Longest wait for something to happen.
const LIMIT: std::time::Duration = std::time::Duration::from_mins(1);
const PODS: &str = "/api/v1/namespaces/default/pods";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

/// One project that has all clusters, and may have so much of everything.
#[derive(Default)]
pub(crate) struct Project {
    planes: OnceLock<ControlPlanes>,
    rules: Mutex<Rules>,
    /// Millicores; storage in bytes is the same number.
    limit: u64,
    gate: Arc<tokio::sync::Mutex<()>>,
}

#[async_trait::async_trait]
impl PlatformLimits for Project {
    async fn rules(&self, _: &str) -> Result<Option<Arc<Rules>>, String> {
        Ok(Some(Arc::new(self.rules.lock().unwrap().clone())))
    }

    async fn take(&self, _: &str, more: Requests) -> Result<Take, String> {
        let turn = self.gate.clone().lock_owned().await;
        let planes = self.planes.get().ok_or("no planes")?;
        let mut used = Requests::NONE;
        for name in planes.names().await.map_err(|e| e.to_string())? {
            used = used.plus(planes.requested(&EnvironmentName::new(name).unwrap()).await.map_err(|e| e.to_string())?);
        }
        let over = |used: u64, more: u64| more > 0 && used + more > self.limit;
        if over(used.cpu, more.cpu) || over(used.storage, more.storage) {
            let why = format!("exceeded quota: project/a, requested: cpu={}m, used: cpu={}m", more.cpu, used.cpu);
            return Ok(Take::Exceeded(why));
        }
        Ok(Take::Taken(Turn::new(turn)))
    }
}

pub(crate) async fn fixture(limit: u64, rules: Rules) -> (Fixture, Arc<Project>) {
    let project = Arc::new(Project { limit, rules: Mutex::new(rules), ..Project::default() });
    let f = Fixture::with(no_streams(), |config| config.limits = Some(project.clone())).await;
    assert!(project.planes.set(f.planes.clone()).is_ok());
    (f, project)
}

pub(crate) fn limited() -> Rules {
    let by = || Some("project/a".to_owned());
    let limited = Limited { cpu: by(), storage: by(), ..Limited::default() };
    Rules { project: "a".into(), limited, ..Rules::default() }
}

fn sized(name: &str, cpu: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": cpu } });
    pod
}

fn claim(name: &str, storage: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": storage } } } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_creates_at_once_in_several_clusters_never_exceed() {
    let (f, _) = fixture(700, limited()).await;
    let other = EnvironmentName::new("other").unwrap();
    f.planes.create(&other, Vec::new()).await.unwrap();
    let admin = peer(&f.planes, &other).await;
    f.ok("POST", "/api/v1/namespaces", json!({ "metadata": { "name": "second" } })).await;
    let creates = (0..20).map(|i| {
        let (f, admin) = (&f, &admin);
        async move {
            let body = sized(&format!("p{i}"), "100m");
            let (cluster, peer) = if i % 2 == 0 { (NAME, &f.admin) } else { ("other", admin) };
            let namespace = if i % 4 == 0 { "second" } else { "default" };
            let request = Request::post(format!("/api/v1/namespaces/{namespace}/pods"))
                .header("content-type", "application/json")
                .body(Body::from(body.to_string()))
                .unwrap();
            f.planes.handle(cluster, request, peer.clone()).await.status().as_u16()
        }
    });
    let answers = futures::future::join_all(creates).await;
    assert_eq!(answers.iter().filter(|s| **s == 201).count(), 7, "{answers:?}");
    assert_eq!(answers.iter().filter(|s| **s == 403).count(), 13, "{answers:?}");
    let name = EnvironmentName::new(NAME).unwrap();
    let requested = async |planes: &ControlPlanes| {
        planes.requested(&name).await.unwrap().plus(planes.requested(&other).await.unwrap()).cpu
    };
    assert_eq!(requested(&f.planes).await, 700);
    // Another process over the same store counts the same.
    let again = ControlPlanes::new(f.store.clone(), Config::new("CA", "https://x"), no_streams(), Tasks::new());
    assert_eq!(requested(&again).await, 700);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_leaves_behind_counts_until_it_is_written() {
    let project = Arc::new(Project { limit: 700, rules: Mutex::new(limited()), ..Project::default() });
    let gate = Arc::new(tokio::sync::RwLock::new(()));
    let (inner, tasks) = (Arc::new(MemoryStore::new()), Tasks::new());
    let store = Arc::new(GatedStore { inner, gate: gate.clone(), tasks: tasks.clone() });
    let mut config = Config::new("CA", "https://x");
    config.limits = Some(project.clone());
    let planes = ControlPlanes::new(store, config, no_streams(), tasks);
    assert!(project.planes.set(planes.clone()).is_ok());
    let name = EnvironmentName::new(NAME).unwrap();
    planes.create(&name, Vec::new()).await.unwrap();
    let admin = peer(&planes, &name).await;
    let post = |pod: Value| {
        let request = Request::post(PODS).header("content-type", "application/json");
        planes.handle(NAME, request.body(Body::from(pod.to_string())).unwrap(), admin.clone())
    };
    let requested = async || planes.requested(&name).await.unwrap().cpu;

    let closed = gate.write().await;
    let mut create = Box::pin(post(sized("a", "500m")));
    let waits = async {
        while requested().await == 0 {
            tokio::task::yield_now().await
        }
    };
    tokio::select! {
        answer = &mut create => panic!("it was written: {}", answer.status()),
        waited = tokio::time::timeout(LIMIT, waits) => waited.expect("it is allowed"),
    }
    drop(create);
    assert_eq!(requested().await, 500, "its write may still be made");
    assert_eq!(post(sized("b", "500m")).await.status(), StatusCode::FORBIDDEN);
    drop(closed);
    let pod = planes.client(&name, crate::User::internal("test"));
    let written = async {
        while pod.get("pods", "default", "a").await.is_err() {
            tokio::task::yield_now().await
        }
    };
    tokio::time::timeout(LIMIT, written).await.expect("it is written");
    assert_eq!(requested().await, 500);
}

#[tokio::test]
async fn what_runs_counts_and_what_has_ended_does_not() {
    let (f, _) = fixture(1000, limited()).await;
    f.ok("POST", PODS, sized("a", "600m")).await;
    let (status, refused) = f.send("POST", PODS, sized("b", "500m")).await;
    assert_eq!(
        (status, refused["message"].as_str().unwrap()),
        (
            StatusCode::FORBIDDEN,
            "pods \"b\" is forbidden: exceeded quota: project/a, requested: cpu=500m, used: cpu=600m"
        )
    );
    let (status, refused) = f.send("POST", PODS, pod("none")).await;
    assert_eq!(
        (status, refused["message"].as_str().unwrap()),
        (StatusCode::FORBIDDEN, "pods \"none\" is forbidden: failed quota: project/a: must specify cpu for: c")
    );
    f.ok("POST", &format!("{PODS}?dryRun=All"), sized("dry", "400m")).await;
    f.ok("POST", PODS, sized("b", "400m")).await;
    // Resized, and claims.
    let merge = [("content-type", "application/strategic-merge-patch+json")];
    let larger = json!({ "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "500m" } } }] } });
    let resize = async || f.send_as(&f.admin, &merge, "PATCH", &format!("{PODS}/b/resize"), larger.clone()).await;
    assert_eq!(resize().await.0, StatusCode::FORBIDDEN);
    let name = EnvironmentName::new(NAME).unwrap();
    let kubelet = f.planes.client(&name, crate::User::internal("system:node:n"));
    let mut ended = f.ok("GET", &format!("{PODS}/a"), Value::Null).await;
    ended["status"]["phase"] = "Succeeded".into();
    kubelet.update("pods", "default", "a", "status", ended).await.unwrap();
    assert_eq!(resize().await.0, StatusCode::OK);
    f.ok("POST", CLAIMS, claim("small", "900")).await;
    let (status, refused) = f.send("POST", CLAIMS, claim("large", "101")).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{refused}");
    assert_eq!(f.planes.requested(&name).await.unwrap(), Requests { cpu: 500, memory: 0, storage: 900 });
    f.ok("DELETE", &format!("{PODS}/b?gracePeriodSeconds=0"), Value::Null).await;
    assert_eq!(f.planes.requested(&name).await.unwrap().cpu, 0);
}

#[tokio::test]
async fn nobody_inside_ends_a_pod_that_runs() {
    let (f, project) = fixture(1000, limited()).await;
    let mut bound = sized("a", "600m");
    bound["spec"]["nodeName"] = "n".into();
    f.ok("POST", PODS, bound).await;
    let merge = [("content-type", "application/merge-patch+json")];
    let ended = json!({ "status": { "phase": "Succeeded" } });
    let end = async || f.send_as(&f.admin, &merge, "PATCH", &format!("{PODS}/a/status"), ended.clone()).await;
    let (status, refused) = end().await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(
        refused["message"].as_str().unwrap().contains("only the worker of a pod says that it has ended"),
        "{refused}"
    );
    *project.rules.lock().unwrap() = Rules { project: "a".into(), ..Rules::default() };
    assert_eq!(end().await.0, StatusCode::OK, "where nothing is counted it does no harm");
}

#[tokio::test]
async fn images_and_workers_are_those_of_the_project_from_the_next_pod_on() {
    let rules = Rules { project: "a".into(), images: vec!["docker.io/library/*".into()], ..Rules::default() };
    let (f, project) = fixture(1000, rules.clone()).await;
    let of = |name: &str, image: &str| {
        let mut pod = pod(name);
        pod["spec"]["containers"][0]["image"] = image.into();
        pod
    };
    f.ok("POST", PODS, of("a", "nginx:1")).await;
    let (status, refused) = f.send("POST", PODS, of("b", "quay.io/x/y")).await;
    assert_eq!(
        (status, refused["message"].as_str().unwrap()),
        (
            StatusCode::FORBIDDEN,
            "pods \"b\" is forbidden: project \"a\" does not allow image \"quay.io/x/y\", but docker.io/library/*: use one of these, or \
             ask an administrator of the project"
        )
    );
    let mut init = of("b", "nginx:1");
    init["spec"]["initContainers"] = json!([{ "name": "i", "image": "quay.io/x/y" }]);
    assert_eq!(f.send("POST", PODS, init).await.0, StatusCode::FORBIDDEN);
    let merge = [("content-type", "application/strategic-merge-patch+json")];
    let patch = async |path: &str, body: Value| f.send_as(&f.admin, &merge, "PATCH", path, body).await.0;
    let image = |image: &str| json!({ "spec": { "containers": [{ "name": "c", "image": image }] } });
    let debugger = json!({ "spec": { "ephemeralContainers": [{ "name": "d", "image": "quay.io/x/y" }] } });
    assert_eq!(patch(&format!("{PODS}/a"), image("quay.io/x/y")).await, StatusCode::FORBIDDEN);
    assert_eq!(patch(&format!("{PODS}/a/ephemeralcontainers"), debugger.clone()).await, StatusCode::FORBIDDEN);
    // Another list counts at once; what is there stays as it is.
    project.rules.lock().unwrap().images = vec!["quay.io/*".into()];
    assert_eq!(patch(&format!("{PODS}/a"), json!({ "metadata": { "labels": { "x": "y" } } })).await, StatusCode::OK);
    assert_eq!(patch(&format!("{PODS}/a/ephemeralcontainers"), debugger).await, StatusCode::OK);
    f.ok("POST", PODS, of("b", "quay.io/x/y")).await;
    assert_eq!(f.send("POST", PODS, of("c", "nginx:1")).await.0, StatusCode::FORBIDDEN);

    *project.rules.lock().unwrap() = Rules { workers: vec!["gpu-*".into()], images: Vec::new(), ..rules };
    let binding = |node: &str| json!({ "metadata": { "name": "b" }, "target": { "kind": "Node", "name": node } });
    let bind = async |node: &str| f.send("POST", &format!("{PODS}/b/binding"), binding(node)).await;
    let (status, refused) = bind("cpu-1").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(
        refused["message"].as_str().unwrap().contains("project \"a\" does not allow worker \"cpu-1\", but gpu-*"),
        "{refused}"
    );
    let mut placed = pod("d");
    placed["spec"]["nodeName"] = "cpu-1".into();
    assert_eq!(f.send("POST", PODS, placed.clone()).await.0, StatusCode::FORBIDDEN);
    placed["spec"]["nodeName"] = "gpu-1".into();
    assert_eq!(f.send("POST", PODS, placed).await.0, StatusCode::CREATED);
    assert_eq!(bind("gpu-1").await.0, StatusCode::CREATED);
}

#[tokio::test]
async fn volumes_count_until_they_are_gone() {
    let (f, _) = fixture(1000, limited()).await;
    let name = EnvironmentName::new(NAME).unwrap();
    let requested = async || f.planes.requested(&name).await.unwrap().storage;
    let merge = [("content-type", "application/merge-patch+json")];
    let patch = async |path: &str, body: Value| f.send_as(&f.admin, &merge, "PATCH", path, body).await;
    let volume = |name: &str, size: &str, claim: Value| {
        json!({ "metadata": { "name": name }, "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": { "storage": size }, "persistentVolumeReclaimPolicy": "Retain",
            "csi": { "driver": crate::bootstrap::PROVISIONER, "volumeHandle": name }, "claimRef": claim } })
    };
    f.ok("POST", VOLUMES, volume("v", "600", Value::Null)).await;
    let mut a = claim("a", "600");
    a["spec"]["volumeName"] = "v".into();
    f.ok("POST", CLAIMS, a.clone()).await;
    assert_eq!(requested().await, 600, "both are the same");
    let snapshot = f.planes.snapshot(&name).await.unwrap();
    assert_eq!(f.planes.requested_by(&snapshot).await.storage, 600);

    // Its claim goes, and what it had stays.
    patch(&format!("{CLAIMS}/a"), json!({ "metadata": { "finalizers": null } })).await;
    f.ok("DELETE", &format!("{CLAIMS}/a"), Value::Null).await;
    assert_eq!(requested().await, 600);
    assert_eq!(f.send("POST", CLAIMS, claim("b", "500")).await.0, StatusCode::FORBIDDEN);
    let (status, refused) = patch(&format!("{VOLUMES}/v"), json!({ "spec": { "capacity": { "storage": "1" } } })).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(refused["message"].as_str().unwrap().contains("a volume is not made smaller"), "{refused}");

    // It can be had again by claims that name it: they can get no other.
    f.ok("POST", CLAIMS, a).await;
    assert_eq!(requested().await, 600);

    // What people make by hand counts as well, where it is on a worker.
    let mut elsewhere = volume("elsewhere", "9000", Value::Null);
    elsewhere["spec"]["csi"]["driver"] = "csi.example.com".into();
    f.ok("POST", VOLUMES, elsewhere).await;
    let (status, refused) = f.send("POST", VOLUMES, volume("large", "500", Value::Null)).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{refused}");
    f.ok("POST", VOLUMES, volume("small", "300", Value::Null)).await;
    assert_eq!(requested().await, 900);
}
