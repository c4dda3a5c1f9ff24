//! Sleep: by command, by schedule, by inactivity; and waking, by command, by schedule, by a write to the sleeping cluster.
//!
//! What is decided here depends on the environment's document, the last request and the time alone, so that a restart, or hours
//! without a server, change nothing: what was due meanwhile happens once, and only when it still makes sense.

use jiff::{Timestamp, tz::TimeZone};
use serde::{Deserialize, Serialize};
use serde_json::json;
use vctl_api::rest::{ExpiryPolicy, Job, Lifecycle, Operation, Phase, SleepPolicy};
use vctl_machinery::cron::{self, Schedule};

use crate::{
    documents::EnvironmentDoc,
    environments::{Caller, Environments},
    error::Error,
    expiry,
    jobs::enqueue::{Plan, Planned},
};

/// Times that passed without a server are gone through, this many of them at most.
const MISSED_LIMIT: usize = 1000;

/// What an environment's document says of its sleep and its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Times {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sleep: Option<SleepPolicy>,
    /// Schedules count from then: the last time that it went to sleep or woke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) schedule_from: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) asleep_since: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expiry: Option<ExpiryPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) warned_at: Option<Timestamp>,
}

/// Checks a policy.
///
/// # Errors
/// Everything that is wrong with it, each with the field's name first.
pub(crate) fn check(policy: &SleepPolicy) -> Result<(), Vec<String>> {
    let mut wrong = Vec::new();
    for (field, schedule) in [("schedule", &policy.schedule), ("wakeSchedule", &policy.wake_schedule)] {
        if let Some(Err(e)) = schedule.as_deref().map(Schedule::parse) {
            wrong.push(format!("{field}: {e}"));
        }
    }
    if let Some(zone) = policy.time_zone.as_deref().filter(|zone| cron::time_zone(zone).is_none()) {
        wrong.push(format!("timeZone: {zone:?} is no time zone: write its IANA name, such as Europe/Berlin"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// The first time of one schedule after `from` that no time of the other one follows until now: what was missed and undone is not made
/// up for.
fn next_of(
    first: Option<&str>,
    second: Option<&str>,
    zone: &TimeZone,
    from: Timestamp,
    now: Timestamp,
) -> Option<Timestamp> {
    let first = Schedule::parse(first?).ok()?;
    let second = second.and_then(|s| Schedule::parse(s).ok());
    let mut at = first.next(from, zone)?;
    for _ in 0..MISSED_LIMIT {
        let undone = second.as_ref().and_then(|s| s.next(at, zone)).filter(|undone| *undone <= now);
        let Some(undone) = undone else { break };
        at = first.next(undone, zone)?;
    }
    Some(at)
}

/// When it goes to sleep and why, or when it wakes, as far as that is known.
pub(crate) fn next(
    doc: &EnvironmentDoc,
    last_request: Option<Timestamp>,
    now: Timestamp,
) -> Option<(Timestamp, &'static str)> {
    let policy = doc.times.sleep.as_ref()?;
    let zone = policy.time_zone.as_deref().and_then(cron::time_zone).unwrap_or(TimeZone::UTC);
    let from = doc.times.schedule_from.or(doc.ready_at).unwrap_or(doc.created_at);
    let (sleep, wake) = (policy.schedule.as_deref(), policy.wake_schedule.as_deref());
    match doc.phase {
        Phase::Ready => {
            let scheduled = next_of(sleep, wake, &zone, from, now).map(|at| (at, "schedule"));
            let used = last_request.unwrap_or(from).max(from);
            let inactive = policy.after_inactivity.map(|after| (after.after(used), "inactivity"));
            scheduled.into_iter().chain(inactive).min()
        }
        Phase::Sleeping => next_of(wake, sleep, &zone, from, now).map(|at| (at, "schedule")),
        _ => None,
    }
}

/// What people see of its times.
pub(crate) fn lifecycle(doc: &EnvironmentDoc, last_request: Option<Timestamp>, now: Timestamp) -> Lifecycle {
    let next = next(doc, last_request, now).map(|(at, _)| at);
    Lifecycle {
        sleep: doc.times.sleep.clone(),
        sleeps_at: next.filter(|_| doc.phase == Phase::Ready),
        wakes_at: next.filter(|_| doc.phase == Phase::Sleeping),
        asleep_since: doc.times.asleep_since,
        last_request_at: last_request,
        expires_at: doc.times.expires_at,
        expiry_warned_at: doc.times.warned_at,
    }
}

/// Why an environment is put to sleep or woken, and the time that stands for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Why {
    /// As the audit trail says it: `command`, `schedule`, `inactivity`, `write`.
    pub(crate) reason: &'static str,
    /// Schedules count from then.
    pub(crate) at: Timestamp,
}

impl Environments {
    /// Asks for an environment to sleep; one that sleeps, or is about to, stays so.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Conflict`] unless it is ready and nothing else works on it.
    pub(crate) async fn sleep(&self, caller: Caller<'_>, name: &str, why: Why) -> Result<Job, Error> {
        self.enqueue(caller, name, |stored, job| {
            let doc = &stored.value;
            match (doc.phase, job) {
                (Phase::Sleeping, Some(job)) => return Ok(Planned::Already(Box::new(job.clone()))),
                (Phase::Ready, None) => {}
                (Phase::Sleeping, None) => return Err(Error::Conflict(format!("environment {name:?} sleeps already"))),
                _ => return Err(busy(name)),
            }
            let mut environment = doc.clone();
            environment.phase = Phase::Sleeping;
            environment.message.clear();
            environment.times.asleep_since = Some(self.now());
            environment.times.schedule_from = Some(why.at);
            let detail = json!({ "reason": why.reason });
            Ok(Planned::New(Box::new(Plan::new(environment, Operation::Sleep, "environment.sleep", detail))))
        })
        .await
    }

    /// Asks for an environment to be started again. One that is still going to sleep does that first.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Conflict`] unless it sleeps.
    pub(crate) async fn wake(&self, caller: Caller<'_>, name: &str, why: Why) -> Result<Job, Error> {
        self.enqueue(caller, name, |stored, job| {
            let doc = &stored.value;
            match (doc.phase, job) {
                (Phase::Waking, Some(job)) => return Ok(Planned::Already(Box::new(job.clone()))),
                (Phase::Sleeping, _) => {}
                (Phase::Ready, _) => return Err(Error::Conflict(format!("environment {name:?} is awake already"))),
                _ => return Err(busy(name)),
            }
            let mut environment = doc.clone();
            environment.phase = Phase::Waking;
            environment.message.clear();
            environment.times.asleep_since = None;
            environment.times.schedule_from = Some(why.at);
            let detail = json!({ "reason": why.reason });
            Ok(Planned::New(Box::new(Plan::new(environment, Operation::Wake, "environment.wake", detail))))
        })
        .await
    }
}

pub(crate) fn busy(name: &str) -> Error {
    Error::Conflict(format!(
        "environment {name:?} is being worked on, or not ready: wait until `vctl get {name}` says Ready"
    ))
}

/// The times of a new environment.
///
/// # Errors
/// When it asks for a longer life than the template allows.
pub(crate) fn of_new(
    sleep: Option<SleepPolicy>,
    expiry: Option<ExpiryPolicy>,
    asked: Option<vctl_api::rest::Period>,
    now: Timestamp,
) -> Result<Times, Error> {
    let expires_at = expiry::of_new(expiry.as_ref(), asked, now)?;
    Ok(Times { sleep, expiry, expires_at, ..Times::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::environment;

    fn at(text: &str) -> Timestamp {
        text.parse().expect(text)
    }

    fn doc(phase: Phase, policy: serde_json::Value, from: &str) -> EnvironmentDoc {
        let mut doc = environment("env", phase);
        doc.times.sleep = Some(serde_json::from_value(policy).expect("policy"));
        doc.times.schedule_from = Some(at(from));
        doc
    }

    #[test]
    fn schedules_follow_their_zone() {
        let nights =
            json!({"schedule": "0 20 * * mon-fri", "wakeSchedule": "0 7 * * mon-fri", "timeZone": "Europe/Berlin"});
        // A Friday in winter: Berlin is an hour ahead.
        let awake = doc(Phase::Ready, nights.clone(), "2026-01-02T10:00:00Z");
        assert_eq!(next(&awake, None, at("2026-01-02T10:00:00Z")), Some((at("2026-01-02T19:00:00Z"), "schedule")));
        let asleep = doc(Phase::Sleeping, nights, "2026-01-02T19:00:00Z");
        assert_eq!(next(&asleep, None, at("2026-01-02T19:00:00Z")), Some((at("2026-01-05T06:00:00Z"), "schedule")));
    }

    #[test]
    fn what_was_missed_and_undone_is_not_made_up_for() {
        let nights = json!({"schedule": "0 20 * * *", "wakeSchedule": "0 7 * * *"});
        // No server from Thursday noon to Friday nine: it stays awake until the evening.
        let awake = doc(Phase::Ready, nights.clone(), "2026-01-01T12:00:00Z");
        assert_eq!(next(&awake, None, at("2026-01-02T09:00:00Z")), Some((at("2026-01-02T20:00:00Z"), "schedule")));
        // No server from Thursday noon to midnight: it sleeps at once, for what was missed still holds.
        assert_eq!(next(&awake, None, at("2026-01-02T00:00:00Z")), Some((at("2026-01-01T20:00:00Z"), "schedule")));
        let asleep = doc(Phase::Sleeping, nights, "2026-01-01T20:00:00Z");
        assert_eq!(next(&asleep, None, at("2026-01-02T21:00:00Z")), Some((at("2026-01-03T07:00:00Z"), "schedule")));
    }

    #[test]
    fn inactivity_counts_from_the_last_request_or_waking() {
        let idle = doc(Phase::Ready, json!({"afterInactivity": "2h"}), "2026-01-01T12:00:00Z");
        let now = at("2026-01-01T12:30:00Z");
        assert_eq!(next(&idle, None, now), Some((at("2026-01-01T14:00:00Z"), "inactivity")));
        assert_eq!(
            next(&idle, Some(at("2026-01-01T13:00:00Z")), now),
            Some((at("2026-01-01T15:00:00Z"), "inactivity"))
        );
        assert_eq!(
            next(&idle, Some(at("2026-01-01T09:00:00Z")), now),
            Some((at("2026-01-01T14:00:00Z"), "inactivity"))
        );
        let asleep = doc(Phase::Sleeping, json!({"afterInactivity": "2h"}), "2026-01-01T12:00:00Z");
        assert_eq!(next(&asleep, None, now), None);
    }

    #[test]
    fn wrong_policies_are_told_all_at_once() {
        let policy = json!({"schedule": "61 * * * *", "wakeSchedule": "x", "timeZone": "Mars/Olympus"});
        let wrong = check(&serde_json::from_value(policy).expect("policy")).expect_err("wrong");
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(wrong[0].starts_with("schedule: end of range (61)") && wrong[2].contains("IANA"), "{wrong:?}");
    }
}
