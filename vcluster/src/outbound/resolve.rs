//! From names to connections.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use rand::Rng;
use serde_json::Value;
use tokio::net::TcpStream;

use super::{OutboundError, allowed};
use crate::{
    config::OutboundAddresses,
    document::meta,
    plane::Plane,
    streams::{ContainerTarget, Duplex},
};

const SLICES: &str = "endpointslices.discovery.k8s.io";

/// Which port of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PortOf {
    Number(u16),
    Name(String),
    /// Its only one, or the one without a name.
    Only,
}

/// A ready pod behind a port of a Service, and the port there.
pub(crate) async fn endpoint(
    plane: &Arc<Plane>,
    namespace: &str,
    name: &str,
    port: &PortOf,
) -> Result<(ContainerTarget, u16), OutboundError> {
    let service = plane.object("services", namespace, name).await?;
    let service = service.ok_or_else(|| OutboundError::NoService(name.to_owned()))?;
    let kind = service["spec"]["type"].as_str().unwrap_or("ClusterIP");
    if kind == "ExternalName" {
        return Err(OutboundError::ServiceType(kind.to_owned()));
    }
    let ports = service["spec"]["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let port_name = match (port, ports) {
        (PortOf::Number(port), _) => {
            let found = ports.iter().find(|p| p["port"].as_u64() == Some((*port).into()));
            found.ok_or_else(|| OutboundError::NoPort { name: name.to_owned(), port: *port })?["name"].as_str()
        }
        (PortOf::Name(port), _) => Some(port.as_str()),
        (PortOf::Only, [only]) => only["name"].as_str(),
        (PortOf::Only, _) => None,
    };

    let slices = plane.objects(SLICES, Some(namespace)).await?;
    let of_service = |s: &&Value| s.pointer("/metadata/labels/kubernetes.io~1service-name").is_some_and(|n| n == name);
    let mut candidates = Vec::new();
    let mut others = false;
    for slice in slices.iter().filter(of_service) {
        let ports = slice["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
        let same = |p: &&Value| p["name"].as_str().unwrap_or_default() == port_name.unwrap_or_default();
        let Some(number) = ports.iter().find(same).and_then(|p| p["port"].as_u64()?.try_into().ok()) else { continue };
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            if endpoint["conditions"]["ready"] == false {
                continue;
            }
            match endpoint["targetRef"]["name"].as_str().filter(|_| endpoint["targetRef"]["kind"] == "Pod") {
                Some(pod) => candidates.push((pod.to_owned(), number)),
                None => others = true,
            }
        }
    }
    // From a random one on, the first that is there.
    let start = if candidates.is_empty() { 0 } else { rand::rng().random_range(0..candidates.len()) };
    candidates.rotate_left(start);
    for (pod, number) in candidates {
        let Some(pod) = plane.object("pods", namespace, &pod).await? else { continue };
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if node.is_empty() {
            continue;
        }
        let target = ContainerTarget {
            environment: plane.name.clone(),
            namespace: namespace.to_owned(),
            pod: meta(&pod, "name").to_owned(),
            uid: meta(&pod, "uid").to_owned(),
            node: node.to_owned(),
            container: String::new(),
        };
        return Ok((target, number));
    }
    Err(if others { OutboundError::NotPods(name.to_owned()) } else { OutboundError::NoEndpoints(name.to_owned()) })
}

/// Connects to a host. The address that was checked is the one that is dialled: a name that resolves differently the next time
/// gains nothing.
pub(super) async fn dial(
    host: &str,
    port: u16,
    addresses: OutboundAddresses,
) -> Result<Box<dyn Duplex>, OutboundError> {
    let found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(ip) => vec![(ip, port).into()],
        Err(_) => tokio::net::lookup_host((host, port))
            .await
            .map_err(|e| OutboundError::Lookup { host: host.to_owned(), why: e.to_string() })?
            .collect(),
    };
    let mut last = OutboundError::Lookup { host: host.to_owned(), why: "no such host".into() };
    for address in found {
        if !allowed(address.ip(), addresses) {
            last = OutboundError::Forbidden(address.ip());
            continue;
        }
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(Box::new(stream)),
            Err(e) => {
                let why = match e.kind() {
                    std::io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
                    _ => format!("connect: {e}"),
                };
                last = OutboundError::Dial { address: address.to_string(), why };
            }
        }
    }
    Err(last)
}
