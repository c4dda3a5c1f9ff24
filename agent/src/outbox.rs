//! What the server is to be told. Statuses coalesce per pod, so that a slow or absent server costs no memory.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Mutex, PoisonError},
};

use tokio::sync::Notify;
use vctl_api::agent::{
    AgentMessage, Applied, NodeReport, PodEvent, PodGone, PodStats, PodStatus, agent_message::Message,
};

/// Events kept while the server is away; older ones are dropped first.
const EVENT_LIMIT: usize = 1024;

#[derive(Default)]
struct State {
    statuses: BTreeMap<String, PodStatus>,
    dirty: BTreeSet<String>,
    gone: BTreeMap<String, PodGone>,
    events: VecDeque<PodEvent>,
    applied: VecDeque<Applied>,
    stats: BTreeMap<String, PodStats>,
    node: Option<NodeReport>,
    node_dirty: bool,
}

/// Collects reports; the control stream drains it.
#[derive(Default)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    changed: Notify,
}

impl Outbox {
    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let result = f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
        result
    }

    /// Reports a status if it differs from the one last reported.
    pub(crate) fn status(&self, status: PodStatus) {
        self.with(|s| {
            if s.statuses.get(&status.uid) != Some(&status) {
                s.dirty.insert(status.uid.clone());
                s.statuses.insert(status.uid.clone(), status);
            }
        });
    }

    pub(crate) fn gone(&self, gone: PodGone) {
        self.with(|s| {
            s.statuses.remove(&gone.uid);
            s.dirty.remove(&gone.uid);
            s.stats.remove(&gone.uid);
            s.gone.insert(gone.uid.clone(), gone);
        });
    }

    pub(crate) fn event(&self, event: PodEvent) {
        self.with(|s| {
            if s.events.len() >= EVENT_LIMIT {
                s.events.pop_front();
            }
            s.events.push_back(event);
        });
    }

    pub(crate) fn applied(&self, class: &str, generation: u64, error: String) {
        self.with(|s| s.applied.push_back(Applied { resource_class: class.to_owned(), generation, error }));
    }

    pub(crate) fn stats(&self, stats: PodStats) {
        self.with(|s| s.stats.insert(stats.uid.clone(), stats));
    }

    pub(crate) fn node(&self, node: NodeReport) {
        self.with(|s| {
            if s.node.as_ref() != Some(&node) {
                s.node = Some(node);
                s.node_dirty = true;
            }
        });
    }

    /// A new control stream: everything is to be told again; answers to the old stream are void.
    pub(crate) fn restart(&self) {
        self.with(|s| {
            s.dirty = s.statuses.keys().cloned().collect();
            s.node_dirty = s.node.is_some();
            s.applied.clear();
        });
    }

    /// The next messages, in an order that lets the server understand them: answers, node, statuses, ends, events.
    pub(crate) async fn next(&self) -> Vec<AgentMessage> {
        loop {
            let changed = self.changed.notified();
            let batch = self.drain();
            if !batch.is_empty() {
                return batch;
            }
            changed.await;
        }
    }

    fn drain(&self) -> Vec<AgentMessage> {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let s = &mut *guard;
        let mut out: Vec<Message> = s.applied.drain(..).map(Message::Applied).collect();
        if std::mem::take(&mut s.node_dirty) {
            out.extend(s.node.clone().map(Message::Node));
        }
        let dirty = std::mem::take(&mut s.dirty);
        out.extend(dirty.iter().filter_map(|uid| s.statuses.get(uid).cloned()).map(Message::PodStatus));
        out.extend(s.events.drain(..).map(Message::PodEvent));
        out.extend(std::mem::take(&mut s.gone).into_values().map(Message::PodGone));
        out.extend(std::mem::take(&mut s.stats).into_values().map(Message::PodStats));
        out.into_iter().map(|message| AgentMessage { message: Some(message) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn statuses_coalesce_and_a_new_stream_hears_them_again() {
        let outbox = Outbox::default();
        let status = |ip: &str| PodStatus { uid: "u".into(), pod_ip: ip.into(), ..PodStatus::default() };
        outbox.status(status(""));
        outbox.status(status("10.0.0.2"));
        let first = outbox.next().await;
        assert!(
            matches!(&first[..], [AgentMessage { message: Some(Message::PodStatus(s)) }] if s.pod_ip == "10.0.0.2")
        );
        outbox.status(status("10.0.0.2"));
        assert!(outbox.drain().is_empty(), "an unchanged status is not repeated");
        outbox.restart();
        assert_eq!(outbox.drain().len(), 1);
        outbox.gone(PodGone { uid: "u".into(), ..PodGone::default() });
        outbox.restart();
        assert!(matches!(&outbox.drain()[..], [AgentMessage { message: Some(Message::PodGone(_)) }]));
    }
}
