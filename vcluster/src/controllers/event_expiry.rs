//! Events live for an hour after they were last seen (upstream: etcd leases, `--event-ttl`). One due time per tenant that has events.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use vctl_store::{Expect, StoreError, Write};

use super::{
    context::{Context, Failure},
    object::time,
};

const TIME_TO_LIVE: SignedDuration = SignedDuration::from_hours(1);
/// Events that expire this soon after one another go together.
const BATCH: SignedDuration = SignedDuration::from_mins(1);

/// When an event seen at `seen` goes.
pub(super) fn expiry(seen: Timestamp) -> Timestamp {
    seen.checked_add(TIME_TO_LIVE).unwrap_or(Timestamp::MAX)
}

/// When an event was last seen.
fn last_seen(event: &Value) -> Option<Timestamp> {
    ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/firstTimestamp", "/metadata/creationTimestamp"]
        .iter()
        .filter_map(|p| time(event, p))
        .max()
}

/// Deletes what has expired; comes again when the next event expires. As with etcd's leases no admission is asked.
pub(super) async fn reconcile(cx: &Context<'_>) -> Result<Option<Timestamp>, Failure> {
    let mut next: Option<Timestamp> = None;
    let mut expired = Vec::new();
    for entry in cx.stored("events", None).await? {
        let seen =
            serde_json::from_slice(&entry.value).ok().as_ref().and_then(last_seen).unwrap_or(Timestamp::UNIX_EPOCH);
        let at = expiry(seen);
        if at <= cx.now {
            expired.push(Write { key: entry.key, expect: Expect::Revision(entry.revision), value: None });
        } else {
            next = Some(next.map_or(at, |n| n.min(at)));
        }
    }
    for write in expired {
        match cx.store.transact(cx.tenant, vec![write]).await {
            // Seen again in the meantime, or deleted by somebody.
            Ok(_) | Err(StoreError::Conflict { .. }) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(next.and_then(|at| at.checked_add(BATCH).ok()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_of_an_events_times_counts() {
        let event = json!({ "metadata": { "creationTimestamp": "2026-01-01T00:00:00Z" }, "lastTimestamp": "2026-01-01T00:10:00Z",
            "eventTime": null });
        assert_eq!(expiry(last_seen(&event).unwrap()).to_string(), "2026-01-01T01:10:00Z");
    }
}
