//! Services and DNS records of one environment, as its workers need them. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use vctl_api::agent::{DnsRecord, Endpoint, Service, ServicePort, Srv};

use crate::{json::Json, translate::CLUSTER_DOMAIN};

/// Everything of one environment, by id.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Network {
    /// ClusterIP services.
    pub services: BTreeMap<String, Service>,
    /// DNS records.
    pub dns: BTreeMap<String, DnsRecord>,
}

/// Computes the network of an environment from its Services and EndpointSlices.
pub fn network(environment: &str, services: &[Value], slices: &[Value]) -> Network {
    let mut by_service: BTreeMap<(&str, &str), Vec<&Value>> = BTreeMap::new();
    for slice in slices {
        if let Some(service) = slice.pointer("/metadata/labels/kubernetes.io~1service-name").and_then(Value::as_str) {
            by_service.entry((slice.text("/metadata/namespace"), service)).or_default().push(slice);
        }
    }
    let mut network = Network::default();
    for service in services {
        let at = (service.text("/metadata/namespace"), service.text("/metadata/name"));
        let slices = by_service.get(&at).map_or(&[][..], Vec::as_slice);
        add(&mut network, environment, service, slices);
    }
    network
}

fn add(network: &mut Network, environment: &str, service: &Value, slices: &[&Value]) {
    let (namespace, name) = (service.text("/metadata/namespace"), service.text("/metadata/name"));
    let fqdn = format!("{name}.{namespace}.svc.{CLUSTER_DOMAIN}");
    if service.text("/spec/type") == "ExternalName" {
        let cname = service.text("/spec/externalName").trim_end_matches('.').to_ascii_lowercase();
        record(network, environment, &fqdn, "CNAME").cname = cname;
        return;
    }
    let mut ips: Vec<&str> = service.items("/spec/clusterIPs").iter().filter_map(Value::as_str).collect();
    if ips.is_empty() {
        ips.extend(service.some_text("/spec/clusterIP"));
    }
    let Some(first) = ips.first() else { return };
    if *first == "None" {
        headless(network, environment, service, &fqdn, slices);
        return;
    }
    for ip in &ips {
        record(network, environment, &fqdn, kind(ip)).addresses.push((*ip).to_owned());
    }
    for port in service.items("/spec/ports") {
        if let (Some(label), Some(number)) = (port.some_text("/name"), port.number("/port")) {
            let protocol = port.some_text("/protocol").unwrap_or("TCP").to_ascii_lowercase();
            let srv = Srv { port: number as u32, target: fqdn.clone(), priority: 0, weight: 100 };
            record(network, environment, &format!("_{label}._{protocol}.{fqdn}"), "SRV").srv.push(srv);
        }
    }
    let api_server = namespace == "default" && name == "kubernetes";
    let affinity = if service.text("/spec/sessionAffinity") == "ClientIP" {
        service.number("/spec/sessionAffinityConfig/clientIP/timeoutSeconds").unwrap_or(10_800) as i32
    } else {
        0
    };
    let id = format!("{environment}/{namespace}/{name}");
    let ports = service
        .items("/spec/ports")
        .iter()
        .map(|port| ServicePort {
            protocol: port.some_text("/protocol").unwrap_or("TCP").to_owned(),
            port: port.number("/port").unwrap_or_default() as u32,
            endpoints: if api_server { Vec::new() } else { endpoints(port, slices) },
        })
        .collect();
    let service = Service {
        id: id.clone(),
        environment: environment.to_owned(),
        cluster_ip: (*first).to_owned(),
        ports,
        client_ip_affinity_seconds: affinity,
        api_server,
    };
    network.services.insert(id, service);
}

fn kind(ip: &str) -> &'static str {
    if ip.contains(':') { "AAAA" } else { "A" }
}

/// Ready endpoints of one port, in a stable order. With none ready, those that still serve while they terminate.
fn endpoints(port: &Value, slices: &[&Value]) -> Vec<Endpoint> {
    let name = port.text("/name");
    let (mut ready, mut serving) = (BTreeSet::new(), BTreeSet::new());
    for slice in slices {
        let Some(number) =
            slice.items("/ports").iter().find(|p| p.text("/name") == name).and_then(|p| p.number("/port"))
        else {
            continue;
        };
        for endpoint in slice.items("/endpoints") {
            let into = if is_ready(endpoint) {
                &mut ready
            } else if endpoint.flag("/conditions/serving") && endpoint.flag("/conditions/terminating") {
                &mut serving
            } else {
                continue;
            };
            into.extend(endpoint.texts("/addresses").into_iter().map(|ip| (ip, number as u32)));
        }
    }
    let chosen = if ready.is_empty() { serving } else { ready };
    chosen.into_iter().map(|(ip, port)| Endpoint { ip, port }).collect()
}

/// Absent means unknown, which counts as ready.
fn is_ready(endpoint: &Value) -> bool {
    endpoint.some_flag("/conditions/ready").unwrap_or(true)
}

fn headless(network: &mut Network, environment: &str, service: &Value, fqdn: &str, slices: &[&Value]) {
    let unready_too = service.flag("/spec/publishNotReadyAddresses");
    for slice in slices {
        for endpoint in slice.items("/endpoints") {
            if !unready_too && !is_ready(endpoint) {
                continue;
            }
            for ip in endpoint.texts("/addresses") {
                let label = endpoint
                    .some_text("/hostname")
                    .map_or_else(|| ip.replace(['.', ':'], "-"), str::to_ascii_lowercase);
                let target = format!("{label}.{fqdn}");
                address(network, environment, fqdn, &ip);
                address(network, environment, &target, &ip);
                for port in slice.items("/ports") {
                    let (Some(name), Some(number)) = (port.some_text("/name"), port.number("/port")) else { continue };
                    let protocol = port.some_text("/protocol").unwrap_or("TCP").to_ascii_lowercase();
                    let srv = Srv { port: number as u32, target: target.clone(), priority: 0, weight: 100 };
                    let record = record(network, environment, &format!("_{name}._{protocol}.{fqdn}"), "SRV");
                    if !record.srv.contains(&srv) {
                        record.srv.push(srv);
                        record.srv.sort_by(|a, b| (&a.target, a.port).cmp(&(&b.target, b.port)));
                    }
                }
            }
        }
    }
}

fn address(network: &mut Network, environment: &str, name: &str, ip: &str) {
    let addresses = &mut record(network, environment, name, kind(ip)).addresses;
    if let Err(at) = addresses.binary_search_by(|a| a.as_str().cmp(ip)) {
        addresses.insert(at, ip.to_owned());
    }
}

fn record<'a>(network: &'a mut Network, environment: &str, name: &str, kind: &str) -> &'a mut DnsRecord {
    let name = name.to_ascii_lowercase();
    let id = format!("{environment}/{name}/{kind}");
    network.dns.entry(id.clone()).or_insert_with(|| DnsRecord {
        id,
        environment: environment.to_owned(),
        name,
        ..DnsRecord::default()
    })
}

#[cfg(test)]
mod tests;
