//! The behaviours of upstream's `replica_calculator_test.go`, told again.

use serde_json::json;

use super::*;

const NOW: i64 = 100_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A pod that has run for long and is ready, with one container that requests a core.
fn ready(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1", "memory": "1k" } } }] },
        "status": { "phase": "Running", "startTime": at(0).to_string(),
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": at(10).to_string() }] },
    })
}

fn with(mut pod: Value, pointer: &str, value: Value) -> Value {
    *pod.pointer_mut(pointer).unwrap() = value;
    pod
}

fn pending(name: &str) -> Value {
    with(ready(name), "/status/phase", "Pending".into())
}

/// Started a minute ago and not ready.
fn young_unready(name: &str) -> Value {
    let pod = with(ready(name), "/status/startTime", at(NOW - 60).to_string().into());
    with(pod, "/status/conditions/0/status", "False".into())
}

fn pods(count: usize, kind: fn(&str) -> Value, first: usize) -> Vec<Value> {
    (first..first + count).map(|n| kind(&format!("p{n}"))).collect()
}

/// Samples of the first pods, just taken.
fn used(values: &[i64]) -> Samples {
    let sample = |value: &i64| Sample { value: *value, at: at(NOW), window: SignedDuration::from_secs(30) };
    values.iter().enumerate().map(|(n, value)| (format!("p{n}"), sample(value))).collect()
}

fn propose(pods: &[Value], current: i64, target: Target, samples: Samples) -> Result<Proposal, String> {
    propose_of("cpu", pods, current, target, samples)
}

fn propose_of(
    resource: &str,
    pods: &[Value],
    current: i64,
    target: Target,
    samples: Samples,
) -> Result<Proposal, String> {
    let tolerance = Tolerance { up: 0.1, down: 0.1 };
    Situation { current, resource, container: "", pods, tolerance, now: at(NOW) }.propose(target, samples)
}

#[test]
fn use_above_or_below_the_target_changes_the_number_in_proportion() {
    use Target::{Average, Utilization};
    for (what, current, target, values, replicas, utilization, average) in [
        ("up", 3, Utilization(30), vec![300, 500, 700], 5, Some(50), 500),
        ("down", 5, Utilization(50), vec![100, 300, 500, 250, 250], 3, Some(28), 280),
        ("none at all", 3, Utilization(50), vec![0, 0, 0], 0, Some(0), 0),
        ("within the tolerance", 3, Utilization(100), vec![1010, 1030, 1020], 3, Some(102), 1020),
        ("just above it", 3, Utilization(100), vec![1110, 1110, 1110], 4, Some(111), 1110),
        ("just below it", 10, Utilization(100), vec![890; 10], 9, Some(89), 890),
        ("average up", 3, Average(300), vec![300, 500, 700], 5, None, 500),
        ("average down", 5, Average(500), vec![100, 300, 500, 250, 250], 3, None, 280),
        ("average within", 3, Average(1000), vec![1010, 1030, 1020], 3, None, 1020),
    ] {
        let found = propose(&pods(values.len(), ready, 0), current, target, used(&values)).unwrap();
        assert_eq!(found, Proposal { replicas, utilization, average }, "{what}");
    }
}

#[test]
fn pods_that_are_missing_speak_against_the_change() {
    for (what, current, target, count, values, replicas) in [
        ("up, one missing counts as idle", 3, 30, 3, vec![400, 950], 5),
        ("up, so many missing that nothing is left of it", 3, 100, 3, vec![1000, 1400], 3),
        ("down, one missing counts as fully used", 4, 50, 4, vec![100, 300, 500], 4),
        ("down all the same", 5, 50, 5, vec![100, 100, 100, 100], 3),
        ("exactly on target", 3, 50, 3, vec![500, 500], 3),
        ("a target above all that is requested is what counts then", 4, 200, 4, vec![100, 100, 100], 2),
    ] {
        let found = propose(&pods(count, ready, 0), current, Target::Utilization(target), used(&values)).unwrap();
        assert_eq!(found.replicas, replicas, "{what}");
    }
    let average = |values: &[i64]| propose(&pods(3, ready, 0), 3, Target::Average(500), used(values)).unwrap().replicas;
    assert_eq!(average(&[100, 100]), 2, "a missing pod has the average that is wanted");
    assert_eq!(average(&[1000, 1000]), 4, "and nothing when more are asked for");
}

#[test]
fn pods_that_are_not_ready_count_only_against_more_replicas() {
    for (kind, what) in [(young_unready as fn(&str) -> Value, "unready"), (pending, "pending")] {
        let mut all = pods(2, ready, 0);
        all.extend(pods(1, kind, 2));
        let up = |values: &[i64]| propose(&all, 3, Target::Utilization(30), used(values)).unwrap().replicas;
        assert_eq!(up(&[500, 700, 700]), 4, "{what}: 40 % of three, not 60 % of two");
        assert_eq!(up(&[400, 500, 700]), 3, "{what}: 30 % of three is what is wanted");
        let down = propose(&all, 3, Target::Utilization(50), used(&[100, 100, 100])).unwrap().replicas;
        assert_eq!(down, 1, "{what}: by those that are ready");
    }
    let none = propose(&pods(2, young_unready, 0), 2, Target::Utilization(30), used(&[500, 500]));
    assert_eq!(none.unwrap_err(), "did not receive metrics for targeted pods (pods might be unready)");
}

#[test]
fn a_young_pod_counts_once_it_was_measured_since_it_became_ready() {
    let became = |second: i64| {
        let pod = with(ready("p0"), "/status/startTime", at(NOW - 60).to_string().into());
        with(pod, "/status/conditions/0/lastTransitionTime", at(second).to_string().into())
    };
    let proposed = |pod: Value, resource| propose_of(resource, &[pod], 1, Target::Average(100), used(&[300]));
    assert!(proposed(became(NOW - 29), "cpu").is_err(), "the window began before");
    assert_eq!(proposed(became(NOW - 30), "cpu").unwrap().replicas, 3);
    assert_eq!(proposed(became(NOW - 29), "memory").unwrap().replicas, 3, "only of processors");
    let old = |transition: i64| {
        let pod = with(ready("p0"), "/status/conditions/0/status", "False".into());
        with(pod, "/status/conditions/0/lastTransitionTime", at(transition).to_string().into())
    };
    assert!(proposed(old(29), "cpu").is_err(), "it has never been ready");
    assert_eq!(proposed(old(31), "cpu").unwrap().replicas, 3, "it was ready once");
}

#[test]
fn pods_on_their_way_out_and_failed_ones_do_not_count() {
    let mut all = pods(2, ready, 0);
    all.push(with(ready("p2"), "/status/phase", "Failed".into()));
    let mut leaving = ready("p3");
    leaving["metadata"]["deletionTimestamp"] = at(NOW).to_string().into();
    all.push(leaving);
    let found = propose(&all, 2, Target::Utilization(50), used(&[600, 600, 9000, 9000])).unwrap();
    assert_eq!(found, Proposal { replicas: 3, utilization: Some(60), average: 600 });
}

#[test]
fn what_cannot_be_calculated_is_told() {
    let none = propose(&[], 1, Target::Utilization(50), used(&[1])).unwrap_err();
    assert_eq!(none, "no pods returned by selector while calculating replica count");
    let mut free = ready("p0");
    free["spec"]["containers"][0]["resources"] = json!({});
    let missing = propose(&[free.clone()], 1, Target::Utilization(50), used(&[1])).unwrap_err();
    assert_eq!(missing, "missing request for cpu in container c of Pod p0");
    assert!(propose(&[free], 1, Target::Average(50), used(&[1])).is_ok(), "an average needs no request");
}

#[test]
fn containers_sidecars_and_pod_level_requests() {
    let pod = json!({ "metadata": { "name": "p0" }, "spec": {
        "initContainers": [
            { "name": "once", "resources": {} },
            { "name": "side", "restartPolicy": "Always", "resources": { "requests": { "cpu": "500m" } } },
        ],
        "containers": [{ "name": "a", "resources": { "requests": { "cpu": "1" } } }, { "name": "b", "resources": { "requests": { "cpu": "2" } } }],
    } });
    let tolerance = Tolerance { up: 0.1, down: 0.1 };
    let request = |container: &str, pod: &Value| {
        Situation { current: 1, resource: "cpu", container, pods: &[], tolerance, now: at(NOW) }.request(pod).unwrap()
    };
    assert_eq!((request("", &pod), request("b", &pod)), (3500, 2000));
    let mut whole = pod;
    whole["spec"]["resources"] = json!({ "requests": { "cpu": "4" } });
    assert_eq!((request("", &whole), request("b", &whole)), (4000, 2000));
}

#[test]
fn measurements_are_read_for_pods_and_for_containers() {
    let metrics = [
        json!({ "metadata": { "name": "p0", "namespace": "ns" }, "timestamp": "1970-01-01T00:01:40Z", "window": "15.5s", "containers": [
            { "name": "a", "usage": { "cpu": "1500000n", "memory": "1Ki" } }, { "name": "b", "usage": { "cpu": "2m" } } ] }),
        json!({ "metadata": { "name": "p1", "namespace": "ns" }, "timestamp": "1970-01-01T00:01:40Z", "window": "15s", "containers": [
            { "name": "a", "usage": { "cpu": "1" } } ] }),
    ];
    let all = samples(&metrics, "cpu", "").unwrap();
    assert_eq!(all["p0"], Sample { value: 4, at: at(100), window: SignedDuration::from_millis(15_500) });
    assert_eq!(all["p1"].value, 1000);
    assert!(!samples(&metrics, "memory", "").unwrap().contains_key("p0"), "a container says nothing of it");
    assert_eq!(samples(&metrics, "cpu", "a").unwrap()["p0"].value, 2, "rounded up");
    let missing = "failed to get container metrics: container b not present in metrics for pod ns/p1";
    assert_eq!(samples(&metrics, "cpu", "b").unwrap_err(), missing);
}

#[test]
fn tolerances_can_differ_by_direction() {
    let propose = |tolerance, value| {
        let pods = pods(10, ready, 0);
        let s = Situation { current: 10, resource: "cpu", container: "", pods: &pods, tolerance, now: at(NOW) };
        s.propose(Target::Utilization(100), used(&[value; 10])).unwrap().replicas
    };
    let tolerance = Tolerance { up: 0.0, down: 0.5 };
    assert_eq!((propose(tolerance, 1050), propose(tolerance, 600), propose(tolerance, 400)), (11, 10, 4));
}
