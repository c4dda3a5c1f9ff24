use super::*;

fn container(name: &str) -> Container {
    Container { name: name.into(), image: "i".into(), ..Container::default() }
}

fn pod(policy: &str) -> Pod {
    Pod {
        uid: "u".into(),
        restart_policy: policy.into(),
        termination_grace_seconds: 30,
        init_containers: vec![container("setup")],
        containers: vec![container("web"), container("log")],
        ..Pod::default()
    }
}

fn live() -> Live {
    let images = [("i".to_owned(), ImageState::Present)].into();
    Live { sandbox_ready: true, volumes: Some(7), images, ..Live::default() }
}

fn run(record: &mut PodRecord, name: &str, now: i64) {
    let c = record.container_mut(name);
    c.image = "i".into();
    c.phase = Phase::Running { started_ms: now };
}

fn exit(record: &mut PodRecord, name: &str, code: i32, now: i64) {
    record.container_mut(name).phase =
        Phase::Exited(Exit { code, started_ms: now - 1, finished_ms: now, ..Exit::default() });
}

fn start(name: &str) -> Plan {
    Plan::Do(Action::Start { container: name.into() })
}

fn next(pod: &Pod, record: &PodRecord, live: &Live) -> Plan {
    plan(pod, 7, record, live, 1000)
}

#[test]
fn sandbox_then_volumes_then_init_then_containers() {
    let (pod, mut record) = (pod("Always"), PodRecord::default());
    assert_eq!(next(&pod, &record, &Live::default()), Plan::Do(Action::SetUpSandbox));
    assert_eq!(next(&pod, &record, &Live { sandbox_ready: true, ..Live::default() }), Plan::Do(Action::SyncVolumes));
    let no_image = Live { images: BTreeMap::new(), ..live() };
    assert_eq!(next(&pod, &record, &no_image), Plan::Do(Action::EnsureImage { container: "setup".into() }));
    assert_eq!(next(&pod, &record, &live()), start("setup"));
    run(&mut record, "setup", 1000);
    assert_eq!(next(&pod, &record, &live()), Plan::Wait(None), "containers wait for the init container");
    exit(&mut record, "setup", 0, 1000);
    assert_eq!(next(&pod, &record, &live()), start("web"));
    run(&mut record, "web", 1000);
    assert_eq!(next(&pod, &record, &live()), start("log"));
    run(&mut record, "log", 1000);
    assert_eq!(next(&pod, &record, &live()), Plan::Wait(None));
}

#[test]
fn a_sidecar_must_have_started_before_the_next_and_stops_last() {
    let mut pod = pod("Never");
    pod.init_containers[0].restart_policy = "Always".into();
    let mut record = PodRecord::default();
    run(&mut record, "setup", 1);
    assert_eq!(next(&pod, &record, &live()), Plan::Wait(None));
    let started = Live { probes: [("setup".to_owned(), ProbeView { started: true, ready: false })].into(), ..live() };
    assert_eq!(next(&pod, &record, &started), start("web"));
    exit(&mut record, "web", 0, 2);
    exit(&mut record, "log", 1, 2);
    assert!(finished(&pod, &record));
    assert!(matches!(next(&pod, &record, &started), Plan::Do(Action::Stop { container, .. }) if container == "setup"));
    exit(&mut record, "setup", 0, 3);
    assert_eq!(next(&pod, &record, &started), Plan::Do(Action::ReleaseSandbox));
}

#[test]
fn restarts_wait_for_their_back_off() {
    let (mut pod, mut record) = (pod("OnFailure"), PodRecord::default());
    pod.init_containers.clear();
    pod.containers.truncate(1);
    exit(&mut record, "web", 1, 900);
    assert_eq!(next(&pod, &record, &live()), start("web"), "the first restart is at once");
    record.container_mut("web").crashes = 2;
    assert_eq!(next(&pod, &record, &live()), Plan::Wait(Some(20_900)));
    exit(&mut record, "web", 0, 900);
    assert!(finished(&pod, &record));
}

#[test]
fn a_failed_init_container_ends_a_pod_that_never_restarts() {
    let (pod, mut record) = (pod("Never"), PodRecord::default());
    exit(&mut record, "setup", 3, 900);
    assert!(finished(&pod, &record));
    assert_eq!(next(&pod, &record, &live()), Plan::Do(Action::ReleaseSandbox));
}

#[test]
fn deletion_stops_all_within_one_deadline_and_tears_down() {
    let (mut pod, mut record) = (pod("Always"), PodRecord::default());
    pod.deletion_grace_seconds = Some(30);
    record.stop_deadline_ms = Some(11_000);
    run(&mut record, "web", 1);
    run(&mut record, "log", 1);
    let mut live = live();
    let stop = next(&pod, &record, &live);
    assert_eq!(
        stop,
        Plan::Do(Action::Stop { container: "web".into(), grace_seconds: 10, message: "Stopping container web".into() })
    );
    live.stopping.insert("web".into());
    assert!(matches!(next(&pod, &record, &live), Plan::Do(Action::Stop { container, .. }) if container == "log"));
    live.stopping.insert("log".into());
    assert_eq!(next(&pod, &record, &live), Plan::Wait(None));
    exit(&mut record, "web", 0, 2);
    exit(&mut record, "log", 0, 2);
    assert_eq!(next(&pod, &record, &live), Plan::Do(Action::TearDown));
}

#[test]
fn deadline_image_change_and_failed_liveness_end_containers() {
    let (mut pod, mut record) = (pod("Always"), PodRecord::default());
    pod.init_containers.clear();
    pod.containers.truncate(1);
    run(&mut record, "web", 1);
    let mut killing = live();
    killing.kill.insert("web".into(), ("unwell".into(), Some(5)));
    assert_eq!(
        next(&pod, &record, &killing),
        Plan::Do(Action::Stop { container: "web".into(), grace_seconds: 5, message: "unwell".into() })
    );
    pod.containers[0].image = "j".into();
    assert!(matches!(next(&pod, &record, &live()), Plan::Do(Action::Stop { .. })));
    pod.active_deadline_seconds = Some(1);
    assert!(matches!(next(&pod, &record, &live()), Plan::Do(Action::Fail { reason: "DeadlineExceeded", .. })));
}

#[test]
fn a_failed_pull_waits() {
    let (pod, record) = (pod("Always"), PodRecord::default());
    let failed = ImageState::Failed { reason: "ErrImagePull".into(), message: String::new(), failures: 1, at_ms: 500 };
    let with = |state| Live { images: [("i".to_owned(), state)].into(), ..live() };
    assert_eq!(next(&pod, &record, &with(failed)), Plan::Wait(Some(10_500)));
}

#[test]
fn a_refusal_is_said_and_waits_for_the_server() {
    let mut pod = pod("Always");
    pod.init_containers.clear();
    pod.containers[0].config_error = "hostNetwork is not allowed".into();
    let refuse = |name: &str| Plan::Do(Action::Refuse { container: name.into() });
    let (record, mut now_live) = (PodRecord::default(), live());
    assert_eq!(next(&pod, &record, &now_live), refuse("web"));
    now_live.refused.insert("web".into(), ("hostNetwork is not allowed".into(), 1000));
    assert_eq!(next(&pod, &record, &now_live), start("log"), "the other container is not refused");
    pod.containers.truncate(1);
    assert_eq!(next(&pod, &record, &now_live), Plan::Wait(Some(1000 + REFUSAL_PERIOD_MS)));
    assert_eq!(plan(&pod, 7, &record, &now_live, 1000 + REFUSAL_PERIOD_MS), refuse("web"));
    pod.containers[0].config_error = "configmap \"c\" not found".into();
    assert_eq!(next(&pod, &record, &now_live), refuse("web"), "another reason");
    pod.containers[0].config_error.clear();
    assert_eq!(next(&pod, &record, &now_live), start("web"));
}
