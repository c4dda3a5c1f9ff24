//! Real containers, in a network namespace without a default route. Needs root and the container tools: without them it fails and says so.

use std::{collections::BTreeMap, fs, path::Path, process::Command, time::Duration};

use vctl_api::agent::{
    Container, ContainerState, EmptyDir, Endpoint as ServiceEndpoint, EnvVar, ExpectedDns, ExpectedPods,
    ExpectedServices, File, Files, Handler, HttpHandler, Mount, Pod, PodStatus, Probe, Service, ServicePort, Volume,
    agent_message::Message, container_state::State, handler, volume,
};

use super::*;

const IMAGE: &str = "localhost/agent-test:1";

struct NoDns;

#[async_trait::async_trait]
impl DnsService for NoDns {
    async fn bind(&self, _: SocketAddr, _: &Tasks) -> Result<(), String> {
        Ok(())
    }
    fn apply(&self, _: ExpectedDns) {}
    fn set_clients(&self, _: std::collections::HashMap<std::net::IpAddr, String>) {}
}

fn build_image(state: &Path) {
    let paths = podman::service::Paths::new(state);
    paths.prepare().unwrap();
    let root = tempfile::tempdir().unwrap();
    for dir in ["bin", "tmp", "etc", "data"] {
        fs::create_dir(root.path().join(dir)).unwrap();
    }
    fs::copy("/bin/busybox", root.path().join("bin/busybox")).expect("apt-get install busybox-static");
    for name in ["sh", "cat", "sleep", "httpd", "nc", "echo", "printf", "grep", "head", "tr"] {
        std::os::unix::fs::symlink("busybox", root.path().join("bin").join(name)).unwrap();
    }
    let tar = state.join("image.tar");
    assert!(Command::new("tar").arg("-C").arg(root.path()).arg("-cf").arg(&tar).arg(".").status().unwrap().success());
    let mut import = paths.command().unwrap();
    let done = import.as_std_mut().arg("import").arg(&tar).arg(IMAGE).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn shell(name: &str, script: &str) -> Container {
    Container {
        name: name.into(),
        image: IMAGE.into(),
        command: ["/bin/sh", "-c", script].map(String::from).to_vec(),
        ..Container::default()
    }
}

fn pod(uid: &str, environment: &str, policy: &str, containers: Vec<Container>) -> Pod {
    Pod {
        uid: uid.into(),
        environment: environment.into(),
        namespace: "default".into(),
        name: uid.into(),
        restart_policy: policy.into(),
        termination_grace_seconds: 1,
        containers,
        ..Pod::default()
    }
}

struct Observer {
    statuses: BTreeMap<String, PodStatus>,
    gone: Vec<String>,
    events: Vec<String>,
}

impl Observer {
    async fn until(&mut self, ctx: &context::Context, what: &str, done: impl Fn(&Self) -> bool) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        while !done(self) {
            let batch = tokio::time::timeout_at(deadline, ctx.outbox.next()).await;
            for message in
                batch.unwrap_or_else(|_| panic!("{what}: not in time; {:#?} {:#?}", self.statuses, self.events))
            {
                match message.message {
                    Some(Message::PodStatus(s)) => drop(self.statuses.insert(s.uid.clone(), s)),
                    Some(Message::PodGone(g)) => self.gone.push(g.uid),
                    Some(Message::PodEvent(e)) => self.events.push(format!("{} {}", e.reason, e.message)),
                    _ => {}
                }
            }
        }
    }

    fn state(&self, uid: &str) -> Option<State> {
        self.statuses.get(uid)?.containers.first()?.state.clone().and_then(|s: ContainerState| s.state)
    }

    fn exit(&self, uid: &str) -> Option<i32> {
        match self.state(uid) {
            Some(State::Terminated(t)) => Some(t.exit_code),
            _ => None,
        }
    }
}

fn log(state: &Path, uid: &str, container: &str) -> String {
    fs::read_to_string(pods::worker::log_path(&state.join("pods").join(uid), container, 0)).unwrap_or_default()
}

async fn exec(ctx: &context::Context, id: &str, script: &str) -> (String, Option<i64>) {
    use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
    use futures::StreamExt as _;
    use tokio::io::AsyncWriteExt as _;
    let docker = ctx.podman.docker().unwrap();
    let cmd = ["/bin/sh", "-c", script].map(String::from).to_vec();
    let options = CreateExecOptions {
        cmd: Some(cmd),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        ..Default::default()
    };
    let exec = docker.create_exec(id, options).await.unwrap();
    let StartExecResults::Attached { mut output, mut input } =
        docker.start_exec(&exec.id, None::<StartExecOptions>).await.unwrap()
    else {
        panic!("detached")
    };
    input.write_all(b"input\n").await.unwrap();
    input.shutdown().await.unwrap();
    let mut said = String::new();
    while let Some(part) =
        tokio::time::timeout(Duration::from_secs(10), output.next()).await.expect("the command ends with its input")
    {
        said.push_str(&part.unwrap().to_string());
    }
    (said, docker.inspect_exec(&exec.id).await.unwrap().exit_code)
}

fn web() -> Pod {
    let script = "echo $(GREETING) from $POD_IP; cat /conf/key /etc/one-key; httpd -f -p 80 -h /data";
    let mut main = shell("web", script);
    let http = HttpHandler { port: 80, path: "/index.html".into(), ..HttpHandler::default() };
    main.readiness = Some(Probe {
        handler: Some(Handler { handler: Some(handler::Handler::Http(http)) }),
        period_seconds: 1,
        timeout_seconds: 1,
        ..Probe::default()
    });
    main.env = vec![
        EnvVar { name: "GREETING".into(), value: "hello".into(), ..EnvVar::default() },
        EnvVar { name: "POD_IP".into(), field_path: "status.podIP".into(), ..EnvVar::default() },
    ];
    let mount = |volume: &str, path: &str| Mount { volume: volume.into(), mount_path: path.into(), ..Mount::default() };
    let part = |volume: &str, path: &str, sub: &str| Mount { sub_path: sub.into(), ..mount(volume, path) };
    main.mounts =
        vec![part("data", "/data", "site/pages"), mount("conf", "/conf"), part("conf", "/etc/one-key", "key")];
    let mut setup = shell("setup", "echo page > /data/index.html");
    setup.mounts = vec![part("data", "/data", "site/pages")];
    let key = File { path: "key".into(), content: b"value\n".to_vec().into(), ..File::default() };
    let mut pod = pod("web", "a", "Always", vec![main]);
    pod.init_containers = vec![setup];
    pod.volumes = vec![
        Volume {
            name: "data".into(),
            source: Some(volume::Source::EmptyDir(EmptyDir { memory: true, ..EmptyDir::default() })),
            ..Volume::default()
        },
        Volume {
            name: "conf".into(),
            source: Some(volume::Source::Files(Files { files: vec![key] })),
            ..Volume::default()
        },
    ];
    pod
}

fn pods_of(generation: u64, upsert: Vec<Pod>) -> ExpectedPods {
    ExpectedPods { generation, full: false, upsert, removed: Vec::new() }
}

/// Pods of a copy of an environment have the UIDs of the original: the end of one is nothing to the other.
async fn twins(ctx: &Arc<context::Context>, reconciler: &Arc<reconcile::Reconciler>, seen: &mut Observer) {
    let twin = |id: &str, environment: &str| Pod {
        name: "twin".into(),
        ..pod(id, environment, "Always", vec![shell("c", "sleep 1000")])
    };
    let runs = |s: &Observer, id: &str| matches!(s.state(id), Some(State::Running(_)));
    reconciler.pods(pods_of(4, vec![twin("1.same", "a"), twin("2.same", "b")]));
    seen.until(ctx, "both twins", |s| runs(s, "1.same") && runs(s, "2.same")).await;
    reconciler.pods(pods_of(5, vec![Pod { deletion_grace_seconds: Some(0), ..twin("2.same", "b") }]));
    seen.until(ctx, "one twin has gone", |s| s.gone.iter().any(|g| g == "2.same")).await;
    let left = ctx.podman.list(pods::label::UID, "1.same").await.unwrap();
    assert!(left.len() == 1 && left[0].state == "running", "{}", left.len());

    // A container that somebody else removes is noticed and made anew.
    ctx.podman.remove(&left[0].id).await.unwrap();
    seen.until(ctx, "made anew", |s| runs(s, "1.same") && s.statuses["1.same"].containers[0].restart_count == 1).await;

    // Another pod of the name begins when the one before has ended: they may have the same volumes.
    let removed = vec!["1.same".to_owned()];
    reconciler.pods(ExpectedPods { generation: 6, full: false, upsert: vec![twin("3.same", "a")], removed });
    seen.until(ctx, "the next twin", |s| runs(s, "3.same")).await;
    assert!(seen.gone.iter().any(|g| g == "1.same"), "{:?}", seen.gone);
}

async fn scenario(state: &Path) {
    let config = Config::new("test", Endpoint::Unix("/nowhere".into()), "", state);
    check_machine(&config).unwrap_or_else(|e| panic!("{e}"));
    build_image(state);
    let hooks = Hooks { dns: Arc::new(NoDns) };
    let tasks = Tasks::new();
    let (ctx, reconciler) = start(config.clone(), hooks.clone(), tasks.clone()).await.unwrap();
    let mut seen = Observer { statuses: BTreeMap::new(), gone: Vec::new(), events: Vec::new() };

    // A pod with init container, volumes, variables and a readiness probe.
    reconciler.pods(pods_of(1, vec![web()]));
    seen.until(&ctx, "ready", |s| s.statuses.get("web").is_some_and(|p| p.containers[0].ready)).await;
    let ip = seen.statuses["web"].pod_ip.clone();
    let text = log(state, "web", "web");
    assert!(text.contains(&format!("hello from {ip}")) && text.matches("value").count() == 2, "{text}");

    // A command with input: its end reaches the command, its output and exit code come back.
    let id = reconciler.handle("web").unwrap().view.borrow().record.containers["web"].id.clone();
    let (said, code) = exec(&ctx, &id, "cat; echo over >&2; exit 5").await;
    assert_eq!((said.as_str(), code), ("input\nover\n", Some(5)));
    let forwarded = network::namespace::connect(
        &ctx.network.namespace_path("web"),
        ([127, 0, 0, 1], 80).into(),
        Duration::from_secs(5),
    )
    .await;
    assert!(forwarded.is_ok(), "{forwarded:?}");

    // A service of environment a; the same address means nothing in b, and b does not reach a's pods.
    let port = ServicePort {
        protocol: "TCP".into(),
        port: 8000,
        endpoints: vec![ServiceEndpoint { ip: ip.clone(), port: 80 }],
    };
    let empty = ServicePort { protocol: "TCP".into(), port: 8001, endpoints: Vec::new() };
    let service = Service {
        id: "a/default/web".into(),
        environment: "a".into(),
        cluster_ip: "10.96.0.7".into(),
        ports: vec![port, empty],
        ..Service::default()
    };
    reconciler
        .services(ExpectedServices { generation: 1, full: true, upsert: vec![service], removed: Vec::new() })
        .await;
    let fetch = |ip: &str, port: u16| {
        format!("printf 'GET /index.html HTTP/1.0\\r\\n\\r\\n' | nc -w 3 {ip} {port} | grep page")
    };
    let by_service = fetch("10.96.0.7", 8000);
    let direct = fetch(&ip, 80);
    reconciler.pods(pods_of(
        2,
        vec![
            pod("friend", "a", "Never", vec![shell("c", &format!("{by_service} && {direct}"))]),
            pod("itself", "a", "Never", vec![shell("c", "nc -w 3 10.96.0.7 8001; exit 7")]),
            pod("foe", "b", "Never", vec![shell("c", &format!("{direct} || {by_service} || exit 9"))]),
        ],
    ));
    seen.until(&ctx, "clients", |s| ["friend", "itself", "foe"].iter().all(|p| s.exit(p).is_some())).await;
    assert_eq!(seen.exit("friend"), Some(0), "{}", log(state, "friend", "c"));
    assert_eq!(seen.exit("foe"), Some(9), "{}", log(state, "foe", "c"));
    assert!(log(state, "itself", "c").contains("Connection refused"), "{}", log(state, "itself", "c"));

    // Crashes, memory, missing images.
    let mut hungry = shell("c", "x=$(head -c 60000000 /dev/zero | tr '\\0' a); echo ${#x}");
    hungry.resources = Some(vctl_api::agent::Resources { memory_limit_bytes: Some(16 << 20), ..Default::default() });
    let mut missing = shell("c", "true");
    missing.image = "localhost/no-such:1".into();
    missing.image_pull_policy = "Never".into();
    reconciler.pods(pods_of(
        3,
        vec![
            pod("crash", "a", "Always", vec![shell("c", "echo dying; exit 3")]),
            pod("hungry", "a", "Never", vec![hungry]),
            pod("missing", "a", "Never", vec![missing]),
        ],
    ));
    seen.until(
        &ctx,
        "crash loop",
        |s| matches!(s.state("crash"), Some(State::Waiting(w)) if w.reason == "CrashLoopBackOff"),
    )
    .await;
    assert_eq!(seen.statuses["crash"].containers[0].restart_count, 1);
    seen.until(
        &ctx,
        "missing image",
        |s| matches!(s.state("missing"), Some(State::Waiting(w)) if w.reason == "ErrImageNeverPull"),
    )
    .await;
    seen.until(
        &ctx,
        "out of memory",
        |s| matches!(s.state("hungry"), Some(State::Terminated(t)) if t.reason == "OOMKilled"),
    )
    .await;
    // Its monitor has written that down where it works: below the state directory, and not where this test was started.
    let work = podman::service::Paths::new(state).work();
    assert!(work.join("oom").is_file(), "{:?}", fs::read_dir(&work).unwrap().collect::<Vec<_>>());
    assert!(!Path::new("oom").exists(), "{:?}", std::env::current_dir());

    twins(&ctx, &reconciler, &mut seen).await;

    // The agent restarts: the container is the same, runs, and says the same of itself, to the millisecond of its start.
    let before = seen.statuses["web"].clone();
    assert!(tasks.shutdown(Duration::from_secs(20)).await, "tasks end");
    drop((ctx, reconciler));
    let tasks = Tasks::new();
    let (ctx, reconciler) = start(config, hooks, tasks.clone()).await.unwrap();
    seen.statuses.clear();
    seen.until(&ctx, "adopted", |s| s.statuses.get("web").is_some_and(|p| p.containers[0].ready)).await;
    assert_eq!(seen.statuses["web"], before);
    assert_eq!(before.containers[0].restart_count, 0);

    // Deletion leaves nothing of the pod.
    reconciler.pods(pods_of(7, vec![Pod { deletion_grace_seconds: Some(1), ..web() }]));
    seen.until(&ctx, "gone", |s| s.gone.iter().any(|g| g == "web")).await;
    assert!(!state.join("pods/web").exists() && !state.join("run/netns/web").exists());
    assert!(tasks.shutdown(Duration::from_secs(20)).await, "tasks end");
}

#[test]
fn podman_runs_pods_apart_and_leaves_nothing() {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)
        .expect("this test needs root: it creates network namespaces");
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("s");
    fs::create_dir(&state).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(scenario(&state))));
    let torn = runtime.block_on(teardown(&state));
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
    torn.unwrap();
    assert!(!state.exists());
    assert_eq!(network::devices(), ["lo"]);
    let group = pods::cgroup::root("test", &state);
    assert!(!Path::new("/sys/fs/cgroup/memory").join(&group[1..]).exists());
}
