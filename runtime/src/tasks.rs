//! Tracked tasks: every task of the process belongs to a [`Tasks`], which can be told to stop and waited for.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use tokio_util::{
    sync::{CancellationToken, WaitForCancellationFutureOwned},
    task::TaskTracker,
};

/// A group of tasks with one shutdown signal. Clones share both.
#[derive(Clone, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    cancel: CancellationToken,
}

impl Tasks {
    /// An empty group.
    pub fn new() -> Self {
        Self::default()
    }

    /// A group that stops with this one but can also be stopped alone. It is waited for with this one.
    pub fn child(&self) -> Self {
        Self { tracker: self.tracker.clone(), cancel: self.cancel.child_token() }
    }

    /// Runs a task to its end; it should watch [`Tasks::cancelled`]. A panic in it is logged with its name.
    #[expect(clippy::disallowed_methods, reason = "the one place that tracks what it spawns")]
    pub fn spawn<F>(&self, name: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let handle = tokio::spawn(task);
        self.tracker.spawn(async move {
            if let Err(e) = handle.await
                && e.is_panic()
            {
                tracing::error!(task = name, error = %e, "a task panicked; this is a bug, please report it");
            }
        });
    }

    /// Runs a task that is dropped as soon as the group is stopped.
    pub fn spawn_until_stopped<F>(&self, name: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let cancel = self.cancel.clone();
        self.spawn(name, async move {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// Completes when the group is told to stop.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// As [`Tasks::cancelled`], for tasks that wait for other things most of the time and are woken often.
    pub fn stopping(&self) -> Stopping {
        Stopping(std::iter::once(self.cancel.clone().cancelled_owned()).collect())
    }

    /// Whether the group has been told to stop.
    pub fn is_stopping(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Tells the tasks to stop, without waiting.
    pub fn stop(&self) {
        self.cancel.cancel();
    }

    /// Tells the tasks to stop and waits for them; false when some are still running after `limit`.
    pub async fn shutdown(&self, limit: Duration) -> bool {
        self.cancel.cancel();
        self.tracker.close();
        tokio::time::timeout(limit, self.tracker.wait()).await.is_ok()
    }
}

/// Completes when a group is told to stop. Looks at the signal, whose lock all tasks of the group share, only when that has woken it.
pub struct Stopping(FuturesUnordered<WaitForCancellationFutureOwned>);

impl Future for Stopping {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Empty when it has completed before.
        self.0.poll_next_unpin(cx).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn shutdown_waits_for_tasks_that_watch_the_signal() {
        let tasks = Tasks::new();
        let (done, wait) = tokio::sync::oneshot::channel();
        let watched = tasks.clone();
        tasks.spawn("watches", async move {
            watched.cancelled().await;
            let _ = done.send(());
        });
        assert!(tasks.shutdown(Duration::from_secs(5)).await);
        assert!(wait.await.is_ok());
    }

    #[tokio::test]
    async fn a_waiting_task_is_woken_by_the_signal() {
        let tasks = Tasks::new();
        let mut stopping = tasks.child().stopping();
        for _ in 0..3 {
            assert!(futures::poll!(&mut stopping).is_pending());
        }
        let ((), ()) = tokio::join!(&mut stopping, async {
            tokio::task::yield_now().await;
            tasks.stop();
        });
        assert!(futures::poll!(&mut stopping).is_ready(), "it stays so");
    }

    #[tokio::test]
    async fn stopping_a_child_leaves_the_parent_running() {
        let tasks = Tasks::new();
        let child = tasks.child();
        child.stop();
        assert!(child.is_stopping() && !tasks.is_stopping());
        tasks.stop();
        assert!(tasks.is_stopping());
    }
}
