//! Room on nodes: requests of pods against what nodes offer.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;
use vctl_machinery::quantity;

use super::{
    affinity,
    volumes::{PodClaims, Storage},
};
use crate::{
    controllers::{
        object::{int, list, name, text},
        pod,
    },
    limits::Rules,
};

/// Amounts by resource, in billionths.
type Amounts = BTreeMap<String, i128>;
/// (protocol, port, host address) on the node.
type HostPort = (String, i64, String);

struct Node<'a> {
    object: &'a Value,
    offered: Amounts,
    used: Amounts,
    pods: i128,
    ports: HashSet<HostPort>,
    /// Why the platform allows no pod on it.
    forbidden: Option<String>,
}

/// All nodes with what is used on them.
pub(super) struct Cluster<'a> {
    nodes: Vec<Node<'a>>,
}

impl<'a> Cluster<'a> {
    /// Nodes in the order in which they are tried; pods that are bound and have not ended count.
    pub(super) fn new(nodes: &'a [Value], pods: &[Value], rules: Option<&Rules>) -> Self {
        let forbidden = |node: &Value| {
            let rules = rules.filter(|rules| !rules.allows_worker(name(node)))?;
            Some(format!("node(s) are not allowed by project {:?} ({})", rules.project, rules.workers.join(", ")))
        };
        let mut nodes: Vec<Node<'a>> = nodes
            .iter()
            .map(|object| Node {
                object,
                offered: amounts(object.pointer("/status/allocatable").or_else(|| object.pointer("/status/capacity"))),
                used: Amounts::new(),
                pods: 0,
                ports: HashSet::new(),
                forbidden: forbidden(object),
            })
            .collect();
        for pod in pods.iter().filter(|p| !pod::is_terminal(p)) {
            let on = text(pod, "/spec/nodeName");
            if let Some(node) = nodes.iter_mut().find(|n| !on.is_empty() && name(n.object) == on) {
                node.take(pod);
            }
        }
        Self { nodes }
    }

    /// Takes room for a pod on the first node that has it, or on the one where its volumes are being made; otherwise says why none has.
    pub(super) fn place(
        &mut self,
        pod: &Value,
        storage: &Storage,
        claims: &PodClaims<'_>,
    ) -> Result<&'a Value, String> {
        if self.nodes.is_empty() {
            return Err("no nodes available to schedule pods".into());
        }
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let mut helpless = 0;
        let preferred = claims.preferred();
        let mut order: Vec<&mut Node<'a>> = self.nodes.iter_mut().collect();
        order.sort_by_key(|n| Some(name(n.object)) != preferred.as_deref());
        for node in order {
            let refusal = node.refuses(pod).or_else(|| {
                let (why, permanent) = storage.refuses(claims, node.object)?;
                Some((vec![why.to_owned()], permanent))
            });
            match refusal {
                None => {
                    node.take(pod);
                    return Ok(node.object);
                }
                Some((why, permanent)) => {
                    helpless += usize::from(permanent);
                    for reason in why {
                        *reasons.entry(reason).or_default() += 1;
                    }
                }
            }
        }
        Err(explain(self.nodes.len(), &reasons, helpless))
    }
}

/// The same for a pod that can go to no node, whatever the nodes are.
pub(super) fn nowhere(total: usize, why: &str) -> String {
    if total == 0 {
        return "no nodes available to schedule pods".into();
    }
    format!(
        "0/{total} nodes are available: {why}. preemption: 0/{total} nodes are available: {total} Preemption is not helpful for scheduling."
    )
}

/// Upstream's sentence: how many nodes for which reason, sorted, and that preemption would not help either.
fn explain(total: usize, reasons: &BTreeMap<String, usize>, helpless: usize) -> String {
    let sorted = |counts: Vec<(usize, String)>| {
        let mut texts: Vec<String> = counts.into_iter().map(|(n, reason)| format!("{n} {reason}")).collect();
        texts.sort();
        texts.join(", ")
    };
    let why = sorted(reasons.iter().map(|(r, n)| (*n, r.clone())).collect());
    let preemption = sorted(
        [
            (total - helpless, "No preemption victims found for incoming pod".to_owned()),
            (helpless, "Preemption is not helpful for scheduling".to_owned()),
        ]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .collect(),
    );
    format!("0/{total} nodes are available: {why}. preemption: 0/{total} nodes are available: {preemption}.")
}

impl Node<'_> {
    /// Why a pod cannot go here, and whether no eviction could change that; none when it can.
    fn refuses(&self, pod: &Value) -> Option<(Vec<String>, bool)> {
        if let Some(why) = &self.forbidden {
            return Some((vec![why.clone()], true));
        }
        if affinity::is_cordoned(pod, self.object) {
            return Some((vec!["node(s) were unschedulable".into()], true));
        }
        if let Some((key, value)) = affinity::untolerated(pod, self.object) {
            return Some((vec![format!("node(s) had untolerated taint {{{key}: {value}}}")], true));
        }
        if !affinity::selects(pod, self.object) {
            return Some((vec!["node(s) didn't match Pod's node affinity/selector".into()], true));
        }
        if host_ports(pod).iter().any(|wanted| self.ports.iter().any(|taken| collide(wanted, taken))) {
            return Some((vec!["node(s) didn't have free ports for the requested pod ports".into()], false));
        }
        let mut why = Vec::new();
        if self.offered.get("pods").is_some_and(|most| (self.pods + 1) * quantity::NANOS > *most) {
            why.push("Too many pods".to_owned());
        }
        for (resource, amount) in requests(pod) {
            let offered = self.offered.get(&resource).copied().unwrap_or(0);
            if amount > 0 && self.used.get(&resource).copied().unwrap_or(0) + amount > offered {
                why.push(format!("Insufficient {resource}"));
            }
        }
        (!why.is_empty()).then_some((why, false))
    }

    fn take(&mut self, pod: &Value) {
        self.pods += 1;
        for (resource, amount) in requests(pod) {
            *self.used.entry(resource).or_default() += amount;
        }
        self.ports.extend(host_ports(pod));
    }
}

fn amounts(list: Option<&Value>) -> Amounts {
    let amounts = list.and_then(Value::as_object).into_iter().flatten();
    amounts.filter_map(|(resource, amount)| Some((resource.clone(), quantity::of(amount)?))).collect()
}

fn add(to: &mut Amounts, from: &Amounts) {
    for (resource, amount) in from {
        *to.entry(resource.clone()).or_default() += amount;
    }
}

fn raise(to: &mut Amounts, from: &Amounts) {
    for (resource, amount) in from {
        let slot = to.entry(resource.clone()).or_default();
        *slot = (*slot).max(*amount);
    }
}

/// What a pod needs: the larger of its containers together with its sidecars, and each init container together with the sidecars
/// started before it; plus overhead. Requests of the pod as a whole replace the sums.
pub(super) fn requests(pod: &Value) -> Amounts {
    let of = |container: &Value| amounts(container.pointer("/resources/requests"));
    let mut running = Amounts::new();
    for container in list(pod, "/spec/containers") {
        add(&mut running, &of(container));
    }
    let mut sidecars = Amounts::new();
    let mut starting = Amounts::new();
    for container in list(pod, "/spec/initContainers") {
        let mut together = of(container);
        if text(container, "/restartPolicy") == "Always" {
            add(&mut running, &together);
            add(&mut sidecars, &together);
            together = sidecars.clone();
        } else {
            add(&mut together, &sidecars);
        }
        raise(&mut starting, &together);
    }
    raise(&mut running, &starting);
    for (resource, amount) in amounts(pod.pointer("/spec/resources/requests")) {
        running.insert(resource, amount);
    }
    add(&mut running, &amounts(pod.pointer("/spec/overhead")));
    running
}

fn host_ports(pod: &Value) -> Vec<HostPort> {
    list(pod, "/spec/containers")
        .iter()
        .flat_map(|c| list(c, "/ports"))
        .filter_map(|p| {
            let port = int(p, "/hostPort").filter(|n| *n > 0)?;
            let or = |text: &str, default: &str| if text.is_empty() { default.to_owned() } else { text.to_owned() };
            Some((or(text(p, "/protocol"), "TCP"), port, or(text(p, "/hostIP"), "0.0.0.0")))
        })
        .collect()
}

fn collide(a: &HostPort, b: &HostPort) -> bool {
    a.0 == b.0 && a.1 == b.1 && (a.2 == b.2 || a.2 == "0.0.0.0" || b.2 == "0.0.0.0")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn init_containers_need_the_most_of_one_and_sidecars_stay() {
        let c = |cpu: &str| json!({ "resources": { "requests": { "cpu": cpu } } });
        let mut sidecar = c("1");
        sidecar["restartPolicy"] = "Always".into();
        let pod = json!({ "spec": { "containers": [c("1"), c("2")], "initContainers": [c("5"), sidecar, c("3")], "overhead": { "cpu": "250m" } } });
        assert_eq!(requests(&pod)["cpu"], 5_250_000_000);
        let pod = json!({ "spec": { "containers": [c("1")], "resources": { "requests": { "cpu": "3" } } } });
        assert_eq!(requests(&pod)["cpu"], 3_000_000_000);
    }
}
