//! Containers of a pod.

use serde_json::Value;
use vctl_api::agent::{self, EnvVar, handler};
use vctl_machinery::quantity;

use super::{Context, environment, volume};
use crate::json::Json;

/// What a container may add when it may not have what is the worker's: the list of the level Baseline of the Pod Security Standards.
pub(super) const CAPABILITIES: &[&str] = &[
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

/// Translates a container or init container.
pub(super) fn translate(pod: &Value, container: &Value, services: &[EnvVar], context: &Context) -> agent::Container {
    let own = match host_access(pod, container) {
        _ if worker_namespace(pod).is_some() => Err(format!(
            "{} is not allowed: containers do not see processes and memory of their worker and of other pods",
            worker_namespace(pod).unwrap_or_default()
        )),
        Some(what) if !context.allow_host_access => Err(format!(
            "{what} is not allowed: environments share the worker, and with it a container could reach the others"
        )),
        _ => unsupported(pod, container).map_or_else(|| environment::of_container(pod, container, context), Err),
    };
    let (own, config_error) = match own {
        Ok(own) => (own, String::new()),
        Err(why) => (Vec::new(), why),
    };
    let probe = |pointer: &str| container.there(pointer).map(|p| probe(container, p));
    let hook = |pointer: &str| container.there(pointer).map(|h| handler(container, h));
    agent::Container {
        name: container.text("/name").to_owned(),
        image: container.text("/image").to_owned(),
        image_pull_policy: container.some_text("/imagePullPolicy").unwrap_or("IfNotPresent").to_owned(),
        command: container.texts("/command"),
        args: container.texts("/args"),
        env: services.iter().cloned().chain(own).collect(),
        working_dir: container.text("/workingDir").to_owned(),
        mounts: container
            .items("/volumeMounts")
            .iter()
            .map(|m| agent::Mount {
                volume: m.text("/name").to_owned(),
                mount_path: m.text("/mountPath").to_owned(),
                sub_path: m.text("/subPath").to_owned(),
                read_only: m.flag("/readOnly") || volume::is_read_only(pod, m.text("/name"), context),
                sub_path_expr: m.text("/subPathExpr").to_owned(),
            })
            .collect(),
        ports: container
            .items("/ports")
            .iter()
            .map(|p| agent::ContainerPort {
                name: p.text("/name").to_owned(),
                container_port: p.number("/containerPort").map(port_number).unwrap_or_default(),
                protocol: p.some_text("/protocol").unwrap_or("TCP").to_owned(),
                host_port: p.number("/hostPort").map(port_number).unwrap_or_default(),
            })
            .collect(),
        liveness: probe("/livenessProbe"),
        readiness: probe("/readinessProbe"),
        startup: probe("/startupProbe"),
        post_start: hook("/lifecycle/postStart"),
        pre_stop: hook("/lifecycle/preStop"),
        resources: container.there("/resources").map(resources),
        security: container.there("/securityContext").map(security),
        tty: container.flag("/tty"),
        stdin: container.flag("/stdin"),
        stdin_once: container.flag("/stdinOnce"),
        termination_message_path: container
            .some_text("/terminationMessagePath")
            .unwrap_or("/dev/termination-log")
            .to_owned(),
        termination_message_policy: container.some_text("/terminationMessagePolicy").unwrap_or("File").to_owned(),
        restart_policy: container.text("/restartPolicy").to_owned(),
        config_error,
    }
}

/// What of a container's wishes would open the worker to it.
fn host_access(pod: &Value, container: &Value) -> Option<String> {
    if pod.flag("/spec/hostNetwork") {
        return Some("hostNetwork".to_owned());
    }
    if container.flag("/securityContext/privileged") {
        return Some("privileged".to_owned());
    }
    let plain = |name: &str| {
        let name = name.to_ascii_uppercase();
        CAPABILITIES.contains(&name.strip_prefix("CAP_").unwrap_or(&name))
    };
    let added = container.texts("/securityContext/capabilities/add");
    added.into_iter().find(|name| !plain(name)).map(|name| format!("the capability {name}"))
}

/// What no pod gets, also where environments trust each other.
fn worker_namespace(pod: &Value) -> Option<&'static str> {
    [("/spec/hostPID", "hostPID"), ("/spec/hostIPC", "hostIPC")]
        .into_iter()
        .find(|(at, _)| pod.flag(at))
        .map(|(_, what)| what)
}

/// What workers cannot do, and a container would miss without noticing.
fn unsupported(pod: &Value, container: &Value) -> Option<String> {
    let mut sysctls = pod.items("/spec/securityContext/sysctls").iter().map(|sysctl| sysctl.text("/name"));
    // Containers of a pod share its network and nothing else that has such settings.
    if let Some(name) = sysctls.find(|name| !name.starts_with("net.")) {
        return Some(format!(
            "forbidden sysctl: \"{name}\" not allowlisted; pods of this worker set those of net. only"
        ));
    }
    let devices = !container.items("/volumeDevices").is_empty();
    devices.then(|| "volumeDevices are not supported by this worker: mount the volume as a file system".to_owned())
}

fn port_number(port: i64) -> u32 {
    u16::try_from(port).map(u32::from).unwrap_or_default()
}

fn resources(resources: &Value) -> agent::Resources {
    let amount = |pointer: &str| resources.pointer(pointer);
    agent::Resources {
        cpu_request_millis: amount("/requests/cpu").and_then(quantity::thousandths),
        cpu_limit_millis: amount("/limits/cpu").and_then(quantity::thousandths),
        memory_request_bytes: amount("/requests/memory").and_then(quantity::units),
        memory_limit_bytes: amount("/limits/memory").and_then(quantity::units),
    }
}

fn security(security: &Value) -> agent::ContainerSecurity {
    agent::ContainerSecurity {
        run_as_user: security.number("/runAsUser"),
        run_as_group: security.number("/runAsGroup"),
        run_as_non_root: security.some_flag("/runAsNonRoot"),
        privileged: security.some_flag("/privileged"),
        read_only_root_filesystem: security.some_flag("/readOnlyRootFilesystem"),
        allow_privilege_escalation: security.some_flag("/allowPrivilegeEscalation"),
        add_capabilities: security.texts("/capabilities/add"),
        drop_capabilities: security.texts("/capabilities/drop"),
    }
}

fn probe(container: &Value, probe: &Value) -> agent::Probe {
    let seconds =
        |pointer: &str, default: i64| probe.number(pointer).unwrap_or(default).clamp(0, i64::from(i32::MAX)) as i32;
    agent::Probe {
        handler: Some(handler(container, probe)),
        initial_delay_seconds: seconds("/initialDelaySeconds", 0),
        timeout_seconds: seconds("/timeoutSeconds", 1).max(1),
        period_seconds: seconds("/periodSeconds", 10).max(1),
        success_threshold: seconds("/successThreshold", 1).max(1),
        failure_threshold: seconds("/failureThreshold", 3).max(1),
        termination_grace_seconds: probe.number("/terminationGracePeriodSeconds"),
    }
}

/// A probe's or hook's action.
fn handler(container: &Value, from: &Value) -> agent::Handler {
    let handler = if let Some(http) = from.there("/httpGet") {
        Some(handler::Handler::Http(agent::HttpHandler {
            host: http.text("/host").to_owned(),
            port: port(container, http.get("port")),
            path: http.some_text("/path").unwrap_or("/").to_owned(),
            scheme: http.some_text("/scheme").unwrap_or("HTTP").to_owned(),
            headers: http
                .items("/httpHeaders")
                .iter()
                .map(|h| agent::HttpHeader { name: h.text("/name").to_owned(), value: h.text("/value").to_owned() })
                .collect(),
        }))
    } else if let Some(tcp) = from.there("/tcpSocket") {
        Some(handler::Handler::Tcp(agent::TcpHandler {
            host: tcp.text("/host").to_owned(),
            port: port(container, tcp.get("port")),
        }))
    } else if let Some(grpc) = from.there("/grpc") {
        Some(handler::Handler::Grpc(agent::GrpcHandler {
            port: port(container, grpc.get("port")),
            service: grpc.text("/service").to_owned(),
        }))
    } else if let Some(seconds) = from.number("/sleep/seconds") {
        Some(handler::Handler::SleepSeconds(seconds))
    } else {
        from.there("/exec").map(|exec| handler::Handler::Exec(agent::ExecHandler { command: exec.texts("/command") }))
    };
    agent::Handler { handler }
}

/// A port by number or by the name of one of the container's ports; 0 when there is none of that name.
fn port(container: &Value, port: Option<&Value>) -> u32 {
    match port {
        Some(Value::Number(number)) => number.as_i64().map(port_number).unwrap_or_default(),
        Some(Value::String(name)) => container
            .items("/ports")
            .iter()
            .find(|p| p.text("/name") == name)
            .and_then(|p| p.number("/containerPort"))
            .or_else(|| name.parse().ok())
            .map(port_number)
            .unwrap_or_default(),
        _ => 0,
    }
}
