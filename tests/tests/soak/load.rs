//! The load: creates, updates, patches and deletes of ConfigMaps and gadgets, at most so many a second, and what became of each.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, sleep_until},
};
use vctl_tests::burst;

use crate::{
    record,
    truth::{Key, Lane, Resource, Truth, Write},
};

/// Namespaces that the objects are in.
pub(crate) const NAMESPACES: [&str; 4] = ["soak-0", "soak-1", "soak-2", "soak-3"];
/// Writers; each owns its objects, so that it knows what is there.
const WRITERS: usize = 16;
/// Objects of a writer, half of each resource.
const OBJECTS: usize = 40;
/// Text in every object.
const PAYLOAD: usize = 256;
/// How long the server may be away.
const AWAY: Duration = Duration::from_mins(2);

/// A running load.
pub(crate) struct Load {
    shared: Arc<Shared>,
    writers: Vec<JoinHandle<Result<Vec<Owned>>>>,
}

struct Shared {
    client: Client,
    server: String,
    rate: Rate,
    stop: AtomicBool,
    acknowledged: [AtomicU64; 2],
    numbers: AtomicU64,
    /// Answers that never came.
    unanswered: AtomicU64,
    /// Set by the first writer that fails, so that nobody waits for the others.
    failed: Mutex<Option<String>>,
}

/// Gives leave to write, at most so often; what was not used is lost after a tenth of a second.
struct Rate {
    each: Duration,
    next: tokio::sync::Mutex<Instant>,
}

impl Rate {
    async fn leave(&self) {
        let mut next = self.next.lock().await;
        let now = Instant::now();
        let oldest = now.checked_sub(Duration::from_millis(100)).unwrap_or(now);
        let due = (*next).max(oldest);
        *next = due + self.each;
        drop(next);
        sleep_until(due).await;
    }
}

/// An object of a writer.
struct Owned {
    resource: Resource,
    namespace: &'static str,
    name: String,
    /// Version and label of what is there.
    now: Option<(u64, Lane)>,
    /// Number of the last state.
    number: u64,
    writes: Vec<Write>,
}

/// What is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Create,
    Replace,
    Patch,
    Delete,
}

impl Load {
    /// Starts writing with the rights of a kubeconfig.
    pub(crate) fn start(runtime: &tokio::runtime::Runtime, kubeconfig: &Path, rate: u32) -> Result<Self> {
        let (client, server) = burst::client(kubeconfig)?;
        let shared = Arc::new(Shared {
            client,
            server,
            rate: Rate {
                each: Duration::from_secs(1) / rate,
                next: tokio::sync::Mutex::new(Instant::from_std(std::time::Instant::now())),
            },
            stop: AtomicBool::new(false),
            acknowledged: Default::default(),
            numbers: AtomicU64::new(1),
            unanswered: AtomicU64::new(0),
            failed: Mutex::new(None),
        });
        let writers = (0..WRITERS).map(|number| {
            let shared = shared.clone();
            runtime.spawn(async move {
                let done = shared.write(number).await;
                if let Err(e) = &done {
                    *shared.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(format!("{e:#}"));
                }
                done
            })
        });
        Ok(Self { writers: writers.collect(), shared })
    }

    /// Acknowledged writes of a resource so far.
    pub(crate) fn acknowledged(&self, resource: Resource) -> u64 {
        self.shared.acknowledged[resource as usize].load(Ordering::SeqCst)
    }

    /// Writes so far whose answer never came.
    pub(crate) fn unanswered(&self) -> u64 {
        self.shared.unanswered.load(Ordering::SeqCst)
    }

    /// Fails when a writer has.
    pub(crate) fn check(&self) -> Result<()> {
        let failed = self.shared.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        failed.map_or(Ok(()), |e| bail!("a writer failed: {e}"))
    }

    /// Ends it; what was written, by resource.
    pub(crate) fn end(self, runtime: &tokio::runtime::Runtime) -> Result<[Truth; 2]> {
        self.shared.stop.store(true, Ordering::SeqCst);
        let mut truth: [Truth; 2] = Default::default();
        for writer in self.writers {
            for owned in runtime.block_on(writer)?? {
                let key: Key = format!("{}/{}", owned.namespace, owned.name).into();
                truth[owned.resource as usize].objects.insert(key, owned.writes);
            }
        }
        truth.iter().try_for_each(Truth::check)?;
        Ok(truth)
    }
}

impl Shared {
    async fn write(&self, writer: usize) -> Result<Vec<Owned>> {
        let mut random = StdRng::seed_from_u64(writer as u64);
        let mut all: Vec<Owned> = (0..OBJECTS)
            .map(|object| Owned {
                resource: Resource::ALL[object % 2],
                namespace: NAMESPACES[(writer + object / 2) % NAMESPACES.len()],
                name: format!("w{writer}-{object}"),
                now: None,
                number: 0,
                writes: Vec::new(),
            })
            .collect();
        while !self.stop.load(Ordering::SeqCst) {
            self.rate.leave().await;
            let index = random.random_range(0..all.len());
            let owned = &mut all[index];
            let attempt = match (owned.now, random.random_range(0..100)) {
                (None, _) => Attempt::Create,
                (Some(_), 0..15) => Attempt::Delete,
                (Some(_), 15..60) => Attempt::Replace,
                (Some(_), _) => Attempt::Patch,
            };
            let lane = if random.random_bool(0.5) { Lane::A } else { Lane::B };
            self.attempt(owned, attempt, lane).await.with_context(|| format!("{attempt:?} of {}", owned.name))?;
        }
        Ok(all)
    }

    async fn attempt(&self, owned: &mut Owned, attempt: Attempt, lane: Lane) -> Result<()> {
        let number = self.numbers.fetch_add(1, Ordering::SeqCst);
        let answer = self.send(owned, attempt, lane, number).await;
        let at = record::now();
        let (status, answer) = match answer {
            // The server was killed, or is about to end: the object itself says whether it happened.
            Err(_) => return self.settle(owned, attempt, lane, number).await,
            Ok((StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS, _)) => {
                return self.settle(owned, attempt, lane, number).await;
            }
            Ok(answer) => answer,
        };
        let wanted = if attempt == Attempt::Create { StatusCode::CREATED } else { StatusCode::OK };
        ensure!(status == wanted, "{status}: {answer}");
        self.acknowledged[owned.resource as usize].fetch_add(1, Ordering::SeqCst);
        if attempt == Attempt::Delete {
            owned.deleted(Some(at));
        } else {
            owned.written(version(&answer)?, number, lane, Some(at));
        }
        Ok(())
    }

    /// The answer never came: whether it happened is read, until the server can say.
    async fn settle(&self, owned: &mut Owned, attempt: Attempt, lane: Lane, number: u64) -> Result<()> {
        self.unanswered.fetch_add(1, Ordering::SeqCst);
        let deadline = Instant::now() + AWAY;
        let (status, there) = loop {
            match self.call(Method::GET, &self.url(owned, true), None).await {
                Ok((status, there)) if status == StatusCode::OK || status == StatusCode::NOT_FOUND => {
                    break (status, there);
                }
                other if Instant::now() > deadline => bail!("the server stays away: {other:?}"),
                _ => sleep(Duration::from_millis(100)).await,
            }
        };
        if status == StatusCode::NOT_FOUND {
            match (attempt, owned.now) {
                (Attempt::Delete, _) => owned.deleted(None),
                (Attempt::Create, _) => {}
                (_, now) => bail!("{now:?} was acknowledged and is gone"),
            }
            return Ok(());
        }
        let found = (version(&there)?, self::number(&there).unwrap_or_default());
        if attempt != Attempt::Delete && found.1 == number {
            owned.written(found.0, number, lane, None);
            return Ok(());
        }
        let known = owned.now.map(|(version, _)| (version, owned.number));
        ensure!(known == Some(found), "{known:?} was acknowledged, {number} under way, and {found:?} is there");
        Ok(())
    }

    async fn send(
        &self,
        owned: &Owned,
        attempt: Attempt,
        lane: Lane,
        number: u64,
    ) -> reqwest::Result<(StatusCode, Value)> {
        let labels = json!({ "lane": lane.name() });
        let payload = "x".repeat(PAYLOAD);
        let (api_version, kind, field, value) = match owned.resource {
            Resource::ConfigMaps => {
                ("v1", "ConfigMap", "data", json!({ "number": number.to_string(), "payload": payload }))
            }
            Resource::Gadgets => {
                ("soak.example.com/v1", "Gadget", "spec", json!({ "number": number, "payload": payload }))
            }
        };
        let mut body = json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": { "name": owned.name, "namespace": owned.namespace, "labels": labels },
        });
        body[field] = value;
        match attempt {
            Attempt::Create => self.call(Method::POST, &self.url(owned, false), Some(body)).await,
            Attempt::Replace => {
                body["metadata"]["resourceVersion"] = owned.now.map(|(v, _)| v.to_string()).unwrap_or_default().into();
                self.call(Method::PUT, &self.url(owned, true), Some(body)).await
            }
            Attempt::Patch => {
                let patch = json!({ "metadata": { "labels": labels }, field: { "number": body[field]["number"] } });
                self.call(Method::PATCH, &self.url(owned, true), Some(patch)).await
            }
            Attempt::Delete => self.call(Method::DELETE, &self.url(owned, true), None).await,
        }
    }

    fn url(&self, owned: &Owned, named: bool) -> String {
        let group = match owned.resource {
            Resource::ConfigMaps => "api/v1",
            Resource::Gadgets => "apis/soak.example.com/v1",
        };
        let name = if named { format!("/{}", owned.name) } else { String::new() };
        format!("{}/{group}/namespaces/{}/{}{name}", self.server, owned.namespace, owned.resource.name())
    }

    async fn call(&self, method: Method, url: &str, body: Option<Value>) -> reqwest::Result<(StatusCode, Value)> {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let mut request = self.client.request(method, url);
        if let Some(body) = body {
            request = request.header("content-type", kind).body(body.to_string());
        }
        let answer = request.send().await?;
        Ok((answer.status(), answer.json().await?))
    }
}

impl Owned {
    fn written(&mut self, version: u64, number: u64, lane: Lane, acknowledged: Option<i64>) {
        self.now = Some((version, lane));
        self.number = number;
        self.writes.push(Write { version: Some(version), number, lane: Some(lane), acknowledged });
    }

    fn deleted(&mut self, acknowledged: Option<i64>) {
        self.now = None;
        self.writes.push(Write { version: None, number: self.number, lane: None, acknowledged });
    }
}

fn version(object: &Value) -> Result<u64> {
    let text =
        object["metadata"]["resourceVersion"].as_str().with_context(|| format!("no resourceVersion in {object}"))?;
    text.parse().with_context(|| format!("resourceVersion {text:?}"))
}

/// The number that the load wrote into an object.
pub(crate) fn number(object: &Value) -> Option<u64> {
    object["spec"]["number"].as_u64().or_else(|| object["data"]["number"].as_str()?.parse().ok())
}
