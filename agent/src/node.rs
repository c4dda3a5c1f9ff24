//! What the worker is, and what its containers use.

use std::{collections::HashMap, sync::Arc, time::Duration};

use vctl_api::agent::{ContainerStats, NodeReport, PodStats};

use crate::{
    context::Context,
    pods::{cgroup, record::Phase},
    reconcile::Reconciler,
};

/// How often the use of containers is measured.
const STATS_PERIOD: Duration = Duration::from_secs(15);

/// How often the node is looked at.
const PERIOD: Duration = Duration::from_mins(1);

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn total_memory() -> i64 {
    let kib = read("/proc/meminfo")
        .lines()
        .find_map(|l| l.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse::<i64>().ok());
    kib.unwrap_or_default() * 1024
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

async fn report(ctx: &Context, podman: &str) -> NodeReport {
    let release: HashMap<String, String> = read("/etc/os-release")
        .lines()
        .filter_map(|l| l.split_once('='))
        .map(|(k, v)| (k.to_owned(), v.trim_matches('"').to_owned()))
        .collect();
    let disk = nix::sys::statvfs::statvfs(&ctx.config.state_dir)
        .map(|s| s.blocks() as i64 * s.fragment_size() as i64)
        .unwrap_or_default();
    NodeReport {
        cpu_millis: std::thread::available_parallelism().map_or(1, |n| n.get() as i64) * 1000,
        memory_bytes: total_memory(),
        max_pods: i64::from(ctx.config.pod_cidr.capacity().min(250)),
        ephemeral_storage_bytes: disk,
        internal_ip: ctx.network.node_ip().to_string(),
        hostname: ctx.config.worker.clone(),
        os: "linux".into(),
        architecture: architecture().into(),
        kernel_version: read("/proc/sys/kernel/osrelease"),
        os_image: release.get("PRETTY_NAME").cloned().unwrap_or_default(),
        container_runtime_version: format!("podman://{podman}"),
        machine_id: read("/etc/machine-id"),
        boot_id: read("/proc/sys/kernel/random/boot_id"),
        pod_cidr: ctx.config.pod_cidr.to_string(),
        images: ctx.podman.images().await.unwrap_or_default(),
    }
}

/// Reports the node now and whenever it has changed.
pub(crate) fn watch(ctx: &Arc<Context>, podman: String) {
    let own = ctx.clone();
    ctx.tasks.spawn_until_stopped("node report", async move {
        loop {
            own.outbox.node(report(&own, &podman).await);
            tokio::time::sleep(PERIOD).await;
        }
    });
}

/// Measures what the containers use. Processor time is the mean since the measurement before.
pub(crate) fn measure(ctx: &Arc<Context>, reconciler: &Arc<Reconciler>) {
    let (own, reconciler) = (ctx.clone(), reconciler.clone());
    ctx.tasks.spawn_until_stopped("container statistics", async move {
        let mut before: HashMap<String, (i64, i64)> = HashMap::new();
        loop {
            tokio::time::sleep(STATS_PERIOD).await;
            let now = own.now_ms();
            let mut seen = HashMap::new();
            let mut window_ms = 0;
            for handle in reconciler.handles() {
                let view = handle.view.borrow().clone();
                let running = view.record.containers.iter().filter(|(_, c)| matches!(c.phase, Phase::Running { .. }));
                let containers: Vec<ContainerStats> = running
                    .filter_map(|(name, c)| {
                        let (used, memory) =
                            cgroup::usage(&cgroup::path(&own.group(), &view.pod.uid, name, c.attempt))?;
                        seen.insert(c.id.clone(), (now, used));
                        let (at, earlier) = before.get(&c.id).copied()?;
                        window_ms = window_ms.max(now - at);
                        let cpu_nano_cores = (used - earlier).max(0) * 1000 / (now - at).max(1);
                        Some(ContainerStats { name: name.clone(), cpu_nano_cores, memory_working_set_bytes: memory })
                    })
                    .collect();
                if !containers.is_empty() {
                    let pod = &view.pod;
                    own.outbox.stats(PodStats {
                        uid: pod.uid.clone(),
                        environment: pod.environment.clone(),
                        namespace: pod.namespace.clone(),
                        name: pod.name.clone(),
                        containers,
                        time_ms: now,
                        window_ms,
                    });
                }
            }
            before = seen;
        }
    });
}
