//! `vctl dash`: the dashboard's data, by REST and by the Kubernetes API of the environment that is looked at.

mod kubernetes;

use std::{collections::BTreeMap, future::Future, pin::Pin, time::Duration};

use clap::Args;
use futures::StreamExt;
use k8s_openapi::api::core::v1;
use kube_runtime::{WatchStreamExt, watcher};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use vctl_api::rest::{Environment, Page, Worker};
use vctl_tui::model::{Data, Request, Source};

use super::{Client, Global, error::CliError};

/// Pod counts and workers change without an event: they are read so often.
const REFRESH: Duration = Duration::from_secs(5);
/// Changes that come within this time are shown together.
const GATHER: Duration = Duration::from_millis(100);
/// Pause before a failed connection is tried again.
const RETRY: Duration = Duration::from_secs(2);
/// Events that are kept.
const EVENTS: usize = 500;

/// Arguments of `vctl dash`.
#[derive(Debug, Args)]
pub(crate) struct Dash {}

impl Dash {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        // Whatever is wrong with the server is told before the screen is taken.
        let _: Page<Environment> = client.get("environments").await?;
        let url = client.url().to_owned();
        vctl_tui::run(url, Box::new(Feed { client })).await.map_err(|e| CliError::Failed(e.to_string()))
    }
}

struct Feed {
    client: Client,
}

#[async_trait::async_trait]
impl Source for Feed {
    async fn feed(self: Box<Self>, requests: mpsc::Receiver<Request>, data: mpsc::Sender<Data>) {
        tokio::select! {
            () = platform(&self.client, &data) => {}
            () = followed(&self.client, requests, &data) => {}
        }
    }
}

/// Environments and workers: at every change, and now and then.
async fn platform(client: &Client, data: &mpsc::Sender<Data>) {
    loop {
        let trouble = match watch_platform(client, data).await {
            Ok(()) => return,
            Err(e) => e.to_string(),
        };
        if data.send(Data::Trouble(trouble)).await.is_err() {
            return;
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Ends without error when nobody listens any more.
async fn watch_platform(client: &Client, data: &mpsc::Sender<Data>) -> Result<(), CliError> {
    let mut changes = client.stream("events").await?.bytes_stream();
    let mut connected = false;
    loop {
        let environments: Page<Environment> = client.get("environments").await?;
        let workers: Page<Worker> = client.get("workers").await?;
        let mut news = vec![Data::Environments(environments.items), Data::Workers(workers.items)];
        if !connected {
            news.push(Data::Connected);
            connected = true;
        }
        for one in news {
            if data.send(one).await.is_err() {
                return Ok(());
            }
        }
        let pause = tokio::time::sleep(REFRESH);
        tokio::select! {
            chunk = changes.next() => match chunk {
                // A comment keeps the connection alive; it is no news but does no harm.
                Some(Ok(_)) => tokio::time::sleep(GATHER).await,
                Some(Err(e)) => return Err(CliError::Answer(e.to_string())),
                None => return Err(CliError::Failed("the server has closed the connection; trying again".to_owned())),
            },
            () = pause => {}
        }
    }
}

/// Pods and events of the environment that was asked for last.
async fn followed(client: &Client, mut requests: mpsc::Receiver<Request>, data: &mpsc::Sender<Data>) {
    let mut current: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(std::future::pending());
    loop {
        tokio::select! {
            request = requests.recv() => match request {
                Some(Request::Follow(name)) => current = Box::pin(follow(client.clone(), name, data.clone())),
                None => return,
            },
            () = &mut current => return,
        }
    }
}

/// Ends when nobody listens any more.
async fn follow(client: Client, name: String, data: mpsc::Sender<Data>) {
    let cluster = loop {
        match connect(&client, &name).await {
            Ok(cluster) => break cluster,
            // The control plane of a new environment is not there at once.
            Err(e) => {
                if !data.offer(Data::Unreachable { environment: name.clone(), why: e.to_string() }) {
                    return;
                }
            }
        }
        tokio::time::sleep(RETRY).await;
    };
    let broken = |why: String| {
        data.offer(Data::Unreachable { environment: name.clone(), why });
    };
    let show_pods = |pods: &BTreeMap<_, v1::Pod>| {
        let pods = pods.values().map(kubernetes::pod).collect();
        data.offer(Data::Pods { environment: name.clone(), pods })
    };
    let pods = watch(&cluster, show_pods, broken);
    let show_events = |events: &BTreeMap<_, v1::Event>| {
        let mut events: Vec<_> = events.values().map(kubernetes::event).collect();
        events.sort_by_key(|event| std::cmp::Reverse(event.at));
        events.truncate(EVENTS);
        data.offer(Data::Events { environment: name.clone(), events })
    };
    let events = watch(&cluster, show_events, broken);
    tokio::select! {
        () = pods => {}
        () = events => {}
    }
}

async fn connect(client: &Client, name: &str) -> Result<kube::Client, Box<dyn std::error::Error + Send + Sync>> {
    let kubeconfig = super::kubeconfig::fetch(client, name).await?;
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}

/// Sends without waiting.
trait Offer {
    /// False when nobody listens any more. News that find no room are dropped: the next ones replace them.
    fn offer(&self, data: Data) -> bool;
}

impl Offer for mpsc::Sender<Data> {
    fn offer(&self, data: Data) -> bool {
        !matches!(self.try_send(data), Err(mpsc::error::TrySendError::Closed(_)))
    }
}

/// Keeps all objects of a kind and shows them after each change, until `show` says that nobody looks. Broken watches are begun anew.
async fn watch<K>(
    cluster: &kube::Client,
    show: impl Fn(&BTreeMap<(String, String), K>) -> bool,
    broken: impl Fn(String),
) where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let api: kube::Api<K> = kube::Api::all(cluster.clone());
    let mut stream = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
    let mut objects = BTreeMap::new();
    let mut fresh = BTreeMap::new();
    let mut listed = false;
    let mut pending = false;
    loop {
        let next = if pending {
            match tokio::time::timeout(GATHER, stream.next()).await {
                Ok(next) => next,
                Err(_) => {
                    pending = false;
                    if !show(&objects) {
                        return;
                    }
                    continue;
                }
            }
        } else {
            stream.next().await
        };
        match next {
            Some(Ok(watcher::Event::Init)) => fresh.clear(),
            Some(Ok(watcher::Event::InitApply(object))) => {
                fresh.insert(key(&object), object);
            }
            Some(Ok(watcher::Event::InitDone)) => {
                objects = std::mem::take(&mut fresh);
                listed = true;
                pending = true;
            }
            Some(Ok(watcher::Event::Apply(object))) => {
                objects.insert(key(&object), object);
                pending = listed;
            }
            Some(Ok(watcher::Event::Delete(object))) => {
                objects.remove(&key(&object));
                pending = listed;
            }
            Some(Err(e)) => broken(e.to_string()),
            None => return,
        }
    }
}

fn key<K: kube::Resource>(object: &K) -> (String, String) {
    let meta = object.meta();
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}
