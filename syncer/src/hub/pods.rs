//! One pod: what is expected of its worker, and what is written of it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde_json::{Value, json};
use vctl_api::agent;
use vctl_store::Tenant;

use super::{
    Inner,
    engine::{Work, WorkError},
    names::{expected, on_worker},
    sleep,
    state::{Pod, PodKey, Token},
};
use crate::{
    json::{Json, millis},
    ports::Caller,
    status::status,
    target::Observation,
    translate::{Context, TokenSpec, references},
};

/// What was found out about a pod before it is handed to its target.
pub(super) struct Bound {
    pub(super) environment: Arc<str>,
    pub(super) node: Arc<str>,
    pub(super) target: Arc<dyn crate::target::Target>,
    draining: bool,
    asleep: bool,
    pub(super) gone: bool,
    observed: Option<Arc<agent::PodStatus>>,
    report: agent::NodeReport,
}

impl Inner {
    pub(super) async fn reconcile_pod(&self, key: &PodKey) -> Result<(), WorkError> {
        let pod = self.read(key.tenant, "pods", &key.namespace, &key.name).await?;
        let Some(mut pod) = pod else {
            self.drop_pod(key);
            return Ok(());
        };
        let deleted = pod.there("/metadata/deletionTimestamp").is_some();
        if !deleted && self.is_asleep(key.tenant) && sleep::is_stopped(&pod) {
            self.drop_pod(key);
            return Ok(());
        }
        let Some(bound) = self.bind(key, &pod) else { return Ok(()) };
        if bound.draining {
            // As if it had been deleted without grace; the object goes with its environment.
            pod["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z".into();
            pod["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        }
        let deleting = pod.there("/metadata/deletionTimestamp").is_some();
        if bound.asleep && !deleting && !sleep::is_finished(&pod) {
            return self.stop_asleep(key, &bound, pod).await;
        }
        if deleting && bound.gone {
            return self.delete_for_good(&bound, &pod).await;
        }
        let mut again: Option<i64> = None;
        let mut failed = false;
        let context = if bound.target.needs_context() {
            let (context, renew, complete) = self.context(key, &pod, &bound).await?;
            (again, failed) = (renew, !complete);
            context
        } else {
            Context { environment: bound.environment.to_string(), ..Context::default() }
        };
        let now = self.now_ms();
        let observed = match bound.target.expect(&pod, expected(key, &pod, &context), now) {
            Observation::Later => bound.observed.clone(),
            Observation::Now { status, again_ms } => {
                again = [again, again_ms].into_iter().flatten().min();
                Some(Arc::from(status))
            }
            Observation::Gone => {
                if let Some(entry) = self.lock().pods.get_mut(key) {
                    entry.gone = true;
                }
                return self.delete_for_good(&bound, &pod).await;
            }
        };
        if let Some(observed) = observed.filter(|_| !bound.draining) {
            self.write_status(key, &bound, pod, &observed, now).await?;
        }
        if let Some(at) = again {
            let delay = Duration::from_millis((at - now).max(1).unsigned_abs());
            self.queue.add_after(Work::Pod(key.clone()), delay);
        }
        if failed {
            return Err(WorkError::Other("a ServiceAccount token could not be had".to_owned()));
        }
        Ok(())
    }

    pub(super) fn drop_pod(&self, key: &PodKey) {
        let dropped = self.lock().drop_pod(key);
        if dropped.is_some_and(|(_, unneeded)| unneeded) {
            self.queue.add(Work::Network(key.tenant));
        }
    }

    /// Notes that a pod is on one of the workers; forgets what was there under its name before. None when it is on none.
    fn bind(&self, key: &PodKey, pod: &Value) -> Option<Bound> {
        let (uid, node) = (pod.text("/metadata/uid"), pod.text("/spec/nodeName"));
        let stale = self.lock().pods.get(key).is_some_and(|p| p.uid != uid || *p.node != *node);
        if stale {
            self.drop_pod(key);
        }
        let mut first = false;
        let bound = {
            let mut state = self.lock();
            let state = &mut *state;
            let (Some(environment), Some((node, worker))) =
                (state.tenants.get(&key.tenant), state.workers.get_key_value(node))
            else {
                return None;
            };
            let needs = if worker.target.needs_context() { references(pod) } else { Default::default() };
            let before = state.pods.get(key).map(|p| p.references.clone());
            if before.is_none() && worker.remote.is_some() {
                let count = state.networks.entry((key.tenant, node.clone())).or_default();
                *count += 1;
                first = *count == 1;
            }
            let mut bound = Bound {
                environment: environment.clone(),
                node: node.clone(),
                target: worker.target.clone(),
                draining: state.draining.contains(&key.tenant),
                asleep: state.asleep.contains(&key.tenant),
                gone: false,
                observed: None,
                report: worker.report.clone().unwrap_or_default(),
            };
            let entry = state.pods.entry(key.clone()).or_insert_with(|| Pod {
                uid: uid.to_owned(),
                on_worker: on_worker(key.tenant, uid),
                node: bound.node.clone(),
                observed: None,
                gone: false,
                finished: false,
                references: Default::default(),
                tokens: HashMap::new(),
            });
            entry.references = needs.clone();
            entry.finished = sleep::is_finished(pod);
            (bound.gone, bound.observed) = (entry.gone, entry.observed.clone());
            // Noted before anything is read: a change in between comes as another round.
            state.set_references(key, &before.unwrap_or_default(), &needs);
            bound
        };
        if first {
            self.add_first(Work::Network(key.tenant));
        }
        Some(bound)
    }

    /// Everything that a pod refers to; when its next token is due; whether all tokens could be had.
    pub(super) async fn context(
        &self,
        key: &PodKey,
        pod: &Value,
        bound: &Bound,
    ) -> Result<(Context, Option<i64>, bool), WorkError> {
        let needs = references(pod);
        let namespace: &str = &key.namespace;
        let mut context = Context {
            environment: bound.environment.to_string(),
            allow_host_access: self.config.allow_host_access,
            node_cpu_millis: bound.report.cpu_millis,
            node_memory_bytes: bound.report.memory_bytes,
            ..Context::default()
        };
        for name in &needs.config_maps {
            if let Some(found) = self.read(key.tenant, "configmaps", namespace, name).await? {
                context.config_maps.insert(name.clone(), found);
            }
        }
        for name in &needs.secrets {
            if let Some(found) = self.read(key.tenant, "secrets", namespace, name).await? {
                context.secrets.insert(name.clone(), found);
            }
        }
        for name in &needs.claims {
            if let Some(found) = self.read(key.tenant, "persistentvolumeclaims", namespace, name).await? {
                let volume = found.text("/spec/volumeName");
                if let Some(volume) = self.read(key.tenant, "persistentvolumes", "", volume).await? {
                    context.volumes.insert(volume.text("/metadata/name").to_owned(), volume);
                    context.volumes_key = self.volumes_key(key.tenant, &bound.environment).await?;
                }
                context.claims.insert(name.clone(), found);
            }
        }
        if pod.some_flag("/spec/enableServiceLinks").unwrap_or(true) {
            context.services = self.documents(key.tenant, "services", Some(namespace)).await?;
        }
        if namespace != "default" || context.services.is_empty() {
            context.services.extend(self.read(key.tenant, "services", "default", "kubernetes").await?);
        }
        let (mut renew, mut complete) = (None, true);
        // A pod that is going needs no new tokens.
        let deleting = pod.there("/metadata/deletionTimestamp").is_some();
        for spec in needs.tokens {
            let known = self.lock().pods.get(key).and_then(|p| p.tokens.get(&spec).cloned());
            let now = self.now_ms();
            let token = match known {
                Some(token) if deleting || token.renew_ms > now => Ok(token),
                None if deleting => Err("the pod is being deleted".to_owned()),
                known => match self.issue(key.tenant, bound, pod, &spec).await {
                    Ok(token) => {
                        if let Some(entry) = self.lock().pods.get_mut(key) {
                            entry.tokens.insert(spec.clone(), token.clone());
                        }
                        Ok(token)
                    }
                    Err(error) => {
                        complete = false;
                        known.filter(|t| t.ends_ms > now).ok_or_else(|| error.to_string())
                    }
                },
            };
            if let Ok(token) = &token
                && !deleting
            {
                renew = Some(renew.map_or(token.renew_ms, |r: i64| r.min(token.renew_ms)));
            }
            context.tokens.insert(spec, token.map(|t| t.token));
        }
        Ok((context, renew, complete))
    }

    /// A token that is bound to the pod: it ends with it.
    async fn issue(&self, _: Tenant, bound: &Bound, pod: &Value, spec: &TokenSpec) -> Result<Token, WorkError> {
        let audiences: Vec<&str> = Some(spec.audience.as_str()).filter(|a| !a.is_empty()).into_iter().collect();
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "metadata": { "name": spec.service_account, "namespace": pod.text("/metadata/namespace") },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": spec.expiration_seconds,
                "boundObjectRef": {
                    "apiVersion": "v1", "kind": "Pod",
                    "name": pod.text("/metadata/name"), "uid": pod.text("/metadata/uid"),
                },
            },
        });
        let caller = Caller { environment: &bound.environment, node: &bound.node };
        let namespace = pod.text("/metadata/namespace");
        let issued_ms = self.now_ms();
        let answer = self.api()?.token(caller, namespace, &spec.service_account, request).await?;
        let token = answer.text("/status/token").to_owned();
        if token.is_empty() {
            return Err(WorkError::Other("the API server answered a TokenRequest without a token".to_owned()));
        }
        let ends_ms = millis(answer.text("/status/expirationTimestamp"))
            .unwrap_or(issued_ms + spec.expiration_seconds.saturating_mul(1000));
        let renew_ms = issued_ms + ((ends_ms - issued_ms) / 5 * 4).clamp(1_000, 86_400_000);
        Ok(Token { token, renew_ms, ends_ms })
    }

    async fn write_status(
        &self,
        key: &PodKey,
        bound: &Bound,
        pod: Value,
        observed: &agent::PodStatus,
        now_ms: i64,
    ) -> Result<(), WorkError> {
        let new = status(&pod, observed, now_ms);
        if new == pod["status"] {
            return Ok(());
        }
        self.put_status(key, bound, pod, new).await
    }

    /// Stores a status as the pod's. A pod that is gone needs none.
    pub(super) async fn put_status(
        &self,
        key: &PodKey,
        bound: &Bound,
        mut pod: Value,
        new: Value,
    ) -> Result<(), WorkError> {
        pod["status"] = new;
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        let caller = Caller { environment: &bound.environment, node: &bound.node };
        match self.api()?.update_status(caller, "pods", &key.namespace, &key.name, pod).await {
            Ok(_) => Ok(()),
            Err(e) if e.code == 404 => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Nothing of the pod is left on its worker: the object goes too.
    async fn delete_for_good(&self, bound: &Bound, pod: &Value) -> Result<(), WorkError> {
        if bound.draining {
            return Ok(());
        }
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "gracePeriodSeconds": 0, "preconditions": { "uid": pod.text("/metadata/uid") },
        });
        let caller = Caller { environment: &bound.environment, node: &bound.node };
        let (namespace, name) = (pod.text("/metadata/namespace"), pod.text("/metadata/name"));
        match self.api()?.delete(caller, "pods", namespace, name, options).await {
            Ok(()) => Ok(()),
            // Gone already, or another pod has its name.
            Err(e) if e.code == 404 || e.code == 409 => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// See [`super::Hub::drain`].
    pub(super) fn drain(&self, environment: &str) -> Vec<String> {
        if !*self.synced.borrow() {
            return vec!["workers that have not been looked at since the server started".to_owned()];
        }
        let mut left = Vec::new();
        let mut work = Vec::new();
        {
            let mut state = self.lock();
            let state = &mut *state;
            if let Some(tenant) = state.by_name.get(environment).copied() {
                state.draining.insert(tenant);
                // A worker that is away for long does not hold a delete up: what it still runs ends as soon as it is back, because
                // nobody expects it any more.
                let away = |node: &str| state.workers.get(node).is_some_and(|worker| worker.away);
                for (key, pod) in state.pods.iter().filter(|(key, _)| key.tenant == tenant) {
                    if !pod.gone && !away(&pod.node) {
                        left.push(format!("pod {}/{} on worker {}", key.namespace, key.name, pod.node));
                        work.push(Work::Pod(key.clone()));
                    }
                }
            }
            for remote in state.workers.values().filter(|w| !w.away).filter_map(|w| w.remote.as_ref()) {
                left.extend(remote.left(environment));
            }
        }
        for work in work {
            self.queue.add(work);
        }
        if left.is_empty() {
            left = self.drain_volumes(environment);
        }
        left.sort();
        left.dedup();
        left
    }

    /// An agent reports the status of a pod. Only the worker that a pod is bound to is heard.
    pub(super) fn pod_status(&self, worker: &str, observed: agent::PodStatus) {
        let Some(key) = self.key(&observed.environment, &observed.namespace, &observed.name) else {
            return self.unexpected(worker, &observed);
        };
        {
            let mut state = self.lock();
            match state.pods.get_mut(&key) {
                Some(pod) if pod.on_worker == observed.uid && *pod.node == *worker => {
                    if pod.observed.as_deref() == Some(&observed) {
                        return;
                    }
                    pod.observed = Some(Arc::new(observed));
                }
                _ => {
                    drop(state);
                    return self.unexpected(worker, &observed);
                }
            }
        }
        self.queue.add(Work::Pod(key));
    }

    fn unexpected(&self, worker: &str, observed: &agent::PodStatus) {
        tracing::debug!(worker, uid = observed.uid, "status of a pod that is not bound to this worker");
        if let Some(remote) = self.lock().remote(worker) {
            remote.unexpected(observed);
        }
    }

    /// An agent reports that nothing is left of a pod.
    pub(super) fn pod_gone(&self, worker: &str, gone: &agent::PodGone) {
        let Some(remote) = self.lock().remote(worker) else { return };
        if !remote.gone(&gone.uid) {
            return;
        }
        let Some(key) = self.key(&gone.environment, &gone.namespace, &gone.name) else { return };
        {
            let mut state = self.lock();
            match state.pods.get_mut(&key) {
                Some(pod) if pod.on_worker == gone.uid && *pod.node == *worker => pod.gone = true,
                _ => return,
            }
        }
        self.queue.add(Work::Pod(key));
    }

    pub(super) fn key(&self, environment: &str, namespace: &str, name: &str) -> Option<PodKey> {
        let tenant = *self.lock().by_name.get(environment)?;
        Some(PodKey { tenant, namespace: namespace.into(), name: name.into() })
    }
}
