//! Informers of kube-rs, in this process.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use kube::{
    Api, Client, Config,
    api::{ApiResource, DynamicObject},
    config::{KubeConfigOptions, Kubeconfig},
};
use kube_runtime::{
    reflector::{self, Store},
    watcher::{self, Event, watcher},
};
use tokio::task::JoinHandle;

use crate::{
    load,
    record::{self, Cache, Item, Journal, Kind, Record},
    truth::{Lane, Resource},
};

/// Pause after a failure.
const BACK_OFF: Duration = Duration::from_millis(300);

/// One informer: a watcher with its reflector.
pub(crate) struct Informer {
    pub(crate) journal: Journal,
    store: Store<DynamicObject>,
    task: JoinHandle<()>,
}

/// A client with the credentials of a kubeconfig.
pub(crate) fn client(runtime: &tokio::runtime::Runtime, kubeconfig: &Path) -> Result<Client> {
    runtime.block_on(async {
        let config = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    })
}

fn api_resource(resource: Resource) -> ApiResource {
    let (group, api_version, kind) = match resource {
        Resource::ConfigMaps => ("", "v1", "ConfigMap"),
        Resource::Gadgets => ("soak.example.com", "soak.example.com/v1", "Gadget"),
    };
    ApiResource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: resource.name().to_owned(),
    }
}

impl Informer {
    /// Starts one for a resource in all namespaces.
    pub(crate) fn start(
        runtime: &tokio::runtime::Runtime,
        client: &Client,
        name: &str,
        resource: Resource,
        lane: Option<Lane>,
        config: watcher::Config,
    ) -> Self {
        let journal = Journal::new(name, resource, lane);
        let config = lane.map_or(config.clone(), |lane| config.labels(&format!("lane={}", lane.name())));
        let kind = api_resource(resource);
        let writer = reflector::store::Writer::new(kind.clone());
        let store = writer.as_reader();
        let api = Api::<DynamicObject>::all_with(client.clone(), &kind);
        let mut events = reflector::reflector(writer, watcher(api, config)).boxed();
        let told = journal.clone();
        let task = runtime.spawn(async move {
            let mut listed = Vec::new();
            while let Some(event) = events.next().await {
                let failed = event.is_err();
                if let Some(record) = record_of(&told, &mut listed, event) {
                    told.push(record);
                }
                if failed {
                    tokio::time::sleep(BACK_OFF).await;
                }
            }
        });
        Self { journal, store, task }
    }

    /// What it holds.
    pub(crate) fn cache(&self) -> Result<Cache> {
        let entry = |object: Arc<DynamicObject>| {
            let item = item(&self.journal, &object);
            item.map(|item| (item.key.to_string(), item.version))
        };
        self.store.state().into_iter().map(entry).collect()
    }

    /// Ends it.
    pub(crate) fn end(&self) {
        self.task.abort();
    }
}

fn item(journal: &Journal, object: &DynamicObject) -> Result<Item> {
    let meta = &object.metadata;
    let name = meta.name.as_deref().unwrap_or_default();
    let key = journal.key(&format!("{}/{name}", meta.namespace.as_deref().unwrap_or_default()));
    let version = meta.resource_version.as_deref().with_context(|| format!("{key} has no resourceVersion"))?;
    let version = version.parse().with_context(|| format!("resourceVersion {version:?} of {key}"))?;
    Ok(Item { key, version, number: load::number(&object.data) })
}

/// What is to be said of an event; `listed` collects a list until it is whole.
fn record_of(
    journal: &Journal,
    listed: &mut Vec<Item>,
    event: watcher::Result<Event<DynamicObject>>,
) -> Option<Record> {
    let at = record::now();
    let record = |kind, object: &DynamicObject| match item(journal, object) {
        Ok(item) => Record::Event { kind, item, at },
        Err(e) => Record::Failed(format!("{e:#}")),
    };
    match event {
        Ok(Event::Init) => {
            listed.clear();
            None
        }
        Ok(Event::InitApply(object)) => {
            match item(journal, &object) {
                Ok(item) => listed.push(item),
                Err(e) => return Some(Record::Failed(format!("{e:#}"))),
            }
            None
        }
        Ok(Event::InitDone) => Some(Record::List { version: None, items: std::mem::take(listed) }),
        Ok(Event::Apply(object)) => Some(record(Kind::Applied, &object)),
        Ok(Event::Delete(object)) => Some(record(Kind::Deleted, &object)),
        Err(e) => {
            let code = match &e {
                watcher::Error::WatchError(status) => status.code,
                watcher::Error::InitialListFailed(kube::Error::Api(status))
                | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code,
                _ => 0,
            };
            Some(if code == 410 { Record::Expired { at } } else { Record::Failed(e.to_string()) })
        }
    }
}
