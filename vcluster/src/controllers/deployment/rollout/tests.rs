//! Rollouts played through: plans are carried out on documents, ReplicaSets are simulated.

use jiff::SignedDuration;
use serde_json::json;

use super::*;

/// A deployment, its ReplicaSets, and a clock.
struct World {
    deployment: Value,
    sets: Vec<Value>,
    now: Timestamp,
    events: Vec<String>,
    /// Pods of these images never become ready.
    broken: Vec<&'static str>,
}

fn deployment(replicas: i64, strategy: Value) -> Value {
    json!({
        "metadata": { "name": "web", "namespace": "ns", "uid": "d", "generation": 1 },
        "spec": {
            "replicas": replicas, "strategy": strategy, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "c", "image": "v1" }] } },
        },
    })
}

fn rolling(surge: Value, unavailable: Value) -> Value {
    json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } })
}

impl World {
    fn new(deployment: Value) -> Self {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        Self { deployment, sets: Vec::new(), now, events: Vec::new(), broken: Vec::new() }
    }

    /// As a user: changes the spec.
    fn edit(&mut self, change: impl FnOnce(&mut Value)) {
        change(&mut self.deployment["spec"]);
        let generation = int(&self.deployment, "/metadata/generation").unwrap();
        self.deployment["metadata"]["generation"] = (generation + 1).into();
    }

    fn image(&mut self, image: &str) {
        self.edit(|spec| spec["template"]["spec"]["containers"][0]["image"] = image.into());
    }

    /// One reconcile, carried out. False when it changed nothing.
    fn step(&mut self) -> bool {
        let plan = plan(&self.deployment, self.sets.clone(), &[], self.now);
        let mut changed = plan.revision.is_some() || plan.status != self.deployment["status"] || !plan.acts.is_empty();
        for act in plan.acts {
            match act {
                Act::Create { mut set, event } => {
                    set["metadata"]["uid"] = name(&set).into();
                    set["metadata"]["creationTimestamp"] = self.now.to_string().into();
                    set["metadata"]["generation"] = 1.into();
                    assert!(!self.sets.iter().any(|s| name(s) == name(&set)), "name is taken");
                    self.sets.push(set);
                    self.events.extend(event);
                }
                Act::Update { mut set, event } => {
                    let i = self.sets.iter().position(|s| name(s) == name(&set)).unwrap();
                    if set["spec"] != self.sets[i]["spec"] {
                        set["metadata"]["generation"] = (int(&set, "/metadata/generation").unwrap() + 1).into();
                    }
                    changed |= set != self.sets[i];
                    self.sets[i] = set;
                    self.events.extend(event);
                }
                Act::Delete(set) => self.sets.retain(|s| name(s) != name(&set)),
            }
        }
        if let Some(revision) = plan.revision {
            self.deployment["metadata"]["annotations"] = json!({ revision::REVISION: revision });
        }
        self.deployment["status"] = plan.status;
        self.now = self.now.checked_add(SignedDuration::from_secs(1)).unwrap();
        changed
    }

    /// The ReplicaSet controller and the workers do their part.
    fn settle_sets(&mut self) {
        for set in &mut self.sets {
            let size = replicas(set);
            let ready =
                if self.broken.contains(&text(set, "/spec/template/spec/containers/0/image")) { 0 } else { size };
            let generation = set["metadata"]["generation"].clone();
            set["status"] = json!({ "replicas": size, "readyReplicas": ready, "availableReplicas": ready,
                "terminatingReplicas": 0, "observedGeneration": generation });
        }
    }

    /// Until nothing changes any more; `check` is called in between.
    fn run(&mut self, mut check: impl FnMut(&Self)) {
        for _ in 0..100 {
            let changed = self.step();
            self.settle_sets();
            check(self);
            if !changed {
                return;
            }
        }
        panic!("the rollout does not come to rest: {:#}", self.deployment["status"]);
    }

    fn set(&self, image: &str) -> &Value {
        self.sets.iter().find(|s| text(s, "/spec/template/spec/containers/0/image") == image).unwrap()
    }

    fn reason(&self, kind: &str) -> (&str, &str) {
        let condition = conditions::get(&self.deployment["status"], kind).unwrap();
        (text(condition, "/status"), text(condition, "/reason"))
    }

    fn total(&self) -> i64 {
        self.sets.iter().map(replicas).sum()
    }

    fn available(&self) -> i64 {
        sum(&self.sets, "/status/availableReplicas")
    }
}

#[test]
fn a_new_deployment_gets_a_replica_set_and_completes() {
    let mut w = World::new(deployment(3, rolling(json!("25%"), json!("25%"))));
    assert!(w.step());
    assert_eq!(w.sets.len(), 1);
    assert_eq!(replicas(&w.sets[0]), 3);
    assert_eq!(w.reason("Progressing"), ("True", "NewReplicaSetCreated"));
    assert_eq!(w.reason("Available"), ("False", "MinimumReplicasUnavailable"));
    let hash = text(&w.sets[0], "/metadata/labels/pod-template-hash");
    assert_eq!(name(&w.sets[0]), format!("web-{hash}"));
    assert_eq!(w.sets[0]["spec"]["selector"]["matchLabels"], json!({ "app": "web", "pod-template-hash": hash }));
    assert_eq!(w.events, [format!("Scaled up replica set web-{hash} from 0 to 3")]);
    w.settle_sets();
    w.run(|_| {});
    assert_eq!(w.reason("Progressing"), ("True", "NewReplicaSetAvailable"));
    assert_eq!(w.reason("Available"), ("True", "MinimumReplicasAvailable"));
    assert_eq!(w.deployment["metadata"]["annotations"][revision::REVISION], "1");
    assert_eq!(w.deployment["status"]["updatedReplicas"], 3);
    assert!(w.deployment["status"].get("unavailableReplicas").is_none());
    assert!(!w.step(), "a finished rollout is not written again");
}

#[test]
fn a_rolling_update_keeps_within_surge_and_unavailability() {
    for (surge, unavailable, replicas) in [(1, 0, 3), (0, 1, 3), (2, 2, 10), (0, 0, 4), (10, 0, 2), (0, 10, 2)] {
        let mut w = World::new(deployment(replicas, rolling(json!(surge), json!(unavailable))));
        w.run(|_| {});
        w.image("v2");
        let least = replicas - if surge == 0 && unavailable == 0 { 1 } else { unavailable.min(replicas) };
        w.run(|w| {
            assert!(w.total() <= replicas + surge, "{} pods", w.total());
            assert!(w.available() >= least, "{} available", w.available());
        });
        assert_eq!(super::replicas(w.set("v2")), replicas);
        assert_eq!(super::replicas(w.set("v1")), 0);
        assert_eq!(w.deployment["metadata"]["annotations"][revision::REVISION], "2");
        assert_eq!(w.reason("Progressing"), ("True", "NewReplicaSetAvailable"));
    }
}

#[test]
fn a_broken_update_stops_where_availability_ends_and_times_out() {
    let mut w = World::new(deployment(4, rolling(json!(1), json!(1))));
    w.run(|_| {});
    w.broken.push("v2");
    w.image("v2");
    w.run(|_| {});
    assert_eq!((replicas(w.set("v1")), replicas(w.set("v2"))), (3, 2));
    assert_eq!(w.reason("Available"), ("True", "MinimumReplicasAvailable"));
    assert_eq!(w.reason("Progressing"), ("True", "ReplicaSetUpdated"));
    let again = plan(&w.deployment, w.sets.clone(), &[], w.now).again.unwrap();
    assert!(again > w.now);
    w.now = again;
    w.run(|_| {});
    assert_eq!(w.reason("Progressing"), ("False", "ProgressDeadlineExceeded"));
    let message = text(conditions::get(&w.deployment["status"], "Progressing").unwrap(), "/message");
    assert_eq!(message, format!("ReplicaSet \"{}\" has timed out progressing.", name(w.set("v2"))));
    assert_eq!(plan(&w.deployment, w.sets.clone(), &[], w.now).again, None, "nothing more to wait for");
}

#[test]
fn going_back_reuses_the_old_set_under_a_new_revision() {
    let mut w = World::new(deployment(2, rolling(json!(1), json!(0))));
    w.run(|_| {});
    w.image("v2");
    w.run(|_| {});
    w.image("v1");
    w.run(|_| {});
    assert_eq!(w.sets.len(), 2);
    assert_eq!(revision_of(w.set("v1")), 3);
    assert_eq!(annotation(w.set("v1"), "deployment.kubernetes.io/revision-history"), Some("1"));
    assert_eq!((replicas(w.set("v1")), replicas(w.set("v2"))), (2, 0));
    assert_eq!(w.deployment["metadata"]["annotations"][revision::REVISION], "3");
}

#[test]
fn history_beyond_the_limit_is_deleted_oldest_first() {
    let mut w = World::new(deployment(1, rolling(json!(1), json!(0))));
    w.deployment["spec"]["revisionHistoryLimit"] = 2.into();
    for image in ["v1", "v2", "v3", "v4", "v5"] {
        w.image(image);
        w.run(|_| {});
    }
    let mut revisions: Vec<i64> = w.sets.iter().map(revision_of).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, [3, 4, 5]);
}

#[test]
fn scaling_during_a_rollout_is_proportional() {
    let mut w = World::new(deployment(10, rolling(json!(0), json!(4))));
    w.run(|_| {});
    w.broken.push("v2");
    w.image("v2");
    w.run(|_| {});
    assert_eq!((replicas(w.set("v1")), replicas(w.set("v2"))), (6, 4));
    w.edit(|spec| spec["replicas"] = 20.into());
    w.step();
    assert_eq!((replicas(w.set("v1")), replicas(w.set("v2"))), (12, 8));
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut w = World::new(deployment(2, rolling(json!(1), json!(0))));
    w.run(|_| {});
    w.edit(|spec| spec["paused"] = true.into());
    w.image("v2");
    w.run(|_| {});
    assert_eq!(w.sets.len(), 1);
    assert_eq!(w.reason("Progressing"), ("Unknown", "DeploymentPaused"));
    w.edit(|spec| spec["replicas"] = 4.into());
    w.run(|_| {});
    assert_eq!(replicas(w.set("v1")), 4);
    w.edit(|spec| spec["paused"] = false.into());
    w.run(|_| {});
    assert_eq!((replicas(w.set("v1")), replicas(w.set("v2"))), (0, 4));
    assert_eq!(w.reason("Progressing"), ("True", "NewReplicaSetAvailable"));
}

#[test]
fn recreate_waits_until_the_last_old_pod_has_gone() {
    let mut w = World::new(deployment(2, json!({ "type": "Recreate" })));
    w.run(|_| {});
    w.image("v2");
    w.step();
    assert_eq!(w.sets.len(), 1);
    assert_eq!(replicas(&w.sets[0]), 0);
    w.settle_sets();
    let owner = json!({ "uid": uid(&w.sets[0]), "controller": true });
    let leaving =
        json!({ "metadata": { "name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [owner] } });
    let waiting = plan(&w.deployment, w.sets.clone(), std::slice::from_ref(&leaving), w.now);
    assert!(waiting.acts.is_empty(), "{:?}", waiting.acts);
    w.run(|_| {});
    assert_eq!(replicas(w.set("v2")), 2);
}

#[test]
fn zero_replicas_and_back() {
    let mut w = World::new(deployment(3, rolling(json!("25%"), json!("25%"))));
    w.run(|_| {});
    w.edit(|spec| spec["replicas"] = 0.into());
    w.run(|_| {});
    assert_eq!(w.total(), 0);
    assert_eq!(w.events.last().unwrap(), &format!("Scaled down replica set {} from 3 to 0", name(&w.sets[0])));
    w.edit(|spec| spec["replicas"] = 1.into());
    w.run(|_| {});
    assert_eq!(w.total(), 1);
    assert_eq!(w.sets.len(), 1);
}

#[test]
fn a_failure_of_the_replica_set_shows_in_the_deployment() {
    let mut w = World::new(deployment(1, rolling(json!(1), json!(0))));
    w.step();
    w.sets[0]["status"] = json!({ "replicas": 0, "conditions": [{ "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
        "message": "quota", "lastTransitionTime": "2026-01-01T00:00:00Z" }] });
    w.step();
    assert_eq!(w.reason("ReplicaFailure"), ("True", "FailedCreate"));
    w.settle_sets();
    w.run(|_| {});
    assert!(conditions::get(&w.deployment["status"], "ReplicaFailure").is_none());
}
