//! Services and what routes to them.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, NAME, NONE, Printer, UNSET, age, int_at, int_or_string, list_at, map_text, name, selector_text, str_at,
    str_or, text, wide,
};

pub(super) const PRINTERS: &[Printer] = &[
    Printer {
        resource: "services",
        columns: &[NAME, text("Type"), text("Cluster-IP"), text("External-IP"), text("Port(s)"), AGE, wide("Selector")],
        cells: |o, now| {
            vec![
                name(o),
                str_at(o, "/spec/type").into(),
                str_or(o, "/spec/clusterIP", NONE).into(),
                external_ip(o).into(),
                service_ports(list_at(o, "/spec/ports")).into(),
                age::of(o, now),
                map_text(o.pointer("/spec/selector")).into(),
            ]
        },
    },
    Printer {
        resource: "endpoints",
        columns: &[NAME, text("Endpoints"), AGE],
        cells: |o, now| vec![name(o), endpoints(o).into(), age::of(o, now)],
    },
    Printer {
        resource: "endpointslices.discovery.k8s.io",
        columns: &[NAME, text("AddressType"), text("Ports"), text("Endpoints"), AGE],
        cells: slice,
    },
    Printer {
        resource: "ingresses.networking.k8s.io",
        columns: &[NAME, text("Class"), text("Hosts"), text("Address"), text("Ports"), AGE],
        cells: |o, now| {
            let ports = if list_at(o, "/spec/tls").is_empty() { "80" } else { "80, 443" };
            vec![
                name(o),
                str_or(o, "/spec/ingressClassName", NONE).into(),
                hosts(o).into(),
                ingress_addresses(o).into(),
                ports.into(),
                age::of(o, now),
            ]
        },
    },
    Printer {
        resource: "ingressclasses.networking.k8s.io",
        columns: &[NAME, text("Controller"), text("Parameters"), AGE],
        cells: |o, now| {
            let parameters = o.pointer("/spec/parameters").map_or_else(
                || NONE.to_owned(),
                |p| {
                    let kind = str_at(p, "/kind");
                    let kind = match str_at(p, "/apiGroup") {
                        "" => kind.to_owned(),
                        group => format!("{kind}.{group}"),
                    };
                    format!("{kind}/{}", str_at(p, "/name"))
                },
            );
            vec![name(o), str_at(o, "/spec/controller").into(), parameters.into(), age::of(o, now)]
        },
    },
    Printer {
        resource: "networkpolicies.networking.k8s.io",
        columns: &[NAME, text("Pod-Selector"), AGE],
        cells: |o, now| vec![name(o), selector_text(o.pointer("/spec/podSelector")).into(), age::of(o, now)],
    },
    Printer {
        resource: "ipaddresses.networking.k8s.io",
        columns: &[NAME, text("ParentRef"), AGE],
        cells: |o, now| {
            let reference = o.pointer("/spec/parentRef").map_or_else(
                || NONE.to_owned(),
                |r| {
                    let resource = crate::status::group_resource(str_at(r, "/group"), str_at(r, "/resource"));
                    format!("{resource}/{}/{}", str_at(r, "/namespace"), str_at(r, "/name"))
                },
            );
            vec![name(o), reference.into(), age::of(o, now)]
        },
    },
    Printer {
        resource: "servicecidrs.networking.k8s.io",
        columns: &[NAME, text("CIDRs"), AGE],
        cells: |o, now| {
            let ranges: Vec<&str> = list_at(o, "/spec/cidrs").iter().filter_map(Value::as_str).collect();
            vec![name(o), ranges.join(",").into(), age::of(o, now)]
        },
    },
];

/// Addresses that lead to a service from outside.
fn external_ip(o: &Value) -> String {
    let given: Vec<&str> = list_at(o, "/spec/externalIPs").iter().filter_map(Value::as_str).collect();
    match str_at(o, "/spec/type") {
        "ExternalName" => str_at(o, "/spec/externalName").to_owned(),
        "LoadBalancer" => {
            let assigned = addresses(o);
            match (assigned.is_empty(), given.is_empty()) {
                (true, true) => "<pending>".to_owned(),
                (true, false) => given.join(","),
                (false, true) => assigned,
                (false, false) => format!("{assigned},{}", given.join(",")),
            }
        }
        _ if given.is_empty() => NONE.to_owned(),
        _ => given.join(","),
    }
}

/// Addresses of `status.loadBalancer.ingress`.
fn addresses(o: &Value) -> String {
    let ingress = list_at(o, "/status/loadBalancer/ingress").iter();
    let addresses: Vec<&str> =
        ingress.map(|i| str_or(i, "/ip", str_at(i, "/hostname"))).filter(|a| !a.is_empty()).collect();
    addresses.join(",")
}

fn ingress_addresses(o: &Value) -> String {
    addresses(o)
}

fn service_ports(ports: &[Value]) -> String {
    let one = |port: &Value| {
        let (number, node, protocol) =
            (int_at(port, "/port"), int_at(port, "/nodePort"), str_or(port, "/protocol", "TCP"));
        if node > 0 { format!("{number}:{node}/{protocol}") } else { format!("{number}/{protocol}") }
    };
    if ports.is_empty() { NONE.to_owned() } else { ports.iter().map(one).collect::<Vec<_>>().join(",") }
}

/// The first three addresses with their ports.
fn endpoints(o: &Value) -> String {
    let mut shown = Vec::new();
    let mut count = 0;
    for subset in list_at(o, "/subsets") {
        let addresses = list_at(subset, "/addresses");
        let ports = list_at(subset, "/ports");
        if ports.is_empty() {
            count += addresses.len();
            shown.extend(addresses.iter().map(|a| str_at(a, "/ip").to_owned()));
        }
        for port in ports {
            count += addresses.len();
            shown.extend(addresses.iter().map(|a| join_host_port(str_at(a, "/ip"), int_at(port, "/port"))));
        }
    }
    first_three(shown, count)
}

fn join_host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

fn first_three(mut shown: Vec<String>, count: usize) -> String {
    if count == 0 {
        return NONE.to_owned();
    }
    shown.truncate(3);
    let more = if count > 3 { format!(" + {} more...", count - 3) } else { String::new() };
    format!("{}{more}", shown.join(","))
}

fn slice(o: &Value, now: Timestamp) -> Vec<Value> {
    let ports = list_at(o, "/ports");
    let port = |p: &Value| p.get("port").map_or_else(|| "*".to_owned(), int_or_string);
    let mut shown: Vec<String> = ports.iter().take(3).map(port).collect();
    if ports.len() > 3 {
        shown.push(format!("+ {} more...", ports.len() - 3));
    }
    let ports_text = if ports.is_empty() { UNSET.to_owned() } else { shown.join(",").replace(",+", " +") };
    let all: Vec<String> = list_at(o, "/endpoints")
        .iter()
        .flat_map(|e| list_at(e, "/addresses"))
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let count = all.len();
    let endpoints = if count == 0 { UNSET.to_owned() } else { first_three(all, count) };
    vec![name(o), str_at(o, "/addressType").into(), ports_text.into(), endpoints.into(), age::of(o, now)]
}

fn hosts(o: &Value) -> String {
    let all: Vec<&str> =
        list_at(o, "/spec/rules").iter().map(|r| str_at(r, "/host")).filter(|h| !h.is_empty()).collect();
    match all.len() {
        0 => "*".to_owned(),
        1..=3 => all.join(","),
        n => format!("{} + {} more...", all[..3].join(","), n - 3),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::table::testing::row;

    #[test]
    fn services_and_endpoints() {
        let meta = json!({ "name": "s", "creationTimestamp": "2025-12-31T23:59:55Z" });
        let service = json!({ "metadata": meta, "spec": { "type": "NodePort", "clusterIP": "10.96.0.9", "selector": { "a": "b" },
            "ports": [{ "port": 80, "nodePort": 30080, "protocol": "TCP" }, { "port": 53, "protocol": "UDP" }] } });
        assert_eq!(row("services", &service), "s | NodePort | 10.96.0.9 | <none> | 80:30080/TCP,53/UDP | 5s | a=b");
        let balancer = json!({ "metadata": meta, "spec": { "type": "LoadBalancer", "clusterIP": "10.96.0.9" } });
        assert_eq!(row("services", &balancer), "s | LoadBalancer | 10.96.0.9 | <pending> | <none> | 5s | <none>");
        let endpoints = json!({ "metadata": meta, "subsets": [{ "addresses": [{ "ip": "1.1.1.1" }, { "ip": "1.1.1.2" }],
            "ports": [{ "port": 80 }, { "port": 81 }] }] });
        assert_eq!(row("endpoints", &endpoints), "s | 1.1.1.1:80,1.1.1.2:80,1.1.1.1:81 + 1 more... | 5s");
        let slice = json!({ "metadata": meta, "addressType": "IPv4", "ports": [{ "port": 80 }], "endpoints": [{ "addresses": ["1.1.1.1"] }] });
        assert_eq!(row("endpointslices.discovery.k8s.io", &slice), "s | IPv4 | 80 | 1.1.1.1 | 5s");
        let ingress = json!({ "metadata": meta, "spec": { "ingressClassName": "c", "tls": [{}], "rules": [{ "host": "a" }, { "host": "b" }] } });
        assert_eq!(row("ingresses.networking.k8s.io", &ingress), "s | c | a,b |  | 80, 443 | 5s");
        let policy = json!({ "metadata": meta, "spec": { "podSelector": {} } });
        assert_eq!(row("networkpolicies.networking.k8s.io", &policy), "s | <none> | 5s");
    }
}
