//! Tables: what is observed, and the status it makes.

use agent::{ContainerState, ContainerStatus, PodStatus, Running, Terminated, Waiting};
use serde_json::{Value, json};

use super::*;

fn running(name: &str, ready: bool) -> ContainerStatus {
    let state = ContainerState { state: Some(State::Running(Running { started_at_ms: 5_000 })) };
    ContainerStatus { name: name.into(), state: Some(state), ready, started: true, ..ContainerStatus::default() }
}

fn ended(name: &str, code: i32) -> ContainerStatus {
    let terminated = Terminated { exit_code: code, reason: "Completed".into(), ..Terminated::default() };
    let state = ContainerState { state: Some(State::Terminated(terminated)) };
    ContainerStatus { name: name.into(), state: Some(state), ..ContainerStatus::default() }
}

fn waiting(name: &str, reason: &str, last_exit: Option<i32>) -> ContainerStatus {
    let state =
        ContainerState { state: Some(State::Waiting(Waiting { reason: reason.into(), message: String::new() })) };
    let last_state = last_exit.and_then(|code| ended(name, code).state);
    ContainerStatus { name: name.into(), state: Some(state), last_state, ..ContainerStatus::default() }
}

fn pod(policy: &str, init: &[&str], main: &[&str]) -> Value {
    let list = |names: &[&str]| -> Vec<Value> { names.iter().map(|n| json!({ "name": n, "image": "i" })).collect() };
    json!({ "spec": { "restartPolicy": policy, "initContainers": list(init), "containers": list(main) }, "status": {} })
}

fn observed(init: Vec<ContainerStatus>, main: Vec<ContainerStatus>) -> PodStatus {
    PodStatus {
        init_containers: init,
        containers: main,
        pod_ip: "10.200.0.2".into(),
        host_ip: "10.0.0.1".into(),
        start_time_ms: 4_000,
        sandbox_ready: true,
        ..PodStatus::default()
    }
}

fn condition(status: &Value, kind: &str) -> (String, String, String) {
    let c = status.items("/conditions").iter().find(|c| c.text("/type") == kind).cloned().unwrap_or_default();
    (c.text("/status").to_owned(), c.text("/reason").to_owned(), c.text("/message").to_owned())
}

#[test]
fn phases_are_the_kubelets() {
    let table = [
        ("Always", vec![], vec![running("a", true)], "Running"),
        ("Always", vec![], vec![waiting("a", "ImagePullBackOff", None)], "Pending"),
        ("Always", vec![], vec![waiting("a", "CrashLoopBackOff", Some(1))], "Running"),
        ("Always", vec![], vec![ended("a", 0)], "Running"),
        ("OnFailure", vec![], vec![ended("a", 1)], "Running"),
        ("OnFailure", vec![], vec![ended("a", 0)], "Succeeded"),
        ("Never", vec![], vec![ended("a", 0)], "Succeeded"),
        ("Never", vec![], vec![ended("a", 3)], "Failed"),
        ("Always", vec![], vec![], "Pending"),
        ("Always", vec![("i", running("i", false))], vec![waiting("a", "PodInitializing", None)], "Pending"),
        ("Always", vec![("i", ended("i", 1))], vec![waiting("a", "PodInitializing", None)], "Pending"),
        ("Never", vec![("i", ended("i", 1))], vec![waiting("a", "PodInitializing", None)], "Failed"),
        ("Always", vec![("i", ended("i", 0))], vec![running("a", true)], "Running"),
    ];
    for (policy, init, main, expected) in table {
        let names: Vec<&str> = init.iter().map(|(n, _)| *n).collect();
        let pod = pod(policy, &names, &["a"]);
        let observed = observed(init.into_iter().map(|(_, s)| s).collect(), main);
        let status = status(&pod, &observed, 9_000);
        assert_eq!(status["phase"], expected, "{policy} {observed:?}");
    }
    let two = pod("Never", &[], &["a", "b"]);
    let phase = |main| status(&two, &observed(vec![], main), 9_000)["phase"].clone();
    assert_eq!(phase(vec![running("a", true), ended("b", 1)]), "Running");
    assert_eq!(phase(vec![ended("a", 0), ended("b", 1)]), "Failed");
    assert_eq!(phase(vec![running("a", true), waiting("b", "ContainerCreating", None)]), "Pending");
    let mut done = pod("Always", &[], &["a"]);
    done["status"]["phase"] = "Failed".into();
    assert_eq!(status(&done, &observed(vec![], vec![running("a", true)]), 1)["phase"], "Failed", "never back");
}

#[test]
fn a_ready_pod_has_every_condition_and_nothing_changes_twice() {
    let mut pod = pod("Always", &[], &["a"]);
    pod["status"] = json!({
        "phase": "Pending", "qosClass": "Burstable",
        "conditions": [
            { "type": "PodScheduled", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z" },
            { "type": "example.org/gate", "status": "True" },
        ],
    });
    let first = status(&pod, &observed(vec![], vec![running("a", true)]), 9_000);
    assert_eq!((first["podIP"].as_str(), first["hostIPs"][0]["ip"].as_str()), (Some("10.200.0.2"), Some("10.0.0.1")));
    assert_eq!(
        (first["startTime"].as_str(), first["qosClass"].as_str()),
        (Some("1970-01-01T00:00:04Z"), Some("Burstable"))
    );
    let kinds: Vec<&str> = first.items("/conditions").iter().map(|c| c.text("/type")).collect();
    let expected =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled", "example.org/gate"];
    assert_eq!(kinds, expected);
    assert!(first.items("/conditions").iter().all(|c| c["status"] == "True"), "{first}");
    pod["status"] = first.clone();
    assert_eq!(status(&pod, &observed(vec![], vec![running("a", true)]), 99_000), first);
    let unready = status(&pod, &observed(vec![], vec![running("a", false)]), 99_000);
    assert_eq!(
        condition(&unready, "Ready"),
        ("False".into(), "ContainersNotReady".into(), "containers with unready status: [a]".into())
    );
    let since = |kind: &str| {
        let c = unready.items("/conditions").iter().find(|c| c["type"] == kind).unwrap();
        c.text("/lastTransitionTime").to_owned()
    };
    assert_eq!((since("Ready"), since("Initialized")), ("1970-01-01T00:01:39Z".into(), "1970-01-01T00:00:09Z".into()));
}

#[test]
fn conditions_say_why() {
    let pending = pod("Always", &["i", "j"], &["a"]);
    let new = status(&pending, &observed(vec![ended("i", 0), running("j", false)], vec![]), 9_000);
    assert_eq!(
        condition(&new, "Initialized"),
        ("False".into(), "ContainersNotInitialized".into(), "containers with incomplete status: [j]".into())
    );
    assert_eq!(new["containerStatuses"][0]["state"]["waiting"]["reason"], "PodInitializing");
    let done = status(&pod("Never", &[], &["a"]), &observed(vec![], vec![ended("a", 0)]), 9_000);
    assert_eq!(condition(&done, "Ready"), ("False".into(), "PodCompleted".into(), String::new()));
    assert_eq!(done["containerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
    let mut gated = pod("Always", &[], &["a"]);
    gated["spec"]["readinessGates"] = json!([{ "conditionType": "g" }]);
    let new = status(&gated, &observed(vec![], vec![running("a", true)]), 9_000);
    assert_eq!(condition(&new, "ContainersReady").0, "True");
    assert_eq!(
        condition(&new, "Ready"),
        (
            "False".into(),
            "ReadinessGatesNotReady".into(),
            "corresponding condition of pod readiness gate \"g\" does not exist.".into()
        )
    );
    let mut over = observed(vec![], vec![running("a", true)]);
    over.reason = "DeadlineExceeded".into();
    over.message = "Pod was active on the node longer than the specified deadline".into();
    let failed = status(&pod("Always", &[], &["a"]), &over, 9_000);
    assert_eq!((failed["phase"].as_str(), failed["reason"].as_str()), (Some("Failed"), Some("DeadlineExceeded")));
}

#[test]
fn sidecars_count_as_started_not_as_ended() {
    let mut with_sidecar = pod("Never", &["s"], &["a"]);
    with_sidecar["spec"]["initContainers"][0]["restartPolicy"] = "Always".into();
    let new = status(&with_sidecar, &observed(vec![running("s", true)], vec![running("a", true)]), 9_000);
    assert_eq!((new["phase"].as_str(), condition(&new, "Ready").0.as_str()), (Some("Running"), "True"));
    let new = status(&with_sidecar, &observed(vec![running("s", true)], vec![ended("a", 0)]), 9_000);
    assert_eq!(new["phase"], "Succeeded");
}

#[test]
fn qos_classes() {
    let of = |requests: Value, limits: Value| {
        qos_class(&json!({ "spec": { "containers": [{ "resources": { "requests": requests, "limits": limits } }] } }))
    };
    assert_eq!(of(json!({}), json!({})), "BestEffort");
    assert_eq!(of(json!({ "cpu": "1" }), json!({})), "Burstable");
    assert_eq!(of(json!({}), json!({ "cpu": "1", "memory": "1Gi" })), "Guaranteed");
    assert_eq!(of(json!({ "cpu": "1000m", "memory": "1024Mi" }), json!({ "cpu": "1", "memory": "1Gi" })), "Guaranteed");
    assert_eq!(of(json!({ "cpu": "500m" }), json!({ "cpu": "1", "memory": "1Gi" })), "Burstable");
}
