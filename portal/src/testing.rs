//! What the tests share: a portal over the memory store, with control planes and workers that are played.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use jiff::Timestamp;
use serde_json::{Value, json};
use tower::ServiceExt;
use vctl_api::{
    names::EnvironmentName,
    rest::{Job, Phase, PodCounts, Worker},
};
use vctl_machinery::requests::Requests;
use vctl_machinery::version::MinorVersion;
use vctl_runtime::{clock::Clock, tasks::Tasks};
use vctl_store::{Entry, Expect, Export, Key, MemoryStore, SqliteStore, Store, TenantBackup};

use crate::{
    JobHistory, JobsConfig, Portal, PortalConfig,
    access::{
        decide::Subject,
        policy::{Limit, Permit},
    },
    auth::{UserDoc, digest},
    documents::{EnvironmentDoc, SessionDoc, put},
    jobs::{ended, runner::Runner},
    ports::{
        Applied, AuthorityStep, Consumption, ControlPlanes, KubernetesUser, ObjectRef, PortError, Readiness, Workers,
        Workload,
    },
};

/// Played control planes. What was done to them is their state, so that a repeated call shows.
#[derive(Default)]
pub(crate) struct FakePlanes {
    state: Mutex<State>,
    /// Calls so far.
    pub(crate) calls: AtomicUsize,
    /// This call and all later ones never return: the process is as good as dead. 0 for none.
    pub(crate) hang_from: AtomicUsize,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) clusters: BTreeMap<String, BTreeSet<String>>,
    /// Failures that calls of this name give, first in first out.
    pub(crate) failures: BTreeMap<&'static str, Vec<PortError>>,
    /// What `readiness` says.
    pub(crate) readiness: Readiness,
    /// How often `drain` and `running_asleep` still find something.
    pub(crate) draining: usize,
    /// Clusters that sleep.
    pub(crate) asleep: BTreeSet<String>,
    /// When somebody last used any of them.
    pub(crate) last_request: Option<Timestamp>,
    /// Clusters that sleep and were written to.
    pub(crate) writes: Vec<String>,
    /// What is requested in environments.
    pub(crate) requested: BTreeMap<String, Requests>,
    /// What is requested in backups, by the environment that they are of.
    pub(crate) requested_by: BTreeMap<String, Requests>,
    /// Environments whose placement has changed.
    pub(crate) placed: Vec<String>,
    /// What environments use.
    pub(crate) consumption: Vec<Consumption>,
}

impl FakePlanes {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn enter(&self, call: &'static str) -> Result<(), PortError> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let hang = self.hang_from.load(Ordering::SeqCst);
        if hang != 0 && number >= hang {
            std::future::pending::<()>().await;
        }
        match self.state().failures.get_mut(call) {
            Some(failures) if !failures.is_empty() => Err(failures.remove(0)),
            _ => Ok(()),
        }
    }
}

#[async_trait::async_trait]
impl ControlPlanes for FakePlanes {
    fn check_authentication(&self, configuration: &Value) -> Result<(), String> {
        if configuration["kind"] == "AuthenticationConfiguration" { Ok(()) } else { Err("no such kind".to_owned()) }
    }

    async fn set_authentication(&self, _: &EnvironmentName, _: Option<Value>) -> Result<(), PortError> {
        self.enter("set_authentication").await
    }

    async fn create(&self, name: &EnvironmentName, _: MinorVersion, _: Option<Value>) -> Result<(), PortError> {
        self.enter("create").await?;
        self.state().clusters.entry(name.to_string()).or_default();
        Ok(())
    }

    fn check_audit_policy(&self, policy: &Value) -> Result<(), String> {
        if policy["kind"] == "Policy" { Ok(()) } else { Err("no such kind".to_owned()) }
    }

    async fn set_audit_policy(&self, name: &EnvironmentName, policy: Option<Value>) -> Result<(), PortError> {
        self.enter("set_audit_policy").await?;
        let object = format!("audit policy {}", policy.is_some());
        self.state().clusters.entry(name.to_string()).or_default().insert(object);
        Ok(())
    }

    async fn exists(&self, name: &EnvironmentName) -> Result<bool, PortError> {
        Ok(self.state().clusters.contains_key(name.as_str()))
    }

    async fn apply(&self, name: &EnvironmentName, document: &Value) -> Result<Applied, PortError> {
        self.enter("apply").await?;
        let object = format!(
            "{}/{}",
            document["kind"].as_str().unwrap_or("?"),
            document["metadata"]["name"].as_str().unwrap_or("?")
        );
        let mut state = self.state();
        let cluster =
            state.clusters.get_mut(name.as_str()).ok_or_else(|| PortError::Permanent("no cluster".to_owned()))?;
        Ok(if cluster.insert(object) { Applied::Created } else { Applied::Unchanged })
    }

    async fn remove(&self, name: &EnvironmentName, object: &ObjectRef) -> Result<bool, PortError> {
        self.enter("remove").await?;
        let mut state = self.state();
        let cluster = state.clusters.get_mut(name.as_str());
        Ok(cluster.is_some_and(|c| c.remove(&format!("{}/{}", object.kind, object.name))))
    }

    async fn readiness(&self, _: &EnvironmentName) -> Result<Readiness, PortError> {
        self.enter("readiness").await?;
        Ok(self.state().readiness.clone())
    }

    async fn pods(&self, _: &EnvironmentName) -> Result<PodCounts, PortError> {
        Ok(PodCounts { ready: 1, total: 2 })
    }

    async fn drain(&self, _: &EnvironmentName) -> Result<Vec<String>, PortError> {
        self.enter("drain").await?;
        let mut state = self.state();
        if state.draining == 0 {
            return Ok(Vec::new());
        }
        state.draining -= 1;
        Ok(vec!["pod default/web on worker local".to_owned()])
    }

    async fn sleep(&self, name: &EnvironmentName) -> Result<(), PortError> {
        self.enter("sleep").await?;
        self.state().asleep.insert(name.to_string());
        Ok(())
    }

    async fn running_asleep(&self, name: &EnvironmentName) -> Result<Vec<String>, PortError> {
        self.enter("running_asleep").await?;
        let mut state = self.state();
        if state.draining == 0 || !state.asleep.contains(name.as_str()) {
            return Ok(Vec::new());
        }
        state.draining -= 1;
        Ok(vec!["pod default/web on worker local".to_owned()])
    }

    async fn wake(&self, name: &EnvironmentName) -> Result<(), PortError> {
        self.enter("wake").await?;
        self.state().asleep.remove(name.as_str());
        Ok(())
    }

    async fn last_request(&self, _: &EnvironmentName) -> Result<Option<Timestamp>, PortError> {
        Ok(self.state().last_request)
    }

    async fn consumption(&self) -> Result<Vec<Consumption>, PortError> {
        self.enter("consumption").await?;
        Ok(self.state().consumption.clone())
    }

    async fn requested(&self, name: &EnvironmentName) -> Result<Requests, PortError> {
        Ok(self.state().requested.get(name.as_str()).copied().unwrap_or_default())
    }

    async fn requested_by(&self, backup: &TenantBackup) -> Requests {
        self.state().requested_by.get(&backup.name).copied().unwrap_or_default()
    }

    async fn placement_changed(&self, name: &EnvironmentName) {
        self.state().placed.push(name.to_string());
    }

    async fn wake_requested(&self) -> EnvironmentName {
        loop {
            if let Some(name) = self.state().writes.pop() {
                return EnvironmentName::new(name).expect("name");
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn delete(&self, name: &EnvironmentName) -> Result<(), PortError> {
        self.enter("delete").await?;
        self.state().clusters.remove(name.as_str());
        Ok(())
    }

    async fn change_authority(&self, name: &EnvironmentName, step: AuthorityStep) -> Result<(), PortError> {
        self.enter("change_authority").await?;
        let mut state = self.state();
        let cluster = state.clusters.get_mut(name.as_str());
        cluster.ok_or_else(|| PortError::Permanent("no cluster".to_owned()))?.insert(format!("{step:?}"));
        Ok(())
    }

    async fn snapshot(&self, name: &EnvironmentName) -> Result<TenantBackup, PortError> {
        self.enter("snapshot").await?;
        let state = self.state();
        let objects = state.clusters.get(name.as_str()).ok_or_else(|| PortError::Permanent("no cluster".to_owned()))?;
        let entry = |object: &String| Entry {
            key: Key::new("objects", "", object),
            revision: 1,
            created: 1,
            value: object.clone().into(),
        };
        let entries = objects.iter().map(entry).collect();
        Ok(TenantBackup { name: name.to_string(), export: Export { revision: 7, entries } })
    }

    async fn restore(&self, name: &EnvironmentName, backup: &TenantBackup) -> Result<(), PortError> {
        self.enter("restore").await?;
        let objects = backup.export.entries.iter().map(|e| e.key.name.to_string()).collect();
        let mut state = self.state();
        state.clusters.insert(name.to_string(), objects);
        state.asleep.remove(name.as_str());
        Ok(())
    }

    async fn compact(&self, name: &EnvironmentName) -> Result<u64, PortError> {
        self.enter("compact").await?;
        let there = self.state().clusters.contains_key(name.as_str());
        there.then_some(7).ok_or_else(|| PortError::Permanent("no cluster".to_owned()))
    }

    async fn kubeconfig(&self, name: &EnvironmentName) -> Result<String, PortError> {
        Ok(format!("users: [{{name: {name}, user: {{client-key-data: KEY}}}}]\n"))
    }

    async fn local_kubeconfig(&self, name: &EnvironmentName) -> Result<String, PortError> {
        self.kubeconfig(name).await
    }

    async fn serve(
        &self,
        name: &EnvironmentName,
        user: KubernetesUser,
        prefix: String,
        request: Request<Body>,
    ) -> Response<Body> {
        let headers: BTreeMap<_, _> = request
            .headers()
            .iter()
            .map(|(n, v)| (n.to_string(), String::from_utf8_lossy(v.as_bytes()).into_owned()))
            .collect();
        let said = json!({
            "environment": name.as_str(), "user": user.name, "admin": user.admin, "prefix": prefix,
            "uri": request.uri().to_string(), "headers": headers,
        });
        let mut response = Response::new(Body::from(said.to_string()));
        for (name, value) in [("content-type", "text/html"), ("set-cookie", "a=b"), ("refresh", "0"), ("audit-id", "1")]
        {
            response.headers_mut().insert(name, http::HeaderValue::from_static(value));
        }
        response
    }

    fn server(&self, name: &EnvironmentName) -> String {
        format!("https://127.0.0.1:8443/clusters/{name}")
    }
}

struct NoWorkers;

#[async_trait::async_trait]
impl Workers for NoWorkers {
    async fn list(&self) -> Result<Vec<Worker>, PortError> {
        Ok(Vec::new())
    }
}

/// An environment that was ready at the beginning of 2026.
pub(crate) fn environment(name: &str, phase: Phase) -> EnvironmentDoc {
    let document = json!({
        "name": name, "uid": "u", "template": "blank", "templateVersion": "1.0.0", "parameters": {}, "phase": phase, "message": "",
        "createdAt": "2026-01-01T00:00:00Z", "readyAt": "2026-01-01T00:00:00Z", "owner": "admin", "job": "",
    });
    serde_json::from_value(document).expect("an environment")
}

/// A workload as `readiness` gives it.
pub(crate) fn workload(name: &str, ready: u32, desired: u32) -> Workload {
    Workload {
        kind: "deployment".to_owned(),
        namespace: "default".to_owned(),
        name: name.to_owned(),
        ready,
        desired,
        done: ready == desired,
        why: String::new(),
    }
}

/// Somebody's browser session.
pub(crate) struct SignedIn {
    cookie: String,
    csrf: String,
}

pub(crate) fn as_somebody(who: Option<&SignedIn>, method: &str, path: &str, body: Option<Value>) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(SignedIn { cookie, csrf }) = who {
        request = request.header("cookie", format!("__Host-vctl-session={cookie}")).header("x-csrf-token", csrf);
    }
    let request = match body {
        Some(body) => request.header("content-type", "application/json").body(Body::from(body.to_string())),
        None => request.body(Body::empty()),
    };
    request.expect("request")
}

/// A portal with everything around it.
pub(crate) struct World {
    pub(crate) portal: Portal,
    pub(crate) planes: Arc<FakePlanes>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) tasks: Tasks,
    pub(crate) token: String,
    dir: tempfile::TempDir,
    on_disk: bool,
}

impl World {
    /// A portal whose job runner is not started.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("dir");
        let clock = Clock::system();
        Self::join(dir, clock, Arc::new(MemoryStore::new()), Arc::default())
    }

    /// On SQLite: after a crash the file is opened anew.
    pub(crate) async fn on_disk() -> Self {
        let dir = tempfile::tempdir().expect("dir");
        let store = SqliteStore::open(dir.path(), &Tasks::new()).await.expect("store");
        let mut world = Self::join(dir, Clock::system(), Arc::new(store), Arc::default());
        world.on_disk = true;
        world
    }

    /// With a clock that stands still.
    pub(crate) fn at_fixed_time() -> Self {
        let at = "2026-01-02T03:04:05Z".parse().expect("time");
        let dir = tempfile::tempdir().expect("dir");
        Self::join(dir, Clock::fixed(at), Arc::new(MemoryStore::new()), Arc::default())
    }

    /// With a clock that stands still, and issuers.
    pub(crate) fn with_issuers(oidc: crate::OidcConfig) -> Self {
        let at = "2026-01-02T03:04:05Z".parse().expect("time");
        let dir = tempfile::tempdir().expect("dir");
        Self::join_with(dir, Clock::fixed(at), Arc::new(MemoryStore::new()), Arc::default(), |c| c.oidc = Some(oidc))
    }

    /// With another history of jobs, on SQLite.
    pub(crate) async fn with_history(history: JobHistory) -> Self {
        let dir = tempfile::tempdir().expect("dir");
        let store = SqliteStore::open(dir.path(), &Tasks::new()).await.expect("store");
        Self::join_with(dir, Clock::system(), Arc::new(store), Arc::default(), |c| c.jobs.history = history)
    }

    fn join(dir: tempfile::TempDir, clock: Clock, store: Arc<dyn Store>, planes: Arc<FakePlanes>) -> Self {
        Self::join_with(dir, clock, store, planes, |_| {})
    }

    fn join_with(
        dir: tempfile::TempDir,
        clock: Clock,
        store: Arc<dyn Store>,
        planes: Arc<FakePlanes>,
        change: impl FnOnce(&mut PortalConfig),
    ) -> Self {
        let token_file = dir.path().join("admin.token");
        let templates = dir.path().join("templates");
        std::fs::create_dir_all(&templates).expect("mkdir");
        let mut config = PortalConfig {
            public_url: "https://127.0.0.1:8443".to_owned(),
            listen: "127.0.0.1:8443".to_owned(),
            version: "0.0.0-test".to_owned(),
            token_file: token_file.clone(),
            audit_retention: None,
            audit_mode: crate::AuditMode::Blocking,
            templates_dir: Some(templates),
            own_program: None,
            helm: "helm-of-nobody".into(),
            git: "git".into(),
            oidc: None,
            private_webhooks: true,
            stream_check: Duration::from_millis(20),
            jobs: JobsConfig {
                back_off: Duration::from_millis(1),
                poll: Duration::from_millis(5),
                ready_deadline: Duration::from_millis(200),
                drain_deadline: Duration::from_millis(200),
                retries: 3,
                ..JobsConfig::default()
            },
        };
        change(&mut config);
        let tasks = Tasks::new();
        let portal =
            Portal::new(config, clock.clone(), tasks.clone(), store.clone(), planes.clone(), Arc::new(NoWorkers))
                .expect("portal");
        let token = std::fs::read_to_string(token_file).expect("token").trim().to_owned();
        Self { portal, planes, store, clock, tasks, token, dir, on_disk: false }
    }

    /// The same store and control planes after the process has died at once: nothing of the old one goes on.
    pub(crate) async fn after_crash(self) -> Self {
        self.tasks.shutdown(Duration::from_secs(5)).await;
        let Self { portal, planes, store, clock, dir, on_disk, .. } = self;
        drop(portal);
        if !on_disk {
            return Self::join(dir, clock, store, planes);
        }
        store.close().await.expect("closed");
        drop(store);
        let store = SqliteStore::open(dir.path(), &Tasks::new()).await.expect("store");
        let mut world = Self::join(dir, clock, Arc::new(store), planes);
        world.on_disk = true;
        world
    }

    /// Writes a template without manifests; `more` follows its head.
    pub(crate) fn template(&self, name: &str, more: &str) {
        self.template_with(name, "1.0.0", more, &[]);
    }

    /// Writes a template of a version with manifests.
    pub(crate) fn template_with(&self, name: &str, version: &str, more: &str, manifests: &[(&str, &str)]) {
        let template = self.dir.path().join("templates").join(name);
        std::fs::create_dir_all(template.join("manifests")).expect("mkdir");
        let head =
            format!("apiVersion: vctl.dev/v1\nkind: Template\nname: {name}\nversion: {version}\ntitle: T\n{more}");
        std::fs::write(template.join("template.yaml"), head).expect("write");
        for (file, text) in manifests {
            std::fs::write(template.join("manifests").join(file), text).expect("write");
        }
    }

    /// Writes one more file of a template.
    pub(crate) fn template_file(&self, name: &str, file: &str, text: &str) {
        let path = self.dir.path().join("templates").join(name).join(file);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
        std::fs::write(path, text).expect("write");
    }

    /// Works on one job to its end, without a runner: the clock may stand still.
    pub(crate) async fn run_job(&self, id: &str) -> Job {
        let inner = self.portal.inner();
        let config = inner.config.jobs.clone();
        let runner = Runner::new(config, inner.clock.clone(), inner.environments.clone(), inner.jobs.clone());
        let job = inner.environments.documents.get(id).await.expect("read").expect("job");
        runner.work(job, tokio_util::sync::CancellationToken::new()).await;
        inner.environments.job(id).await.expect("job")
    }

    /// On disk: after the server was stopped, somebody has changed its database, and it was started again.
    pub(crate) async fn after_edit(self, edit: impl FnOnce(&mut Vec<u8>)) -> Self {
        self.tasks.shutdown(Duration::from_secs(5)).await;
        let Self { portal, planes, store, clock, dir, .. } = self;
        drop(portal);
        store.close().await.expect("closed");
        drop(store);
        let path = dir.path().join("vctl.db");
        let mut file = std::fs::read(&path).expect("the database");
        edit(&mut file);
        std::fs::write(&path, file).expect("written");
        let store = SqliteStore::open(dir.path(), &Tasks::new()).await.expect("store");
        let mut world = Self::join(dir, clock, Arc::new(store), planes);
        world.on_disk = true;
        world
    }

    /// One request as local administrator.
    pub(crate) async fn call(&self, method: &str, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let request =
            Request::builder().method(method).uri(path).header("authorization", format!("Bearer {}", self.token));
        let request = match body {
            Some(body) => request.header("content-type", "application/json").body(Body::from(body.to_string())),
            None => request.body(Body::empty()),
        };
        let response = self.send(request.expect("request")).await;
        let status = response.status();
        let bytes = response.into_body().collect().await.expect("body").to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    /// Signs a user in who is in these groups, as if an issuer had done it.
    pub(crate) async fn sign_in(&self, user: &str, groups: &[&str]) -> SignedIn {
        let now = self.clock.now();
        let signed_in = SignedIn { cookie: format!("cookie-of-{user}"), csrf: "csrf".to_owned() };
        let document = UserDoc {
            id: user.to_owned(),
            issuer: "test".to_owned(),
            subject: user.to_owned(),
            actor: format!("{user}@example.com"),
            name: user.to_owned(),
            email: Some(format!("{user}@example.com")),
            groups: groups.iter().map(|g| (*g).to_owned()).collect(),
            created_at: now,
            last_sign_in: now,
            disabled: false,
        };
        let session = SessionDoc {
            digest: digest(&signed_in.cookie),
            actor: document.actor.clone(),
            user: user.to_owned(),
            sign_in: None,
            csrf: signed_in.csrf.clone(),
            created_at: now,
            seen_at: now,
        };
        let writes =
            vec![put(&document, Expect::Any).expect("document"), put(&session, Expect::Any).expect("document")];
        self.portal.inner().environments.documents.transact(writes).await.expect("written");
        signed_in
    }

    /// What the local administrator may do.
    pub(crate) async fn administrator(&self) -> Permit {
        let subject = Subject { administrator: true, ..Subject::default() };
        self.portal.inner().access.permit(subject, Limit::NONE).await.expect("permit")
    }

    /// One request as somebody.
    pub(crate) async fn call_as(
        &self,
        who: Option<&SignedIn>,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> (StatusCode, Value) {
        let response = self.send(as_somebody(who, method, path, body)).await;
        let status = response.status();
        if response.headers().get("content-type").is_some_and(|v| v.as_bytes().starts_with(b"text/event-stream")) {
            return (status, Value::Null);
        }
        let bytes = response.into_body().collect().await.expect("body").to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    /// What somebody gets there, once it is as it is `wanted`; fails the test when it does not become so.
    pub(crate) async fn until(&self, who: Option<&SignedIn>, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut seen = Value::Null;
        let end = async {
            loop {
                let (_, now) = match who {
                    Some(_) => self.call_as(who, "GET", path, None).await,
                    None => self.call("GET", path, None).await,
                };
                seen = now;
                if wanted(&seen) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let done = tokio::time::timeout(Duration::from_secs(20), end).await;
        assert!(done.is_ok(), "{path} does not become what is wanted: {seen}");
        seen
    }

    /// Any request.
    pub(crate) async fn send(&self, request: Request<Body>) -> Response<Body> {
        self.portal.router().oneshot(request).await.expect("response")
    }

    /// Asks for an environment; returns its job's id.
    pub(crate) async fn create(&self, name: &str, template: &str) -> String {
        let (status, body) =
            self.call("POST", "/api/v1/environments", Some(json!({"name": name, "template": template}))).await;
        assert_eq!(status, StatusCode::CREATED, "{body}");
        body["job"].as_str().expect("job").to_owned()
    }

    /// The job once it has ended; fails the test when it does not.
    pub(crate) async fn ended(&self, id: &str) -> Job {
        let environments = &self.portal.inner().environments;
        let end = async {
            let mut job = environments.job(id).await.expect("job");
            while !ended(job.state) {
                job = environments.job_after(id, job.revision).await.expect("job");
            }
            job
        };
        match tokio::time::timeout(Duration::from_secs(20), end).await {
            Ok(job) => job,
            Err(e) => panic!("the job does not end ({e}): {:?}", environments.job(id).await),
        }
    }
}
