//! The two rounds of mutation: what changed, and what has to run again because of that.

use std::collections::HashSet;

use serde_json::Value;

/// What ran of one kind: policies, or webhooks.
#[derive(Default)]
struct Ran {
    /// What wants to run again when something changes after it.
    reinvocable: HashSet<String>,
    again: HashSet<String>,
    last: Option<Value>,
}

impl Ran {
    fn reinvoke(&mut self) {
        self.again.extend(self.reinvocable.drain());
    }

    /// Begins a round: in the second one all that can run again does when something else has changed the object.
    fn begin(&mut self, second: bool, object: &Value) {
        if second && self.last.as_ref().is_some_and(|last| last != object) {
            self.reinvoke();
        }
    }

    fn ran(&mut self, id: String, changed: bool, reinvocable: bool) {
        if changed {
            self.reinvoke();
        }
        if reinvocable {
            self.reinvocable.insert(id);
        }
    }
}

/// What is remembered between the two rounds of mutation.
#[derive(Default)]
pub(in crate::admission) struct Rounds {
    second: bool,
    changed: bool,
    policies: Ran,
    webhooks: Ran,
}

impl Rounds {
    /// Whether everything that mutates must run once more; if so, what follows is the second round.
    pub(in crate::admission) fn second(&mut self) -> bool {
        let first = !self.second;
        self.second = true;
        first && self.changed
    }

    pub(super) fn begin_policies(&mut self, object: &Value) {
        self.policies.begin(self.second, object);
    }

    pub(super) fn begin_webhooks(&mut self, object: &Value) {
        self.webhooks.begin(self.second, object);
    }

    /// Whether a policy (with its binding and parameters) runs in this round.
    pub(super) fn runs_policy(&self, id: &str) -> bool {
        !self.second || self.policies.again.contains(id)
    }

    pub(super) fn runs_webhook(&self, id: &str) -> bool {
        !self.second || self.webhooks.again.contains(id)
    }

    pub(super) fn ran_policy(&mut self, id: String, changed: bool, reinvocable: bool) {
        self.changed |= changed;
        self.policies.ran(id, changed, reinvocable);
    }

    pub(super) fn ran_webhook(&mut self, id: String, changed: bool, reinvocable: bool) {
        self.changed |= changed;
        self.webhooks.ran(id, changed, reinvocable);
    }

    pub(super) fn end_policies(&mut self, object: &Value) {
        self.policies.last = Some(object.clone());
    }

    pub(super) fn end_webhooks(&mut self, object: &Value) {
        self.webhooks.last = Some(object.clone());
    }
}
