//! From a container as Kubernetes describes it to Podman's specification. Pure, but for facts passed in.

use std::{collections::BTreeMap, path::PathBuf};

use serde_json::{Value, json};
use vctl_api::agent::{Container, Pod};

use super::{
    cgroup,
    env::{Facts, expand, variables},
    label, shown_uid,
};
use crate::podman::Image;

/// Where a container's things are on the worker.
pub(crate) struct Places {
    pub(crate) worker: String,
    pub(crate) group: String,
    pub(crate) namespace: Option<PathBuf>,
    pub(crate) etc: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) termination: PathBuf,
    pub(crate) attempt: u32,
}

/// Name of the container in Podman.
pub(crate) fn name(uid: &str, container: &str, attempt: u32) -> String {
    format!("vctl-{container}-{attempt}-{uid}")
}

fn bind(source: &std::path::Path, destination: &str, read_only: bool) -> Value {
    json!({ "type": "bind", "source": source, "destination": destination, "options": ["rbind", "rprivate", if read_only { "ro" } else { "rw" }] })
}

/// The user a container runs as; an error when it must not be root and would be.
fn user(pod: &Pod, container: &Container, image: &Image) -> Result<String, String> {
    let pod_security = pod.security.clone().unwrap_or_default();
    let own = container.security.clone().unwrap_or_default();
    let uid = own.run_as_user.or(pod_security.run_as_user);
    let gid = own.run_as_group.or(pod_security.run_as_group);
    let image_user = image.user.split(':').next().unwrap_or_default();
    if own.run_as_non_root.or(pod_security.run_as_non_root) == Some(true) {
        let about = format!(
            "(pod: \"{}_{}({})\", container: {})",
            pod.name,
            pod.namespace,
            shown_uid(&pod.uid),
            container.name
        );
        match uid {
            Some(0) => return Err(format!("container's runAsUser breaks non-root policy {about}")),
            Some(_) => {}
            None if image_user.is_empty() || image_user == "0" || image_user == "root" => {
                return Err(format!("container has runAsNonRoot and image will run as root {about}"));
            }
            None if image_user.parse::<u64>().is_err() => {
                return Err(format!(
                    "container has runAsNonRoot and image has non-numeric user ({image_user}), cannot verify user is non-root {about}"
                ));
            }
            None => {}
        }
    }
    let who = uid.map_or_else(|| image_user.to_owned(), |u| u.to_string());
    Ok(match gid {
        Some(gid) => format!("{}:{gid}", if who.is_empty() { "0" } else { &who }),
        None if uid.is_some() => who,
        None => image.user.clone(),
    })
}

/// The program and its arguments: the pod's where given, else the image's; an own command drops the image's arguments.
fn arguments(container: &Container, image: &Image, variables: &BTreeMap<String, String>) -> Vec<String> {
    let own = |list: &[String]| list.iter().map(|a| expand(a, variables)).collect::<Vec<_>>();
    let mut all = if container.command.is_empty() { image.entrypoint.clone() } else { own(&container.command) };
    if !container.args.is_empty() {
        all.extend(own(&container.args));
    } else if container.command.is_empty() {
        all.extend(image.command.clone());
    }
    all
}

fn capability(name: &str) -> String {
    let upper = name.to_uppercase();
    if upper == "ALL" || upper.starts_with("CAP_") { upper } else { format!("CAP_{upper}") }
}

/// CPU shares of a request, as the kubelet computes them.
fn shares(millis: i64) -> i64 {
    (millis * 1024 / 1000).clamp(2, 262_144)
}

/// Podman's specification. `mounts`: source on the worker, destination, read-only.
pub(crate) fn build(
    pod: &Pod,
    container: &Container,
    image: &Image,
    facts: &Facts,
    places: &Places,
    mounts: &[(PathBuf, String, bool)],
) -> Result<Value, String> {
    let own = variables(&container.env, facts)?;
    let arguments = arguments(container, image, &own);
    let (program, rest) =
        arguments.split_first().ok_or("no command specified: neither the pod nor the image names one")?;
    let mut all_mounts = vec![
        bind(&places.etc.join("hosts"), "/etc/hosts", false),
        bind(&places.etc.join("resolv.conf"), "/etc/resolv.conf", false),
    ];
    let message_path = if container.termination_message_path.is_empty() {
        "/dev/termination-log"
    } else {
        &container.termination_message_path
    };
    all_mounts.push(bind(&places.termination, message_path, false));
    for (source, destination, read_only) in mounts {
        all_mounts.retain(|m| m["destination"] != destination.as_str());
        all_mounts.push(bind(source, destination, *read_only));
    }
    let security = container.security.clone().unwrap_or_default();
    let pod_security = pod.security.clone().unwrap_or_default();
    let resources = container.resources.unwrap_or_default();
    let groups: Vec<String> =
        pod_security.supplemental_groups.iter().chain(&pod_security.fs_group).map(ToString::to_string).collect();
    let mut memory = json!({});
    if let Some(limit) = resources.memory_limit_bytes {
        memory = json!({ "limit": limit, "swap": limit });
    }
    let mut cpu = json!({ "shares": shares(resources.cpu_request_millis.or(resources.cpu_limit_millis).unwrap_or(2)) });
    if let Some(limit) = resources.cpu_limit_millis {
        cpu["period"] = json!(100_000);
        cpu["quota"] = json!((limit * 100).max(1000));
    }
    let mut spec = json!({
        "name": name(&pod.uid, &container.name, places.attempt),
        "image": image.id,
        "entrypoint": [program],
        "command": rest,
        "env": own,
        "terminal": container.tty,
        "stdin": container.stdin,
        "restart_policy": "no",
        "use_image_resolve_conf": true,
        "use_image_hosts": true,
        "hostname": if pod.hostname.is_empty() { &pod.name } else { &pod.hostname },
        "utsns": { "nsmode": "private" },
        "user": user(pod, container, image)?,
        "groups": groups,
        "mounts": all_mounts,
        "log_configuration": { "driver": "k8s-file", "path": places.log },
        "cgroup_parent": cgroup::path(&places.group, &pod.uid, &container.name, places.attempt),
        "resource_limits": { "memory": memory, "cpu": cpu },
        "privileged": security.privileged.unwrap_or(false),
        "read_only_filesystem": security.read_only_root_filesystem.unwrap_or(false),
        "no_new_privileges": security.allow_privilege_escalation == Some(false),
        "cap_add": security.add_capabilities.iter().map(|c| capability(c)).collect::<Vec<_>>(),
        "cap_drop": security.drop_capabilities.iter().map(|c| capability(c)).collect::<Vec<_>>(),
        "labels": {
            label::WORKER: places.worker,
            label::UID: pod.uid,
            label::ENVIRONMENT: pod.environment,
            label::NAMESPACE: pod.namespace,
            label::POD: pod.name,
            label::CONTAINER: container.name,
            label::ATTEMPT: places.attempt.to_string(),
        },
    });
    spec["netns"] = match &places.namespace {
        Some(path) => json!({ "nsmode": "path", "value": path }),
        None => json!({ "nsmode": "host" }),
    };
    if !container.working_dir.is_empty() {
        spec["work_dir"] = json!(container.working_dir);
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use vctl_api::agent::{ContainerSecurity, PodSecurity, Resources};

    use super::*;

    fn places() -> Places {
        Places {
            worker: "w".into(),
            group: "/g".into(),
            namespace: Some("/run/ns/u".into()),
            etc: "/s/etc".into(),
            log: "/s/0.log".into(),
            termination: "/s/t".into(),
            attempt: 2,
        }
    }

    fn image() -> Image {
        Image { id: "sha".into(), entrypoint: vec!["/entry".into()], command: vec!["serve".into()], ..Image::default() }
    }

    fn spec(container: &Container, pod: &Pod) -> Result<Value, String> {
        build(pod, container, &image(), &Facts::default(), &places(), &[])
    }

    #[test]
    fn command_and_arguments_follow_kubernetes() {
        let pod = Pod { uid: "u".into(), name: "p".into(), ..Pod::default() };
        let with = |command: &[&str], args: &[&str]| {
            let list = |l: &[&str]| l.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
            let spec = spec(
                &Container { name: "c".into(), command: list(command), args: list(args), ..Container::default() },
                &pod,
            )
            .unwrap();
            format!("{} {}", spec["entrypoint"], spec["command"])
        };
        assert_eq!(with(&[], &[]), r#"["/entry"] ["serve"]"#);
        assert_eq!(with(&[], &["a"]), r#"["/entry"] ["a"]"#);
        assert_eq!(with(&["x"], &[]), r#"["x"] []"#);
        assert_eq!(with(&["x"], &["a", "b"]), r#"["x"] ["a","b"]"#);
    }

    #[test]
    fn security_and_limits_are_carried_over() {
        let mut pod = Pod { uid: "u".into(), name: "p".into(), ..Pod::default() };
        pod.security = Some(PodSecurity { run_as_user: Some(5), fs_group: Some(7), ..PodSecurity::default() });
        let container = Container {
            name: "c".into(),
            security: Some(ContainerSecurity {
                run_as_group: Some(6),
                drop_capabilities: vec!["all".into()],
                add_capabilities: vec!["net_admin".into()],
                ..ContainerSecurity::default()
            }),
            resources: Some(Resources {
                cpu_limit_millis: Some(250),
                memory_limit_bytes: Some(1 << 20),
                ..Resources::default()
            }),
            ..Container::default()
        };
        let spec = spec(&container, &pod).unwrap();
        assert_eq!(spec["user"], "5:6");
        assert_eq!(spec["groups"], json!(["7"]));
        assert_eq!((&spec["cap_add"], &spec["cap_drop"]), (&json!(["CAP_NET_ADMIN"]), &json!(["ALL"])));
        assert_eq!(spec["resource_limits"]["cpu"], json!({ "shares": 256, "period": 100_000, "quota": 25_000 }));
        assert_eq!(spec["resource_limits"]["memory"]["limit"], 1 << 20);
        assert_eq!(spec["netns"]["value"], "/run/ns/u");
    }

    #[test]
    fn an_image_that_runs_as_root_is_refused_where_root_is() {
        let mut pod = Pod { name: "p".into(), namespace: "n".into(), uid: "u".into(), ..Pod::default() };
        pod.security = Some(PodSecurity { run_as_non_root: Some(true), ..PodSecurity::default() });
        let container = Container { name: "c".into(), ..Container::default() };
        assert_eq!(
            spec(&container, &pod).unwrap_err(),
            "container has runAsNonRoot and image will run as root (pod: \"p_n(u)\", container: c)"
        );
    }
}
