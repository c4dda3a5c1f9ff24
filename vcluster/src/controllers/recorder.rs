//! Writes events, counting identical ones instead of repeating them. As client-go's correlator it remembers the last few thousand
//! events of the whole process (not per tenant), summarises floods of similar ones, and drops what a single object produces too much of.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use vctl_machinery::status::ApiError;
use vctl_store::Tenant;

use super::{event::Draft, object::text};
use crate::client::Client;

/// Events remembered; as client-go's cache.
const REMEMBERED: usize = 4096;
/// From so many different messages of one reason within [`SIMILAR_WINDOW`] on they are summarised.
const MOST_SIMILAR: usize = 10;
const SIMILAR_WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// Events of one component about one object: so many at once, then one per [`REFILL`].
const BURST: u32 = 25;
const REFILL: SignedDuration = SignedDuration::from_secs(300);

/// What was written.
#[derive(Clone)]
struct Seen {
    name: String,
    count: u32,
}

/// Events about one object for one reason that differ in their message only.
struct Similar {
    messages: Vec<u64>,
    last: Timestamp,
}

struct Budget {
    left: u32,
    since: Timestamp,
}

/// A map that forgets its oldest keys.
struct Bounded<V> {
    map: HashMap<u64, V>,
    order: VecDeque<u64>,
}

impl<V> Default for Bounded<V> {
    fn default() -> Self {
        Self { map: HashMap::new(), order: VecDeque::new() }
    }
}

impl<V> Bounded<V> {
    fn entry(&mut self, key: u64, make: impl FnOnce() -> V) -> &mut V {
        if !self.map.contains_key(&key) {
            if self.order.len() >= REMEMBERED
                && let Some(oldest) = self.order.pop_front()
            {
                self.map.remove(&oldest);
            }
            self.order.push_back(key);
        }
        self.map.entry(key).or_insert_with(make)
    }
}

#[derive(Default)]
struct State {
    seen: Bounded<Option<Seen>>,
    similar: Bounded<Similar>,
    budgets: Bounded<Budget>,
    /// When the newest event was named for. Events are named by nanoseconds, and a reconcile has one time for all of its events.
    newest: Option<Timestamp>,
}

/// What to do with an event.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Drop,
    Create(u64),
    Repeat(u64, String, u32),
}

fn hash(parts: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

impl State {
    /// A time for a name that no event of this process has: now, or as little later as need be.
    fn unique(&mut self, now: Timestamp) -> Timestamp {
        let next = self.newest.and_then(|t| t.checked_add(SignedDuration::from_nanos(1)).ok());
        let at = next.map_or(now, |n| n.max(now));
        self.newest = Some(at);
        at
    }

    /// Decides, and rewrites the message of summarised events.
    fn decide(&mut self, tenant: Tenant, component: &str, draft: &mut Draft, now: Timestamp) -> Decision {
        let object =
            hash((tenant, component, text(&draft.involved, "/uid"), draft.namespace(), text(&draft.involved, "/name")));
        let budget = self.budgets.entry(object, || Budget { left: BURST, since: now });
        let refilled = now.duration_since(budget.since).as_secs() / REFILL.as_secs();
        if refilled > 0 {
            budget.left = budget.left.saturating_add(u32::try_from(refilled).unwrap_or(BURST)).min(BURST);
            budget.since = now;
        }
        if budget.left == 0 {
            return Decision::Drop;
        }
        budget.left -= 1;

        let kind = hash((object, draft.kind, &draft.reason, draft.action));
        let message = hash(&draft.message);
        let similar = self.similar.entry(kind, || Similar { messages: Vec::new(), last: now });
        if now.duration_since(similar.last) > SIMILAR_WINDOW {
            similar.messages.clear();
        }
        similar.last = now;
        if !similar.messages.contains(&message) && similar.messages.len() <= MOST_SIMILAR {
            similar.messages.push(message);
        }
        let key = if similar.messages.len() > MOST_SIMILAR {
            draft.message = format!("(combined from similar events): {}", draft.message);
            hash((kind, "combined"))
        } else {
            hash((kind, message))
        };
        match self.seen.entry(key, || None) {
            Some(seen) => {
                seen.count += 1;
                Decision::Repeat(key, seen.name.clone(), seen.count)
            }
            None => Decision::Create(key),
        }
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Recorder {
    state: Mutex<State>,
}

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes or counts an event.
    pub(super) async fn record(
        &self,
        client: &dyn Client,
        tenant: Tenant,
        component: &str,
        mut draft: Draft,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        let decision = self.lock().decide(tenant, component, &mut draft, now);
        let key = match decision {
            Decision::Drop => return Ok(()),
            Decision::Create(key) => key,
            Decision::Repeat(key, name, count) => {
                match client.merge_patch("events", draft.namespace(), &name, "", draft.repeat(count, now)).await {
                    Ok(_) => return Ok(()),
                    // It has expired or was deleted: start over.
                    Err(e) if e.code == 404 => key,
                    Err(e) => return Err(e),
                }
            }
        };
        let at = self.lock().unique(now);
        let event = draft.build(component, at);
        let name = text(&event, "/metadata/name").to_owned();
        client.create("events", draft.namespace(), event).await?;
        *self.lock().seen.entry(key, || None) = Some(Seen { name, count: 1 });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controllers::event::EventType;

    fn draft(message: &str) -> Draft {
        let pod = json!({ "metadata": { "name": "p", "namespace": "ns", "uid": "u" } });
        Draft::new("v1", "Pod", &pod, EventType::Normal, "R", message)
    }

    #[test]
    fn events_of_one_moment_have_names_of_their_own() {
        let mut state = State::default();
        let now = Timestamp::from_second(9).unwrap();
        let (a, b) = (state.unique(now), state.unique(now));
        assert_eq!((a, b.duration_since(a).as_nanos()), (now, 1));
        assert_eq!(state.unique(Timestamp::from_second(10).unwrap()).as_second(), 10);
    }

    #[test]
    fn identical_events_are_counted_and_floods_are_summarised_then_dropped() {
        let now = Timestamp::UNIX_EPOCH;
        let mut state = State::default();
        let Decision::Create(key) = state.decide(Tenant(1), "c", &mut draft("one"), now) else { panic!("first") };
        state.seen.map.insert(key, Some(Seen { name: "p.1".into(), count: 1 }));
        assert_eq!(state.decide(Tenant(1), "c", &mut draft("one"), now), Decision::Repeat(key, "p.1".into(), 2));
        assert!(matches!(state.decide(Tenant(2), "c", &mut draft("one"), now), Decision::Create(_)), "other tenant");
        for n in 0..9 {
            let mut d = draft(&format!("m{n}"));
            assert!(matches!(state.decide(Tenant(1), "c", &mut d, now), Decision::Create(_)));
            assert!(!d.message.starts_with('('));
        }
        let mut d = draft("m9");
        assert!(matches!(state.decide(Tenant(1), "c", &mut d, now), Decision::Create(_)));
        assert_eq!(d.message, "(combined from similar events): m9");
        for _ in 0..13 {
            assert_ne!(state.decide(Tenant(1), "c", &mut draft("one"), now), Decision::Drop);
        }
        assert_eq!(state.decide(Tenant(1), "c", &mut draft("one"), now), Decision::Drop, "25 at once");
        let later = now.checked_add(REFILL).unwrap();
        assert_ne!(state.decide(Tenant(1), "c", &mut draft("one"), later), Decision::Drop);
    }
}
