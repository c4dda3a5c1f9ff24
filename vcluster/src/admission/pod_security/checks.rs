//! The rules of the Pod Security Standards, each with the versions it has changed in.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Level, Standard};

/// A rule that a pod breaks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) reason: &'static str,
    pub(super) detail: String,
}

/// What a pod breaks of a standard, baseline rules first.
pub(super) fn violations(pod: &Value, standard: Standard) -> Vec<Violation> {
    if standard.level == Level::Privileged {
        return Vec::new();
    }
    let pod = Pod {
        spec: &pod["spec"],
        annotations: pod.pointer("/metadata/annotations").unwrap_or(&Value::Null),
        version: standard.version.unwrap_or(u32::MAX).min(newest()),
    };
    let (v, restricted) = (pod.version, standard.level == Level::Restricted);
    let mut found = vec![pod.app_armor()];
    if !(restricted && v >= 22) {
        found.push(pod.added_capabilities());
    }
    found.push(pod.host_namespaces());
    if !restricted {
        found.push(pod.host_paths());
    }
    found.push(pod.host_ports());
    if v >= 34 {
        found.push(pod.probe_hosts());
    }
    found.push(pod.privileged());
    // From 1.35 on a pod with its own user namespace may see more of /proc, but not if it is restricted.
    if v < 35 || !(restricted || pod.has_user_namespace()) {
        found.push(pod.proc_mount());
    }
    found.push(pod.selinux());
    if v < 19 {
        found.push(pod.seccomp_annotations());
    } else if !restricted {
        found.push(pod.seccomp(false));
    }
    found.push(pod.sysctls());
    found.push(pod.host_process());
    if restricted {
        let exempt = v >= 25 && pod.spec["os"]["name"] == "windows";
        let relaxed = v >= 35 && pod.has_user_namespace();
        if v >= 8 && !exempt {
            found.push(pod.privilege_escalation());
        }
        if v >= 22 && !exempt {
            found.push(pod.dropped_capabilities());
        }
        if v >= 35 {
            found.push(pod.proc_mount());
        }
        found.push(pod.volumes());
        if !relaxed {
            found.push(pod.run_as_non_root());
            if v >= 23 {
                found.push(pod.run_as_user());
            }
        }
        if v >= 19 && !exempt {
            found.push(pod.seccomp(true));
        }
    }
    found.into_iter().flatten().collect()
}

/// The minor version of the cluster, whose rules are the newest it knows.
fn newest() -> u32 {
    vctl_machinery::version::MinorVersion::NEWEST.number().into()
}

fn quoted<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> String {
    items.into_iter().map(|i| format!("\"{}\"", i.as_ref())).collect::<Vec<_>>().join(", ")
}

fn plural(one: &'static str, many: &'static str, count: usize) -> &'static str {
    if count == 1 { one } else { many }
}

/// `container "a"` or `containers "a", "b"`.
fn containers(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names))
}

/// `pod and containers "a", "b"`.
fn setters(pod: bool, names: &[&str]) -> String {
    let mut setters: Vec<String> = pod.then(|| "pod".to_owned()).into_iter().collect();
    if !names.is_empty() {
        setters.push(containers(names));
    }
    setters.join(" and ")
}

fn violation(reason: &'static str, detail: String) -> Option<Violation> {
    Some(Violation { reason, detail })
}

fn name(container: &Value) -> &str {
    container["name"].as_str().unwrap_or_default()
}

fn set(value: &Value) -> bool {
    !value.is_null()
}

struct Pod<'a> {
    spec: &'a Value,
    annotations: &'a Value,
    version: u32,
}

impl<'a> Pod<'a> {
    fn containers(&self) -> impl Iterator<Item = &'a Value> {
        let spec = self.spec;
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .filter_map(move |f| spec[f].as_array())
            .flatten()
    }

    /// Names of containers.
    fn where_(&self, mut bad: impl FnMut(&'a Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(|c| bad(c)).map(name).collect()
    }

    fn context(&self) -> &'a Value {
        &self.spec["securityContext"]
    }

    fn has_user_namespace(&self) -> bool {
        self.spec["hostUsers"] == false
    }

    fn app_armor(&self) -> Option<Violation> {
        let bad = |context: &Value| -> Option<String> {
            let profile = &context["appArmorProfile"];
            let kind = profile["type"].as_str().unwrap_or_default();
            (set(profile) && !matches!(kind, "RuntimeDefault" | "Localhost")).then(|| kind.to_owned())
        };
        let mut values = BTreeSet::new();
        let pod = bad(self.context());
        let named = self.where_(|c| {
            let value = bad(&c["securityContext"]);
            let found = value.is_some();
            values.extend(value);
            found
        });
        let mut setters = setters(pod.is_some(), &named);
        values.extend(pod);
        let mut annotations: Vec<String> = self
            .annotations
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| key.starts_with("container.apparmor.security.beta.kubernetes.io/"))
            .filter_map(|(key, value)| Some((key, value.as_str()?)))
            .filter(|(_, v)| !v.is_empty() && *v != "runtime/default" && !v.starts_with("localhost/"))
            .map(|(key, value)| format!("{key}={value:?}"))
            .collect();
        annotations.sort();
        let mut values: Vec<String> = values.into_iter().collect();
        if !annotations.is_empty() {
            if !setters.is_empty() {
                setters.push_str(" and ");
            }
            setters.push_str(plural("annotation", "annotations", annotations.len()));
            values.extend(annotations);
        }
        if setters.is_empty() {
            return None;
        }
        violation(
            plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len()),
            format!("{setters} must not set AppArmor profile type to {}", quoted(values)),
        )
    }

    fn added_capabilities(&self) -> Option<Violation> {
        const ALLOWED: [&str; 13] = [
            "AUDIT_WRITE",
            "CHOWN",
            "DAC_OVERRIDE",
            "FOWNER",
            "FSETID",
            "KILL",
            "MKNOD",
            "NET_BIND_SERVICE",
            "SETFCAP",
            "SETGID",
            "SETPCAP",
            "SETUID",
            "SYS_CHROOT",
        ];
        let (bad, added) = self.adding(&ALLOWED);
        if bad.is_empty() {
            return None;
        }
        let detail =
            format!("{} must not include {} in securityContext.capabilities.add", containers(&bad), quoted(added));
        violation("non-default capabilities", detail)
    }

    /// Containers that add other capabilities, and which.
    fn adding(&self, allowed: &[&str]) -> (Vec<&'a str>, BTreeSet<&'a str>) {
        let mut added = BTreeSet::new();
        let bad = self.where_(|c| {
            let list = c["securityContext"]["capabilities"]["add"].as_array();
            let other: Vec<&str> =
                list.into_iter().flatten().filter_map(Value::as_str).filter(|c| !allowed.contains(c)).collect();
            added.extend(other.iter().copied());
            !other.is_empty()
        });
        (bad, added)
    }

    fn dropped_capabilities(&self) -> Option<Violation> {
        let keeping = self.where_(|c| {
            let dropped = c["securityContext"]["capabilities"]["drop"].as_array();
            !dropped.into_iter().flatten().any(|d| d == "ALL")
        });
        let (adding, added) = self.adding(&["NET_BIND_SERVICE"]);
        let mut details = Vec::new();
        if !keeping.is_empty() {
            details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeping)));
        }
        if !adding.is_empty() {
            details.push(format!(
                "{} must not include {} in securityContext.capabilities.add",
                containers(&adding),
                quoted(added)
            ));
        }
        if details.is_empty() { None } else { violation("unrestricted capabilities", details.join("; ")) }
    }

    fn host_namespaces(&self) -> Option<Violation> {
        let used: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
            .into_iter()
            .filter(|f| self.spec[*f] == true)
            .map(|f| format!("{f}=true"))
            .collect();
        if used.is_empty() { None } else { violation("host namespaces", used.join(", ")) }
    }

    fn volume_list(&self) -> impl Iterator<Item = &'a Value> {
        self.spec["volumes"].as_array().into_iter().flatten()
    }

    fn host_paths(&self) -> Option<Violation> {
        let bad: Vec<&str> = self.volume_list().filter(|v| set(&v["hostPath"])).map(name).collect();
        if bad.is_empty() {
            return None;
        }
        violation("hostPath volumes", format!("{} {}", plural("volume", "volumes", bad.len()), quoted(&bad)))
    }

    fn host_ports(&self) -> Option<Violation> {
        let mut ports = BTreeSet::new();
        let bad = self.where_(|c| {
            let own: Vec<String> = c["ports"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|p| p["hostPort"].as_i64())
                .filter(|p| *p != 0)
                .map(|p| p.to_string())
                .collect();
            let found = !own.is_empty();
            ports.extend(own);
            found
        });
        if bad.is_empty() {
            return None;
        }
        let detail = format!(
            "{} {} {} {}",
            containers(&bad),
            plural("uses", "use", bad.len()),
            plural("hostPort", "hostPorts", ports.len()),
            ports.into_iter().collect::<Vec<_>>().join(", ")
        );
        violation("hostPort", detail)
    }

    fn probe_hosts(&self) -> Option<Violation> {
        let mut hosts = BTreeSet::new();
        let mut bad = self.where_(|c| {
            let handlers = [
                &c["livenessProbe"],
                &c["readinessProbe"],
                &c["startupProbe"],
                &c["lifecycle"]["postStart"],
                &c["lifecycle"]["preStop"],
            ];
            let own: Vec<&str> = handlers
                .into_iter()
                .flat_map(|h| [&h["httpGet"]["host"], &h["tcpSocket"]["host"]])
                .filter_map(Value::as_str)
                .filter(|h| !h.is_empty())
                .collect();
            hosts.extend(own.iter().copied());
            !own.is_empty()
        });
        if bad.is_empty() {
            return None;
        }
        bad.sort_unstable();
        bad.dedup();
        let detail = format!(
            "{} {} {} {}",
            containers(&bad),
            plural("uses", "use", bad.len()),
            plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len()),
            quoted(hosts)
        );
        violation("probe or lifecycle host", detail)
    }

    fn privileged(&self) -> Option<Violation> {
        let bad = self.where_(|c| c["securityContext"]["privileged"] == true);
        if bad.is_empty() {
            return None;
        }
        violation("privileged", format!("{} must not set securityContext.privileged=true", containers(&bad)))
    }

    fn proc_mount(&self) -> Option<Violation> {
        let mut values = BTreeSet::new();
        let bad = self.where_(|c| {
            let value = c["securityContext"]["procMount"].as_str().filter(|v| *v != "Default");
            values.extend(value);
            value.is_some()
        });
        if bad.is_empty() {
            return None;
        }
        let detail = format!("{} must not set securityContext.procMount to {}", containers(&bad), quoted(values));
        violation("procMount", detail)
    }

    fn selinux(&self) -> Option<Violation> {
        let (mut types, mut user, mut role) = (BTreeSet::new(), false, false);
        let mut bad = |context: &'a Value| {
            let options = &context["seLinuxOptions"];
            let of = |field: &str| options[field].as_str().unwrap_or_default();
            let kind = of("type");
            let known = matches!(kind, "" | "container_t" | "container_init_t" | "container_kvm_t")
                || (kind == "container_engine_t" && self.version >= 31);
            if !known {
                types.insert(kind);
            }
            user |= !of("user").is_empty();
            role |= !of("role").is_empty();
            !known || !of("user").is_empty() || !of("role").is_empty()
        };
        let pod = bad(self.context());
        let named = self.where_(|c| bad(&c["securityContext"]));
        if !pod && named.is_empty() {
            return None;
        }
        let mut data = Vec::new();
        if !types.is_empty() {
            data.push(format!("{} {}", plural("type", "types", types.len()), quoted(types)));
        }
        if user {
            data.push("user may not be set".into());
        }
        if role {
            data.push("role may not be set".into());
        }
        let detail =
            format!("{} set forbidden securityContext.seLinuxOptions: {}", setters(pod, &named), data.join("; "));
        violation("seLinuxOptions", detail)
    }

    fn seccomp_annotations(&self) -> Option<Violation> {
        let of_pod = std::iter::once("seccomp.security.alpha.kubernetes.io/pod".to_owned());
        let of_containers =
            self.containers().map(|c| format!("container.seccomp.security.alpha.kubernetes.io/{}", name(c)));
        let forbidden: BTreeSet<String> = of_pod
            .chain(of_containers)
            .filter_map(|key| {
                let value = self.annotations[key.as_str()].as_str()?;
                let allowed = matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
                (!allowed).then(|| format!("{key}={value:?}"))
            })
            .collect();
        if forbidden.is_empty() {
            return None;
        }
        let count = plural("annotation", "annotations", forbidden.len());
        violation(
            "seccompProfile",
            format!("forbidden {count} {}", forbidden.into_iter().collect::<Vec<_>>().join(", ")),
        )
    }

    fn seccomp(&self, required: bool) -> Option<Violation> {
        let profile = |context: &'a Value| {
            let profile = &context["seccompProfile"];
            set(profile).then(|| profile["type"].as_str().unwrap_or_default())
        };
        let valid = |kind: &str| matches!(kind, "Localhost" | "RuntimeDefault");
        let mut values = BTreeSet::new();
        let of_pod = profile(self.context());
        let pod_bad = of_pod.is_some_and(|k| !valid(k));
        values.extend(of_pod.filter(|k| !valid(k)));
        let named = self.where_(|c| {
            let bad = profile(&c["securityContext"]).filter(|k| !valid(k));
            values.extend(bad);
            bad.is_some()
        });
        if pod_bad || !named.is_empty() {
            let detail = format!(
                "{} must not set securityContext.seccompProfile.type to {}",
                setters(pod_bad, &named),
                quoted(values)
            );
            return violation("seccompProfile", detail);
        }
        let without = self.where_(|c| profile(&c["securityContext"]).is_none());
        if !required || of_pod.is_some() || without.is_empty() {
            return None;
        }
        let detail = format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            containers(&without)
        );
        violation("seccompProfile", detail)
    }

    fn sysctls(&self) -> Option<Violation> {
        let since = |name: &str| match name {
            "kernel.shm_rmid_forced"
            | "net.ipv4.ip_local_port_range"
            | "net.ipv4.tcp_syncookies"
            | "net.ipv4.ping_group_range"
            | "net.ipv4.ip_unprivileged_port_start" => 0,
            "net.ipv4.ip_local_reserved_ports" => 27,
            "net.ipv4.tcp_keepalive_time"
            | "net.ipv4.tcp_fin_timeout"
            | "net.ipv4.tcp_keepalive_intvl"
            | "net.ipv4.tcp_keepalive_probes" => 29,
            "net.ipv4.tcp_rmem" | "net.ipv4.tcp_wmem" => 32,
            "net.ipv4.tcp_slow_start_after_idle" | "net.ipv4.tcp_notsent_lowat" => 37,
            _ => u32::MAX,
        };
        let bad: Vec<&str> = self.context()["sysctls"]
            .as_array()
            .into_iter()
            .flatten()
            .map(name)
            .filter(|n| since(n) > self.version)
            .collect();
        if bad.is_empty() { None } else { violation("forbidden sysctls", bad.join(", ")) }
    }

    fn host_process(&self) -> Option<Violation> {
        let bad = |context: &Value| context["windowsOptions"]["hostProcess"] == true;
        let pod = bad(self.context());
        let named = self.where_(|c| bad(&c["securityContext"]));
        if !pod && named.is_empty() {
            return None;
        }
        let detail = format!("{} must not set securityContext.windowsOptions.hostProcess=true", setters(pod, &named));
        violation("hostProcess", detail)
    }

    fn privilege_escalation(&self) -> Option<Violation> {
        let bad = self.where_(|c| c["securityContext"]["allowPrivilegeEscalation"] != false);
        if bad.is_empty() {
            return None;
        }
        let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&bad));
        violation("allowPrivilegeEscalation != false", detail)
    }

    fn volumes(&self) -> Option<Violation> {
        const ALLOWED: [&str; 9] = [
            "configMap",
            "csi",
            "downwardAPI",
            "emptyDir",
            "ephemeral",
            "image",
            "persistentVolumeClaim",
            "projected",
            "secret",
        ];
        let mut types = BTreeSet::new();
        let mut bad = Vec::new();
        for volume in self.volume_list() {
            let source = |f: &&String| f.as_str() != "name" && set(&volume[f.as_str()]);
            let mut sources = volume.as_object().into_iter().flat_map(serde_json::Map::keys).filter(source);
            if sources.clone().any(|s| ALLOWED.contains(&s.as_str())) {
                continue;
            }
            bad.push(name(volume));
            types.insert(sources.next().map_or("unknown", String::as_str));
        }
        if bad.is_empty() {
            return None;
        }
        let detail = format!(
            "{} {} {} {} {}",
            plural("volume", "volumes", bad.len()),
            quoted(&bad),
            plural("uses", "use", bad.len()),
            plural("restricted volume type", "restricted volume types", types.len()),
            quoted(types)
        );
        violation("restricted volume types", detail)
    }

    fn run_as_non_root(&self) -> Option<Violation> {
        let own = |context: &Value| context["runAsNonRoot"].as_bool();
        let of_pod = own(self.context());
        let explicit = self.where_(|c| own(&c["securityContext"]) == Some(false));
        let pod_bad = of_pod == Some(false);
        if pod_bad || !explicit.is_empty() {
            let detail = format!("{} must not set securityContext.runAsNonRoot=false", setters(pod_bad, &explicit));
            return violation("runAsNonRoot != true", detail);
        }
        let implicit = self.where_(|c| own(&c["securityContext"]).is_none());
        if of_pod == Some(true) || implicit.is_empty() {
            return None;
        }
        let detail = format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&implicit));
        violation("runAsNonRoot != true", detail)
    }

    fn run_as_user(&self) -> Option<Violation> {
        let root = |context: &Value| context["runAsUser"] == 0;
        let pod = root(self.context());
        let named = self.where_(|c| root(&c["securityContext"]));
        if !pod && named.is_empty() {
            return None;
        }
        violation("runAsUser=0", format!("{} must not set runAsUser=0", setters(pod, &named)))
    }
}
