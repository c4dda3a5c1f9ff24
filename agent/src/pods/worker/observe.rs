//! What becomes of images and containers, as the actor hears of it.

use super::{MESSAGE_LIMIT, Worker, log_path, milliseconds};
use crate::{
    files,
    pods::{
        backoff, cgroup,
        plan::{ImageState, finished, restart_at, restarts},
        record::{Exit, Phase},
        shown_uid,
    },
    streams::logs,
};

impl Worker {
    pub(super) fn image(&mut self, container: &str, image: String, result: Result<String, (String, String)>) {
        let at_ms = self.ctx.now_ms();
        match result {
            Ok(text) => {
                self.event(false, "Pulled", text, container);
                self.pull_failures.remove(&image);
                self.live.images.insert(image, ImageState::Present);
            }
            Err((reason, message)) => {
                self.event(true, "Failed", message.clone(), container);
                self.event(true, "Failed", format!("Error: {reason}"), container);
                if reason == "ErrImagePull" {
                    self.event(false, "BackOff", format!("Back-off pulling image \"{image}\""), container);
                }
                let failures = self.pull_failures.entry(image.clone()).and_modify(|n| *n += 1).or_insert(1);
                let failures = *failures;
                self.live.images.insert(image, ImageState::Failed { reason, message, failures, at_ms });
            }
        }
    }

    /// Looks at a container after something happened to it.
    pub(super) async fn observe(&mut self, id: &str) {
        let Some(name) = self.record.containers.iter().find(|(_, c)| c.id == id).map(|(n, _)| n.clone()) else {
            return;
        };
        let Phase::Running { started_ms } = self.record.container(&name).phase else { return };
        let mut exit = Exit { started_ms, finished_ms: self.ctx.now_ms(), id: id.to_owned(), ..Exit::default() };
        match self.ctx.podman.inspect(id).await {
            Err(e) => {
                tracing::warn!(container = %id, error = %e, "inspecting a container");
                return;
            }
            Ok(Some(seen)) if seen.state.running || seen.state.status == "stopping" => return,
            Ok(Some(seen)) => {
                exit.code = seen.state.exit_code;
                exit.finished_ms = milliseconds(&seen.state.finished_at);
                exit.message = seen.state.error;
            }
            Ok(None) => {
                exit.code = 137;
                exit.reason = "ContainerStatusUnknown".into();
                exit.message = "The container could not be located when the pod was terminated".into();
            }
        }
        self.exited(&name, exit);
    }

    fn exited(&mut self, name: &str, mut exit: Exit) {
        let container = self.spec(name).unwrap_or_default();
        let known = self.record.container(name);
        let group = cgroup::path(&self.ctx.group(), &self.pod.uid, name, known.attempt);
        let limit = container.resources.as_ref().and_then(|r| r.memory_limit_bytes);
        if exit.reason.is_empty() {
            let memory = exit.code == 137 && !known.killed && cgroup::out_of_memory(&group, limit);
            exit.reason = if memory {
                "OOMKilled"
            } else if exit.code == 0 {
                "Completed"
            } else {
                "Error"
            }
            .into();
        }
        self.ctx.measured.container_exit(&exit.reason);
        let said =
            files::read_start(&self.dir.join("termination").join(format!("{name}-{}", known.attempt)), MESSAGE_LIMIT)
                .unwrap_or_default();
        if !said.is_empty() {
            exit.message = String::from_utf8_lossy(&said).into_owned();
        } else if container.termination_message_policy == "FallbackToLogsOnError" && exit.code != 0 {
            exit.message = logs::last_text(&log_path(&self.dir, name, known.attempt));
        }
        cgroup::remove(&group);
        if let Some(ended) = self.ended.remove(name) {
            ended.cancel();
        }
        self.live.stopping.remove(name);
        self.live.kill.remove(name);
        self.live.hooks.remove(name);
        self.live.probes.remove(name);
        let record = self.record.container_mut(name);
        record.killed = false;
        record.start_error = None;
        record.phase = Phase::Exited(exit.clone());
        let record = record.clone();
        let again = self.pod.deletion_grace_seconds.is_none() && !finished(&self.pod, &self.record);
        if again && restart_at(&record, &exit) > exit.finished_ms && restarts(&self.pod.restart_policy, &exit) {
            let pod = format!("{}_{}({})", self.pod.name, self.pod.namespace, shown_uid(&self.pod.uid));
            self.event(true, "BackOff", format!("Back-off restarting failed container {name} in pod {pod}"), name);
        }
        tracing::debug!(pod = %self.pod.uid, container = name, code = exit.code, wait = %backoff::show(backoff::restart_delay_ms(record.crashes)), "container ended");
    }
}
