//! The quota of storage holds whatever a tenant writes. What counts is what volumes have on the disks of workers.

use std::sync::Mutex;

use futures::future::join;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use vctl_machinery::selector::LabelSelector;

use super::*;
use crate::{client::Client, limits::counting, user::User};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const MERGE: [(&str, &str); 1] = [("content-type", "application/merge-patch+json")];
/// Bytes.
const LIMIT: u64 = 1000;

struct Quota {
    f: Fixture,
    /// Who makes volumes for claims, makes them larger and binds them.
    controller: Arc<dyn Client>,
}

fn claim(name: &str, size: u64, volume: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "volumeName": volume,
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": size.to_string() } } } })
}

fn volume(name: &str, size: u64, reference: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name }, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": { "storage": size.to_string() }, "persistentVolumeReclaimPolicy": "Retain",
        "csi": { "driver": crate::bootstrap::PROVISIONER, "volumeHandle": name }, "claimRef": reference } })
}

fn reference(name: &str, uid: &str) -> Value {
    json!({ "kind": "PersistentVolumeClaim", "namespace": "default", "name": name, "uid": uid })
}

fn made_for(uid: &str) -> String {
    counting::volumes::made_for(uid)
}

impl Quota {
    async fn new() -> Self {
        let (f, _) = limits::fixture(LIMIT, limits::limited()).await;
        let controller = f.planes.client(&EnvironmentName::new(NAME).unwrap(), User::internal("controller"));
        Self { f, controller }
    }

    async fn patch(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.f.send_as(&self.f.admin, &MERGE, "PATCH", path, body).await
    }

    /// Deletes an object, whoever still holds it.
    async fn remove(&self, path: &str) -> StatusCode {
        self.patch(path, json!({ "metadata": { "finalizers": null } })).await;
        self.f.send("DELETE", path, Value::Null).await.0
    }

    /// As the provisioner does, which may have read the claim a while ago.
    async fn provision(&self, name: &str, uid: &str, size: u64) -> Result<Value, ApiError> {
        self.controller.create("persistentvolumes", "", volume(&made_for(uid), size, reference(name, uid))).await
    }

    async fn bind(&self, claim: &str, volume: &str) -> Result<Value, ApiError> {
        let patch = json!({ "spec": { "volumeName": volume } });
        self.controller.merge_patch("persistentvolumeclaims", "default", claim, "", patch).await
    }

    /// What volumes have on the disks of workers.
    async fn disk(&self) -> u64 {
        let volumes = self.controller.list("persistentvolumes", "", &LabelSelector::default()).await.unwrap();
        let size = |v: &Value| v["spec"]["capacity"]["storage"].as_str().unwrap().parse::<u64>().unwrap();
        volumes.items.iter().map(size).sum()
    }

    async fn requested(&self) -> u64 {
        self.f.planes.requested(&EnvironmentName::new(NAME).unwrap()).await.unwrap().storage
    }
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap()
}

#[tokio::test]
async fn a_volume_that_says_it_belongs_to_another_claim_counts_all_the_same() {
    let q = Quota::new().await;
    let a = q.f.ok("POST", CLAIMS, claim("a", 500, "")).await;
    q.provision("a", uid(&a), 500).await.unwrap();
    q.bind("a", &made_for(uid(&a))).await.unwrap();
    q.remove(&format!("{CLAIMS}/a")).await;
    let c = q.f.ok("POST", CLAIMS, claim("c", 500, "")).await;
    assert_eq!(q.requested().await, 1000);
    let kept = format!("{VOLUMES}/{}", made_for(uid(&a)));
    for reference in [reference("other", uid(&c)), reference("c", uid(&c)), Value::Null] {
        assert_eq!(q.patch(&kept, json!({ "spec": { "claimRef": reference } })).await.0, StatusCode::OK);
        assert_eq!(q.f.send("POST", CLAIMS, claim("d", 500, "")).await.0, StatusCode::FORBIDDEN);
    }
    // What it was promised it gets, though nothing is left.
    q.provision("c", uid(&c), 500).await.unwrap();
    assert_eq!((q.disk().await, q.requested().await), (1000, 1000));
}

#[tokio::test]
async fn a_volume_whose_claim_is_not_there_any_more_is_charged() {
    let q = Quota::new().await;
    let c = q.f.ok("POST", CLAIMS, claim("c", 500, "")).await;
    q.remove(&format!("{CLAIMS}/c")).await;
    q.f.ok("POST", CLAIMS, claim("d", 700, "")).await;
    let refused = q.provision("c", uid(&c), 500).await.unwrap_err();
    assert!(refused.code == 403 && refused.message.contains("exceeded quota: project/a"), "{refused}");
    q.remove(&format!("{CLAIMS}/d")).await;
    q.provision("c", uid(&c), 500).await.unwrap();
}

#[tokio::test]
async fn a_claim_takes_its_promise_along_when_it_gets_another_volume() {
    let q = Quota::new().await;
    let c = q.f.ok("POST", CLAIMS, claim("c", 600, "")).await;
    q.f.ok("POST", VOLUMES, volume("small", 1, reference("c", ""))).await;
    // One that names the volume that would have been made for it changes nothing, until it takes its place.
    q.f.ok("POST", CLAIMS, claim("e", 600, &made_for(uid(&c)))).await;
    assert_eq!(q.requested().await, 601);
    let names = json!({ "spec": { "volumeName": "small" } });
    let (status, refused) = q.patch(&format!("{CLAIMS}/c"), names.clone()).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{refused}");
    q.remove(&format!("{CLAIMS}/e")).await;
    assert_eq!(q.patch(&format!("{CLAIMS}/c"), names).await.0, StatusCode::OK);
    assert_eq!(q.requested().await, 600, "the volume may grow to what the claim asks for");
    // A volume of others has nothing on a worker: a claim that gets one needs no more than before.
    let mut elsewhere = volume("elsewhere", 9000, Value::Null);
    elsewhere["spec"]["csi"]["driver"] = "csi.example.com".into();
    q.f.ok("POST", VOLUMES, elsewhere).await;
    q.f.ok("POST", CLAIMS, claim("x", 400, "")).await;
    q.bind("x", "elsewhere").await.unwrap();
    assert_eq!(q.requested().await, 1000);
}

/// Who writes what, at random. What is refused does no harm.
async fn write(q: &Quota, rng: &mut StdRng, known: &Mutex<Vec<(String, String)>>) {
    let size = *[1, 100, 300, 500, 700].choose(rng).unwrap();
    let name = format!("c{}", rng.random_range(0..4));
    let (old_name, uid) = known.lock().unwrap().choose(rng).cloned().unwrap_or_default();
    let of_claim = made_for(&uid);
    let volume_name = ["v0", "v1", "v2", &of_claim][rng.random_range(0..4)].to_owned();
    let (claim_path, volume_path) = (format!("{CLAIMS}/{name}"), format!("{VOLUMES}/{volume_name}"));
    let refers = match rng.random_range(0..4) {
        0 => Value::Null,
        1 => reference(&name, &uid),
        2 => reference(&old_name, ""),
        _ => reference(&old_name, &uid),
    };
    let phase = *["Bound", "Pending", "Lost", "Available", "Released"].choose(rng).unwrap();
    let (status, answer) = match rng.random_range(0..15) {
        0..3 => {
            let wanted = if rng.random_bool(0.3) { &*volume_name } else { "" };
            let (status, made) = q.f.send("POST", CLAIMS, claim(&name, size, wanted)).await;
            if status == StatusCode::CREATED {
                known.lock().unwrap().push((name, self::uid(&made).to_owned()));
            }
            (status, made)
        }
        3 => q.f.send("POST", VOLUMES, volume(&volume_name, size, refers)).await,
        4 => q.patch(&volume_path, json!({ "spec": { "claimRef": refers } })).await,
        5 => q.patch(&volume_path, json!({ "spec": { "capacity": { "storage": size.to_string() } } })).await,
        6 => q.patch(&claim_path, json!({ "spec": { "volumeName": volume_name } })).await,
        7 => {
            let patch = json!({ "spec": { "resources": { "requests": { "storage": size.to_string() } } } });
            q.patch(&claim_path, patch).await
        }
        8 => {
            let status = json!({ "phase": phase, "capacity": { "storage": size.to_string() } });
            q.patch(&format!("{claim_path}/status"), json!({ "status": status })).await
        }
        9 => q.patch(&format!("{volume_path}/status"), json!({ "status": { "phase": phase } })).await,
        10 => (q.remove(&claim_path).await, Value::Null),
        11 => (q.remove(&volume_path).await, Value::Null),
        12 | 13 => told(q.provision(&old_name, &uid, size).await),
        _ if rng.random_bool(0.5) => told(q.bind(&name, &volume_name).await),
        _ => {
            let patch = json!({ "spec": { "capacity": { "storage": size.to_string() } } });
            told(q.controller.merge_patch("persistentvolumes", "", &volume_name, "", patch).await)
        }
    };
    assert!(!status.is_server_error(), "{status}: {answer}");
}

fn told(result: Result<Value, ApiError>) -> (StatusCode, Value) {
    match result {
        Ok(object) => (StatusCode::OK, object),
        Err(e) => (StatusCode::from_u16(e.code).unwrap(), e.message.into()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_writes_of_a_tenant_bring_more_onto_disks_than_the_quota() {
    let mut most = 0;
    for seed in 0..12 {
        let q = Quota::new().await;
        let (mut one, mut other) = (StdRng::seed_from_u64(seed), StdRng::seed_from_u64(1000 + seed));
        let known = Mutex::default();
        for step in 0..60 {
            // Two at once, so that one is counted while the other one is being written.
            join(write(&q, &mut one, &known), write(&q, &mut other, &known)).await;
            let (disk, requested) = (q.disk().await, q.requested().await);
            assert!(disk <= requested && requested <= LIMIT, "seed {seed}, step {step}: {disk}, {requested}");
            most = disk.max(most);
        }
    }
    assert!(most > LIMIT / 2, "it was never near: {most}");
}
