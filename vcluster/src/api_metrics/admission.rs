//! How long admission takes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use vctl_runtime::metrics::{Exposition, Histogram, Kind};

/// Upper bounds in seconds; upstream's.
const STEP_BOUNDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5];
const WEBHOOK_BOUNDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];
/// Webhooks that are told apart.
const MOST_WEBHOOKS: usize = 100;

const OPERATIONS: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];

/// What admission does: first it changes, then it refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Admit,
    Validate,
}

/// Name, operation, type, whether it said no.
type Asked = (String, &'static str, &'static str, bool);

/// See the module.
#[derive(Default)]
pub(crate) struct Admission {
    /// By operation, step and whether it refused.
    steps: [OnceLock<Histogram>; 16],
    webhooks: Mutex<BTreeMap<Asked, Arc<Histogram>>>,
}

impl Admission {
    /// Counts a step of a request.
    pub(super) fn step(&self, operation: &str, step: Step, rejected: bool, took: Duration) {
        let operation = OPERATIONS.iter().position(|o| *o == operation).unwrap_or_default();
        let at = operation * 4 + usize::from(step == Step::Validate) * 2 + usize::from(rejected);
        if let Some(histogram) = self.steps.get(at) {
            histogram.get_or_init(|| Histogram::new(STEP_BOUNDS)).observe(took);
        }
    }

    /// Counts a call of a webhook.
    pub(super) fn webhook(&self, name: &str, operation: &'static str, mutating: bool, rejected: bool, took: Duration) {
        let kind = if mutating { "admit" } else { "validating" };
        let mut all = self.webhooks.lock().unwrap_or_else(PoisonError::into_inner);
        let full = all.len() >= MOST_WEBHOOKS;
        let mut key = (name.to_owned(), operation, kind, rejected);
        if full && !all.contains_key(&key) {
            key.0 = String::new();
        }
        all.entry(key).or_insert_with(|| Arc::new(Histogram::new(WEBHOOK_BOUNDS))).observe(took);
    }

    pub(super) fn write(&self, text: &mut Exposition) {
        let name = "apiserver_admission_step_admission_duration_seconds";
        let help = "[STABLE] Admission sub-step latency histogram in seconds, broken out for each operation and API resource and step type \
                    (validate or admit).";
        text.family(name, Kind::Histogram, help);
        let flag = |rejected: bool| if rejected { "true" } else { "false" };
        for (at, histogram) in self.steps.iter().enumerate() {
            let (Some(histogram), Some(operation)) = (histogram.get(), OPERATIONS.get(at / 4)) else { continue };
            let kind = if at & 2 == 0 { "admit" } else { "validate" };
            let labels = [("operation", *operation), ("rejected", flag(at & 1 == 1)), ("type", kind)];
            text.histogram(name, &labels, histogram);
        }
        let name = "apiserver_admission_webhook_admission_duration_seconds";
        let help = "[STABLE] Admission webhook latency histogram in seconds, identified by name and broken out for each operation and API \
                    resource and type (validate or admit).";
        text.family(name, Kind::Histogram, help);
        let webhooks = self.webhooks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for ((webhook, operation, kind, rejected), histogram) in &webhooks {
            let labels =
                [("name", &**webhook), ("operation", operation), ("rejected", flag(*rejected)), ("type", kind)];
            text.histogram(name, &labels, histogram);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_webhooks_are_told_apart() {
        let admission = Admission::default();
        admission.step("UPDATE", Step::Validate, true, Duration::from_millis(1));
        admission.webhook("a.example", "CREATE", true, false, Duration::from_millis(30));
        for n in 0..200 {
            admission.webhook(&format!("w{n}"), "CREATE", false, true, Duration::ZERO);
        }
        let mut text = Exposition::default();
        admission.write(&mut text);
        let text = text.into_text();
        for line in [
            "apiserver_admission_step_admission_duration_seconds_bucket{operation=\"UPDATE\",rejected=\"true\",type=\"validate\",le=\"0.005\"} 1",
            "apiserver_admission_webhook_admission_duration_seconds_bucket{name=\"a.example\",operation=\"CREATE\",rejected=\"false\",type=\"admit\",le=\"0.025\"} 0",
            "apiserver_admission_webhook_admission_duration_seconds_count{name=\"\",operation=\"CREATE\",rejected=\"true\",type=\"validating\"} 101",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
    }
}
