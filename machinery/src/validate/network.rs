//! Ingresses, network policies, endpoints and addresses. Sources: upstream `pkg/apis/networking/validation`, `pkg/apis/discovery/validation`
//! and `pkg/apis/core/validation` (`ValidateEndpoints`).

use core::net::IpAddr;
use std::collections::HashSet;

use super::{
    check::{At, Errors, port_name_errors},
    service::{is_cidr, special},
};
use crate::names;

const BAD_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
/// Of an EndpointSlice (`pkg/apis/discovery/validation`).
const MOST_ADDRESSES: usize = 100;
const MOST_ENDPOINTS: usize = 1000;
const MOST_PORTS: usize = 20_000;
const MOST_ZONE_HINTS: usize = 8;

pub(super) fn ingress(spec: &At<'_>, errors: &mut Errors) {
    if spec.field("rules").is_empty() && !spec.field("defaultBackend").exists() {
        errors.invalid(spec, "either `defaultBackend` or `rules` must be specified");
    }
    if spec.field("defaultBackend").exists() {
        backend(&spec.field("defaultBackend"), errors);
    }
    for rule in spec.field("rules").items() {
        host(&rule.field("host"), errors);
        let http = rule.field("http");
        if http.exists() && http.field("paths").is_empty() {
            errors.required(&http.field("paths"), "");
        }
        for path in http.field("paths").items() {
            ingress_path(&path, errors);
            backend(&path.field("backend"), errors);
        }
    }
    for tls in spec.field("tls").items() {
        for name in tls.field("hosts").items() {
            let form = |text: &str| match text.strip_prefix("*.") {
                Some(rest) => names::dns_subdomain_errors(rest),
                None => names::dns_subdomain_errors(text),
            };
            for why in form(name.text()) {
                errors.invalid(&name, &why);
            }
        }
        errors.if_named(&tls.field("secretName"), names::dns_subdomain_errors);
    }
    errors.if_named(&spec.field("ingressClassName"), names::dns_subdomain_errors);
}

fn host(host: &At<'_>, errors: &mut Errors) {
    if host.text().parse::<IpAddr>().is_ok() {
        errors.invalid(host, "must be a DNS name, not an IP address");
        return;
    }
    let bare = host.text().strip_prefix("*.").unwrap_or(host.text());
    if !bare.is_empty() {
        for why in names::dns_subdomain_errors(bare) {
            errors.invalid(host, &why);
        }
    }
}

fn ingress_path(path: &At<'_>, errors: &mut Errors) {
    let (kind, text) = (path.field("pathType"), path.field("path"));
    if !kind.exists() {
        errors.required(&kind, "pathType must be specified");
        return;
    }
    errors.if_set_one_of(&kind, &["Exact", "ImplementationSpecific", "Prefix"]);
    let absolute = text.text().starts_with('/');
    match kind.text() {
        "Exact" | "Prefix" => {
            if !absolute {
                errors.invalid(&text, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if text.text().contains(part) {
                    errors.invalid(&text, &format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if text.text().ends_with(end) {
                    errors.invalid(&text, &format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" if !text.is_empty() && !absolute => {
            errors.invalid(&text, "must be an absolute path");
        }
        _ => {}
    }
}

fn backend(backend: &At<'_>, errors: &mut Errors) {
    let (service, resource) = (backend.field("service"), backend.field("resource"));
    match (service.exists(), resource.exists()) {
        (true, true) => errors.invalid_value(backend, "", "cannot set both resource and service backends"),
        (false, true) => {
            for field in ["kind", "name"] {
                if resource.field(field).is_empty() {
                    errors.required(&resource.field(field), "");
                }
            }
        }
        (true, false) => {
            let (name, port) = (service.field("name"), service.field("port"));
            errors.named(&name, names::dns_1035_label_errors);
            let number = port.field("number").value.as_i64().unwrap_or_default();
            match (port.field("name").is_empty(), number) {
                (true, 0) => errors.required(&port, "port name or number is required"),
                (false, 0) => {
                    for why in port_name_errors(port.field("name").text()) {
                        errors.invalid(&port.field("name"), &why);
                    }
                }
                (true, _) => errors.port(&port.field("number")),
                (false, _) => errors.invalid_value(&port, "", "cannot set both port name & port number"),
            }
        }
        (false, false) => errors.required(&service.field("name"), ""),
    }
}

pub(super) fn policy(spec: &At<'_>, errors: &mut Errors) {
    errors.selector(&spec.field("podSelector"));
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.field(rules).items() {
            for port in rule.field("ports").items() {
                policy_port(&port, errors);
            }
            for peer in rule.field(peers).items() {
                policy_peer(&peer, errors);
            }
        }
    }
    let kinds = spec.field("policyTypes");
    if kinds.items().count() > 2 {
        errors.invalid(&kinds, "may not specify more than two policyTypes");
        return;
    }
    for kind in kinds.items() {
        errors.if_set_one_of(&kind, &["Egress", "Ingress"]);
    }
}

fn policy_port(port: &At<'_>, errors: &mut Errors) {
    errors.if_set_one_of(&port.field("protocol"), PROTOCOLS);
    let (number, end) = (port.field("port"), port.field("endPort"));
    if number.exists() {
        errors.port_or_name(&number);
        if let Some(last) = end.value.as_i64() {
            match number.value.as_i64() {
                None => errors.invalid(&end, "may not be specified when `port` is non-numeric"),
                Some(first) if last < first => {
                    errors.invalid(&end, &format!("must be greater than or equal to `port`: {first}"));
                }
                Some(_) => errors.port(&end),
            }
        }
    } else if end.exists() {
        errors.invalid(&end, "may not be specified when `port` is not specified");
    }
}

fn policy_peer(peer: &At<'_>, errors: &mut Errors) {
    let kinds = ["podSelector", "namespaceSelector", "ipBlock"].map(|k| peer.field(k));
    for selector in kinds.iter().take(2).filter(|k| k.exists()) {
        errors.selector(selector);
    }
    let block = &kinds[2];
    if !kinds.iter().any(At::exists) {
        errors.required(peer, "must specify a peer");
    } else if block.exists() && (kinds[0].exists() || kinds[1].exists()) {
        errors.forbidden(peer, "may not specify both ipBlock and another peer");
    }
    if !block.exists() {
        return;
    }
    let cidr = block.field("cidr");
    if cidr.is_empty() {
        errors.required(&cidr, "");
        return;
    }
    if !is_cidr(cidr.text()) {
        errors.invalid(&cidr, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
        return;
    }
    for except in block.field("except").items() {
        if !is_cidr(except.text()) {
            errors.invalid(&except, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
        } else if !is_strict_subset(except.text(), cidr.text()) {
            errors.invalid(&except, "must be a strict subset of `cidr`");
        }
    }
}

/// Whether a range lies in another and is smaller.
fn is_strict_subset(inner: &str, outer: &str) -> bool {
    let read = |text: &str| -> Option<(u128, u32, bool)> {
        let (address, bits) = text.split_once('/')?;
        let bits: u32 = bits.parse().ok()?;
        Some(match address.parse::<IpAddr>().ok()? {
            IpAddr::V4(ip) => (u128::from(u32::from(ip)) << 96, bits, true),
            IpAddr::V6(ip) => (u128::from(ip), bits, false),
        })
    };
    let (Some((a, inner, is_4)), Some((b, outer, was_4))) = (read(inner), read(outer)) else { return false };
    let network = |address: u128| address.checked_shr(128 - outer).unwrap_or(0);
    is_4 == was_4 && inner > outer && network(a) == network(b)
}

fn endpoint_address(ip: &At<'_>, errors: &mut Errors) {
    match ip.text().parse::<IpAddr>() {
        Err(_) => errors.invalid(ip, BAD_IP),
        Ok(address) => {
            if let Some(why) = special(address) {
                errors.invalid(ip, why);
            }
        }
    }
}

pub(super) fn endpoints(object: &At<'_>, errors: &mut Errors) {
    for subset in object.field("subsets").items() {
        let lists = ["addresses", "notReadyAddresses"].map(|l| subset.field(l));
        if lists.iter().all(At::is_empty) {
            errors.required(&subset, "must specify `addresses` or `notReadyAddresses`");
        }
        for address in lists.iter().flat_map(At::items) {
            endpoint_address(&address.field("ip"), errors);
            errors.if_named(&address.field("hostname"), names::dns_label_errors);
            errors.if_named(&address.field("nodeName"), names::dns_subdomain_errors);
        }
        let ports = subset.field("ports");
        let many = ports.items().count() > 1;
        for port in ports.items() {
            let (name, protocol) = (port.field("name"), port.field("protocol"));
            if many && name.is_empty() {
                errors.required(&name, "");
            } else {
                errors.if_named(&name, names::dns_label_errors);
            }
            errors.port(&port.field("port"));
            errors.one_of(&protocol, PROTOCOLS);
            errors.if_named(&port.field("appProtocol"), names::qualified_name_errors);
        }
    }
}

pub(super) fn endpoint_slice(object: &At<'_>, errors: &mut Errors) {
    let kind = object.field("addressType");
    errors.one_of(&kind, &["FQDN", "IPv4", "IPv6"]);
    let endpoints = object.field("endpoints");
    if endpoints.items().count() > MOST_ENDPOINTS {
        errors.too_many(&endpoints, MOST_ENDPOINTS);
        return;
    }
    for endpoint in endpoints.items() {
        let addresses = endpoint.field("addresses");
        if addresses.is_empty() {
            errors.required(&addresses, "must contain at least 1 address");
        } else if addresses.items().count() > MOST_ADDRESSES {
            errors.too_many(&addresses, MOST_ADDRESSES);
        }
        for address in addresses.items() {
            slice_address(kind.text(), &address, errors);
        }
        errors.if_named(&endpoint.field("nodeName"), names::dns_subdomain_errors);
        errors.if_named(&endpoint.field("hostname"), names::dns_label_errors);
        let zones = endpoint.field("hints").field("forZones");
        if zones.items().count() > MOST_ZONE_HINTS {
            errors.too_many(&zones, MOST_ZONE_HINTS);
        }
        let mut seen = HashSet::new();
        for zone in zones.items().map(|z| z.field("name")) {
            if !seen.insert(zone.text()) {
                errors.duplicate(&zone);
            }
            for why in names::label_value_errors(zone.text()) {
                errors.invalid(&zone, &why);
            }
        }
    }
    let ports = object.field("ports");
    if ports.items().count() > MOST_PORTS {
        errors.too_many(&ports, MOST_PORTS);
        return;
    }
    let mut seen = HashSet::new();
    for port in ports.items() {
        let name = port.field("name");
        errors.if_named(&name, names::dns_label_errors);
        if !seen.insert(name.text()) {
            errors.duplicate(&name);
        }
        errors.one_of(&port.field("protocol"), PROTOCOLS);
        errors.if_named(&port.field("appProtocol"), names::qualified_name_errors);
    }
}

fn slice_address(kind: &str, address: &At<'_>, errors: &mut Errors) {
    let parsed = address.text().parse::<IpAddr>();
    match (kind, parsed) {
        ("IPv4", Ok(ip)) if ip.is_ipv4() => endpoint_address(address, errors),
        ("IPv6", Ok(ip)) if ip.is_ipv6() => endpoint_address(address, errors),
        ("IPv4", _) => errors.invalid(address, "must be a valid IPv4 address"),
        ("IPv6", _) => errors.invalid(address, "must be a valid IPv6 address"),
        ("FQDN", _) => errors.if_named(address, names::dns_subdomain_errors),
        _ => {}
    }
}

/// IPAddress and ServiceCIDR objects.
pub(super) fn ip_address(object: &At<'_>, errors: &mut Errors) {
    let parent = object.field("spec").field("parentRef");
    if !parent.exists() {
        errors.required(&parent, "");
        return;
    }
    for field in ["resource", "name"] {
        if parent.field(field).is_empty() {
            errors.required(&parent.field(field), "");
        }
    }
}

pub(super) fn service_cidr(spec: &At<'_>, errors: &mut Errors) {
    let ranges = spec.field("cidrs");
    if ranges.is_empty() {
        errors.required(&ranges, "at least one CIDR required");
    } else if ranges.items().count() > 2 {
        errors.invalid(&ranges, "may only hold up to 2 values");
    }
    for range in ranges.items().filter(|r| !is_cidr(r.text())) {
        errors.invalid(&range, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    }
}
