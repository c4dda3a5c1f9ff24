//! The files every pod gets: /etc/hosts, /etc/resolv.conf.

use std::{fmt::Write as _, fs, io, path::Path};

use vctl_api::agent::Pod;

use super::super::env::Facts;

/// Writes /etc/hosts and /etc/resolv.conf of a pod; in place, because they are mounted into its containers.
pub(crate) fn write_etc(etc: &Path, pod: &Pod, facts: &Facts) -> io::Result<()> {
    fs::create_dir_all(etc)?;
    let mut hosts = String::from(
        "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n",
    );
    let hostname = if pod.hostname.is_empty() { &pod.name } else { &pod.hostname };
    if let Some(ip) = facts.pod_ip {
        let domain = pod.dns.as_ref().and_then(|d| d.searches.first());
        match domain.filter(|_| !pod.subdomain.is_empty()) {
            Some(domain) => {
                let _ = writeln!(hosts, "{ip}\t{hostname}.{}.{domain}\t{hostname}", pod.subdomain);
            }
            None => {
                let _ = writeln!(hosts, "{ip}\t{hostname}");
            }
        }
    }
    for alias in &pod.host_aliases {
        let _ = writeln!(hosts, "{}\t{}", alias.ip, alias.hostnames.join("\t"));
    }
    let dns = pod.dns.clone().unwrap_or_default();
    let mut resolv = String::new();
    if dns.nameservers.is_empty() {
        let _ = writeln!(resolv, "nameserver {}", facts.host_ip);
    }
    for server in &dns.nameservers {
        let _ = writeln!(resolv, "nameserver {server}");
    }
    if !dns.searches.is_empty() {
        let _ = writeln!(resolv, "search {}", dns.searches.join(" "));
    }
    if !dns.options.is_empty() {
        let _ = writeln!(resolv, "options {}", dns.options.join(" "));
    }
    fs::write(etc.join("hosts"), hosts)?;
    fs::write(etc.join("resolv.conf"), resolv)
}
