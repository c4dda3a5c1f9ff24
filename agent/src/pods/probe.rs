//! Probes of a running container: when they are due, and when their results count.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use vctl_api::agent::{Container, Probe};

use super::{handler, worker::Message};
use crate::podman::Podman;

/// Which probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Startup,
    Readiness,
    Liveness,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Startup, Self::Readiness, Self::Liveness];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Readiness => "Readiness",
            Self::Liveness => "Liveness",
        }
    }
}

/// Counts results in a row against the thresholds.
pub(crate) struct Threshold {
    success: i32,
    failure: i32,
    last: Option<bool>,
    run: i32,
}

impl Threshold {
    pub(crate) fn new(probe: &Probe) -> Self {
        Self { success: probe.success_threshold.max(1), failure: probe.failure_threshold.max(1), last: None, run: 0 }
    }

    /// A verdict, once enough results in a row agree; it is repeated as long as they do.
    pub(crate) fn count(&mut self, ok: bool) -> Option<bool> {
        self.run = if self.last == Some(ok) { self.run.saturating_add(1) } else { 1 };
        self.last = Some(ok);
        (self.run >= if ok { self.success } else { self.failure }).then_some(ok)
    }
}

/// What is probed.
pub(crate) struct Target {
    pub(crate) podman: Podman,
    pub(crate) id: String,
    pub(crate) container: Container,
    pub(crate) reach: handler::Reach,
    pub(crate) started_ago: Duration,
    pub(crate) out: UnboundedSender<Message>,
}

/// Probes a container until it ends: startup first, then readiness and liveness side by side.
pub(crate) async fn run(target: Target) {
    if let Some(probe) = target.container.startup.clone()
        && !repeat(&target, Kind::Startup, &probe, true).await
    {
        return;
    }
    let readiness = async {
        if let Some(probe) = &target.container.readiness {
            repeat(&target, Kind::Readiness, probe, false).await;
        }
    };
    let liveness = async {
        if let Some(probe) = &target.container.liveness {
            repeat(&target, Kind::Liveness, probe, false).await;
        }
    };
    tokio::join!(readiness, liveness);
}

/// Probes again and again; `once`: until the first verdict of success. False when nobody listens any more.
async fn repeat(target: &Target, kind: Kind, probe: &Probe, once: bool) -> bool {
    let Some(what) = &probe.handler else { return true };
    let seconds = |n: i32, least: i32| Duration::from_secs(u64::from(n.max(least).unsigned_abs()));
    let delay = seconds(probe.initial_delay_seconds, 0).saturating_sub(target.started_ago);
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + delay, seconds(probe.period_seconds, 1));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut threshold = Threshold::new(probe);
    loop {
        ticks.tick().await;
        let outcome =
            handler::run(&target.podman, &target.id, &target.reach, what, seconds(probe.timeout_seconds, 1)).await;
        let ok = outcome.is_ok();
        let verdict = threshold.count(ok);
        let message = Message::Probe {
            container: target.container.name.clone(),
            id: target.id.clone(),
            kind,
            verdict,
            failure: outcome.err(),
        };
        if target.out.send(message).is_err() {
            return false;
        }
        if once && verdict == Some(true) {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_results_in_a_row_reach_a_threshold() {
        let mut t = Threshold::new(&Probe { success_threshold: 1, failure_threshold: 3, ..Probe::default() });
        let results = [true, false, false, true, false, false, false, false];
        let verdicts: Vec<_> = results.into_iter().map(|ok| t.count(ok)).collect();
        assert_eq!(verdicts, [Some(true), None, None, Some(true), None, None, Some(false), Some(false)]);
    }
}
