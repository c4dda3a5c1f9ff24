//! Tables: Services and EndpointSlices, and what workers get.

use serde_json::{Value, json};

use super::*;

fn service(name: &str, spec: Value) -> Value {
    json!({ "metadata": { "name": name, "namespace": "default" }, "spec": spec })
}

fn slice(service: &str, ports: Value, endpoints: Value) -> Value {
    json!({
        "metadata": { "namespace": "default", "labels": { "kubernetes.io/service-name": service } },
        "ports": ports, "endpoints": endpoints,
    })
}

#[test]
fn a_cluster_ip_service_has_its_ready_endpoints_and_its_name() {
    let services = [
        service(
            "redis",
            json!({ "clusterIP": "10.96.0.5", "ports": [{ "name": "r", "port": 6379, "protocol": "TCP", "targetPort": 1 }] }),
        ),
        service("kubernetes", json!({ "clusterIP": "10.96.0.1", "ports": [{ "name": "https", "port": 443 }] })),
        service("ext", json!({ "type": "ExternalName", "externalName": "Example.org." })),
    ];
    let slices = [
        slice(
            "redis",
            json!([{ "name": "r", "port": 16379 }]),
            json!([
                { "addresses": ["10.200.0.3"], "conditions": { "ready": true } },
                { "addresses": ["10.200.0.2"], "conditions": {} },
                { "addresses": ["10.200.0.4"], "conditions": { "ready": false } },
            ]),
        ),
        slice("other", json!([{ "name": "r", "port": 1 }]), json!([{ "addresses": ["10.200.0.9"] }])),
    ];
    let network = network("env", &services, &slices);
    let redis = &network.services["env/default/redis"];
    let endpoints: Vec<(&str, u32)> = redis.ports[0].endpoints.iter().map(|e| (e.ip.as_str(), e.port)).collect();
    assert_eq!(endpoints, [("10.200.0.2", 16379), ("10.200.0.3", 16379)]);
    assert_eq!((redis.ports[0].port, redis.api_server), (6379, false));
    assert!(network.services["env/default/kubernetes"].api_server);
    assert_eq!(network.dns["env/redis.default.svc.cluster.local/A"].addresses, ["10.96.0.5"]);
    let srv = &network.dns["env/_r._tcp.redis.default.svc.cluster.local/SRV"].srv[0];
    assert_eq!((srv.port, srv.target.as_str()), (6379, "redis.default.svc.cluster.local"));
    assert_eq!(network.dns["env/ext.default.svc.cluster.local/CNAME"].cname, "example.org");
    assert_eq!(network.services.len(), 2);
}

#[test]
fn a_headless_service_names_its_pods() {
    let services = [service("db", json!({ "clusterIP": "None", "ports": [{ "name": "pg", "port": 5432 }] }))];
    let slices = [slice(
        "db",
        json!([{ "name": "pg", "port": 5432 }]),
        json!([
            { "addresses": ["10.200.0.3"], "hostname": "db-1", "conditions": { "ready": true } },
            { "addresses": ["10.200.0.2"], "hostname": "db-0", "conditions": { "ready": true } },
            { "addresses": ["10.200.0.4"], "conditions": { "ready": true } },
            { "addresses": ["10.200.0.5"], "hostname": "db-2", "conditions": { "ready": false } },
        ]),
    )];
    let network = network("env", &services, &slices);
    assert!(network.services.is_empty());
    let a =
        |name: &str| network.dns.get(&format!("env/{name}db.default.svc.cluster.local/A")).map(|r| r.addresses.clone());
    assert_eq!(a(""), Some(vec!["10.200.0.2".into(), "10.200.0.3".into(), "10.200.0.4".into()]));
    assert_eq!(a("db-0."), Some(vec!["10.200.0.2".into()]));
    assert_eq!(a("10-200-0-4."), Some(vec!["10.200.0.4".into()]));
    assert_eq!(a("db-2."), None);
    let srv = &network.dns["env/_pg._tcp.db.default.svc.cluster.local/SRV"].srv;
    assert_eq!(srv.len(), 3);
}

#[test]
fn with_none_ready_those_that_still_serve_are_used() {
    let services = [service("s", json!({ "clusterIP": "10.96.0.7", "ports": [{ "port": 80 }] }))];
    let slices = [slice(
        "s",
        json!([{ "port": 8080 }]),
        json!([
            { "addresses": ["10.200.0.2"], "conditions": { "ready": false, "serving": true, "terminating": true } },
            { "addresses": ["10.200.0.3"], "conditions": { "ready": false, "serving": false } },
        ]),
    )];
    let network = network("env", &services, &slices);
    assert_eq!(network.services["env/default/s"].ports[0].endpoints.len(), 1);
}
