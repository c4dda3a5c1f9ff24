//! Nodes of workers in environments, and workers in the store.

use std::{collections::HashSet, sync::Arc};

use serde_json::{Value, json};
use vctl_api::agent::NodeReport;
use vctl_store::{Expect, Key, ListOptions, Scope, Tenant, Write};

use super::{
    HubError, Inner,
    engine::{Work, WorkError},
    state::Worker,
};
use crate::{
    json::Json,
    node::{self, Health},
    ports::Caller,
    remote::Remote,
    simulated::Simulated,
    target::Target,
};

/// Where workers are kept in the platform's own documents.
const RESOURCE: &str = "workers.vctl.dev";

impl Inner {
    /// The workers of earlier runs, and the simulated ones.
    pub(super) async fn load_workers(&self) -> Result<(), HubError> {
        let scope = Scope { resource: RESOURCE.into(), namespace: None };
        let options = ListOptions { scope, at: None, after: None, limit: 0 };
        let known = self.store.list(Tenant::SYSTEM, options).await?;
        for entry in known.entries {
            let document: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
            self.add_worker(&entry.key.name, document.there("/report").map(node::restored));
        }
        for name in self.config.simulated.clone() {
            let name: Arc<str> = name.into();
            let worker = Worker {
                target: Arc::new(Simulated::new()),
                remote: None,
                report: Some(Simulated::report(&name)),
                last_seen: Some(self.clock.now()),
                away: false,
            };
            self.lock().workers.insert(name, worker);
        }
        Ok(())
    }

    /// A worker behind an agent; the one that is there, if it is.
    pub(super) fn add_worker(&self, name: &str, report: Option<NodeReport>) -> Option<Arc<Remote>> {
        let now = self.clock.now();
        let name: Arc<str> = name.into();
        let remote = {
            let mut state = self.lock();
            if let Some(worker) = state.workers.get(&name) {
                return worker.remote.clone();
            }
            let start = now.as_microsecond().max(1).unsigned_abs();
            let remote = Arc::new(Remote::new(name.clone(), self.tasks.clone(), start));
            let target: Arc<dyn Target> = remote.clone();
            // Seen now: it gets the usual time to come back after the server's start.
            let worker = Worker { target, remote: Some(remote.clone()), report, last_seen: Some(now), away: false };
            state.workers.insert(name.clone(), worker);
            remote
        };
        self.queue.add(Work::Away(name));
        Some(remote)
    }

    /// An agent tells what its worker has.
    pub(super) async fn reported(&self, worker: &Arc<str>, report: NodeReport) -> Result<(), WorkError> {
        let (tenants, kind) = {
            let mut state = self.lock();
            let Some(entry) = state.workers.get_mut(worker) else { return Ok(()) };
            if entry.report.as_ref() == Some(&report) {
                return Ok(());
            }
            entry.report = Some(report.clone());
            let kind = entry.target.kind();
            (state.tenants.keys().copied().collect::<HashSet<Tenant>>(), kind)
        };
        for tenant in tenants {
            self.queue.add(Work::Node(tenant, worker.clone()));
        }
        let value = json!({ "kind": kind, "report": node::stored(&report) }).to_string();
        let write = Write { key: Key::new(RESOURCE, "", worker), expect: Expect::Any, value: Some(value.into()) };
        self.store.transact(Tenant::SYSTEM, vec![write]).await?;
        Ok(())
    }

    pub(super) fn first_nodes(&self) -> Vec<Value> {
        let now = self.now_ms();
        let state = self.lock();
        let present = state.workers.iter().filter(|(_, worker)| !worker.away);
        let node = |(name, worker): (&Arc<str>, &Worker)| {
            let report = worker.report.as_ref()?;
            Some(node::node(name, worker.target.kind(), report, Health::Ready, &Value::Null, now))
        };
        present.filter_map(node).collect()
    }

    pub(super) async fn reconcile_node(&self, tenant: Tenant, worker: &Arc<str>) -> Result<(), WorkError> {
        let (environment, kind, report, health) = {
            let state = self.lock();
            let (Some(environment), Some(entry)) = (state.tenants.get(&tenant), state.workers.get(worker)) else {
                return Ok(());
            };
            let Some(report) = entry.report.clone() else { return Ok(()) };
            let health = if entry.away { Health::Unknown } else { Health::Ready };
            (environment.clone(), entry.target.kind(), report, health)
        };
        let api = self.api()?;
        let caller = Caller { environment: &environment, node: worker };
        let now = self.now_ms();
        let Some(present) = self.read(tenant, "nodes", "", worker).await? else {
            let node = node::node(worker, kind, &report, health, &Value::Null, now);
            return match api.create(caller, "nodes", "", node).await {
                Ok(_) => Ok(()),
                // The environment has just been deleted.
                Err(e) if e.code == 404 => Ok(()),
                Err(e) => Err(e.into()),
            };
        };
        let mut node = node::node(worker, kind, &report, health, &present, now);
        let meta = |n: &Value| (n["metadata"]["labels"].clone(), n["spec"].clone());
        if meta(&node) != meta(&present) {
            let written = api.update(caller, "nodes", "", worker, node.clone()).await?;
            node["metadata"]["resourceVersion"] = written["metadata"]["resourceVersion"].clone();
        }
        if node["status"] != present["status"] {
            api.update_status(caller, "nodes", "", worker, node).await?;
        }
        Ok(())
    }
}
