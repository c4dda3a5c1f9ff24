//! How long a job waits before it replaces failed pods: 10 s, doubled with every failure since the last success, up to 10 minutes.
//! It is computed from the pods that are there, so that it survives a restart.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::is_failed;
use crate::controllers::{
    object::{condition, list, text, time},
    pod,
};

const FIRST: i64 = 10;
const LONGEST: i64 = 600;

/// The delay after so many failures.
fn delay(failures: i64) -> SignedDuration {
    if failures <= 0 {
        return SignedDuration::ZERO;
    }
    let factor = 1_i64.checked_shl((failures - 1).min(16) as u32).unwrap_or(LONGEST);
    SignedDuration::from_secs((FIRST * factor).min(LONGEST))
}

/// When a pod ended, as far as can be told.
pub(super) fn ended_at(pod: &Value) -> Option<Timestamp> {
    let containers = list(pod, "/status/containerStatuses");
    let finished: Vec<Timestamp> = containers.iter().filter_map(|c| time(c, "/state/terminated/finishedAt")).collect();
    if !containers.is_empty() && finished.len() == containers.len() {
        return finished.into_iter().max();
    }
    let not_ready = condition(pod, "Ready").filter(|c| text(c, "/status") == "False");
    not_ready
        .and_then(|c| time(c, "/lastTransitionTime"))
        .or_else(|| time(pod, "/metadata/deletionTimestamp"))
        .or_else(|| time(pod, "/metadata/creationTimestamp"))
}

/// When the next pods may be created: not before the delay after the last failure is over.
pub(super) fn until(job: &Value, pods: &[Value]) -> Option<Timestamp> {
    let last_success = pods.iter().filter(|p| pod::phase(p) == "Succeeded").filter_map(ended_at).max();
    let failures: Vec<Timestamp> = pods
        .iter()
        .filter(|p| is_failed(job, p))
        .filter_map(ended_at)
        .filter(|at| last_success.is_none_or(|s| *at > s))
        .collect();
    failures.iter().max()?.checked_add(delay(failures.len() as i64)).ok()
}

/// The same for one index, whose last pod failed after so many others.
pub(super) fn until_index(last: &Value, failures_before: i64) -> Option<Timestamp> {
    ended_at(last)?.checked_add(delay(failures_before + 1)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ended(phase: &str, at: &str) -> Value {
        json!({ "status": { "phase": phase, "containerStatuses": [{ "state": { "terminated": { "finishedAt": at } } }] } })
    }

    #[test]
    fn the_delay_doubles_with_failures_since_the_last_success() {
        assert_eq!([0, 1, 2, 3, 7, 99].map(|n| delay(n).as_secs()), [0, 10, 20, 40, 600, 600]);
        let job = json!({});
        let mut pods = vec![ended("Failed", "2026-01-01T00:00:00Z"), ended("Failed", "2026-01-01T00:00:20Z")];
        assert_eq!(until(&job, &pods).unwrap().to_string(), "2026-01-01T00:00:40Z");
        pods.push(ended("Succeeded", "2026-01-01T00:00:10Z"));
        assert_eq!(until(&job, &pods).unwrap().to_string(), "2026-01-01T00:00:30Z");
        pods.push(ended("Succeeded", "2026-01-01T00:01:00Z"));
        assert_eq!(until(&job, &pods), None);
    }
}
