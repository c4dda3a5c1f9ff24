//! Which time of a schedule was missed last.

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use serde_json::Value;
use vctl_machinery::cron::Schedule;

use crate::controllers::object::{int, time};

/// From so many missed times on somebody is told.
const MANY: usize = 100;

/// What has become due since the last job.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missed {
    /// The time that a job is to be started for now.
    pub(super) most_recent: Option<Timestamp>,
    /// More than a hundred: a stopped controller, or a clock that jumped.
    pub(super) too_many: bool,
}

/// The last time of the schedule up to now, since the last scheduled time (or the creation), and not before the starting deadline.
pub(super) fn most_recent(cron: &Value, schedule: &Schedule, zone: &TimeZone, now: Timestamp) -> Missed {
    let mut earliest =
        time(cron, "/status/lastScheduleTime").or_else(|| time(cron, "/metadata/creationTimestamp")).unwrap_or(now);
    if let Some(deadline) = int(cron, "/spec/startingDeadlineSeconds")
        && let Ok(bound) = now.checked_sub(SignedDuration::from_secs(deadline))
    {
        earliest = earliest.max(bound);
    }
    let mut most_recent = None;
    let mut at = earliest;
    for _ in 0..MANY {
        match schedule.next(at, zone).filter(|next| *next <= now) {
            Some(next) => {
                most_recent = Some(next);
                at = next;
            }
            None => return Missed { most_recent, too_many: false },
        }
    }
    if schedule.next(at, zone).is_none_or(|next| next > now) {
        return Missed { most_recent, too_many: false };
    }
    // Far behind: look back from now, further each time, until there is one.
    let mut back = SignedDuration::from_secs(60);
    while let Ok(start) = now.checked_sub(back) {
        let mut found = schedule.next(start.max(at), zone).filter(|next| *next <= now);
        if found.is_some() {
            while let Some(next) = found {
                most_recent = Some(next);
                found = schedule.next(next, zone).filter(|n| *n <= now);
            }
            break;
        }
        back = back.saturating_add(back);
    }
    Missed { most_recent, too_many: true }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_last_of_the_missed_times_counts() {
        let schedule = Schedule::parse("*/5 * * * *").unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let created = json!({ "metadata": { "creationTimestamp": "2026-01-01T00:01:00Z" } });
        let of = |cron: &Value, now: &str| most_recent(cron, &schedule, &TimeZone::UTC, at(now));
        assert_eq!(of(&created, "2026-01-01T00:04:59Z"), Missed { most_recent: None, too_many: false });
        let expected = Missed { most_recent: Some(at("2026-01-01T00:15:00Z")), too_many: false };
        assert_eq!(of(&created, "2026-01-01T00:17:00Z"), expected);
        let behind = Missed { most_recent: Some(at("2026-03-01T00:15:00Z")), too_many: true };
        assert_eq!(of(&created, "2026-03-01T00:17:00Z"), behind);
        let mut late = created.clone();
        late["spec"]["startingDeadlineSeconds"] = 60.into();
        assert_eq!(of(&late, "2026-03-01T00:17:00Z"), Missed { most_recent: None, too_many: false });
        let mut done = created;
        done["status"]["lastScheduleTime"] = "2026-01-01T00:15:00Z".into();
        assert_eq!(of(&done, "2026-01-01T00:17:00Z"), Missed { most_recent: None, too_many: false });
    }
}
