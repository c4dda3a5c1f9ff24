//! Expiry: an environment warns some time before its end, can be extended, and is then deleted by the ordinary job.

use jiff::Timestamp;
use serde_json::{Value, json};
use vctl_api::rest::{Environment, ExpiryPolicy, Period, Phase};
use vctl_store::{Expect, Revision, StoreError, Write};

use crate::{
    audit::{Subject, entry},
    documents::{EnvironmentDoc, put, unchanged},
    environments::{CONFLICT_TRIES, Caller, Environments},
    error::Error,
    webhooks,
};

/// It warns so long before unless the template says otherwise.
const WARNING_SECONDS: u64 = 86_400;

/// How far from now an environment may live at most; none for no limit.
fn limit(policy: Option<&ExpiryPolicy>) -> Option<Period> {
    policy.map(|policy| policy.maximum.unwrap_or(policy.after).max(policy.after))
}

fn check(policy: Option<&ExpiryPolicy>, asked: Period) -> Result<(), Error> {
    match limit(policy) {
        Some(limit) if asked > limit => Err(Error::invalid(
            "invalid-expiry",
            format!("the template allows at most {limit} from now: ask for {limit} or less"),
        )),
        _ => Ok(()),
    }
}

/// When a new environment ends.
///
/// # Errors
/// When it asks for more than the template allows.
pub(crate) fn of_new(
    policy: Option<&ExpiryPolicy>,
    asked: Option<Period>,
    now: Timestamp,
) -> Result<Option<Timestamp>, Error> {
    if let Some(asked) = asked {
        check(policy, asked)?;
    }
    Ok(asked.or(policy.map(|p| p.after)).map(|period| period.after(now)))
}

/// What is to be done about its end, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Warn,
    Delete,
}

pub(crate) fn next(doc: &EnvironmentDoc) -> Option<(Timestamp, Next)> {
    let expires_at = doc.times.expires_at?;
    if doc.phase == Phase::Deleting {
        return None;
    }
    // Where there is no cluster (yet), nobody would hear the warning: it is given when the environment is there.
    let is_there = matches!(doc.phase, Phase::Ready | Phase::Sleeping);
    if doc.times.warned_at.is_some() || !is_there {
        return Some((expires_at, Next::Delete));
    }
    let policy = doc.times.expiry.as_ref();
    let usual = policy.map_or(WARNING_SECONDS, |p| WARNING_SECONDS.min(p.after.seconds() / 10));
    let before = policy.and_then(|p| p.warn_before).or_else(|| Period::from_seconds(usual.max(1)));
    Some((before.map_or(expires_at, |before| before.before(expires_at)), Next::Warn))
}

impl Environments {
    /// Moves an environment's end: so long from now.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Invalid`] beyond what the template allows; [`Error::Conflict`] while it is deleted.
    pub(crate) async fn extend(
        &self,
        caller: Caller<'_>,
        name: &str,
        period: Period,
        if_revision: Option<Revision>,
    ) -> Result<Environment, Error> {
        for _ in 0..CONFLICT_TRIES {
            let stored = self.stored(name).await?;
            unchanged(stored.revision, if_revision)?;
            let mut doc = stored.value;
            if doc.phase == Phase::Deleting {
                return Err(Error::Conflict(format!("environment {name:?} is being deleted: create it again")));
            }
            check(doc.times.expiry.as_ref(), period)?;
            let now = self.now();
            let before = doc.times.expires_at.replace(period.after(now));
            doc.times.warned_at = None;
            let detail = json!({ "from": before, "to": doc.times.expires_at });
            let writes = vec![
                put(&doc, Expect::Revision(stored.revision))?,
                entry(now, caller, "environment.extend", Subject::environment(&doc), detail)?,
            ];
            match self.documents.transact(writes).await {
                Ok(_) => return self.get(name).await,
                Err(StoreError::Conflict { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Err(Error::Unavailable(format!("environment {name:?} is changing all the time")))
    }

    /// Tells everybody that an environment ends soon: in its document, in the audit trail, to webhooks, and as an Event in its cluster.
    pub(crate) async fn warn(&self, caller: Caller<'_>, doc: &EnvironmentDoc) -> Result<(), Error> {
        let name = doc.name.as_str();
        let stored = self.stored(name).await?;
        let Some(expires_at) = stored.value.times.expires_at.filter(|_| stored.value.uid == doc.uid) else {
            return Ok(());
        };
        let now = self.now();
        let mut warned = stored.value;
        warned.times.warned_at = Some(now);
        let detail = json!({ "expiresAt": expires_at, "owner": warned.owner });
        let mut writes = vec![
            put(&warned, Expect::Revision(stored.revision))?,
            entry(now, caller, "environment.expires-soon", Subject::environment(&warned), detail)?,
        ];
        writes.extend(self.tell_of_end("environment.expires", &warned, now).await?);
        self.documents.transact(writes).await?;
        if let Err(error) = self.planes.apply(&doc.name, &event(name, now, expires_at)).await {
            tracing::warn!(environment = name, %error, "the event that it expires could not be written");
        }
        Ok(())
    }
}

impl Environments {
    /// Deletes an environment whose time is over, and tells webhooks so. One that was extended in between stays.
    pub(crate) async fn expire(&self, caller: Caller<'_>, doc: &EnvironmentDoc) -> Result<(), Error> {
        let name = doc.name.as_str();
        let stored = self.stored(name).await?;
        if stored.value.uid != doc.uid || stored.value.times.expires_at != doc.times.expires_at {
            return Ok(());
        }
        let told = self.tell_of_end("environment.expired", doc, self.now()).await?;
        self.delete_with(caller, name, Some(stored.revision), &told).await.map(drop)
    }

    /// The writes by which webhooks learn of an environment's end.
    async fn tell_of_end(&self, event: &str, doc: &EnvironmentDoc, now: Timestamp) -> Result<Vec<Write>, Error> {
        let data = json!({
            "environment": doc.name, "uid": doc.uid, "project": doc.project, "template": doc.template, "owner": doc.owner,
            "expiresAt": doc.times.expires_at,
        });
        webhooks::tell(&self.documents, event, &doc.project, data, now).await
    }
}

/// What `kubectl get events` shows.
fn event(name: &str, now: Timestamp, expires_at: Timestamp) -> Value {
    let seconds = |at: Timestamp| Timestamp::from_second(at.as_second()).unwrap_or(at).to_string();
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": format!("environment-expires.{:x}", expires_at.as_second()), "namespace": "default" },
        "involvedObject": { "apiVersion": "v1", "kind": "Namespace", "name": "default", "namespace": "default" },
        "type": "Warning", "reason": "EnvironmentExpires",
        "message": format!(
            "environment {name} is deleted at {}; to keep it: vctl extend {name} 24h", seconds(expires_at)
        ),
        "source": { "component": "vctl" }, "firstTimestamp": seconds(now), "lastTimestamp": seconds(now), "count": 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::environment;

    #[test]
    fn it_warns_a_tenth_or_a_day_before_and_then_ends() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("time");
        let mut doc = environment("env", Phase::Ready);
        assert_eq!(next(&doc), None);
        let policy = |text: &str| serde_json::from_str::<ExpiryPolicy>(text).expect(text);
        let mut of = |text: &str| {
            let expiry = policy(text);
            doc.times.expires_at = of_new(Some(&expiry), None, now).expect("times");
            doc.times.expiry = Some(expiry);
            next(&doc).map(|(at, _)| at.to_string())
        };
        assert_eq!(of(r#"{"after":"10h"}"#).as_deref(), Some("2026-01-01T09:00:00Z"));
        assert_eq!(of(r#"{"after":"30d"}"#).as_deref(), Some("2026-01-30T00:00:00Z"));
        assert_eq!(of(r#"{"after":"30d","warnBefore":"2h"}"#).as_deref(), Some("2026-01-30T22:00:00Z"));
        doc.phase = Phase::Creating;
        assert_eq!(next(&doc).map(|(_, what)| what), Some(Next::Delete), "it is not there yet: nobody is warned");
        doc.phase = Phase::Sleeping;
        assert_eq!(next(&doc).map(|(_, what)| what), Some(Next::Warn));
        doc.times.warned_at = Some(now);
        assert_eq!(
            next(&doc).map(|(at, what)| (at.to_string(), what)),
            Some(("2026-01-31T00:00:00Z".into(), Next::Delete))
        );
        let long = Period::from_seconds(31 * 86_400);
        assert!(of_new(doc.times.expiry.as_ref(), long, now).is_err());
        assert!(of_new(Some(&policy(r#"{"after":"30d","maximum":"60d"}"#)), long, now).is_ok());
        assert!(of_new(None, long, now).is_ok());
    }
}
