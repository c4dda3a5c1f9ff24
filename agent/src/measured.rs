//! What an agent counts, and `/metrics` of it.
//!
//! There is nothing in it by which a tenant could be recognized, and the number of series does not grow with pods: who may read it is up to
//! the address it is served on.

mod listener;

use std::time::Duration;

use vctl_api::agent::Pod;
use vctl_runtime::metrics::{Counter, Exposition, Gauge, Histogram, Kind, process};

pub(crate) use self::listener::Listener;
use crate::{
    context::Context,
    pods::{
        plan::{Action, finished},
        probe,
        record::{Phase, PodRecord},
    },
    reconcile::Reconciler,
};

/// Upper bounds in seconds.
const BOUNDS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Values by the value of one label, all of which are known beforehand.
pub(crate) struct By<T>(Vec<(&'static str, T)>);

impl<T> By<T> {
    fn new(labels: impl IntoIterator<Item = &'static str>, value: impl Fn() -> T) -> Self {
        Self(labels.into_iter().map(|label| (label, value())).collect())
    }

    /// The value of a label; what is not known counts as the last one.
    fn of(&self, label: &str) -> Option<&T> {
        self.0.iter().find(|(known, _)| *known == label).or(self.0.last()).map(|(_, value)| value)
    }

    fn each(&self) -> impl Iterator<Item = (&'static str, &T)> {
        self.0.iter().map(|(label, value)| (*label, value))
    }
}

/// Streams of one kind.
#[derive(Default)]
struct Streams {
    opened: Counter,
    open: Gauge,
}

/// One that is open as long as this is held.
pub(crate) struct OpenStream<'a>(Option<&'a Streams>);

impl Drop for OpenStream<'_> {
    fn drop(&mut self) {
        if let Some(streams) = self.0 {
            streams.open.add(-1);
        }
    }
}

/// All counts of an agent.
pub(crate) struct Measured {
    connections: Counter,
    connection_failures: Counter,
    /// By the class of expected state.
    applied: By<Histogram>,
    apply_failures: By<Counter>,
    actions: By<Histogram>,
    pod_starts: Histogram,
    container_starts: Counter,
    container_start_failures: Counter,
    /// By reason.
    container_exits: By<Counter>,
    /// By kind of probe: those that succeeded and those that failed.
    probes: By<(Counter, Counter)>,
    /// By type.
    events: By<Counter>,
    streams: By<Streams>,
}

impl Default for Measured {
    fn default() -> Self {
        let histogram = || Histogram::new(BOUNDS);
        let classes = ["dns", "pods", "services"];
        Self {
            connections: Counter::default(),
            connection_failures: Counter::default(),
            applied: By::new(classes, histogram),
            apply_failures: By::new(classes, Counter::default),
            actions: By::new(Action::NAMES, histogram),
            pod_starts: histogram(),
            container_starts: Counter::default(),
            container_start_failures: Counter::default(),
            container_exits: By::new(["Completed", "Error", "OOMKilled", "Other"], Counter::default),
            probes: By::new(probe::Kind::ALL.map(probe::Kind::name), Default::default),
            events: By::new(["Normal", "Warning"], Counter::default),
            streams: By::new(["logs", "exec", "attach", "port-forward", "api-tunnel"], Streams::default),
        }
    }
}

impl Measured {
    /// The server has answered on a new control stream.
    pub(crate) fn connected(&self) {
        self.connections.add_one();
    }

    /// A control stream could not be had, or broke.
    pub(crate) fn disconnected(&self) {
        self.connection_failures.add_one();
    }

    /// Expected state was taken in.
    pub(crate) fn applied(&self, class: &str, took: Duration, succeeded: bool) {
        if let Some(histogram) = self.applied.of(class) {
            histogram.observe(took);
        }
        if let Some(failures) = self.apply_failures.of(class).filter(|_| !succeeded) {
            failures.add_one();
        }
    }

    /// A change was made to a pod.
    pub(crate) fn action(&self, name: &str, took: Duration) {
        if let Some(histogram) = self.actions.of(name) {
            histogram.observe(took);
        }
    }

    /// A container was started, or was not. When it was the last one its pod waited for, for the first time, the pod has started.
    pub(crate) fn container_start(&self, pod: &Pod, record: &PodRecord, now_ms: i64, succeeded: bool) {
        if !succeeded {
            self.container_start_failures.add_one();
            return;
        }
        self.container_starts.add_one();
        let first = |name: &str| {
            let container = record.container(name);
            container.restarts == 0 && matches!(container.phase, Phase::Running { .. })
        };
        if pod.containers.iter().all(|c| first(&c.name)) {
            self.pod_starts.observe(Duration::from_millis((now_ms - record.start_ms).max(0).unsigned_abs()));
        }
    }

    /// A container has ended, for this reason of its status.
    pub(crate) fn container_exit(&self, reason: &str) {
        if let Some(exits) = self.container_exits.of(reason) {
            exits.add_one();
        }
    }

    /// A probe was made.
    pub(crate) fn probe(&self, kind: probe::Kind, succeeded: bool) {
        if let Some((succeeded_ones, failed_ones)) = self.probes.of(kind.name()) {
            if succeeded { succeeded_ones } else { failed_ones }.add_one();
        }
    }

    /// An Event was reported.
    pub(crate) fn event(&self, kind: &str) {
        if let Some(events) = self.events.of(kind) {
            events.add_one();
        }
    }

    /// A stream was opened, and is open as long as the answer is held.
    pub(crate) fn stream(&self, kind: &str) -> OpenStream<'_> {
        let streams = self.streams.of(kind);
        if let Some(streams) = streams {
            streams.opened.add_one();
            streams.open.add(1);
        }
        OpenStream(streams)
    }

    fn write(&self, text: &mut Exposition) {
        let mut counter = |name: &str, help: &str, counter: &Counter| {
            text.family(name, Kind::Counter, help);
            text.sample(name, &[], counter.get());
        };
        counter(
            "vctl_agent_connections_total",
            "Number of control streams that the server answered.",
            &self.connections,
        );
        counter(
            "vctl_agent_connection_failures_total",
            "Number of control streams that could not be had or broke.",
            &self.connection_failures,
        );
        counter("vctl_agent_container_starts_total", "Number of containers started.", &self.container_starts);
        counter(
            "vctl_agent_container_start_failures_total",
            "Number of containers that could not be started.",
            &self.container_start_failures,
        );
        let mut counters = |name: &str, label: &str, help: &str, all: &By<Counter>| {
            text.family(name, Kind::Counter, help);
            for (value, counter) in all.each() {
                text.sample(name, &[(label, value)], counter.get());
            }
        };
        let help = "Number of containers that ended, by reason.";
        counters("vctl_agent_container_exits_total", "reason", help, &self.container_exits);
        counters("vctl_agent_events_total", "type", "Number of Events of pods reported.", &self.events);
        let help = "Number of times that expected state could not be applied.";
        counters("vctl_agent_apply_failures_total", "class", help, &self.apply_failures);
        let mut histograms = |name: &str, label: &str, help: &str, all: &By<Histogram>| {
            text.family(name, Kind::Histogram, help);
            for (value, histogram) in all.each() {
                text.histogram(name, &[(label, value)], histogram);
            }
        };
        let help = "How long it took to keep expected state that came and to hand it on.";
        histograms("vctl_agent_apply_duration_seconds", "class", help, &self.applied);
        histograms("vctl_agent_pod_action_duration_seconds", "action", "How long changes to pods took.", &self.actions);
        let name = "vctl_agent_pod_start_duration_seconds";
        text.family(name, Kind::Histogram, "From when a pod was first expected until all its containers ran.");
        text.histogram(name, &[], &self.pod_starts);
        let name = "vctl_agent_probes_total";
        text.family(name, Kind::Counter, "Number of probes of containers.");
        for (kind, (succeeded, failed)) in self.probes.each() {
            for (result, counter) in [("successful", succeeded), ("failed", failed)] {
                text.sample(name, &[("probe_type", kind), ("result", result)], counter.get());
            }
        }
        let name = "vctl_agent_streams_total";
        text.family(name, Kind::Counter, "Number of streams opened.");
        for (kind, streams) in self.streams.each() {
            text.sample(name, &[("kind", kind)], streams.opened.get());
        }
        text.family("vctl_agent_streams_open", Kind::Gauge, "Streams that are open.");
        for (kind, streams) in self.streams.each() {
            text.sample("vctl_agent_streams_open", &[("kind", kind)], streams.open.get());
        }
    }
}

/// How many pods and containers are in which state.
#[derive(Debug, Default, PartialEq, Eq)]
struct Census {
    pending: u64,
    running: u64,
    finished: u64,
    stopping: u64,
    containers_running: u64,
    containers_exited: u64,
    containers_waiting: u64,
}

impl Census {
    fn add(&mut self, pod: &Pod, record: &PodRecord) {
        let phases: Vec<Phase> =
            pod.init_containers.iter().chain(&pod.containers).map(|c| record.container(&c.name).phase).collect();
        for phase in &phases {
            *match phase {
                Phase::Running { .. } => &mut self.containers_running,
                Phase::Exited(_) => &mut self.containers_exited,
                Phase::Absent => &mut self.containers_waiting,
            } += 1;
        }
        let main = phases.get(pod.init_containers.len()..).unwrap_or_default();
        *if pod.deletion_grace_seconds.is_some() {
            &mut self.stopping
        } else if finished(pod, record) {
            &mut self.finished
        } else if main.iter().all(|phase| *phase != Phase::Absent) {
            &mut self.running
        } else {
            &mut self.pending
        } += 1;
    }

    fn write(&self, text: &mut Exposition) {
        text.family("vctl_agent_pods", Kind::Gauge, "Pods on this worker, by state.");
        let states = [
            ("pending", self.pending),
            ("running", self.running),
            ("finished", self.finished),
            ("stopping", self.stopping),
        ];
        for (state, count) in states {
            text.sample("vctl_agent_pods", &[("state", state)], count);
        }
        text.family("vctl_agent_containers", Kind::Gauge, "Containers of those pods, by state.");
        let states = [
            ("waiting", self.containers_waiting),
            ("running", self.containers_running),
            ("exited", self.containers_exited),
        ];
        for (state, count) in states {
            text.sample("vctl_agent_containers", &[("state", state)], count);
        }
    }
}

/// Everything there is to tell now.
fn text(ctx: &Context, reconciler: &Reconciler) -> String {
    let mut text = Exposition::default();
    text.family("vctl_agent_connected", Kind::Gauge, "Whether the agent is connected to the server.");
    text.sample("vctl_agent_connected", &[], u8::from(reconciler.client.borrow().is_some()));
    let mut census = Census::default();
    for handle in reconciler.handles() {
        let view = handle.view.borrow().clone();
        census.add(&view.pod, &view.record);
    }
    census.write(&mut text);
    ctx.measured.write(&mut text);
    ctx.podman.write_measured(&mut text);
    process(&mut text);
    text.into_text()
}

#[cfg(test)]
mod tests;
