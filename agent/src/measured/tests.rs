use vctl_api::agent::Container;

use super::*;
use crate::pods::record::Exit;

fn pod() -> Pod {
    let container = |name: &str| Container { name: name.into(), ..Container::default() };
    Pod {
        restart_policy: "Never".into(),
        init_containers: vec![container("setup")],
        containers: vec![container("web"), container("log")],
        ..Pod::default()
    }
}

#[test]
fn pods_and_containers_are_counted_by_state() {
    let (pod, mut record) = (pod(), PodRecord::default());
    let mut census = Census::default();
    census.add(&pod, &record);
    assert_eq!(census, Census { pending: 1, containers_waiting: 3, ..Census::default() });
    let exited = |code: i32| Phase::Exited(Exit { code, ..Exit::default() });
    record.container_mut("setup").phase = exited(0);
    record.container_mut("web").phase = Phase::Running { started_ms: 1 };
    record.container_mut("log").phase = exited(1);
    let mut census = Census::default();
    census.add(&pod, &record);
    assert_eq!(census, Census { running: 1, containers_running: 1, containers_exited: 2, ..Census::default() });
    record.container_mut("web").phase = exited(0);
    census = Census::default();
    census.add(&pod, &record);
    census.add(&Pod { deletion_grace_seconds: Some(1), ..pod }, &record);
    assert_eq!((census.finished, census.stopping), (1, 1));
}

#[test]
fn what_is_counted_is_told() {
    let measured = Measured::default();
    let (pod, mut record) = (pod(), PodRecord { start_ms: 1_000, ..PodRecord::default() });
    record.container_mut("web").phase = Phase::Running { started_ms: 1_000 };
    measured.container_start(&pod, &record, 1_500, true);
    record.container_mut("log").phase = Phase::Running { started_ms: 1_500 };
    measured.container_start(&pod, &record, 1_700, true);
    measured.container_start(&pod, &record, 1_700, false);
    record.container_mut("log").restarts = 1;
    measured.container_start(&pod, &record, 9_000, true);
    measured.container_exit("OOMKilled");
    measured.container_exit("ContainerStatusUnknown");
    measured.probe(probe::Kind::Liveness, false);
    measured.event("Warning");
    measured.action("Start", Duration::from_millis(20));
    measured.applied("pods", Duration::from_millis(2), false);
    measured.connected();
    let open = measured.stream("exec");
    drop(measured.stream("exec"));
    let mut text = Exposition::default();
    measured.write(&mut text);
    let text = text.into_text();
    for line in [
        "vctl_agent_container_starts_total 3",
        "vctl_agent_container_start_failures_total 1",
        "vctl_agent_container_exits_total{reason=\"OOMKilled\"} 1",
        "vctl_agent_container_exits_total{reason=\"Other\"} 1",
        "vctl_agent_pod_start_duration_seconds_count 1",
        "vctl_agent_pod_start_duration_seconds_sum 0.7",
        "vctl_agent_probes_total{probe_type=\"Liveness\",result=\"failed\"} 1",
        "vctl_agent_events_total{type=\"Warning\"} 1",
        "vctl_agent_pod_action_duration_seconds_bucket{action=\"Start\",le=\"0.025\"} 1",
        "vctl_agent_apply_failures_total{class=\"pods\"} 1",
        "vctl_agent_connections_total 1",
        "vctl_agent_streams_total{kind=\"exec\"} 2",
        "vctl_agent_streams_open{kind=\"exec\"} 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
    }
    drop(open);
}
