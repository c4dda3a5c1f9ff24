//! ClusterIPs and node ports of services. An address that is in use is a document written in the same transaction as its service:
//! two services can never get the same one.

use std::net::Ipv4Addr;

use bytes::Bytes;
use rand::Rng;
use serde_json::{Value, json};
use vctl_machinery::{status::ApiError, validate::FieldError};
use vctl_store::{Expect, Key, Write};

use crate::{
    document::{self, meta},
    objects::{Call, Target},
};

const ADDRESSES: &str = "ipaddresses.networking.k8s.io";
/// Node ports in use; not a Kubernetes resource and never served.
const PORTS: &str = "nodeports.vctl.dev";
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;
/// 10.96.0.0/16: [`crate::config::SERVICE_RANGE`].
const BASE: u32 = u32::from_be_bytes([10, 96, 0, 0]);
const SIZE: u32 = 1 << 16;
/// Below are the addresses for services that ask for one, as in upstream's split of the range.
const STATIC_BAND: u32 = 256;

/// The `IPAddress` object of a service's address.
pub(crate) fn ip_address(address: &str, namespace: &str, service: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {
            "name": address,
            "labels": { "ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io" },
        },
        "spec": { "parentRef": { "group": "", "resource": "services", "namespace": namespace, "name": service } },
    })
}

fn in_range(address: &str) -> Option<Ipv4Addr> {
    let ip: Ipv4Addr = address.parse().ok()?;
    let offset = u32::from(ip).checked_sub(BASE)?;
    (offset > 0 && offset < SIZE - 1).then_some(ip)
}

fn invalid(target: &Target, field: &str, value: &str, why: &str) -> ApiError {
    target.invalid(&[FieldError {
        reason: "FieldValueInvalid",
        field: field.into(),
        body: format!("Invalid value: {value}: {why}"),
    }])
}

fn kind(service: &Value) -> &str {
    service["spec"]["type"].as_str().filter(|t| !t.is_empty()).unwrap_or("ClusterIP")
}

fn cluster_ip(service: &Value) -> &str {
    service["spec"]["clusterIP"].as_str().unwrap_or_default()
}

/// Allocates what a new service needs.
pub(super) async fn create(call: &Call, target: &Target, service: &mut Value) -> Result<Vec<Write>, ApiError> {
    let mut writes = Vec::new();
    if kind(service) != "ExternalName" {
        families(service);
        address(call, target, service, &mut writes).await?;
    }
    ports(call, target, None, service, &mut writes).await?;
    Ok(writes)
}

/// Allocates and releases what changes.
pub(super) async fn update(call: &Call, target: &Target, old: &Value, new: &mut Value) -> Result<Vec<Write>, ApiError> {
    let mut writes = Vec::new();
    let (was, is) = (kind(old).to_owned(), kind(new).to_owned());
    if is == "ExternalName" {
        if was != "ExternalName" {
            if let Some(spec) = new["spec"].as_object_mut() {
                for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                    spec.remove(field);
                }
            }
            writes.extend(release_address(call, old).await?);
        }
    } else {
        if was != "ExternalName" {
            for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if new["spec"][field].is_null() || new["spec"][field] == "" {
                    new["spec"][field] = old["spec"][field].clone();
                }
            }
        }
        if cluster_ip(old) != cluster_ip(new) || was == "ExternalName" {
            if !cluster_ip(old).is_empty() && cluster_ip(old) != cluster_ip(new) {
                return Err(invalid(
                    target,
                    "spec.clusterIPs[0]",
                    &format!("[{:?}]", cluster_ip(new)),
                    "may not change once set",
                ));
            }
            families(new);
            address(call, target, new, &mut writes).await?;
        }
    }
    keep_ports(old, new);
    ports(call, target, Some(old), new, &mut writes).await?;
    Ok(writes)
}

/// Releases everything of a service that goes.
pub(super) async fn release(call: &Call, service: &Value) -> Result<Vec<Write>, ApiError> {
    let mut writes = release_address(call, service).await?;
    for port in node_ports(service) {
        writes.extend(free(call, PORTS, &port).await?);
    }
    Ok(writes)
}

/// The deletion of a document, if it is there: someone may have deleted the IPAddress by hand.
async fn free(call: &Call, resource: &str, name: &str) -> Result<Option<Write>, ApiError> {
    let key = Key::new(resource, "", name);
    let entry = call.plane.entry(&key).await?;
    Ok(entry.map(|e| Write { key, expect: Expect::Revision(e.revision), value: None }))
}

async fn release_address(call: &Call, service: &Value) -> Result<Vec<Write>, ApiError> {
    let ip = cluster_ip(service);
    if in_range(ip).is_none() {
        return Ok(Vec::new());
    }
    Ok(free(call, ADDRESSES, ip).await?.into_iter().collect())
}

fn families(service: &mut Value) {
    let spec = &mut service["spec"];
    if spec["ipFamilies"].as_array().is_none_or(Vec::is_empty) {
        spec["ipFamilies"] = json!(["IPv4"]);
    }
    if spec["ipFamilyPolicy"].is_null() {
        spec["ipFamilyPolicy"] = "SingleStack".into();
    }
}

async fn address(call: &Call, target: &Target, service: &mut Value, writes: &mut Vec<Write>) -> Result<(), ApiError> {
    let wanted = match cluster_ip(service) {
        "" => service["spec"]["clusterIPs"][0].as_str().unwrap_or_default(),
        ip => ip,
    }
    .to_owned();
    let ip = match wanted.as_str() {
        "None" => "None".to_owned(),
        "" => free_address(call, target).await?,
        _ => {
            let refused = |why: String| {
                invalid(
                    target,
                    "spec.clusterIPs",
                    &format!("[{wanted:?}]"),
                    &format!("failed to allocate IP {wanted}: {why}"),
                )
            };
            if in_range(&wanted).is_none() {
                return Err(refused(format!(
                    "the provided network does not match the current range ({})",
                    crate::config::SERVICE_RANGE
                )));
            }
            if call.plane.entry(&Key::new(ADDRESSES, "", &wanted)).await?.is_some() {
                return Err(refused("provided IP is already allocated".into()));
            }
            wanted.clone()
        }
    };
    if ip != "None" {
        let mut object = ip_address(&ip, &target.namespace, &target.name);
        document::set_meta(&mut object, "uid", Some(uuid::Uuid::new_v4().to_string().into()));
        document::set_meta(&mut object, "creationTimestamp", Some(call.now().into()));
        writes.push(Write {
            key: Key::new(ADDRESSES, "", &ip),
            expect: Expect::Absent,
            value: Some(document::encode(&object)?),
        });
    }
    service["spec"]["clusterIP"] = ip.clone().into();
    service["spec"]["clusterIPs"] = json!([ip]);
    Ok(())
}

/// An address that nobody has: any at first, then each in turn.
async fn free_address(call: &Call, target: &Target) -> Result<String, ApiError> {
    let start = rand::rng().random_range(STATIC_BAND..SIZE - 1);
    for i in 0..SIZE {
        let offset = STATIC_BAND + (start - STATIC_BAND + i) % (SIZE - 1 - STATIC_BAND);
        let ip = Ipv4Addr::from(BASE + offset).to_string();
        if call.plane.entry(&Key::new(ADDRESSES, "", &ip)).await?.is_none() {
            return Ok(ip);
        }
    }
    let _ = target;
    Err(ApiError::internal("failed to allocate a serviceIP: range is full"))
}

/// Node ports with their protocol, as names of their documents: `30080-TCP`.
fn node_ports(service: &Value) -> Vec<String> {
    service["spec"]["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|p| Some((p["nodePort"].as_u64().filter(|n| *n > 0)?, p["protocol"].as_str().unwrap_or("TCP"))))
        .map(|(port, protocol)| format!("{port}-{protocol}"))
        .collect()
}

fn wants_node_ports(service: &Value) -> bool {
    match kind(service) {
        "NodePort" => true,
        "LoadBalancer" => service["spec"]["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    }
}

/// A replacement that does not mention node ports keeps them; a type without node ports drops them.
fn keep_ports(old: &Value, new: &mut Value) {
    let wants = wants_node_ports(new);
    let same_kind = kind(old) == kind(new);
    for port in new["spec"]["ports"].as_array_mut().into_iter().flatten() {
        if !wants && same_kind {
            continue;
        }
        if !wants {
            if let Some(port) = port.as_object_mut() {
                port.remove("nodePort");
            }
        } else if port["nodePort"].as_u64().unwrap_or(0) == 0 {
            let before = old["spec"]["ports"].as_array().into_iter().flatten();
            let before = before.clone().find(|o| o["port"] == port["port"] && o["protocol"] == port["protocol"]);
            if let Some(number) = before.and_then(|o| o.get("nodePort")).filter(|n| n.as_u64().unwrap_or(0) > 0) {
                port["nodePort"] = number.clone();
            }
        }
    }
}

async fn ports(
    call: &Call,
    target: &Target,
    old: Option<&Value>,
    service: &mut Value,
    writes: &mut Vec<Write>,
) -> Result<(), ApiError> {
    let had = old.map(node_ports).unwrap_or_default();
    let mut taken: Vec<String> = Vec::new();
    if wants_node_ports(service) {
        let mut list = service["spec"]["ports"].as_array().cloned().unwrap_or_default();
        for (i, port) in list.iter_mut().enumerate() {
            let protocol = port["protocol"].as_str().unwrap_or("TCP").to_owned();
            let wanted = port["nodePort"].as_u64().unwrap_or(0);
            if wanted == 0 {
                let number = free_port(call, &protocol, &taken).await?;
                port["nodePort"] = number.into();
                taken.push(format!("{number}-{protocol}"));
                continue;
            }
            let name = format!("{wanted}-{protocol}");
            let field = format!("spec.ports[{i}].nodePort");
            if !u16::try_from(wanted).is_ok_and(|p| NODE_PORTS.contains(&p)) {
                return Err(invalid(
                    target,
                    &field,
                    &wanted.to_string(),
                    "provided port is not in the valid range. The range of valid ports is 30000-32767",
                ));
            }
            if !had.contains(&name) && call.plane.entry(&Key::new(PORTS, "", &name)).await?.is_some() {
                return Err(invalid(target, &field, &wanted.to_string(), "provided port is already allocated"));
            }
            taken.push(name);
        }
        service["spec"]["ports"] = list.into();
    } else {
        taken = node_ports(service);
    }
    for name in taken.iter().filter(|n| !had.contains(n)) {
        let owner = json!({ "namespace": target.namespace, "service": meta(service, "name") });
        writes.push(Write {
            key: Key::new(PORTS, "", name),
            expect: Expect::Absent,
            value: Some(Bytes::from(owner.to_string())),
        });
    }
    for name in had.iter().filter(|n| !taken.contains(n)) {
        writes.extend(free(call, PORTS, name).await?);
    }
    Ok(())
}

async fn free_port(call: &Call, protocol: &str, taken: &[String]) -> Result<u16, ApiError> {
    let count = NODE_PORTS.end() - NODE_PORTS.start() + 1;
    let start = rand::rng().random_range(0..count);
    for i in 0..count {
        let port = NODE_PORTS.start() + (start + i) % count;
        let name = format!("{port}-{protocol}");
        if !taken.contains(&name) && call.plane.entry(&Key::new(PORTS, "", &name)).await?.is_none() {
            return Ok(port);
        }
    }
    Err(ApiError::internal("failed to allocate a nodePort: range is full"))
}
