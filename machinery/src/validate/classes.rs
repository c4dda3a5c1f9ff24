//! Kinds of the cluster: classes, drivers, volumes, certificates, flow control, limits.

use serde_json::Value;

use super::{
    check::{At, Errors, same},
    flow_control,
};
use crate::{catalog::Descriptor, names, quantity};

/// Values above are the system's (`scheduling.HighestUserDefinablePriority`).
const HIGHEST_PRIORITY: i64 = 1_000_000_000;

pub(super) fn common(descriptor: &Descriptor, object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    match (descriptor.group.as_str(), descriptor.plural.as_str()) {
        ("scheduling.k8s.io", "priorityclasses") => priority_class(object, errors),
        ("networking.k8s.io", "ingressclasses") => errors.named(&spec.field("controller"), |_| Vec::new()),
        ("node.k8s.io", "runtimeclasses") => errors.named(&object.field("handler"), names::dns_label_errors),
        ("", "persistentvolumes") => persistent_volume(&spec, errors),
        ("", "limitranges") => spec.field("limits").items().for_each(|limit| limit_range(&limit, errors)),
        ("", "endpoints") => endpoints(object, errors),
        ("discovery.k8s.io", "endpointslices") => slice_addresses(object, errors),
        ("networking.k8s.io", "networkpolicies") => network_policy(&spec, errors),
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => flow_control::flow_schema(object, errors),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => flow_control::priority_level(object, errors),
        ("apps", "controllerrevisions") => {
            if !object.field("data").exists() {
                errors.required(&object.field("data"), "data is mandatory");
            }
            errors.non_negative(&object.field("revision"));
        }
        _ => {}
    }
}

pub(super) fn update(descriptor: &Descriptor, new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, was) = (new.field("spec"), old.field("spec"));
    match (descriptor.group.as_str(), descriptor.plural.as_str()) {
        ("apps", "controllerrevisions") => errors.immutable(&new.field("data"), &old.field("data")),
        ("networking.k8s.io", "ingressclasses") => {
            errors.immutable(&spec.field("controller"), &was.field("controller"));
        }
        ("node.k8s.io", "runtimeclasses") => errors.immutable(&new.field("handler"), &old.field("handler")),
        ("storage.k8s.io", "csidrivers") => {
            // Upstream's path has a typo of its own.
            let at = At { value: spec.field("attachRequired").value, path: "spec.attachedRequired".into() };
            errors.immutable(&at, &was.field("attachRequired"));
            errors.immutable(&spec.field("volumeLifecycleModes"), &was.field("volumeLifecycleModes"));
        }
        _ => {}
    }
}

fn priority_class(object: &At<'_>, errors: &mut Errors) {
    let (name, value) = (object.field("metadata").field("name"), object.field("value"));
    if let Some(rest) = name.text().strip_prefix("system-") {
        if !matches!(rest, "cluster-critical" | "node-critical") {
            errors.forbidden(
                &name,
                &format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {} is not a known system \
                     priority class",
                    name.text()
                ),
            );
        }
    } else if value.value.as_i64().is_some_and(|n| n > HIGHEST_PRIORITY) {
        errors.forbidden(&value, &format!("maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}"));
    }
    let policy = object.field("preemptionPolicy");
    errors.if_set_one_of(&policy, &["Never", "PreemptLowerPriority"]);
}

/// Fields of a volume's spec that are no source of it.
const NO_SOURCE: &[&str] = &[
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

fn persistent_volume(spec: &At<'_>, errors: &mut Errors) {
    let sources = spec.value.as_object().into_iter().flatten();
    if !sources.into_iter().any(|(k, v)| !v.is_null() && !NO_SOURCE.contains(&&**k)) {
        errors.required(spec, "must specify a volume type");
    }
}

fn limit_range(limit: &At<'_>, errors: &mut Errors) {
    let read = |at: &At<'_>| match at.value {
        Value::String(text) => quantity::parse(text),
        Value::Number(number) => quantity::parse(&number.to_string()),
        _ => None,
    };
    let shown = |at: &At<'_>| at.value.as_str().map_or_else(|| at.value.to_string(), str::to_owned);
    let (min, max) = (limit.field("min"), limit.field("max"));
    for (map, what) in [("default", "default"), ("defaultRequest", "default request")] {
        for (name, at) in limit.field(map).entries() {
            let (least, most) = (min.field(name), max.field(name));
            let Some(value) = read(&at) else { continue };
            let text = shown(&at);
            if read(&least).is_some_and(|least| least > value) {
                let why = format!("min value {} is greater than {what} value {text}", shown(&least));
                errors.invalid_value(&at, &text, &why);
            }
            if read(&most).is_some_and(|most| value > most) {
                let why = format!("{what} value {text} is greater than max value {}", shown(&most));
                errors.invalid_value(&at, &text, &why);
            }
        }
    }
    for (name, at) in min.entries() {
        let most = max.field(name);
        if let (Some(least), Some(limit)) = (read(&at), read(&most))
            && least > limit
        {
            let why = format!("min value {} is greater than max value {}", shown(&at), shown(&most));
            errors.invalid_value(&at, &shown(&at), &why);
        }
    }
}

fn endpoints(object: &At<'_>, errors: &mut Errors) {
    use core::net::IpAddr;
    for subset in object.field("subsets").items() {
        for list in ["addresses", "notReadyAddresses"] {
            for address in subset.field(list).items() {
                let ip = address.field("ip");
                let why = match ip.text().parse::<IpAddr>() {
                    Err(_) => "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                    Ok(ip) if ip.is_unspecified() => "may not be unspecified (0.0.0.0 or ::)",
                    Ok(ip) if ip.is_loopback() => "may not be in the loopback range (127.0.0.0/8, ::1/128)",
                    Ok(IpAddr::V4(ip)) if ip.is_link_local() => {
                        "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
                    }
                    Ok(IpAddr::V4(ip)) if ip.octets()[..3] == [224, 0, 0] => {
                        "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
                    }
                    Ok(_) => continue,
                };
                errors.invalid(&ip, why);
            }
        }
    }
}

fn slice_addresses(object: &At<'_>, errors: &mut Errors) {
    use core::net::{Ipv4Addr, Ipv6Addr};
    for endpoint in object.field("endpoints").items() {
        for address in endpoint.field("addresses").items() {
            match object.field("addressType").text() {
                "IPv4" if address.text().parse::<Ipv4Addr>().is_err() => {
                    errors.invalid(&address, "must be a valid IPv4 address");
                }
                "IPv6" if address.text().parse::<Ipv6Addr>().is_err() => {
                    errors.invalid(&address, "must be a valid IPv6 address");
                }
                "FQDN" => errors.if_named(&address, names::dns_subdomain_errors),
                _ => {}
            }
        }
    }
}

fn network_policy(spec: &At<'_>, errors: &mut Errors) {
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.field(rules).items() {
            for port in rule.field("ports").items() {
                let number = port.field("port");
                if number.exists() {
                    errors.port_or_name(&number);
                }
                let protocol = port.field("protocol");
                errors.if_set_one_of(&protocol, &["SCTP", "TCP", "UDP"]);
            }
            for peer in rule.field(peers).items() {
                let kinds = ["podSelector", "namespaceSelector", "ipBlock"].map(|k| peer.field(k));
                if !kinds.iter().any(At::exists) {
                    errors.required(&peer, "must specify a peer");
                } else if kinds[2].exists() && (kinds[0].exists() || kinds[1].exists()) {
                    errors.forbidden(&peer, "may not specify both ipBlock and another peer");
                }
                for selector in kinds.iter().take(2).filter(|k| k.exists()) {
                    errors.selector(selector);
                }
            }
        }
    }
}

/// Ephemeral containers that are there stay as they are. Source: `ValidatePodEphemeralContainersUpdate`.
pub(super) fn ephemeral_containers(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let list = new.field("spec").field("ephemeralContainers");
    for before in old.field("spec").field("ephemeralContainers").items() {
        let name = before.field("name").text();
        match list.items().find(|c| c.field("name").text() == name) {
            None => errors.forbidden(&list, &format!("existing ephemeral containers {name:?} may not be removed\n")),
            Some(now) if !same(now.value, before.value) => {
                errors.forbidden(&list, &format!("existing ephemeral containers {name:?} may not be changed\n"));
            }
            Some(_) => {}
        }
    }
}
