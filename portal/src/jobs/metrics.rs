//! Measurements of jobs.

use std::{sync::Arc, time::Instant};

use vctl_api::rest::JobState;
use vctl_runtime::metrics::{Counter, Exposition, Gauge, Histogram, Kind};

/// Upper bounds in seconds.
const BOUNDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
const STATES: [(JobState, &str); 3] =
    [(JobState::Succeeded, "succeeded"), (JobState::Failed, "failed"), (JobState::Cancelled, "cancelled")];

/// What the runner of this process has done.
pub(crate) struct JobMetrics {
    running: Gauge,
    ended: [Counter; 3],
    retried: Counter,
    seconds: Histogram,
}

impl Default for JobMetrics {
    fn default() -> Self {
        Self {
            running: Gauge::default(),
            ended: Default::default(),
            retried: Counter::default(),
            seconds: Histogram::new(BOUNDS),
        }
    }
}

/// A job that is worked on; no longer when this is dropped.
pub(crate) struct Working {
    metrics: Arc<JobMetrics>,
    since: Instant,
}

impl JobMetrics {
    pub(crate) fn begin(self: &Arc<Self>) -> Working {
        self.running.add(1);
        Working { metrics: self.clone(), since: Instant::now() }
    }

    /// A job has ended.
    pub(crate) fn ended(&self, state: JobState) {
        for ((of, _), counter) in STATES.iter().zip(&self.ended) {
            if *of == state {
                counter.add_one();
            }
        }
    }

    /// A job has failed and is tried again.
    pub(crate) fn retried(&self) {
        self.retried.add_one();
    }

    pub(crate) fn write(&self, text: &mut Exposition) {
        text.family("vctl_jobs_running", Kind::Gauge, "Number of jobs that are worked on.");
        text.sample("vctl_jobs_running", &[], self.running.get());
        text.family("vctl_jobs_finished_total", Kind::Counter, "Number of jobs that have ended, by how.");
        for ((_, name), counter) in STATES.iter().zip(&self.ended) {
            text.sample("vctl_jobs_finished_total", &[("state", name)], counter.get());
        }
        text.family("vctl_jobs_retries_total", Kind::Counter, "Number of failures of jobs that were tried again.");
        text.sample("vctl_jobs_retries_total", &[], self.retried.get());
        text.family("vctl_job_duration_seconds", Kind::Histogram, "How long a job was worked on at a time.");
        text.histogram("vctl_job_duration_seconds", &[], &self.seconds);
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.metrics.running.add(-1);
        self.metrics.seconds.observe(self.since.elapsed());
    }
}
