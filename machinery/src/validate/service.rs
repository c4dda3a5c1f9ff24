//! Services. Source: upstream `pkg/apis/core/validation/validation.go` (`ValidateService`).

use core::net::IpAddr;
use std::collections::HashSet;

use super::check::{At, Errors};
use crate::names;

/// Longest stickiness of a client, in seconds: a day.
const LONGEST_AFFINITY: i64 = 86_400;
/// The kubelet's port, which no load balancer may expose.
const KUBELET: i64 = 10_250;

pub(super) fn service(spec: &At<'_>, errors: &mut Errors) {
    let kind = spec.field("type");
    errors.one_of(&kind, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    let balanced = kind.text() == "LoadBalancer";
    let (list, headless) = (spec.field("ports"), spec.field("clusterIP").text() == "None");
    if kind.text() == "ExternalName" {
        let name = spec.field("externalName");
        if name.is_empty() {
            errors.required(&name, "");
        } else {
            for why in names::dns_subdomain_errors(name.text().trim_end_matches('.')) {
                errors.invalid(&name, &why);
            }
        }
    } else if list.is_empty() && !headless {
        errors.required(&list, "");
    }
    if balanced {
        for port in list.items().map(|p| p.field("port")).filter(|p| p.value.as_i64() == Some(KUBELET)) {
            errors.invalid(&port, "may not expose port 10250 externally since it is used by kubelet");
        }
    }
    addresses(spec, errors);
    ports(spec, errors);
    errors.labels(&spec.field("selector"));
    affinity(spec, errors);
    for address in spec.field("externalIPs").items() {
        match address.text().parse::<IpAddr>() {
            Err(_) => errors.invalid(&address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
            Ok(ip) => {
                if let Some(why) = special(ip) {
                    errors.invalid(&address, why);
                }
            }
        }
    }
    if !balanced {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if spec.field(field).exists() {
                errors.forbidden(&spec.field(field), "may only be used when `type` is 'LoadBalancer'");
            }
        }
    } else if !spec.field("loadBalancerClass").is_empty() {
        errors.if_named(&spec.field("loadBalancerClass"), names::qualified_name_errors);
    }
    let ranges = spec.field("loadBalancerSourceRanges");
    if !ranges.is_empty() {
        if !balanced {
            errors.forbidden(&ranges, "may only be used when `type` is 'LoadBalancer'");
        }
        for range in ranges.items() {
            if !is_cidr(range.text().trim()) {
                errors.invalid(&range, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
            }
        }
    }
    traffic(spec, errors);
}

/// `ADDRESS/BITS` of either family.
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.bytes().all(|b| b.is_ascii_digit()) && bits.parse::<u8>().is_ok_and(|n| n <= most)
}

/// Why an address cannot be an endpoint or an external address (`ValidateNonSpecialIP`).
pub(super) fn special(ip: IpAddr) -> Option<&'static str> {
    match ip {
        ip if ip.is_unspecified() => Some("may not be unspecified (0.0.0.0 or ::)"),
        ip if ip.is_loopback() => Some("may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        IpAddr::V4(ip) if ip.is_link_local() => Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        IpAddr::V6(ip) if ip.is_unicast_link_local() => {
            Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
        }
        IpAddr::V4(ip) if ip.octets()[..3] == [224, 0, 0] => {
            Some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
        }
        IpAddr::V6(ip) if ip.segments()[0] == 0xff02 => {
            Some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
        }
        _ => None,
    }
}

fn addresses(spec: &At<'_>, errors: &mut Errors) {
    let (first, all) = (spec.field("clusterIP"), spec.field("clusterIPs"));
    let (families, policy) = (spec.field("ipFamilies"), spec.field("ipFamilyPolicy"));
    if spec.field("type").text() == "ExternalName" {
        for field in [all, families, policy].iter().filter(|f| !f.is_empty()) {
            errors.forbidden(field, "may not be set for ExternalName services");
        }
        return;
    }
    for ip in all.items() {
        if ip.text() != "None" && ip.text().parse::<IpAddr>().is_err() {
            errors.invalid(&ip, "must be empty (\"\"), \"None\" or a valid IP address");
        }
    }
    if let Some(one) = all.items().next()
        && one.text() != first.text()
    {
        errors.invalid(&all, "first value must match `clusterIP`");
    }
    if policy.exists() {
        errors.if_set_one_of(&policy, &["PreferDualStack", "RequireDualStack", "SingleStack"]);
        if policy.text() == "RequireDualStack" {
            errors.invalid(&policy, "this cluster is not configured for dual-stack services");
        }
    }
    let mut seen = HashSet::new();
    for family in families.items() {
        errors.if_set_one_of(&family, &["IPv4", "IPv6"]);
        if family.text() == "IPv6" {
            errors.invalid(&family, "not configured on this cluster");
        }
        if !seen.insert(family.text()) {
            errors.duplicate(&family);
        }
    }
}

fn ports(spec: &At<'_>, errors: &mut Errors) {
    let (kind, list) = (spec.field("type"), spec.field("ports"));
    let (mut names_seen, mut pairs, mut node_ports) = (HashSet::new(), HashSet::new(), HashSet::new());
    let many = list.items().count() > 1;
    for port in list.items() {
        let (name, number, protocol) = (port.field("name"), port.field("port"), port.field("protocol"));
        if name.is_empty() {
            if many {
                errors.required(&name, "");
            }
        } else {
            errors.if_named(&name, names::dns_label_errors);
            if !names_seen.insert(name.text()) {
                errors.duplicate(&name);
            }
        }
        errors.port(&number);
        errors.one_of(&protocol, &["SCTP", "TCP", "UDP"]);
        if kind.text() != "ExternalName" {
            errors.port_or_name(&port.field("targetPort"));
        }
        errors.if_named(&port.field("appProtocol"), names::qualified_name_errors);
        let node_port = port.field("nodePort");
        if let Some(n) = node_port.value.as_i64().filter(|n| *n != 0) {
            if kind.text() == "ClusterIP" {
                errors.forbidden(&node_port, "may not be used when `type` is 'ClusterIP'");
            }
            if !node_ports.insert((n, protocol.text())) {
                errors.duplicate(&node_port);
            }
        }
        if !pairs.insert((number.value.as_i64(), protocol.text())) {
            errors.duplicate(&port);
        }
    }
}

fn affinity(spec: &At<'_>, errors: &mut Errors) {
    let (affinity, config) = (spec.field("sessionAffinity"), spec.field("sessionAffinityConfig"));
    errors.one_of(&affinity, &["ClientIP", "None"]);
    match affinity.text() {
        "ClientIP" => {
            let seconds = config.field("clientIP").field("timeoutSeconds");
            if !config.exists() {
                errors.required(&config, "when session affinity type is ClientIP");
            } else if seconds.value.as_i64().is_none_or(|n| n <= 0 || n > LONGEST_AFFINITY) {
                errors.invalid(&seconds, "must be greater than 0 and less than 86400");
            }
        }
        "None" if config.exists() => {
            errors.forbidden(&config, "must not be set when session affinity is None");
        }
        _ => {}
    }
}

fn traffic(spec: &At<'_>, errors: &mut Errors) {
    let policies = &["Cluster", "Local"];
    let kind = spec.field("type");
    let external = matches!(kind.text(), "NodePort" | "LoadBalancer")
        || (kind.text() == "ClusterIP" && !spec.field("externalIPs").is_empty());
    let policy = spec.field("externalTrafficPolicy");
    if !external {
        if !policy.is_empty() {
            errors.invalid(&policy, "may only be set for externally-accessible services");
        }
    } else {
        errors.one_of(&policy, policies);
    }
    let port = spec.field("healthCheckNodePort");
    let checked = kind.text() == "LoadBalancer" && policy.text() == "Local";
    if !checked && port.value.as_i64().unwrap_or_default() != 0 {
        errors.invalid(&port, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'");
    }
    errors.if_set_one_of(&spec.field("internalTrafficPolicy"), policies);
    errors.if_set_one_of(&spec.field("trafficDistribution"), &["PreferClose", "PreferSameNode", "PreferSameZone"]);
}

/// What stays as it is, once set, as long as it means something.
pub(super) fn update(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let balanced = |spec: &At<'_>| spec.field("type").text() == "LoadBalancer";
    if balanced(new) && balanced(old) && new.field("loadBalancerClass").value != old.field("loadBalancerClass").value {
        errors.invalid(&new.field("loadBalancerClass"), "may not change once set");
    }
}
