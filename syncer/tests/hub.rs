//! The hub with an agent that the test plays, and with the simulated worker.

#[path = "hub/support.rs"]
mod support;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde_json::json;
use support::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_stream::StreamExt as _;
use tonic::Code;
use vctl_api::agent::*;
use vctl_store::{MemoryStore, Store as _};
use vctl_syncer::streams::{ContainerTarget, ExecInput, ExecOptions, ExecOutput, LogOptions};

fn observed(uid: &str, name: &str) -> PodStatus {
    let state = ContainerState { state: Some(container_state::State::Running(Running { started_at_ms: 1_000 })) };
    PodStatus {
        uid: uid.into(),
        environment: "env".into(),
        namespace: "default".into(),
        name: name.into(),
        pod_ip: "10.200.0.2".into(),
        host_ip: "10.0.0.1".into(),
        start_time_ms: 1_000,
        sandbox_ready: true,
        containers: vec![ContainerStatus {
            name: "app".into(),
            state: Some(state),
            ready: true,
            started: true,
            ..ContainerStatus::default()
        }],
        ..PodStatus::default()
    }
}

fn target(name: &str, uid: &str, node: &str) -> ContainerTarget {
    ContainerTarget {
        environment: "env".into(),
        namespace: "default".into(),
        pod: name.into(),
        uid: uid.into(),
        node: node.into(),
        container: "app".into(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simulated_pods_become_ready_and_go() {
    let world = World::new(&["sim"]).await;
    world.api.store.create_tenant("env", vec![]).await.unwrap();
    let node = world.api.until("env", "nodes", "", "sim", |n| n.is_some()).await.unwrap();
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "sim");
    world.api.put("env", "pods", "default", "web", pod("web", "u1", "sim")).await;
    let web = world.api.until("env", "pods", "default", "web", ready).await.unwrap();
    assert_eq!((&web["status"]["phase"], &web["status"]["qosClass"]), (&json!("Running"), &json!("BestEffort")));
    let mut job = pod("job", "u2", "sim");
    job["spec"]["restartPolicy"] = "Never".into();
    job["metadata"]["annotations"] =
        json!({ "vctl.dev/sim-complete-after": "50ms", "vctl.dev/sim-exit-code": "3", "vctl.dev/sim-cpu": "250m" });
    world.api.put("env", "pods", "default", "job", job).await;
    let job = world
        .api
        .until("env", "pods", "default", "job", |p| p.is_some_and(|p| p["status"]["phase"] == "Failed"))
        .await
        .unwrap();
    assert_eq!(job["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 3);
    let used: Vec<i64> = world.hub.stats("env").iter().map(|s| s.containers[0].cpu_nano_cores).collect();
    assert!(used.contains(&250_000_000), "{used:?}");
    let refused = world.hub.logs(target("web", "u1", "sim"), LogOptions::default()).await.err().unwrap();
    assert!(refused.message.contains("simulated worker"), "{refused}");
    let mut web = web;
    web["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    world.api.put("env", "pods", "default", "web", web).await;
    world.api.until("env", "pods", "default", "web", |p| p.is_none()).await;
    assert_eq!(world.hub.workers()[0].pods, 1);
    // Nothing is written while nothing changes.
    let writes = world.api.writes.load(Ordering::SeqCst);
    world.api.put("env", "configmaps", "default", "x", json!({ "metadata": { "name": "x" } })).await;
    world
        .api
        .put("env", "pods", "default", "unbound", json!({ "metadata": { "name": "unbound", "uid": "u9" }, "spec": {} }))
        .await;
    world.api.put("env", "pods", "default", "last", pod("last", "u3", "sim")).await;
    world.api.until("env", "pods", "default", "last", ready).await;
    assert_eq!(world.api.writes.load(Ordering::SeqCst), writes + 1);
    assert!(world.tasks.shutdown(LIMIT).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_joins_once_and_only_its_worker() {
    let world = World::new(&[]).await;
    let token = world.hub.join_token("w1", Duration::from_mins(1)).await.unwrap();
    let channel = world.channel(vec![]).await;
    let join =
        |worker: &str, token: &str| JoinRequest { token: token.into(), worker: worker.into(), csr_der: csr().into() };
    let refused = unary::<_, JoinResponse>(&channel, "Join", join("w2", &token)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    let joined: JoinResponse = unary(&channel, "Join", join("w1", &token)).await.unwrap();
    let again = unary::<_, JoinResponse>(&channel, "Join", join("w1", &token)).await.unwrap_err();
    assert_eq!(again.code(), Code::Unauthenticated);
    assert!(world.hub.join_token("Not_A_Label", Duration::from_secs(1)).await.is_err());
    let expired = world.hub.join_token("w3", Duration::ZERO).await.unwrap();
    assert!(unary::<_, JoinResponse>(&channel, "Join", join("w3", &expired)).await.is_err());

    let renew = RenewRequest { csr_der: csr().into() };
    let anonymous = unary::<_, JoinResponse>(&channel, "Renew", renew.clone()).await.unwrap_err();
    assert_eq!(anonymous.code(), Code::Unauthenticated);
    let chain = vctl_runtime::pki::chain_from_pem(std::str::from_utf8(&joined.certificate_pem).unwrap()).unwrap();
    let known = world.channel(chain).await;
    let renewed: JoinResponse = unary(&known, "Renew", renew).await.unwrap();
    assert_ne!(renewed.certificate_pem, joined.certificate_pem);
    // The certificate names the worker; a Hello in another's name is refused.
    let mut agent = Agent::connect(known, "w2", Default::default()).await;
    assert_eq!(agent.next().await.unwrap_err().code(), Code::PermissionDenied);
    // A certificate of the same authority that is not a worker's.
    let validity = vctl_runtime::pki::Validity::from_now(jiff::Timestamp::now(), Duration::from_mins(1));
    let user = world.authority.client("admin", None, validity).unwrap();
    let user = world.channel(vctl_runtime::pki::chain_from_pem(&user.certificate_pem).unwrap()).await;
    let refused = unary::<_, JoinResponse>(&user, "Renew", RenewRequest { csr_der: csr().into() }).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_lives_and_dies_with_its_worker() {
    let world = World::new(&[]).await;
    let api = &world.api;
    api.store.create_tenant("env", vec![]).await.unwrap();
    api.put(
        "env",
        "services",
        "default",
        "kubernetes",
        json!({
            "metadata": { "name": "kubernetes", "namespace": "default" },
            "spec": { "clusterIP": "10.96.0.1", "ports": [{ "name": "https", "port": 443, "protocol": "TCP" }] },
        }),
    )
    .await;
    api.put("env", "configmaps", "default", "cfg", json!({ "metadata": { "name": "cfg" }, "data": { "k": "one" } }))
        .await;
    let mut agent = world.agent("w1").await;
    let report = NodeReport {
        cpu_millis: 2000,
        memory_bytes: 1 << 30,
        max_pods: 110,
        os: "linux".into(),
        ..NodeReport::default()
    };
    agent.tell(agent_message::Message::Node(report)).await;
    api.until("env", "nodes", "", "w1", |n| n.is_some_and(|n| n["status"]["allocatable"]["cpu"] == "2")).await;

    let mut web = pod("web", "u1", "w1");
    web["spec"]["serviceAccountName"] = "default".into();
    web["spec"]["volumes"] = json!([
        { "name": "cfg", "configMap": { "name": "cfg" } },
        { "name": "token", "projected": { "sources": [{ "serviceAccountToken": { "path": "token" } }] } },
    ]);
    api.put("env", "pods", "default", "web", web).await;
    agent.until(|a| a.pods.contains_key("1.u1") && !a.services.is_empty() && !a.dns.is_empty()).await;
    let content = |agent: &Agent, volume: usize| match &agent.pods["1.u1"].volumes[volume].source {
        Some(volume::Source::Files(files)) => String::from_utf8_lossy(&files.files[0].content).into_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!((content(&agent, 0), content(&agent, 1)), ("one".to_owned(), "token-1".to_owned()));
    assert_eq!(api.tokens.lock().unwrap()[0]["spec"]["boundObjectRef"]["uid"], "u1");
    assert!(agent.services["env/default/kubernetes"].api_server);
    assert!(agent.dns.contains_key("env/kubernetes.default.svc.cluster.local/A"));
    // A ConfigMap's change reaches the running pod; the token stays.
    api.put("env", "configmaps", "default", "cfg", json!({ "metadata": { "name": "cfg" }, "data": { "k": "two" } }))
        .await;
    agent.until(|a| content(a, 0) == "two").await;
    assert_eq!(content(&agent, 1), "token-1");

    // Another pod's status, from a worker that does not have it, is not heard.
    api.put("env", "pods", "default", "foreign", pod("foreign", "u7", "elsewhere")).await;
    agent.tell(agent_message::Message::PodStatus(observed("1.u7", "foreign"))).await;
    agent
        .tell(agent_message::Message::PodGone(PodGone {
            uid: "1.u7".into(),
            environment: "env".into(),
            namespace: "default".into(),
            name: "foreign".into(),
        }))
        .await;
    agent.tell(agent_message::Message::PodStatus(observed("1.u1", "web"))).await;
    let web = api.until("env", "pods", "default", "web", ready).await.unwrap();
    assert_eq!(web["status"]["podIP"], "10.200.0.2");
    assert_eq!(api.find("env", "pods", "default", "foreign").await.unwrap()["status"]["phase"], "Pending");

    // Events are counted.
    let event = PodEvent {
        uid: "1.u1".into(),
        environment: "env".into(),
        namespace: "default".into(),
        name: "web".into(),
        r#type: "Warning".into(),
        reason: "BackOff".into(),
        message: "m".into(),
        container: "app".into(),
        time_ms: 1_000,
        ..PodEvent::default()
    };
    agent.tell(agent_message::Message::PodEvent(event.clone())).await;
    agent.tell(agent_message::Message::PodEvent(event)).await;
    let name = format!("web.{:x}", 1_000i64 * 1_000_000);
    let event = api.until("env", "events", "default", &name, |e| e.is_some_and(|e| e["count"] == 2)).await.unwrap();
    assert_eq!(event["involvedObject"]["fieldPath"], "spec.containers{app}");

    // A newer control stream takes over and continues where the agent is.
    let mut second = Agent::connect(agent.channel.clone(), "w1", agent.applied.clone()).await;
    assert!(matches!(second.next().await, Ok(server_message::Message::Welcome(_))));
    let ended = loop {
        if let Err(status) = agent.next().await {
            break status;
        }
    };
    assert_eq!(ended.code(), Code::Aborted);
    api.put("env", "pods", "default", "more", pod("more", "u2", "w1")).await;
    second.until(|a| a.pods.contains_key("1.u2")).await;
    assert!(!second.last_full && second.pods.len() == 1, "only what has changed");

    // Deletion: grace, then gone, then the object.
    let mut web = api.find("env", "pods", "default", "web").await.unwrap();
    web["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    web["metadata"]["deletionGracePeriodSeconds"] = 7.into();
    api.put("env", "pods", "default", "web", web).await;
    second.until(|a| a.pods.get("1.u1").is_some_and(|p| p.deletion_grace_seconds == Some(7))).await;
    assert!(api.find("env", "pods", "default", "web").await.is_some(), "the object waits for its worker");
    second
        .tell(agent_message::Message::PodGone(PodGone {
            uid: "1.u1".into(),
            environment: "env".into(),
            namespace: "default".into(),
            name: "web".into(),
        }))
        .await;
    api.until("env", "pods", "default", "web", |p| p.is_none()).await;
    second.until(|a| !a.pods.contains_key("1.u1")).await;

    // Draining an environment: everything goes, and the answer says what is left.
    assert_eq!(world.hub.drain("env"), ["pod default/more on worker w1"]);
    second.until(|a| a.pods.get("1.u2").is_some_and(|p| p.deletion_grace_seconds == Some(0))).await;
    second
        .tell(agent_message::Message::PodGone(PodGone {
            uid: "1.u2".into(),
            environment: "env".into(),
            namespace: "default".into(),
            name: "more".into(),
        }))
        .await;
    let end = tokio::time::Instant::now() + LIMIT;
    while world.hub.drain("env") != ["volumes on worker w1"] {
        assert!(tokio::time::Instant::now() < end, "{:?}", world.hub.drain("env"));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    second.until(|a| a.removed_volumes == ["env"]).await;
    while !world.hub.drain("env").is_empty() {
        assert!(tokio::time::Instant::now() < end, "{:?}", world.hub.drain("env"));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let tenant = api.tenant("env").await;
    api.store.delete_tenant(tenant).await.unwrap();
    second.until(|a| a.services.is_empty() && a.dns.is_empty() && a.pods.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_away_for_long_holds_no_delete_up() {
    let world = World::with(Arc::new(MemoryStore::new()), &[], Duration::from_millis(50)).await;
    world.api.store.create_tenant("env", vec![]).await.unwrap();
    world.api.put("env", "pods", "default", "web", pod("web", "u1", "w1")).await;
    let mut agent = world.agent("w1").await;
    agent.until(|a| a.pods.contains_key("1.u1")).await;
    let applied = agent.applied.clone();
    assert_eq!(world.hub.drain("env"), ["pod default/web on worker w1"], "it is connected: its pods are waited for");
    drop(agent);
    let end = tokio::time::Instant::now() + LIMIT;
    while !world.hub.drain("env").is_empty() {
        assert!(tokio::time::Instant::now() < end, "{:?}", world.hub.drain("env"));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(world.hub.nodes().is_empty(), "no new environment gets the Node of a worker that is away");
    let tenant = world.api.tenant("env").await;
    world.api.store.delete_tenant(tenant).await.unwrap();

    // Back again, with what it still runs: it is told to end that.
    let mut again = world.reconnect("w1", applied).await;
    loop {
        if let server_message::Message::Pods(pods) = again.next().await.unwrap() {
            assert!(pods.upsert.is_empty(), "{pods:?}");
            assert!(pods.full || pods.removed == ["1.u1"], "{pods:?}");
            break;
        }
    }
}

/// A copy of an environment has pods of the same UIDs, here on the same worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_to_a_copy_is_nothing_to_the_original() {
    let world = World::new(&[]).await;
    let mut agent = world.agent("w1").await;
    for environment in ["env", "copy"] {
        world.api.store.create_tenant(environment, vec![]).await.unwrap();
        world.api.put(environment, "pods", "default", "web", pod("web", "u1", "w1")).await;
    }
    agent.until(|a| a.pods.contains_key("1.u1") && a.pods.contains_key("2.u1")).await;
    let copied = PodStatus { environment: "copy".into(), pod_ip: "10.200.0.3".into(), ..observed("2.u1", "web") };
    // In the name of the other one nobody is heard.
    agent.tell(agent_message::Message::PodStatus(PodStatus { uid: "1.u1".into(), ..copied.clone() })).await;
    agent.tell(agent_message::Message::PodStatus(observed("1.u1", "web"))).await;
    agent.tell(agent_message::Message::PodStatus(copied)).await;
    for (environment, ip) in [("env", "10.200.0.2"), ("copy", "10.200.0.3")] {
        let web = world.api.until(environment, "pods", "default", "web", ready).await.unwrap();
        assert_eq!((&web["status"]["podIP"], &web["metadata"]["uid"]), (&json!(ip), &json!("u1")));
    }
    // The way into a container of the copy is not that into the original's.
    let hub = world.hub.clone();
    let of = ContainerTarget { environment: "copy".into(), ..target("web", "u1", "w1") };
    let logs = async move { hub.logs(of, LogOptions::default()).await };
    let answer = async {
        let open = agent.until_open().await;
        let asked = match &open.request {
            Some(open_stream::Request::Logs(logs)) => logs.target.as_ref().map(|t| t.uid.clone()),
            _ => None,
        };
        assert_eq!(asked.as_deref(), Some("2.u1"));
        agent.stream(StreamHeader { stream_id: open.stream_id, ..StreamHeader::default() }).await
    };
    let (logs, _kept) = tokio::join!(logs, answer);
    drop(logs.unwrap());

    world.hub.drain("copy");
    agent.until(|a| a.pods.get("2.u1").is_some_and(|p| p.deletion_grace_seconds == Some(0))).await;
    let gone = |uid: &str, environment: &str| {
        let (uid, environment, name) = (uid.into(), environment.into(), "web".into());
        agent_message::Message::PodGone(PodGone { uid, environment, namespace: "default".into(), name })
    };
    agent.tell(gone("2.u1", "copy")).await;
    agent.until(|a| !a.pods.contains_key("2.u1")).await;
    assert!(agent.pods.get("1.u1").is_some_and(|p| p.deletion_grace_seconds.is_none()), "the original goes on");
    let web = world.api.find("env", "pods", "default", "web").await;
    assert!(ready(web.as_ref()), "{web:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_server_never_takes_away_what_runs() {
    let first = World::new(&[]).await;
    first.api.store.create_tenant("env", vec![]).await.unwrap();
    for n in 0..20 {
        first.api.put("env", "pods", "default", &format!("p{n}"), pod(&format!("p{n}"), &format!("u{n}"), "w1")).await;
    }
    let mut agent = first.agent("w1").await;
    agent.until(|a| a.pods.len() == 20).await;
    assert!(first.tasks.shutdown(LIMIT).await);
    let second = World::over(first.api.store.clone(), &[]).await;
    let token = second.hub.join_token("w1", Duration::from_mins(1)).await.unwrap();
    let request = JoinRequest { token, worker: "w1".into(), csr_der: csr().into() };
    let joined: JoinResponse = unary(&second.channel(vec![]).await, "Join", request).await.unwrap();
    let chain = vctl_runtime::pki::chain_from_pem(std::str::from_utf8(&joined.certificate_pem).unwrap()).unwrap();
    let mut again = Agent::connect(second.channel(chain).await, "w1", agent.applied.clone()).await;
    loop {
        if let server_message::Message::Pods(pods) = again.next().await.unwrap() {
            assert!(pods.full && pods.upsert.len() == 20, "full {} with {}", pods.full, pods.upsert.len());
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_sessions_forwards_and_tunnels() {
    let world = World::new(&[]).await;
    world.api.store.create_tenant("env", vec![]).await.unwrap();
    world.api.put("env", "pods", "default", "web", pod("web", "u1", "w1")).await;
    let away = world.hub.logs(target("web", "u1", "w1"), LogOptions::default()).await.err().unwrap();
    assert_eq!(away.code, 503);
    let mut agent = world.agent("w1").await;
    agent.until(|a| a.pods.contains_key("1.u1")).await;
    let header = |id: &str| StreamHeader { stream_id: id.into(), ..StreamHeader::default() };

    // Logs.
    let hub = world.hub.clone();
    let logs =
        async move { hub.logs(target("web", "u1", "w1"), LogOptions { follow: true, ..LogOptions::default() }).await };
    let answer = async {
        let open = agent.until_open().await;
        assert!(
            matches!(open.request, Some(open_stream::Request::Logs(ref l)) if l.follow && l.target.as_ref().is_some_and(|t| t.uid == "1.u1"))
        );
        let (to, from) = agent.stream(header(&open.stream_id)).await;
        to.send(data(0, b"one\n")).await.unwrap();
        to.send(data(0, b"two\n")).await.unwrap();
        (to, from)
    };
    let (logs, (to, _from)) = tokio::join!(logs, answer);
    let mut logs = logs.unwrap();
    assert_eq!(logs.next().await.unwrap().unwrap(), "one\n");
    assert_eq!(logs.next().await.unwrap().unwrap(), "two\n");
    drop(to);
    assert!(logs.next().await.is_none());

    // A log that cannot be had is an error with its reason.
    let hub = world.hub.clone();
    let logs = async move { hub.logs(target("web", "u1", "w1"), LogOptions::default()).await };
    let answer = async {
        let open = agent.until_open().await;
        let (to, from) = agent.stream(header(&open.stream_id)).await;
        let failure =
            StreamFailure { reason: "BadRequest".into(), message: "container \"app\" is waiting to start".into() };
        to.send(Frame { frame: Some(frame::Frame::Failure(failure)) }).await.unwrap();
        (to, from)
    };
    let (logs, _kept) = tokio::join!(logs, answer);
    assert_eq!(logs.err().map(|e| e.code), Some(400));

    // Exec.
    let hub = world.hub.clone();
    let options = ExecOptions { command: vec!["sh".into()], stdin: true, stdout: true, ..ExecOptions::default() };
    let exec = async move { hub.exec(target("web", "u1", "w1"), options).await };
    let answer = async {
        let open = agent.until_open().await;
        agent.stream(header(&open.stream_id)).await
    };
    let (session, (to, mut from)) = tokio::join!(exec, answer);
    let mut session = session.unwrap();
    session.input.send(ExecInput::Stdin("hi".into())).await.unwrap();
    session.input.send(ExecInput::Resize { width: 80, height: 24 }).await.unwrap();
    session.input.send(ExecInput::CloseStdin).await.unwrap();
    let got = from.message().await.unwrap().unwrap();
    assert_eq!(got, data(0, b"hi"));
    assert!(matches!(from.message().await.unwrap().unwrap().frame, Some(frame::Frame::Resize(r)) if r.width == 80));
    assert!(matches!(from.message().await.unwrap().unwrap().frame, Some(frame::Frame::CloseWrite(_))));
    to.send(data(2, b"oops")).await.unwrap();
    to.send(Frame { frame: Some(frame::Frame::Exit(Exit { code: 7, message: String::new() })) }).await.unwrap();
    assert_eq!(session.output.recv().await, Some(ExecOutput::Stderr("oops".into())));
    assert_eq!(session.output.recv().await, Some(ExecOutput::Exit(7)));
    assert_eq!(session.output.recv().await, None);

    // Port-forward.
    let hub = world.hub.clone();
    let forward = async move { hub.port_forward(target("web", "u1", "w1"), 80).await };
    let answer = async {
        let open = agent.until_open().await;
        assert!(matches!(open.request, Some(open_stream::Request::PortForward(ref p)) if p.port == 80));
        agent.stream(header(&open.stream_id)).await
    };
    let (stream, (to, mut from)) = tokio::join!(forward, answer);
    let mut stream = stream.unwrap();
    stream.write_all(b"GET").await.unwrap();
    assert_eq!(from.message().await.unwrap().unwrap(), data(0, b"GET"));
    to.send(data(0, b"200")).await.unwrap();
    drop(to);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "200");

    // A pod's way to its API server; not to another environment's.
    let tunnel = |environment: &str| StreamHeader {
        tunnel_environment: environment.into(),
        peer: "10.200.0.2".into(),
        ..StreamHeader::default()
    };
    let (to, mut from) = agent.stream(tunnel("env")).await;
    to.send(data(0, b"ping")).await.unwrap();
    assert_eq!(from.message().await.unwrap().unwrap(), data(0, b"env 10.200.0.2 ping"));
    world.api.store.create_tenant("other", vec![]).await.unwrap();
    let (_to, mut from) = agent.stream(tunnel("other")).await;
    assert!(matches!(from.message().await.unwrap().unwrap().frame, Some(frame::Frame::Failure(_))));
    // A stream that nobody asked for.
    let (_to, mut from) = agent.stream(header("unknown")).await;
    assert_eq!(from.message().await.unwrap_err().code(), Code::NotFound);
}

/// A volume of ours on a worker, being deleted.
fn deleted_volume(name: &str, worker: &str, policy: &str, finalizers: &[&str]) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": { "name": name, "uid": name, "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers,
            "annotations": { "pv.kubernetes.io/provisioned-by": "volumes.vctl.dev" } },
        "spec": { "persistentVolumeReclaimPolicy": policy, "csi": { "driver": "volumes.vctl.dev", "volumeHandle": name },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
                { "key": "kubernetes.io/hostname", "operator": "In", "values": [worker] }] }] } } },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volumes_go_after_their_directories() {
    const HELD: &str = "external-provisioner.volume.kubernetes.io/finalizer";
    let world = World::new(&["sim"]).await;
    world.api.store.create_tenant("env", vec![]).await.unwrap();
    let system = json!({ "metadata": { "name": "kube-system", "uid": "12345678-aaaa" } });
    world.api.put("env", "namespaces", "", "kube-system", system).await;
    // Volumes of an environment that is gone, of one that had the name before, and of this one.
    let mut agent = world.agent("box").await;
    // It is heard before the next one: the later one counts.
    agent.next().await.unwrap();
    let kept = ["gone.11111111", "env.00000000", "env.12345678"].map(String::from).to_vec();
    let mut agent = Agent::connect_with(agent.channel.clone(), "box", Default::default(), kept).await;
    agent.until(|a| a.removed_volumes.len() == 2).await;
    assert_eq!(agent.removed_volumes, ["env.00000000", "gone.11111111"]);

    for (name, worker, policy) in
        [("a", "box", "Delete"), ("b", "box", "Retain"), ("c", "sim", "Delete"), ("d", "no", "Delete")]
    {
        world.api.put("env", "persistentvolumes", "", name, deleted_volume(name, worker, policy, &[HELD])).await;
    }
    let free = |v: Option<&serde_json::Value>| v.is_some_and(|v| v["metadata"].get("finalizers").is_none());
    for name in ["b", "c", "d"] {
        world.api.until("env", "persistentvolumes", "", name, free).await;
    }
    agent.until(|a| a.removed_volumes.len() == 3).await;
    assert_eq!(agent.removed_volumes[2], "env.12345678/a");
    world.api.until("env", "persistentvolumes", "", "a", free).await;
    // One that a claim still holds stays.
    let used = deleted_volume("e", "box", "Delete", &[HELD, "kubernetes.io/pv-protection"]);
    world.api.put("env", "persistentvolumes", "", "e", used).await;
    world.api.put("env", "persistentvolumes", "", "f", deleted_volume("f", "box", "Delete", &[HELD])).await;
    agent.until(|a| a.removed_volumes.len() == 4).await;
    assert_eq!(agent.removed_volumes[3], "env.12345678/f");

    // With the environment all goes.
    assert_eq!(world.hub.drain("env"), ["volumes on worker box"]);
    agent.until(|a| a.removed_volumes.last().is_some_and(|id| id == "env")).await;
    let end = tokio::time::Instant::now() + LIMIT;
    while !world.hub.drain("env").is_empty() {
        assert!(tokio::time::Instant::now() < end, "the agent has answered");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn asleep() -> serde_json::Value {
    json!({ "since": "2026-01-01T00:00:00Z" })
}

async fn until_stopped(world: &World) {
    let end = tokio::time::Instant::now() + LIMIT;
    while !world.hub.running_asleep("env").is_empty() {
        assert!(tokio::time::Instant::now() < end, "{:?}", world.hub.running_asleep("env"));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_an_environment_that_sleeps_stop_and_start_again() {
    let store = Arc::new(MemoryStore::new());
    let world = World::over(store.clone(), &["sim"]).await;
    world.api.store.create_tenant("env", vec![]).await.unwrap();
    world.api.put("env", "pods", "default", "web", pod("web", "u1", "sim")).await;
    let mut done = pod("done", "u2", "sim");
    done["status"]["phase"] = "Succeeded".into();
    world.api.put("env", "pods", "default", "done", done).await;
    world.api.until("env", "pods", "default", "web", ready).await;

    world.api.put("env", vctl_api::sleep::RESOURCE, "", vctl_api::sleep::NAME, asleep()).await;
    let web = world.api.until("env", "pods", "default", "web", |p| !ready(p)).await.unwrap();
    assert_eq!(web["status"]["phase"], "Pending");
    assert_eq!(web["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "Sleeping");
    assert!(web["status"].get("podIP").is_none() && web["metadata"].get("deletionTimestamp").is_none());
    until_stopped(&world).await;
    // What has ended stays as it is.
    assert_eq!(world.hub.workers()[0].pods, 1);
    let done = world.api.find("env", "pods", "default", "done").await.unwrap();
    assert_eq!(done["status"]["phase"], "Succeeded");

    // After a restart it still sleeps, and nothing is written.
    assert!(world.tasks.shutdown(LIMIT).await);
    let world = World::over(store, &["sim"]).await;
    world.hub.wait_until_synced().await;
    until_stopped(&world).await;
    assert_eq!(world.api.writes.load(Ordering::SeqCst), 0);

    world.api.remove("env", vctl_api::sleep::RESOURCE, "", vctl_api::sleep::NAME).await;
    let web = world.api.until("env", "pods", "default", "web", ready).await.unwrap();
    assert_eq!((&web["metadata"]["uid"], &web["status"]["phase"]), (&json!("u1"), &json!("Running")));
    assert!(web["status"].get("message").is_none(), "{web}");
    assert!(world.tasks.shutdown(LIMIT).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_ends_the_pods_of_an_environment_that_sleeps_with_their_grace() {
    let world = World::new(&[]).await;
    world.api.store.create_tenant("env", vec![]).await.unwrap();
    let mut agent = world.agent("w1").await;
    let mut web = pod("web", "u1", "w1");
    web["spec"]["terminationGracePeriodSeconds"] = 7.into();
    world.api.put("env", "pods", "default", "web", web).await;
    agent.until(|a| a.pods.contains_key("1.u1")).await;
    agent.tell(agent_message::Message::PodStatus(observed("1.u1", "web"))).await;
    world.api.until("env", "pods", "default", "web", ready).await;

    world.api.put("env", vctl_api::sleep::RESOURCE, "", vctl_api::sleep::NAME, asleep()).await;
    agent.until(|a| a.pods.get("1.u1").is_some_and(|p| p.deletion_grace_seconds == Some(7))).await;
    assert_eq!(world.hub.running_asleep("env"), ["pod default/web on worker w1"]);
    let gone =
        PodGone { uid: "1.u1".into(), environment: "env".into(), namespace: "default".into(), name: "web".into() };
    agent.tell(agent_message::Message::PodGone(gone)).await;
    agent.until(|a| !a.pods.contains_key("1.u1")).await;
    world.api.until("env", "pods", "default", "web", |p| !ready(p)).await;
    until_stopped(&world).await;

    world.api.remove("env", vctl_api::sleep::RESOURCE, "", vctl_api::sleep::NAME).await;
    agent.until(|a| a.pods.get("1.u1").is_some_and(|p| p.deletion_grace_seconds.is_none())).await;
    agent.tell(agent_message::Message::PodStatus(observed("1.u1", "web"))).await;
    world.api.until("env", "pods", "default", "web", ready).await;
    assert!(world.tasks.shutdown(LIMIT).await);
}
