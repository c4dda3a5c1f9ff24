//! What endpoints of a Service are made of: which pods, which ports, which addresses.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::{
    object::{flag, int, is_deleting, list, name, namespace, text, uid},
    pod,
};

/// The number that a service port means on a pod: `targetPort` itself, or the container port of that name and protocol. None when the pod
/// has no such port.
pub(super) fn target_port(port: &Value, pod: &Value) -> Option<i64> {
    match &port["targetPort"] {
        Value::Number(number) if number.as_i64() != Some(0) => number.as_i64(),
        Value::String(wanted) if !wanted.is_empty() => {
            if let Ok(number) = wanted.parse() {
                return Some(number);
            }
            let sidecars = list(pod, "/spec/initContainers").iter().filter(|c| text(c, "/restartPolicy") == "Always");
            list(pod, "/spec/containers")
                .iter()
                .chain(sidecars)
                .flat_map(|c| list(c, "/ports"))
                .find(|p| text(p, "/name") == wanted && protocol(p) == protocol(port))
                .and_then(|p| int(p, "/containerPort"))
        }
        _ => int(port, "/port"),
    }
}

fn protocol(port: &Value) -> &str {
    match text(port, "/protocol") {
        "" => "TCP",
        protocol => protocol,
    }
}

/// The ports of a service on a pod, as both Endpoints and EndpointSlices spell them.
pub(super) fn ports_on(service: &Value, pod: &Value) -> Vec<Value> {
    list(service, "/spec/ports")
        .iter()
        .filter_map(|port| {
            let mut out =
                json!({ "port": target_port(port, pod)?, "protocol": protocol(port), "name": text(port, "/name") });
            if let Some(application) = port.get("appProtocol").filter(|p| !p.is_null()) {
                out["appProtocol"] = application.clone();
            }
            Some(out)
        })
        .collect()
}

pub(super) fn is_headless(service: &Value) -> bool {
    matches!(text(service, "/spec/clusterIP"), "None" | "")
}

/// Whether the endpoint controllers leave a service alone.
pub(super) fn has_endpoints(service: &Value) -> bool {
    text(service, "/spec/type") != "ExternalName"
        && service.pointer("/spec/selector").and_then(Value::as_object).is_some_and(|s| !s.is_empty())
}

/// Whether a service's selector matches a pod.
pub(super) fn selects(service: &Value, pod: &Value) -> bool {
    let labels = super::object::labels(pod);
    service
        .pointer("/spec/selector")
        .and_then(Value::as_object)
        .is_some_and(|s| !s.is_empty() && s.iter().all(|(k, v)| labels.get(k) == Some(v)))
}

/// Whether a pod belongs into endpoints at all: it has an address, has not ended, and (unless wanted) is not being deleted.
pub(super) fn is_endpoint(pod: &Value, include_terminating: bool) -> bool {
    !pod::is_terminal(pod) && !addresses(pod, Family::Any).is_empty() && (include_terminating || !is_deleting(pod))
}

/// Address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Any,
    V4,
    V6,
}

impl Family {
    /// The families of a service.
    pub(super) fn of(service: &Value) -> Vec<Self> {
        let families: Vec<Self> = list(service, "/spec/ipFamilies")
            .iter()
            .filter_map(Value::as_str)
            .map(|f| if f == "IPv6" { Self::V6 } else { Self::V4 })
            .collect();
        if !families.is_empty() {
            return families;
        }
        match text(service, "/spec/clusterIP").parse() {
            Ok(IpAddr::V6(_)) => vec![Self::V6],
            _ => vec![Self::V4],
        }
    }

    /// `addressType` of a slice.
    pub(super) fn address_type(self) -> &'static str {
        if self == Self::V6 { "IPv6" } else { "IPv4" }
    }
}

/// The pod's addresses of a family, normalised.
pub(super) fn addresses(pod: &Value, family: Family) -> Vec<String> {
    let many = list(pod, "/status/podIPs").iter().map(|a| text(a, "/ip"));
    let one = if list(pod, "/status/podIPs").is_empty() { Some(text(pod, "/status/podIP")) } else { None };
    many.chain(one)
        .filter_map(|a| a.parse::<IpAddr>().ok())
        .filter(|a| match family {
            Family::Any => true,
            Family::V4 => a.is_ipv4(),
            Family::V6 => a.is_ipv6(),
        })
        .map(|a| a.to_string())
        .collect()
}

/// The hostname that DNS publishes for a pod of this service; only when the pod's subdomain is the service.
pub(super) fn hostname<'a>(pod: &'a Value, service: &Value) -> Option<&'a str> {
    let hostname = text(pod, "/spec/hostname");
    let own =
        !hostname.is_empty() && text(pod, "/spec/subdomain") == name(service) && namespace(pod) == namespace(service);
    own.then_some(hostname)
}

/// `targetRef` of an endpoint.
pub(super) fn target(pod: &Value) -> Value {
    json!({ "kind": "Pod", "namespace": namespace(pod), "name": name(pod), "uid": uid(pod) })
}

/// `spec.publishNotReadyAddresses`, or the annotation it had before.
pub(super) fn publishes_unready(service: &Value) -> bool {
    flag(service, "/spec/publishNotReadyAddresses")
        || super::object::annotation(service, "service.alpha.kubernetes.io/tolerate-unready-endpoints") == Some("true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_ports_are_looked_up_by_name_and_protocol() {
        let pod = json!({ "spec": {
            "containers": [{ "ports": [{ "name": "dns", "containerPort": 53, "protocol": "UDP" }, { "name": "web", "containerPort": 8080 }] }],
            "initContainers": [{ "restartPolicy": "Always", "ports": [{ "name": "side", "containerPort": 9, "protocol": "TCP" }] }],
        } });
        for (port, expected) in [
            (json!({ "port": 80, "targetPort": "web", "protocol": "TCP" }), Some(8080)),
            (json!({ "port": 53, "targetPort": "dns", "protocol": "TCP" }), None),
            (json!({ "port": 53, "targetPort": "dns", "protocol": "UDP" }), Some(53)),
            (json!({ "port": 80, "targetPort": 81 }), Some(81)),
            (json!({ "port": 80 }), Some(80)),
            (json!({ "port": 80, "targetPort": "side", "protocol": "TCP" }), Some(9)),
        ] {
            assert_eq!(target_port(&port, &pod), expected, "{port}");
        }
    }

    #[test]
    fn a_hostname_counts_only_under_the_services_own_subdomain() {
        let service = json!({ "metadata": { "name": "db", "namespace": "ns" } });
        let mut pod = json!({ "metadata": { "namespace": "ns" }, "spec": { "hostname": "db-0", "subdomain": "db" } });
        assert_eq!(hostname(&pod, &service), Some("db-0"));
        pod["spec"]["subdomain"] = "other".into();
        assert_eq!(hostname(&pod, &service), None);
    }
}
