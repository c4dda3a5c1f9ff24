//! Measurements of the work queue, under the names of client-go's `util/workqueue` and those of upstream's queues.

use vctl_runtime::metrics::{Counter, Exposition, Histogram, Kind};

use super::Controller;

/// Upper bounds in seconds; upstream's.
const BOUNDS: &[f64] = &[1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0];

/// All controllers, in the order of the enum.
const ALL: [Controller; COUNT] = [
    Controller::Scan,
    Controller::FanOut,
    Controller::Namespace,
    Controller::Definition,
    Controller::ServiceAccount,
    Controller::RootCa,
    Controller::GarbageScan,
    Controller::GarbageObject,
    Controller::ReplicaSet,
    Controller::ReplicationController,
    Controller::Deployment,
    Controller::StatefulSet,
    Controller::DaemonSet,
    Controller::DaemonSetNodes,
    Controller::Job,
    Controller::CronJob,
    Controller::Disruption,
    Controller::ClusterRole,
    Controller::Endpoints,
    Controller::EndpointSlice,
    Controller::EndpointSliceMirroring,
    Controller::HorizontalPodAutoscaler,
    Controller::Scheduler,
    Controller::Volumes,
    Controller::PodGc,
    Controller::EventExpiry,
    Controller::ResourceQuota,
    Controller::Certificates,
    Controller::ApiServices,
    Controller::FlowControl,
];
/// How many there are: the last one is the last of the enum.
const COUNT: usize = Controller::FlowControl as usize + 1;

/// Name of a controller's queue.
fn name(controller: Controller) -> &'static str {
    match controller {
        Controller::Scan => "scan",
        Controller::FanOut => "fan_out",
        Controller::Namespace => "namespace",
        Controller::Definition => "crd_naming_condition_controller",
        Controller::ServiceAccount => "serviceaccount",
        Controller::RootCa => "root_ca_cert_publisher",
        Controller::GarbageScan => "garbage_collector_graph_changes",
        Controller::GarbageObject => "garbage_collector_attempt_to_delete",
        Controller::ReplicaSet => "replicaset",
        Controller::ReplicationController => "replicationmanager",
        Controller::Deployment => "deployment",
        Controller::StatefulSet => "statefulset",
        Controller::DaemonSet => "daemonset",
        Controller::DaemonSetNodes => "daemonset-node-updates",
        Controller::Job => "job",
        Controller::CronJob => "cronjob",
        Controller::Disruption => "disruption",
        Controller::ClusterRole => "ClusterRoleAggregator",
        Controller::Endpoints => "endpoint",
        Controller::EndpointSlice => "endpoint_slice",
        Controller::EndpointSliceMirroring => "endpoint_slice_mirroring",
        Controller::HorizontalPodAutoscaler => "horizontalpodautoscaler",
        Controller::Scheduler => "scheduler",
        Controller::Volumes => "pv_controller",
        Controller::PodGc => "pod_gc",
        Controller::EventExpiry => "event_expiry",
        Controller::ResourceQuota => "resourcequota_primary",
        Controller::Certificates => "certificate",
        Controller::ApiServices => "available_controller",
        Controller::FlowControl => "priority_and_fairness_config_queue",
    }
}

/// The numbers of one controller.
pub(super) struct Of {
    pub(super) adds: Counter,
    pub(super) retries: Counter,
    pub(super) waited: Histogram,
    pub(super) worked: Histogram,
}

/// The numbers of all controllers.
pub(super) struct Numbers([Of; COUNT]);

impl Default for Numbers {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Of {
            adds: Counter::default(),
            retries: Counter::default(),
            waited: Histogram::new(BOUNDS),
            worked: Histogram::new(BOUNDS),
        }))
    }
}

impl Numbers {
    pub(super) fn of(&self, controller: Controller) -> &Of {
        // One for each: COUNT is that of the enum.
        &self.0[controller as usize]
    }

    /// Writes them; `depth` is how many keys wait now.
    pub(super) fn write(&self, text: &mut Exposition, depth: impl Fn(Controller) -> usize) {
        let mut family = |metric: &str, kind, help: &str, sample: &dyn Fn(&mut Exposition, &Of, Controller, &str)| {
            text.family(metric, kind, help);
            for (of, controller) in self.0.iter().zip(ALL) {
                sample(text, of, controller, name(controller));
            }
        };
        let adds = "Total number of adds handled by workqueue";
        family("workqueue_adds_total", Kind::Counter, adds, &|text, of, _, name| {
            text.sample("workqueue_adds_total", &[("name", name)], of.adds.get());
        });
        family("workqueue_depth", Kind::Gauge, "Current depth of workqueue", &|text, _, controller, name| {
            text.sample("workqueue_depth", &[("name", name)], depth(controller));
        });
        let waited = "How long in seconds an item stays in workqueue before being requested.";
        family("workqueue_queue_duration_seconds", Kind::Histogram, waited, &|text, of, _, name| {
            text.histogram("workqueue_queue_duration_seconds", &[("name", name)], &of.waited);
        });
        let worked = "How long in seconds processing an item from workqueue takes.";
        family("workqueue_work_duration_seconds", Kind::Histogram, worked, &|text, of, _, name| {
            text.histogram("workqueue_work_duration_seconds", &[("name", name)], &of.worked);
        });
        let retries = "Total number of retries handled by workqueue";
        family("workqueue_retries_total", Kind::Counter, retries, &|text, of, _, name| {
            text.sample("workqueue_retries_total", &[("name", name)], of.retries.get());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_controller_has_its_place_and_a_name_of_its_own() {
        for (place, controller) in ALL.into_iter().enumerate() {
            assert_eq!(controller as usize, place);
        }
        let names: std::collections::HashSet<&str> = ALL.into_iter().map(name).collect();
        assert_eq!(names.len(), COUNT);
    }
}
