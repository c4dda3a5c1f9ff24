//! Every delivery is tried until its receiver has it, or it is given up. To one webhook goes one at a time, so that a receiver that does not
//! answer has one turn and not all of them.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use jiff::Timestamp;
use tokio::sync::mpsc;
use vctl_api::rest::DeliveryState;
use vctl_runtime::tasks::Tasks;
use vctl_store::{Expect, StoreError};

use super::{
    Webhooks,
    documents::{DeliveryDoc, WebhookDoc, WebhookSecretDoc},
    key_of,
};
use crate::{
    documents::{Stored, decode, put, remove},
    error::Error,
    timetable,
};

/// Waits before the second try and those after it, in units (seconds): about a day in all.
const WAITS: [u32; 9] = [10, 30, 120, 300, 900, 3600, 10_800, 21_600, 43_200];
/// Sent at a time.
const PARALLEL: usize = 8;
/// Deliveries of a webhook that have come to their end and are kept.
const KEEP: usize = 50;
/// Pause after the store has failed.
const STORE_PAUSE: Duration = Duration::from_secs(1);
/// While something is to come the clock is looked at so often at least: it may have been set.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A delivery that is not at its end.
struct Open {
    webhook: String,
    at: Timestamp,
}

/// Takes in how a delivery stands; none when it is gone.
fn note(open: &mut BTreeMap<String, Open>, id: &str, doc: Option<DeliveryDoc>) {
    match doc.filter(|doc| doc.state == DeliveryState::Pending) {
        Some(doc) => {
            let at = doc.next_at.unwrap_or(Timestamp::MIN);
            open.insert(id.to_owned(), Open { webhook: doc.webhook, at });
        }
        None => drop(open.remove(id)),
    }
}

impl Webhooks {
    /// Delivers in the background.
    pub(crate) fn start(&self, tasks: &Tasks) {
        let (this, inner) = (self.clone(), tasks.clone());
        tasks.spawn_until_stopped("webhooks", async move {
            let (freed, mut free) = mpsc::unbounded_channel();
            let mut busy = HashSet::new();
            loop {
                if let Err(error) = this.follow(&inner, &mut busy, &freed, &mut free).await {
                    if this.documents.is_closed().await {
                        return;
                    }
                    tracing::error!(%error, "deliveries of webhooks cannot be read; trying again");
                    tokio::time::sleep(STORE_PAUSE).await;
                }
            }
        });
    }

    /// Lists, then follows; returns when it has to list again.
    async fn follow(
        &self,
        tasks: &Tasks,
        busy: &mut HashSet<String>,
        freed: &mpsc::UnboundedSender<String>,
        free: &mut mpsc::UnboundedReceiver<String>,
    ) -> Result<(), Error> {
        let (all, revision) = self.documents.list::<DeliveryDoc>().await?;
        self.forget_old(&all).await?;
        let mut watch = self.documents.watch::<DeliveryDoc>(revision).await?;
        let mut open: BTreeMap<String, Open> = BTreeMap::new();
        for stored in all {
            note(&mut open, &stored.value.id.clone(), Some(stored.value));
        }
        loop {
            let now = self.clock.now();
            for (id, delivery) in open.iter_mut().filter(|(_, d)| d.at <= now) {
                if busy.len() >= PARALLEL {
                    break;
                }
                if !busy.insert(delivery.webhook.clone()) {
                    continue;
                }
                // Its document says when it is tried again; if that cannot be written, this does.
                delivery.at = now.checked_add(jiff::SignedDuration::from_mins(1)).unwrap_or(Timestamp::MAX);
                let (this, id) = (self.clone(), id.clone());
                let done = Done { webhook: delivery.webhook.clone(), freed: freed.clone() };
                tasks.spawn_until_stopped("webhook delivery", async move {
                    let _done = done;
                    if let Err(error) = this.deliver(&id).await {
                        tracing::warn!(delivery = id, %error, "a delivery could not be tried; trying again");
                    }
                });
            }
            // Whoever is done wakes this.
            let free_turn = busy.len() < PARALLEL;
            let waiting = open.values().filter(|d| free_turn && !busy.contains(&d.webhook)).map(|d| d.at).min();
            // Where nothing waits for a time, there is no timer.
            let pause = waiting.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or(LONGEST_PAUSE));
            let pause = pause.map(|pause| pause.clamp(Duration::from_millis(1), LONGEST_PAUSE));
            tokio::select! {
                events = watch.next() => {
                    // Too slow, or history is gone: the list tells the rest.
                    let Ok(events) = events else { return Ok(()) };
                    for event in events {
                        note(&mut open, &event.key.name, event.value.as_ref().map(decode).transpose()?);
                    }
                }
                Some(webhook) = free.recv() => {
                    busy.remove(&webhook);
                }
                () = timetable::wait(pause) => {}
            }
        }
    }

    /// Tries a delivery once, and writes what came of it.
    async fn deliver(&self, id: &str) -> Result<(), Error> {
        let Some(Stored { value: mut doc, revision, .. }) = self.documents.get::<DeliveryDoc>(id).await? else {
            return Ok(());
        };
        if doc.state != DeliveryState::Pending {
            return Ok(());
        }
        let webhook = self.documents.get::<WebhookDoc>(&doc.webhook).await?;
        let secret = self.documents.get::<WebhookSecretDoc>(&doc.webhook).await?;
        let (Some(webhook), Some(secret)) = (webhook, secret) else {
            return self.finish(vec![remove::<DeliveryDoc>(id, Expect::Revision(revision))]).await;
        };
        let key = key_of(&secret.value.secret)?;
        let url = &webhook.value.settings.url;
        let sent = self.sender.send(url, &key, &doc.id, self.clock.now(), &doc.body).await;
        doc.attempts += 1;
        doc.next_at = None;
        match sent {
            Ok(answer) => {
                doc.state = DeliveryState::Delivered;
                doc.message = answer;
            }
            Err(why) => {
                let wait = usize::try_from(doc.attempts - 1).ok().and_then(|i| WAITS.get(i));
                match wait {
                    Some(wait) => doc.next_at = self.clock.now().checked_add(self.unit * *wait).ok(),
                    None => doc.state = DeliveryState::Failed,
                }
                tracing::info!(webhook = doc.webhook, delivery = id, why, "a webhook was not told");
                doc.message = why;
            }
        }
        self.finish(vec![put(&doc, Expect::Revision(revision))?]).await?;
        if doc.state == DeliveryState::Pending {
            return Ok(());
        }
        self.forget_old(&self.documents.list::<DeliveryDoc>().await?.0).await
    }

    async fn finish(&self, writes: Vec<vctl_store::Write>) -> Result<(), Error> {
        match self.documents.transact(writes).await {
            // It was deleted at the same moment.
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    async fn forget_old(&self, all: &[Stored<DeliveryDoc>]) -> Result<(), Error> {
        let mut by_webhook: BTreeMap<&str, usize> = BTreeMap::new();
        let mut writes = Vec::new();
        for stored in all.iter().rev().filter(|s| s.value.state != DeliveryState::Pending) {
            let kept = by_webhook.entry(&stored.value.webhook).or_default();
            *kept += 1;
            if *kept > KEEP {
                writes.push(remove::<DeliveryDoc>(&stored.value.id, Expect::Revision(stored.revision)));
            }
        }
        if writes.is_empty() { Ok(()) } else { self.finish(writes).await }
    }
}

/// Tells the loop that a webhook is free again, also when its task panics.
struct Done {
    webhook: String,
    freed: mpsc::UnboundedSender<String>,
}

impl Drop for Done {
    fn drop(&mut self) {
        // The loop has gone when nobody listens.
        let _ = self.freed.send(std::mem::take(&mut self.webhook));
    }
}
