//! The nftables table `ip vctl`, rendered whole from the pods and services. Pure.
//!
//! | chain | what it decides |
//! |---|---|
//! | `ingress` | a packet from a pod's device must carry that pod's address: no pod can pass for one of another environment |
//! | `refuse` | a service port without endpoints answers at once |
//! | `translate` | service address to endpoint, by the environment of the source: addresses of environments may overlap |
//! | `forwarding` | pods reach pods of their own environment and the outside, never those of another; nobody else reaches pods |
//! | `worker` | of the worker itself, pods reach the resolver and the API tunnel |
//! | `source` | outwards as the worker; a pod that reaches itself by a service sees the worker as the other side |

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    net::Ipv4Addr,
};

use vctl_api::agent::{Service, ServicePort};

use super::DEVICE_PREFIX;
use crate::config::PodCidr;

/// A pod as the rules see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodPort {
    pub(crate) ip: Ipv4Addr,
    pub(crate) device: String,
    pub(crate) environment: String,
}

/// Everything the table is made from.
pub(crate) struct Rules {
    cidr: PodCidr,
    pub(crate) pods: BTreeMap<String, PodPort>,
    pub(crate) services: BTreeMap<String, Service>,
    pub(crate) tunnel_port: u16,
}

/// Rules of one environment, under its number.
#[derive(Default)]
struct Environment {
    pods: BTreeSet<Ipv4Addr>,
    /// address . protocol . port -> statement
    translate: Vec<(String, String)>,
    refuse: Vec<String>,
}

fn elements(items: impl IntoIterator<Item = String>) -> String {
    let all: Vec<String> = items.into_iter().collect();
    if all.is_empty() { String::new() } else { format!(" elements = {{ {} }}", all.join(", ")) }
}

fn protocol(port: &ServicePort) -> Option<&'static str> {
    match port.protocol.as_str() {
        "TCP" | "" => Some("tcp"),
        "UDP" => Some("udp"),
        _ => None,
    }
}

impl Rules {
    pub(crate) fn new(cidr: PodCidr) -> Self {
        Self { cidr, pods: BTreeMap::new(), services: BTreeMap::new(), tunnel_port: 0 }
    }

    fn environments(&self) -> BTreeMap<&str, Environment> {
        let mut all: BTreeMap<&str, Environment> = BTreeMap::new();
        for pod in self.pods.values() {
            all.entry(&pod.environment).or_default().pods.insert(pod.ip);
        }
        for service in self.services.values() {
            let Ok(ip) = service.cluster_ip.parse::<Ipv4Addr>() else { continue };
            // An environment without pods here has nobody to translate for.
            let Some(environment) = all.get_mut(service.environment.as_str()) else { continue };
            let mut seen = BTreeSet::new();
            for port in &service.ports {
                let Some(protocol) = protocol(port) else { continue };
                if !seen.insert((protocol, port.port)) {
                    continue;
                }
                let key = format!("{ip} . {protocol} . {}", port.port);
                match self.statement(service, port, protocol) {
                    Some(statement) => environment.translate.push((key, statement)),
                    None => environment.refuse.push(key),
                }
            }
        }
        all
    }

    /// The rule that chooses an endpoint; none when there is none to choose.
    fn statement(&self, service: &Service, port: &ServicePort, protocol: &str) -> Option<String> {
        if service.api_server {
            return (self.tunnel_port != 0)
                .then(|| format!("meta l4proto tcp dnat ip to {}:{}", self.cidr.node_ip(), self.tunnel_port));
        }
        let targets: BTreeSet<(Ipv4Addr, u32)> =
            port.endpoints.iter().filter_map(|e| Some((e.ip.parse().ok()?, e.port))).collect();
        let by = if service.client_ip_affinity_seconds > 0 { "jhash ip saddr" } else { "numgen random" };
        let seed = if service.client_ip_affinity_seconds > 0 { " seed 0x76637431" } else { "" };
        match targets.len() {
            0 => None,
            1 => targets.first().map(|(ip, to)| format!("meta l4proto {protocol} dnat ip to {ip}:{to}")),
            n => {
                let map: Vec<String> =
                    targets.iter().enumerate().map(|(i, (ip, to))| format!("{i} : {ip} . {to}")).collect();
                Some(format!("meta l4proto {protocol} dnat ip to {by} mod {n}{seed} map {{ {} }}", map.join(", ")))
            }
        }
    }

    /// The table as one nft transaction: added (so that it exists), deleted, added anew.
    pub(crate) fn render(&self) -> String {
        let (cidr, node) = (self.cidr, self.cidr.node_ip());
        let environments = self.environments();
        let number: BTreeMap<&str, usize> = environments.keys().enumerate().map(|(i, name)| (*name, i + 1)).collect();
        let per_pod = |chain: &str| {
            elements(self.pods.values().map(|p| {
                format!("{} : jump {chain}_{}", p.ip, number.get(p.environment.as_str()).copied().unwrap_or_default())
            }))
        };
        let mut out = String::from("table ip vctl {}\ndelete table ip vctl\ntable ip vctl {\n");
        let mut line = |text: String| {
            let _ = writeln!(out, "  {text}");
        };
        line(format!(
            "set ports {{ type ifname . ipv4_addr;{} }}",
            elements(self.pods.values().map(|p| format!("\"{}\" . {}", p.device, p.ip)))
        ));
        line(format!(
            "set itself {{ type ipv4_addr . ipv4_addr;{} }}",
            elements(self.pods.values().map(|p| format!("{0} . {0}", p.ip)))
        ));
        for (i, environment) in environments.values().enumerate().map(|(i, e)| (i + 1, e)) {
            line(format!(
                "set pods_{i} {{ type ipv4_addr;{} }}",
                elements(environment.pods.iter().map(ToString::to_string))
            ));
            line(format!(
                "chain reach_{i} {{ ip daddr @pods_{i} accept; ip daddr {cidr} reject with icmp admin-prohibited; accept; }}"
            ));
            for (n, (_, statement)) in environment.translate.iter().enumerate() {
                line(format!("chain to_{i}_{n} {{ {statement}; }}"));
            }
            line(format!(
                "map services_{i} {{ type ipv4_addr . inet_proto . inet_service : verdict;{} }}",
                elements(
                    environment.translate.iter().enumerate().map(|(n, (key, _))| format!("{key} : goto to_{i}_{n}"))
                )
            ));
            line(format!(
                "set empty_{i} {{ type ipv4_addr . inet_proto . inet_service;{} }}",
                elements(environment.refuse.iter().cloned())
            ));
            line(format!("chain translate_{i} {{ ip daddr . meta l4proto . th dport vmap @services_{i}; }}"));
            line(format!(
                "chain refuse_{i} {{ ip daddr . meta l4proto . th dport @empty_{i} meta l4proto tcp reject with tcp reset; \
                 ip daddr . meta l4proto . th dport @empty_{i} reject; }}"
            ));
        }
        for chain in ["reach", "translate", "refuse"] {
            line(format!("map {chain}_of {{ type ipv4_addr : verdict;{} }}", per_pod(chain)));
        }
        line(format!(
            "chain ingress {{ type filter hook prerouting priority raw; iifname \"{DEVICE_PREFIX}*\" iifname . ip saddr != @ports drop; }}"
        ));
        line("chain refuse { type filter hook prerouting priority mangle; ip saddr vmap @refuse_of; }".to_owned());
        line("chain translate { type nat hook prerouting priority dstnat; ip saddr vmap @translate_of; }".to_owned());
        line(format!(
            "chain forwarding {{ type filter hook forward priority filter; ct state established,related accept; \
             ip saddr vmap @reach_of; ip daddr {cidr} reject with icmp admin-prohibited; }}"
        ));
        line(format!(
            "chain worker {{ type filter hook input priority filter; iifname != \"{DEVICE_PREFIX}*\" accept; \
             ct state established,related accept; ip daddr {node} udp dport 53 accept; \
             ip daddr {node} tcp dport {{ 53, {} }} accept; icmp type echo-request accept; reject with icmp admin-prohibited; }}",
            if self.tunnel_port == 0 { 53 } else { self.tunnel_port }
        ));
        line(format!(
            "chain source {{ type nat hook postrouting priority srcnat; ip saddr . ip daddr @itself snat to {node}; \
             ip saddr {cidr} ip daddr != {cidr} masquerade; }}"
        ));
        out.push_str("}\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use vctl_api::agent::Endpoint;

    use super::*;

    fn rules() -> Rules {
        let mut rules = Rules::new("10.200.1.0/24".parse().unwrap());
        for (uid, last, environment) in [("u1", 2, "a"), ("u2", 3, "a"), ("u3", 4, "b")] {
            let pod = PodPort {
                ip: Ipv4Addr::new(10, 200, 1, last),
                device: format!("vc{uid}"),
                environment: environment.into(),
            };
            rules.pods.insert(uid.into(), pod);
        }
        rules
    }

    fn service(environment: &str, endpoints: &[(&str, u32)]) -> Service {
        let endpoints = endpoints.iter().map(|(ip, port)| Endpoint { ip: (*ip).into(), port: *port }).collect();
        Service {
            id: format!("{environment}/default/web"),
            environment: environment.into(),
            cluster_ip: "10.96.0.7".into(),
            ports: vec![ServicePort { protocol: "TCP".into(), port: 80, endpoints }],
            ..Service::default()
        }
    }

    #[test]
    fn the_same_service_address_leads_each_environment_to_its_own_endpoints() {
        let mut rules = rules();
        for s in [service("a", &[("10.200.1.2", 8080), ("10.200.1.3", 8080)]), service("b", &[("10.200.1.4", 80)])] {
            rules.services.insert(s.id.clone(), s);
        }
        let text = rules.render();
        assert!(text.contains("chain to_1_0 { meta l4proto tcp dnat ip to numgen random mod 2 map { 0 : 10.200.1.2 . 8080, 1 : 10.200.1.3 . 8080 }; }"));
        assert!(text.contains("chain to_2_0 { meta l4proto tcp dnat ip to 10.200.1.4:80; }"));
        assert!(text.contains("10.200.1.4 : jump translate_2"));
        assert!(text.contains("set pods_1 { type ipv4_addr; elements = { 10.200.1.2, 10.200.1.3 } }"));
    }

    #[test]
    fn a_service_without_endpoints_is_refused_and_the_api_server_goes_to_the_tunnel() {
        let mut rules = rules();
        let empty = service("a", &[]);
        rules.services.insert(empty.id.clone(), empty);
        let api = Service { id: "b/default/kubernetes".into(), api_server: true, ..service("b", &[]) };
        rules.services.insert(api.id.clone(), api);
        rules.tunnel_port = 4321;
        let text = rules.render();
        assert!(text.contains(
            "set empty_1 { type ipv4_addr . inet_proto . inet_service; elements = { 10.96.0.7 . tcp . 80 } }"
        ));
        assert!(text.contains("chain to_2_0 { meta l4proto tcp dnat ip to 10.200.1.1:4321; }"));
    }

    #[test]
    fn affinity_chooses_by_the_address_of_the_client() {
        let mut rules = rules();
        let sticky =
            Service { client_ip_affinity_seconds: 10800, ..service("a", &[("10.200.1.2", 1), ("10.200.1.3", 1)]) };
        rules.services.insert(sticky.id.clone(), sticky);
        assert!(rules.render().contains("jhash ip saddr mod 2 seed"));
    }
}
