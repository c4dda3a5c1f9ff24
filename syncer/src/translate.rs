//! The pure translation of a pod of a virtual cluster into what a worker runs.
//!
//! [`references`] says what must be looked up, [`translate`] does the rest without any I/O. What is missing becomes an error of
//! the container or volume in the kubelet's words, so that `kubectl describe` explains it as on any cluster.

mod container;
mod environment;
mod field;
pub(crate) mod volume;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use vctl_api::agent;

use crate::json::Json;

/// The domain of all cluster names.
pub const CLUSTER_DOMAIN: &str = "cluster.local";

/// A ServiceAccount token that a volume of a pod holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenSpec {
    /// The pod's ServiceAccount.
    pub service_account: String,
    /// Audience; empty for that of the API server.
    pub audience: String,
    /// Life in seconds that is asked for.
    pub expiration_seconds: i64,
}

/// What a pod's containers and volumes refer to, all in its own namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// Names of ConfigMaps.
    pub config_maps: BTreeSet<String>,
    /// Names of Secrets.
    pub secrets: BTreeSet<String>,
    /// Names of PersistentVolumeClaims.
    pub claims: BTreeSet<String>,
    /// Tokens.
    pub tokens: BTreeSet<TokenSpec>,
}

/// What surrounds a pod: everything that [`references`] named, as far as it exists.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Name of the environment.
    pub environment: String,
    /// ConfigMaps by name.
    pub config_maps: BTreeMap<String, Value>,
    /// Secrets by name.
    pub secrets: BTreeMap<String, Value>,
    /// PersistentVolumeClaims by name.
    pub claims: BTreeMap<String, Value>,
    /// PersistentVolumes of those claims that are bound, by name.
    pub volumes: BTreeMap<String, Value>,
    /// Where the worker keeps volumes of the environment: see `RemoveVolumes` of the agent protocol. Empty when no claim is bound.
    pub volumes_key: String,
    /// Services of the pod's namespace and `default/kubernetes`.
    pub services: Vec<Value>,
    /// Tokens, or why there is none.
    pub tokens: BTreeMap<TokenSpec, Result<String, String>>,
    /// Whether pods may have what is the worker's: `hostPath` volumes, its network, privileged containers, and capabilities beyond
    /// [`container::CAPABILITIES`].
    pub allow_host_access: bool,
    /// Allocatable CPU of the node in thousandths, for `resourceFieldRef` without a limit.
    pub node_cpu_millis: i64,
    /// Allocatable memory of the node in bytes.
    pub node_memory_bytes: i64,
}

/// What must be looked up to translate a pod.
pub fn references(pod: &Value) -> References {
    let mut found = References::default();
    let containers = pod.items("/spec/initContainers").iter().chain(pod.items("/spec/containers"));
    for container in containers {
        for source in container.items("/envFrom") {
            found.config_maps.extend(source.some_text("/configMapRef/name").map(ToOwned::to_owned));
            found.secrets.extend(source.some_text("/secretRef/name").map(ToOwned::to_owned));
        }
        for variable in container.items("/env") {
            found.config_maps.extend(variable.some_text("/valueFrom/configMapKeyRef/name").map(ToOwned::to_owned));
            found.secrets.extend(variable.some_text("/valueFrom/secretKeyRef/name").map(ToOwned::to_owned));
        }
    }
    for volume in pod.items("/spec/volumes") {
        found.config_maps.extend(volume.some_text("/configMap/name").map(ToOwned::to_owned));
        found.secrets.extend(volume.some_text("/secret/secretName").map(ToOwned::to_owned));
        found.claims.extend(volume.some_text("/persistentVolumeClaim/claimName").map(ToOwned::to_owned));
        for source in volume.items("/projected/sources") {
            found.config_maps.extend(source.some_text("/configMap/name").map(ToOwned::to_owned));
            found.secrets.extend(source.some_text("/secret/name").map(ToOwned::to_owned));
            if let Some(token) = source.there("/serviceAccountToken") {
                found.tokens.insert(volume::token_spec(pod, token));
            }
        }
    }
    found
}

/// Translates a pod that is bound to a node.
pub fn translate(pod: &Value, context: &Context) -> agent::Pod {
    let spec = |pointer: &str| format!("/spec{pointer}");
    let name = pod.text("/metadata/name");
    let services = environment::services(pod, context);
    let container = |c: &Value| container::translate(pod, c, &services, context);
    agent::Pod {
        uid: pod.text("/metadata/uid").to_owned(),
        environment: context.environment.clone(),
        namespace: pod.text("/metadata/namespace").to_owned(),
        name: name.to_owned(),
        hostname: pod.some_text("/spec/hostname").map_or_else(|| default_hostname(name), ToOwned::to_owned),
        subdomain: pod.text("/spec/subdomain").to_owned(),
        restart_policy: pod.some_text("/spec/restartPolicy").unwrap_or("Always").to_owned(),
        termination_grace_seconds: pod.number("/spec/terminationGracePeriodSeconds").unwrap_or(30),
        active_deadline_seconds: pod.number("/spec/activeDeadlineSeconds"),
        init_containers: pod.items(&spec("/initContainers")).iter().map(container).collect(),
        containers: pod.items(&spec("/containers")).iter().map(container).collect(),
        volumes: pod.items("/spec/volumes").iter().map(|v| volume::translate(pod, v, context)).collect(),
        dns: dns(pod),
        host_aliases: pod
            .items("/spec/hostAliases")
            .iter()
            .map(|a| agent::HostAlias { ip: a.text("/ip").to_owned(), hostnames: a.texts("/hostnames") })
            .collect(),
        security: pod.there("/spec/securityContext").map(|s| agent::PodSecurity {
            run_as_user: s.number("/runAsUser"),
            run_as_group: s.number("/runAsGroup"),
            run_as_non_root: s.some_flag("/runAsNonRoot"),
            fs_group: s.number("/fsGroup"),
            supplemental_groups: s.items("/supplementalGroups").iter().filter_map(Value::as_i64).collect(),
            sysctls: s
                .items("/sysctls")
                .iter()
                .map(|c| (c.text("/name").to_owned(), c.text("/value").to_owned()))
                .collect(),
        }),
        deletion_grace_seconds: pod
            .there("/metadata/deletionTimestamp")
            .map(|_| pod.number("/metadata/deletionGracePeriodSeconds").unwrap_or(30).max(0)),
        labels: owned(pod.entries("/metadata/labels")),
        annotations: owned(pod.entries("/metadata/annotations")),
        host_network: context.allow_host_access && pod.flag("/spec/hostNetwork"),
        share_process_namespace: pod.flag("/spec/shareProcessNamespace"),
    }
}

fn owned(entries: Vec<(&str, &str)>) -> std::collections::HashMap<String, String> {
    entries.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

/// The name of the pod, cut to what a host name may have.
fn default_hostname(name: &str) -> String {
    let cut: String = name.chars().take(63).collect();
    cut.trim_end_matches(['-', '.']).to_owned()
}

/// What `/etc/resolv.conf` says. None: the worker's own (dnsPolicy Default); without nameservers: the worker's resolver for
/// cluster names.
fn dns(pod: &Value) -> Option<agent::Dns> {
    let namespace = pod.text("/metadata/namespace");
    let mut dns = match pod.some_text("/spec/dnsPolicy").unwrap_or("ClusterFirst") {
        "None" => agent::Dns::default(),
        "ClusterFirst" if !pod.flag("/spec/hostNetwork") => cluster_dns(namespace),
        "ClusterFirstWithHostNet" => cluster_dns(namespace),
        _ if pod.there("/spec/dnsConfig").is_none() => return None,
        _ => agent::Dns::default(),
    };
    let config = &pod["spec"]["dnsConfig"];
    let add = |into: &mut Vec<String>, more: Vec<String>| {
        for item in more {
            if !into.contains(&item) {
                into.push(item);
            }
        }
    };
    add(&mut dns.nameservers, config.texts("/nameservers"));
    add(&mut dns.searches, config.texts("/searches"));
    for option in config.items("/options") {
        let name = option.text("/name");
        dns.options.retain(|o| o.split(':').next() != Some(name));
        dns.options.push(match option.some_text("/value") {
            Some(value) => format!("{name}:{value}"),
            None => name.to_owned(),
        });
    }
    Some(dns)
}

fn cluster_dns(namespace: &str) -> agent::Dns {
    agent::Dns {
        nameservers: Vec::new(),
        searches: vec![
            format!("{namespace}.svc.{CLUSTER_DOMAIN}"),
            format!("svc.{CLUSTER_DOMAIN}"),
            CLUSTER_DOMAIN.to_owned(),
        ],
        options: vec!["ndots:5".to_owned()],
    }
}

#[cfg(test)]
mod tests;
