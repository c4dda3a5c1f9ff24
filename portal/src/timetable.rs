//! What is due, by time.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use jiff::Timestamp;

/// While something is to come the clock is looked at so often at least: it may have been set.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Names with the time at which each is due; those without one are not due at all.
#[derive(Debug, Default)]
pub(crate) struct Timetable {
    due: BTreeSet<(Timestamp, String)>,
    at: HashMap<String, Timestamp>,
}

impl Timetable {
    /// Says when something is due; it counts no more when it was due before.
    pub(crate) fn set(&mut self, name: &str, at: Option<Timestamp>) {
        if let Some(before) = self.at.remove(name) {
            self.due.remove(&(before, name.to_owned()));
        }
        if let Some(at) = at {
            self.at.insert(name.to_owned(), at);
            self.due.insert((at, name.to_owned()));
        }
    }

    /// What is due longest, if anything is. It stays so until another time is set.
    pub(crate) fn due(&self, now: Timestamp) -> Option<String> {
        self.due.first().filter(|(at, _)| *at <= now).map(|(_, name)| name.clone())
    }

    /// How long to wait until something is due, or the clock is to be looked at; none while nothing ever is.
    pub(crate) fn pause(&self, now: Timestamp) -> Option<Duration> {
        let (at, _) = self.due.first()?;
        // What is overdue has a negative one.
        let pause = Duration::try_from(at.duration_since(now)).unwrap_or_default();
        Some(pause.clamp(Duration::from_millis(1), LONGEST_PAUSE))
    }
}

/// Waits so long; without end when nothing is to come.
pub(crate) async fn wait(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_due_comes_first_and_pauses_are_bounded() {
        let at = |second| Timestamp::from_second(second).ok();
        let now = Timestamp::from_second(10).unwrap();
        let mut table = Timetable::default();
        assert_eq!((table.due(now), table.pause(now)), (None, None));
        table.set("a", at(12));
        assert_eq!((table.due(now), table.pause(now)), (None, Some(Duration::from_secs(2))));
        table.set("b", at(9));
        table.set("a", at(8));
        assert_eq!((table.due(now).as_deref(), table.pause(now)), (Some("a"), Some(Duration::from_millis(1))));
        table.set("a", None);
        assert_eq!(table.due(now).as_deref(), Some("b"));
        table.set("b", at(1000));
        assert_eq!(table.pause(now), Some(LONGEST_PAUSE));
    }
}
