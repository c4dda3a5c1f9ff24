//! The changes a plan can ask for.

use std::{fs, path::Path, time::Duration};

use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;
use vctl_api::agent::{Container, Handler, Pod};

use super::{Message, Worker, log_path};
use crate::{
    context::Context,
    error::AgentError,
    files,
    podman::PodmanError,
    pods::{
        backoff, cgroup, handler, label,
        plan::{Action, ImageState},
        record::{Exit, Phase},
        spec::{self, Places},
        volumes::{fingerprint, write_etc},
    },
};

/// Delay after a failed change.
const RETRY_MS: i64 = 2_000;

impl Worker {
    pub(super) async fn act(&mut self, action: Action) {
        match action {
            Action::SetUpSandbox => self.set_up_sandbox().await,
            Action::SyncVolumes => self.sync_volumes(),
            Action::EnsureImage { container } => self.ensure_image(&container),
            Action::Refuse { container } => {
                let why = self.spec(&container).map(|c| c.config_error).unwrap_or_default();
                self.refuse("Failed", &format!("Error: {why}"), &container, why.clone());
            }
            Action::Start { container } => self.start(&container).await,
            Action::Stop { container, grace_seconds, message } => self.stop(&container, grace_seconds, &message).await,
            Action::Fail { reason, message } => {
                self.event(false, reason, message.clone(), "");
                self.record.failed = Some((reason.to_owned(), message));
            }
            Action::ReleaseSandbox => {
                self.live.sandbox_ready = false;
                if let Err(e) = self.ctx.network.remove(&self.pod.uid).await {
                    tracing::warn!(pod = %self.pod.uid, error = %e, "freeing the network of a finished pod");
                }
                self.ctx.dns.set_clients(self.ctx.network.clients());
            }
            Action::TearDown => {
                if let Err(e) = self.tear_down().await {
                    self.event(true, "FailedKillPod", format!("error killing pod: {e}"), "");
                    self.live.retry_at_ms = self.ctx.now_ms() + RETRY_MS;
                }
            }
        }
    }

    async fn set_up_sandbox(&mut self) {
        if !self.pod.host_network {
            let sysctls = self
                .pod
                .security
                .iter()
                .flat_map(|s| s.sysctls.clone())
                .filter(|(k, _)| k.starts_with("net."))
                .collect();
            match self.ctx.network.add(&self.pod.uid, &self.pod.environment, sysctls, None).await {
                Ok(ip) => self.record.pod_ip = Some(ip),
                Err(e) => {
                    let message = format!("Failed to create pod sandbox: {e}");
                    self.event(true, "FailedCreatePodSandBox", message.clone(), "");
                    self.live.sandbox_error = Some(message);
                    self.live.retry_at_ms = self.ctx.now_ms() + RETRY_MS;
                    return;
                }
            }
            self.ctx.dns.set_clients(self.ctx.network.clients());
        }
        self.live.sandbox_error = None;
        self.live.sandbox_ready = true;
    }

    fn sync_volumes(&mut self) {
        let facts = self.facts();
        let done = self.volumes().sync(&self.pod, &facts).and_then(|()| {
            let etc = self.dir.join("etc");
            write_etc(&etc, &self.pod, &facts).map_err(|e| format!("writing {}: {e}", etc.display()))
        });
        match done {
            Ok(()) => {
                self.live.volumes = Some(fingerprint(&self.pod));
                self.live.volumes_error = None;
            }
            Err(message) => {
                if self.live.said_until("", &message, self.ctx.now_ms()).is_none() {
                    self.refuse("FailedMount", &message, "", message.clone());
                }
                self.live.volumes_error = Some(message);
                self.live.retry_at_ms = self.ctx.now_ms() + RETRY_MS;
            }
        }
    }

    fn ensure_image(&mut self, name: &str) {
        let Some(container) = self.spec(name) else { return };
        self.live.images.insert(container.image.clone(), ImageState::Pulling);
        let (ctx, pod, out) = (self.ctx.clone(), self.pod.clone(), self.out.clone());
        self.tasks.spawn_until_stopped("image", async move {
            let result = image(&ctx, &pod, &container).await;
            // The actor ends before its tasks only when the pod is gone.
            let _ = out.send(Message::Image { container: container.name, image: container.image, result });
        });
    }

    /// Says why a container, or the pod (no name), does not start.
    fn refuse(&mut self, reason: &str, message: &str, container: &str, why: String) {
        self.event(true, reason, message, container);
        self.live.refused.insert(container.to_owned(), (why, self.ctx.now_ms()));
    }

    async fn start(&mut self, name: &str) {
        let Some(container) = self.spec(name) else { return };
        let started = self.try_start(&container).await;
        self.ctx.measured.container_start(&self.pod, &self.record, self.ctx.now_ms(), started.is_ok());
        if let Err((reason, message)) = started {
            self.event(true, "Failed", format!("Error: {message}"), name);
            let now = self.ctx.now_ms();
            let pod_restarts = self.pod.restart_policy != "Never";
            let record = self.record.container_mut(name);
            record.start_error = Some((reason.to_owned(), message.clone()));
            if reason == "RunContainerError" {
                let exit = Exit {
                    code: 128,
                    reason: "StartError".into(),
                    message,
                    started_ms: now,
                    finished_ms: now,
                    id: record.id.clone(),
                };
                record.phase = Phase::Exited(exit);
                record.crashes = record.crashes.max(1);
                if !pod_restarts {
                    record.start_error = None;
                }
            } else {
                record.crashes += 1;
                record.retry_at_ms = now + backoff::restart_delay_ms(record.crashes);
                record.phase = Phase::Absent;
            }
        }
    }

    async fn try_start(&mut self, container: &Container) -> Result<(), (&'static str, String)> {
        let create = |e: String| ("CreateContainerError", e);
        let config = |e: String| ("CreateContainerConfigError", e);
        let name = &container.name;
        let facts = self.facts();
        let found = self.ctx.podman.image(&local_name(&container.image)).await.map_err(|e| create(e.to_string()))?;
        let Some(image) = found else {
            // It was there a moment ago; look for it again.
            self.live.images.remove(&container.image);
            return Err(create(format!("image {} has been removed from this worker", container.image)));
        };
        let before = self.record.container(name);
        let attempt = if before.id.is_empty() { before.attempt } else { before.attempt + 1 };
        let places = Places {
            worker: self.ctx.config.worker.clone(),
            group: self.ctx.group(),
            namespace: self.reach().namespace,
            etc: self.dir.join("etc"),
            log: log_path(&self.dir, name, attempt),
            termination: self.dir.join("termination").join(format!("{name}-{attempt}")),
            attempt,
        };
        prepare_files(&places).map_err(|e| create(e.to_string()))?;
        let mounts = self.volumes().mounts(&self.pod, container, &facts).map_err(config)?;
        let spec = spec::build(&self.pod, container, &image, &facts, &places, &mounts.list).map_err(config)?;
        if !before.id.is_empty() {
            self.ctx.podman.remove(&before.id).await.map_err(|e| create(e.to_string()))?;
        }
        if attempt >= 2 {
            let _ = fs::remove_file(log_path(&self.dir, name, attempt - 2));
        }
        let id = match self.ctx.podman.create(&spec).await {
            // A container of this name is left from an attempt the agent did not live to record.
            Err(PodmanError::Refused { message, .. }) if message.contains("already in use") => {
                let left = spec::name(&self.pod.uid, name, attempt);
                self.ctx.podman.remove(&left).await.map_err(|e| create(e.to_string()))?;
                self.ctx.podman.create(&spec).await
            }
            other => other,
        }
        .map_err(|e| create(e.to_string()))?;
        let now = self.ctx.now_ms();
        {
            let record = self.record.container_mut(name);
            if let Phase::Exited(exit) = &record.phase {
                record.restarts += 1;
                record.crashes =
                    if exit.finished_ms - exit.started_ms >= backoff::RESET_MS { 1 } else { record.crashes + 1 };
                record.last = Some(exit.clone());
                record.phase = Phase::Absent;
            }
            record.attempt = attempt;
            record.id.clone_from(&id);
            record.image.clone_from(&container.image);
            record.image_id.clone_from(&image.id);
        }
        self.record.save(&self.dir).map_err(|e| create(e.to_string()))?;
        // Texts as kubelets have had them since 1.35: which container it is, is in the event's field path.
        self.event(false, "Created", "Container created", name);
        self.ctx.podman.start(&id).await.map_err(|e| ("RunContainerError", e.to_string()))?;
        drop(mounts);
        let record = self.record.container_mut(name);
        record.start_error = None;
        record.retry_at_ms = 0;
        record.phase = Phase::Running { started_ms: now };
        self.event(false, "Started", "Container started", name);
        self.running(name, now, false);
        if let Some(hook) = container.post_start.clone() {
            self.live.hooks.insert(name.clone());
            let (podman, reach, out, name) = (self.ctx.podman.clone(), self.reach(), self.out.clone(), name.clone());
            self.tasks.spawn_until_stopped("post-start hook", async move {
                let result = handler::run(&podman, &id, &reach, &hook, Duration::from_mins(10)).await.map(drop);
                let _ = out.send(Message::Hook { container: name, id, result });
            });
        }
        Ok(())
    }

    async fn stop(&mut self, name: &str, grace_seconds: i64, message: &str) {
        self.live.stopping.insert(name.to_owned());
        self.live.kill.remove(name);
        self.event(false, "Killing", message, name);
        let record = self.record.container_mut(name);
        record.killed = true;
        let id = record.id.clone();
        let signal = match self.ctx.podman.inspect(&id).await {
            Ok(Some(seen)) if seen.config.stop_signal != 0 => seen.config.stop_signal,
            _ => 15,
        };
        let stop = Stop {
            id,
            signal,
            grace: Duration::from_secs(grace_seconds.max(0).unsigned_abs()),
            hook: self.spec(name).and_then(|c| c.pre_stop),
            ended: self.ended.get(name).cloned().unwrap_or_default(),
            out: self.out.clone(),
        };
        let (ctx, pod, name, reach) = (self.ctx.clone(), self.pod.clone(), name.to_owned(), self.reach());
        self.tasks.spawn_until_stopped("stop", async move { stop.run(&ctx, &pod, &name, &reach).await });
    }

    async fn tear_down(&mut self) -> Result<(), AgentError> {
        for found in self.ctx.podman.list(label::UID, &self.pod.uid).await? {
            self.ctx.podman.remove(&found.id).await?;
        }
        // Before anything is removed: below a mount that was left behind are the files of a volume.
        self.volumes().unmount().map_err(crate::error::state("unmounting below", &self.dir))?;
        self.ctx.network.remove(&self.pod.uid).await?;
        self.ctx.dns.set_clients(self.ctx.network.clients());
        files::remove_tree(&self.dir).map_err(crate::error::state("removing", &self.dir))?;
        let group = format!("{}/{}", self.ctx.group(), self.pod.uid);
        self.ctx.tasks.spawn_until_stopped("control groups", async move { cgroup::remove_patiently(&group).await });
        self.report_gone();
        Ok(())
    }
}

/// Ends one container: hook, signal, patience, SIGKILL.
struct Stop {
    id: String,
    signal: u32,
    grace: Duration,
    hook: Option<Handler>,
    ended: CancellationToken,
    out: UnboundedSender<Message>,
}

impl Stop {
    async fn run(self, ctx: &Context, pod: &Pod, name: &str, reach: &handler::Reach) {
        let deadline = tokio::time::Instant::now() + self.grace;
        if let Some(hook) = self.hook.as_ref().filter(|_| !self.grace.is_zero())
            && let Err(why) = handler::run(&ctx.podman, &self.id, reach, hook, self.grace).await
        {
            ctx.event(pod, true, "FailedPreStopHook", format!("PreStopHook failed: {why}"), name);
        }
        if !self.grace.is_zero() {
            // Even when the hook took all the time, the process gets two seconds.
            let deadline = deadline.max(tokio::time::Instant::now() + Duration::from_secs(2));
            self.signal(ctx, self.signal).await;
            if tokio::time::timeout_at(deadline, self.ended.cancelled()).await.is_ok() {
                return;
            }
        }
        loop {
            self.signal(ctx, 9).await;
            if tokio::time::timeout(Duration::from_secs(1), self.ended.cancelled()).await.is_ok() {
                return;
            }
            let _ = self.out.send(Message::Changed { id: self.id.clone() });
        }
    }

    async fn signal(&self, ctx: &Context, signal: u32) {
        if let Err(e) = ctx.podman.kill(&self.id, signal).await {
            tracing::warn!(container = %self.id, error = %e, "signalling a container");
        }
    }
}

fn prepare_files(places: &Places) -> std::io::Result<()> {
    for file in [&places.log, &places.termination] {
        fs::create_dir_all(file.parent().unwrap_or(Path::new("/")))?;
    }
    files::replace(&places.termination, b"", 0o666)?;
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(&places.termination, fs::Permissions::from_mode(0o666))
}

/// The name under which an image is looked up locally: with a tag.
fn local_name(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    if last.contains(':') || image.contains('@') { image.to_owned() } else { format!("{image}:latest") }
}

/// The full name to pull, as Kubernetes completes it.
pub(super) fn full_name(image: &str) -> String {
    let image = local_name(image);
    match image.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => image,
        Some(_) => format!("docker.io/{image}"),
        None => format!("docker.io/library/{image}"),
    }
}

/// Sees to it that an image is there: the text of the event, or reason and message.
async fn image(ctx: &Context, pod: &Pod, container: &Container) -> Result<String, (String, String)> {
    let name = &container.image;
    let failed = |e: PodmanError| ("ErrImagePull".to_owned(), format!("Failed to pull image \"{name}\": {e}"));
    let here = ctx.podman.image(&local_name(name)).await.map_err(failed)?;
    // Images under localhost/ were built here: there is no registry to ask.
    let always = container.image_pull_policy == "Always" && !name.starts_with("localhost/");
    if here.is_some() && !always {
        return Ok(format!("Container image \"{name}\" already present on machine and can be accessed by the pod"));
    }
    if container.image_pull_policy == "Never" {
        return Err((
            "ErrImageNeverPull".to_owned(),
            format!("Container image \"{name}\" is not present with pull policy of Never"),
        ));
    }
    ctx.event(pod, false, "Pulling", format!("Pulling image \"{name}\""), &container.name);
    let begun = std::time::Instant::now();
    ctx.podman.pull(&full_name(name)).await.map_err(failed)?;
    let size = ctx.podman.image(&local_name(name)).await.map_err(failed)?.map_or(0, |i| i.size);
    let took = begun.elapsed().as_millis();
    Ok(format!(
        "Successfully pulled image \"{name}\" in {took}ms ({took}ms including waiting). Image size: {size} bytes."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_names_are_completed_as_kubernetes_does() {
        for (given, full) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("a/b:1", "docker.io/a/b:1"),
            ("localhost/web", "localhost/web:latest"),
            ("127.0.0.1:5000/x", "127.0.0.1:5000/x:latest"),
            ("quay.io/x@sha256:aa", "quay.io/x@sha256:aa"),
        ] {
            assert_eq!(full_name(given), full);
        }
    }
}
