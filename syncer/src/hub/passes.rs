//! Measurements of the syncer and of its workers.

use std::time::Duration;

use vctl_api::rest::Worker;
use vctl_runtime::metrics::{Counter, Exposition, Histogram, Kind};

/// Upper bounds in seconds.
const BOUNDS: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// What the syncer has brought up to date.
pub(super) struct Passes {
    succeeded: Counter,
    failed: Counter,
    seconds: Histogram,
}

impl Default for Passes {
    fn default() -> Self {
        Self { succeeded: Counter::default(), failed: Counter::default(), seconds: Histogram::new(BOUNDS) }
    }
}

impl Passes {
    /// One is over; one that failed is made again.
    pub(super) fn over(&self, succeeded: bool, took: Duration) {
        if succeeded { &self.succeeded } else { &self.failed }.add_one();
        self.seconds.observe(took);
    }

    pub(super) fn write(&self, text: &mut Exposition) {
        text.family(
            "vctl_syncer_passes_total",
            Kind::Counter,
            "Number of times that something was brought up to date.",
        );
        for (result, counter) in [("success", &self.succeeded), ("error", &self.failed)] {
            text.sample("vctl_syncer_passes_total", &[("result", result)], counter.get());
        }
        text.family("vctl_syncer_pass_duration_seconds", Kind::Histogram, "How long that took each time.");
        text.histogram("vctl_syncer_pass_duration_seconds", &[], &self.seconds);
    }
}

/// What is known of the workers, by their agents' reports.
pub(super) fn workers(workers: &[Worker], text: &mut Exposition) {
    let mut each = |name: &str, help: &str, value: &dyn Fn(&Worker) -> Option<f64>| {
        text.family(name, Kind::Gauge, help);
        for worker in workers {
            if let Some(value) = value(worker) {
                text.sample(name, &[("worker", &worker.name)], value);
            }
        }
    };
    each("vctl_worker_connected", "Whether a worker is there.", &|w| Some(if w.connected { 1.0 } else { 0.0 }));
    each("vctl_worker_pods", "Number of pods on a worker.", &|w| Some(w.pods.into()));
    each("vctl_worker_cpu_cores", "Processors of a worker.", &|w| Some(w.cpu_millis as f64 / 1e3));
    each("vctl_worker_memory_bytes", "Memory of a worker.", &|w| Some(w.memory_bytes as f64));
    each("vctl_worker_last_seen_timestamp_seconds", "When the agent of a worker was last heard of.", &|w| {
        w.last_seen.map(|at| at.as_millisecond() as f64 / 1e3)
    });
}
