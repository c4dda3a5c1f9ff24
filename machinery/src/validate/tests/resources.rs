//! What pods and claims request.

use super::*;

fn pod(whole: &Value, containers: &[Value]) -> Value {
    let named =
        |(i, resources): (usize, &Value)| json!({ "name": format!("c{i}"), "image": "i", "resources": resources });
    let containers: Vec<Value> = containers.iter().enumerate().map(named).collect();
    json!({ "spec": { "resources": whole, "containers": containers } })
}

#[test]
fn pods_as_a_whole_request_what_their_containers_do() {
    let cpu = |requests: &str| json!({ "requests": { "cpu": requests } });
    let two = [cpu("1"), cpu("500m")];
    let huge = |limit: &str| json!({ "requests": { "cpu": "1" }, "limits": { "hugepages-2Mi": limit } });
    for (whole, containers, errors) in [
        (cpu("1500m"), &two[..], &[""; 0][..]),
        (json!({ "requests": { "memory": "1Gi" } }), &two, &[]),
        (
            cpu("1"),
            &two,
            &[
                "spec.resources.requests[cpu]: Invalid value: \"1\": must be greater than or equal to aggregate container requests of 1500m",
            ],
        ),
        (
            json!({ "limits": { "memory": "1Gi" } }),
            &[json!({}), json!({ "limits": { "memory": "2Gi" }, "requests": { "memory": "1Mi" } })],
            &[
                "spec.resources.containers[1][memory].limits: Invalid value: \"2Gi\": must be less than or equal to pod limits of 1Gi",
            ],
        ),
        (
            json!({ "requests": { "cpu": "2" }, "limits": { "cpu": "1" } }),
            &[json!({})],
            &["spec.resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"],
        ),
        (
            json!({ "requests": { "ephemeral-storage": "1Gi", "a.b/c": "1" }, "limits": { "a.b/c": "1" } }),
            &[json!({})],
            &[
                "spec.resources.limits[a.b/c]: Unsupported value: \"a.b/c\": supported values: \"cpu\", \"hugepages-\", \"memory\"",
                "spec.resources.requests[a.b/c]: Unsupported value: \"a.b/c\": supported values: \"cpu\", \"hugepages-\", \"memory\"",
                "spec.resources.requests[ephemeral-storage]: Unsupported value: \"ephemeral-storage\": supported values: \"cpu\", \
                 \"hugepages-\", \"memory\"",
            ],
        ),
        (
            json!({ "requests": { "gpus": "1" } }),
            &[json!({})],
            &[
                "spec.resources.requests[gpus]: Invalid value: \"gpus\": must be a standard resource type or fully qualified",
            ],
        ),
        (
            json!({ "claims": [{ "name": "x" }] }),
            &[json!({})],
            &["spec.resources.claims: Forbidden: claims cannot be set for Resources at pod-level"],
        ),
        (
            huge("4Mi"),
            &[huge("2Mi"), huge("2Mi")],
            &[
                "spec.resources.requests[cpu]: Invalid value: \"1\": must be greater than or equal to aggregate container requests of 2",
            ],
        ),
        (
            huge("2Mi"),
            &[huge("2Mi"), json!({ "requests": { "cpu": "0" }, "limits": { "hugepages-2Mi": "2Mi" } })],
            &[
                "spec.resources.requests: Invalid value: \"4Mi\": must be equal to hugepages-2Mi limit of 2Mi",
                "spec.resources.limits[hugepages-2Mi]: Invalid value: \"2Mi\": must be greater than or equal to aggregate container \
                 limits of 4Mi",
            ],
        ),
    ] {
        assert_eq!(created("pods", pod(&whole, containers)), errors, "{whole} {containers:?}");
    }
    let mut windows = pod(&cpu("1"), &[json!({})]);
    windows["spec"]["os"] = json!({ "name": "windows" });
    assert_eq!(created("pods", windows), ["spec.resources: Forbidden: may not be set for a windows pod"]);
    let mut template = deployment();
    template["spec"]["template"]["spec"]["resources"] = cpu("1");
    template["spec"]["template"]["spec"]["containers"][0]["resources"] = cpu("2");
    assert_eq!(
        created("deployments.apps", template),
        [
            "spec.template.spec.resources.requests[cpu]: Invalid value: \"1\": must be greater than or equal to aggregate container requests of 2"
        ]
    );
}

#[test]
fn what_is_not_overcommitted_is_limited_by_what_is_requested() {
    let errors = |resources: &Value| created("pods", pod(&Value::Null, std::slice::from_ref(resources)));
    assert_eq!(errors(&json!({ "limits": { "a.b/c": "1" } })), [""; 0], "that is requested then");
    assert_eq!(
        errors(&json!({ "requests": { "a.b/c": "1" } })),
        ["spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"]
    );
    assert_eq!(
        errors(&json!({ "requests": { "hugepages-2Mi": "2Mi" }, "limits": { "hugepages-2Mi": "4Mi" } })),
        [
            "spec.containers[0].resources.requests: Invalid value: \"2Mi\": must be equal to hugepages-2Mi limit of 4Mi",
            "spec.containers[0].resources: Forbidden: HugePages require cpu or memory",
        ]
    );
}

#[test]
fn pods_as_a_whole_request_what_is_not_said() {
    let defaulted =
        |whole: Value, containers: &[Value]| object("pods", pod(&whole, containers))["spec"]["resources"].take();
    let cpu = |requests: &str| json!({ "requests": { "cpu": requests } });
    let limits = json!({ "limits": { "cpu": "4", "memory": "1Gi" } });
    assert_eq!(
        defaulted(limits, &[cpu("1"), cpu("500m")]),
        json!({ "limits": { "cpu": "4", "memory": "1Gi" }, "requests": { "cpu": "1500m", "memory": "1Gi" } })
    );
    let requests = json!({ "requests": { "memory": "1Gi" } });
    assert_eq!(defaulted(requests.clone(), &[cpu("1")]), requests, "without limits nothing is added");
}

#[test]
fn claims_ask_for_no_less_than_they_have() {
    let claim = |size: &str, phase: &str, has: Option<&str>| {
        json!({
            "spec": { "accessModes": ["ReadWriteOnce"], "volumeName": "v", "resources": { "requests": { "storage": size } } },
            "status": { "phase": phase, "capacity": has.map(|has| json!({ "storage": has })) },
        })
    };
    let less = ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"];
    let immutable = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    for (before, after, phase, has, errors) in [
        ("1Gi", "2Gi", "Bound", Some("1Gi"), &[""; 0][..]),
        ("1Gi", "1024Mi", "Bound", Some("1Gi"), &[]),
        ("2Gi", "1Gi", "Bound", Some("2Gi"), &less),
        ("1Gi", "1Mi", "Bound", Some("5Gi"), &less),
        // Growing that has not happened is taken back, but not to what there is already.
        ("5Gi", "2Gi", "Bound", Some("1Gi"), &[]),
        ("5Gi", "1Gi", "Bound", Some("1Gi"), &less),
        ("1Gi", "2Gi", "Pending", None, &[immutable]),
        ("2Gi", "1Gi", "Pending", None, &[immutable]),
        ("1Gi", "1024Mi", "Pending", None, &[]),
    ] {
        let (old, new) = (claim(before, phase, has), claim(after, phase, has));
        assert_eq!(changed("persistentvolumeclaims", old, new), errors, "{before} {after} {phase}");
    }
    let (old, mut new) = (claim("1Gi", "Bound", Some("1Gi")), claim("1Gi", "Bound", Some("1Gi")));
    new["spec"]["resources"]["limits"] = json!({ "storage": "1Gi" });
    assert_eq!(changed("persistentvolumeclaims", old, new), [immutable], "only what is requested changes");
}
