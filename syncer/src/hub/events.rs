//! Writes what agents tell of their pods.

use std::sync::{Arc, PoisonError};

use serde_json::{Value, json};
use vctl_api::agent::PodEvent;
use vctl_store::Tenant;

use super::{
    Inner,
    engine::{Work, WorkError},
};
use crate::{event::Record, ports::Caller};

/// Events that wait to be written; further ones are dropped.
const LIMIT: usize = 4096;

impl Inner {
    /// An agent tells what happened to a pod.
    pub(super) fn pod_event(&self, worker: &Arc<str>, event: PodEvent) {
        let Some(key) = self.key(&event.environment, &event.namespace, &event.name) else { return };
        let uid = match self.lock().pods.get(&key) {
            Some(pod) if pod.on_worker == event.uid && pod.node == *worker => pod.uid.clone(),
            _ => return,
        };
        self.add_event(key.tenant, worker, PodEvent { uid, ..event });
    }

    fn add_event(&self, tenant: Tenant, worker: &Arc<str>, event: PodEvent) {
        {
            let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
            if events.len() >= LIMIT {
                tracing::warn!(worker = %worker, reason = event.reason, "too many events at once; one is dropped");
                return;
            }
            events.push_back((tenant, worker.clone(), event));
        }
        self.queue.add(Work::Events);
    }

    pub(super) async fn write_events(&self) {
        loop {
            let next = self.events.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((tenant, worker, event)) = next else { return };
            let Some(environment) = self.lock().tenants.get(&tenant).cloned() else { continue };
            let record = {
                let mut correlator = self.correlator.lock().unwrap_or_else(PoisonError::into_inner);
                correlator.record(tenant, &worker, &event, self.now_ms())
            };
            let Some(record) = record else { continue };
            let caller = Caller { environment: &environment, node: &worker };
            if let Err(error) = self.write_event(tenant, caller, &event.namespace, record).await {
                // Events are best effort; a namespace that is being deleted takes none.
                tracing::debug!(%error, reason = event.reason, "an event could not be written");
            }
        }
    }

    async fn write_event(
        &self,
        tenant: Tenant,
        caller: Caller<'_>,
        namespace: &str,
        record: Record,
    ) -> Result<(), WorkError> {
        let api = self.api()?;
        match record {
            Record::Create(event) => {
                api.create(caller, "events", namespace, event).await?;
            }
            Record::Repeat { name, count, fresh } => match self.read(tenant, "events", namespace, &name).await? {
                None => {
                    api.create(caller, "events", namespace, fresh).await?;
                }
                Some(mut event) => {
                    event["count"] = json!(count.max(event["count"].as_i64().unwrap_or_default() + 1));
                    event["lastTimestamp"] = fresh["lastTimestamp"].clone();
                    if let Some(metadata) = event.get_mut("metadata").and_then(Value::as_object_mut) {
                        metadata.remove("managedFields");
                    }
                    api.update(caller, "events", namespace, &name, event).await?;
                }
            },
        }
        Ok(())
    }
}
