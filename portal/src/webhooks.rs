//! Webhooks: what happened is told to addresses that administrators of the platform have set.
//!
//! * `documents`: webhooks and deliveries as they are kept.
//! * `sending`: one try: signed, to public addresses only.
//! * `delivering`: every delivery is tried until its receiver has it, or it is given up.
//!
//! A delivery is a document that is written in the transaction of what it tells: neither is there without the other, and it survives the
//! end of the process. It is not one of the jobs of environments: a receiver that does not answer must not take their turns, nor push
//! them out of the list of what was done.

mod delivering;
mod documents;
mod sending;

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Value, json};
use vctl_api::rest::{Delivery, DeliveryState, Webhook, WebhookSettings};
use vctl_runtime::{address::is_public, clock::Clock};
use vctl_store::{Expect, Revision, Write};

use self::{
    documents::{DeliveryDoc, WebhookDoc, WebhookSecretDoc},
    sending::Sender,
};
use crate::{
    access::{check_name, expected, expected_or_new},
    audit::{Subject, entry},
    documents::{Documents, Stored, put, remove},
    environments::Caller,
    error::{Error, nearest},
    jobs,
};

/// What a secret begins with. Source: Standard Webhooks.
const SECRET_PREFIX: &str = "whsec_";
/// Most webhooks.
const LIMIT: usize = 100;
/// Deliveries of a webhook that are shown.
const SHOWN: usize = 20;

/// Webhooks. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Webhooks {
    documents: Documents,
    clock: Clock,
    sender: Sender,
    /// Addresses that are not public are dialled too.
    private: bool,
    /// Unit of the waits between tries.
    unit: Duration,
}

impl Webhooks {
    pub(crate) fn new(documents: Documents, clock: Clock, private: bool, unit: Duration) -> Self {
        Self { documents, clock, sender: Sender::new(private), private, unit }
    }

    /// See [`tell`].
    pub(crate) async fn tell(
        &self,
        event: &str,
        project: &str,
        data: Value,
        now: Timestamp,
    ) -> Result<Vec<Write>, Error> {
        tell(&self.documents, event, project, data, now).await
    }

    /// All webhooks by name, with their last deliveries.
    pub(crate) async fn list(&self) -> Result<Vec<Webhook>, Error> {
        let (webhooks, _) = self.documents.list::<WebhookDoc>().await?;
        let mut deliveries = self.deliveries().await?;
        let view = |stored: Stored<WebhookDoc>| {
            let of_it = deliveries.remove(&stored.value.name).unwrap_or_default();
            view(stored, of_it)
        };
        Ok(webhooks.into_iter().map(view).collect())
    }

    /// One webhook.
    ///
    /// # Errors
    /// [`Error::NotFound`] with near names.
    pub(crate) async fn get(&self, name: &str) -> Result<Webhook, Error> {
        let stored = self.stored(name).await?;
        let deliveries = self.deliveries().await?.remove(name).unwrap_or_default();
        Ok(view(stored, deliveries))
    }

    /// Makes or changes a webhook. A secret that is made up is in the answer, once.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an address that is not dialled, a secret or an event that makes no sense; [`Error::Changed`].
    pub(crate) async fn put(
        &self,
        caller: Caller<'_>,
        name: &str,
        mut settings: WebhookSettings,
        if_revision: Option<Revision>,
    ) -> Result<Webhook, Error> {
        check_name(name)?;
        let host = self.check(&settings)?;
        let before = self.documents.get::<WebhookDoc>(name).await?;
        if before.is_none() && self.documents.list::<WebhookDoc>().await?.0.len() >= LIMIT {
            return Err(invalid(format!("there are {LIMIT} webhooks already: delete some first")));
        }
        let expect = expected_or_new(before.as_ref().map(|b| b.revision), if_revision)?;
        let (given, made) = match (settings.secret.take(), &before) {
            (Some(secret), _) => (Some(secret), None),
            (None, Some(_)) => (None, None),
            (None, None) => {
                let secret = format!("{SECRET_PREFIX}{}", STANDARD.encode(rand::random::<[u8; 32]>()));
                (Some(secret.clone()), Some(secret))
            }
        };
        let doc = WebhookDoc { name: name.to_owned(), settings };
        // An address may be a secret by itself: only its host is written.
        let detail = json!({"host": host, "events": doc.settings.events, "projects": doc.settings.projects, "signedAnew": given.is_some()});
        let mut writes =
            vec![put(&doc, expect)?, entry(self.clock.now(), caller, "webhook.set", Subject::platform(name), detail)?];
        if let Some(secret) = given {
            writes.push(put(&WebhookSecretDoc { name: name.to_owned(), secret }, Expect::Any)?);
        }
        let revisions = self.documents.transact(writes).await?;
        let revision = revisions.first().copied().unwrap_or_default();
        let mut webhook = view(Stored { value: doc, revision, created: revision }, Vec::new());
        webhook.settings.secret = made;
        Ok(webhook)
    }

    /// Deletes a webhook; what it was to be told is not told.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Changed`].
    pub(crate) async fn delete(
        &self,
        caller: Caller<'_>,
        name: &str,
        if_revision: Option<Revision>,
    ) -> Result<(), Error> {
        let stored = self.stored(name).await?;
        expected(stored.revision, if_revision)?;
        let mut writes = vec![
            remove::<WebhookDoc>(name, Expect::Revision(stored.revision)),
            entry(self.clock.now(), caller, "webhook.delete", Subject::platform(name), Value::Null)?,
        ];
        if self.documents.get::<WebhookSecretDoc>(name).await?.is_some() {
            writes.push(remove::<WebhookSecretDoc>(name, Expect::Any));
        }
        self.documents.transact(writes).await?;
        Ok(())
    }

    /// Sends a webhook something, so that somebody sees whether it arrives.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub(crate) async fn test(&self, caller: Caller<'_>, name: &str) -> Result<Delivery, Error> {
        let stored = self.stored(name).await?;
        let now = self.clock.now();
        let body = json!({"type": "webhook.test", "timestamp": now, "data": {"by": caller.actor}}).to_string();
        let doc = DeliveryDoc::new(&stored.value.name, "webhook.test", &body, now);
        let writes = vec![
            put(&doc, Expect::Absent)?,
            entry(now, caller, "webhook.test", Subject::platform(name), json!({"delivery": doc.id}))?,
        ];
        self.documents.transact(writes).await?;
        Ok(doc.view())
    }

    async fn stored(&self, name: &str) -> Result<Stored<WebhookDoc>, Error> {
        if let Some(stored) = self.documents.get::<WebhookDoc>(name).await? {
            return Ok(stored);
        }
        let (all, _) = self.documents.list::<WebhookDoc>().await?;
        let nearest = nearest(name, all.iter().map(|w| w.value.name.as_str()));
        Err(Error::NotFound { what: "webhook", name: name.to_owned(), nearest })
    }

    /// The last deliveries by webhook, newest first.
    async fn deliveries(&self) -> Result<BTreeMap<String, Vec<Delivery>>, Error> {
        let (all, _) = self.documents.list::<DeliveryDoc>().await?;
        let mut by_webhook: BTreeMap<String, Vec<Delivery>> = BTreeMap::new();
        for stored in all.into_iter().rev() {
            let of_it = by_webhook.entry(stored.value.webhook.clone()).or_default();
            if of_it.len() < SHOWN {
                of_it.push(stored.value.view());
            }
        }
        Ok(by_webhook)
    }

    /// The host that a webhook is at.
    fn check(&self, settings: &WebhookSettings) -> Result<String, Error> {
        let url = url::Url::parse(&settings.url)
            .map_err(|e| invalid(format!("{:?} is no address ({e}): write https://HOST/PATH", settings.url)))?;
        if url.scheme() != "https" && !(self.private && url.scheme() == "http") {
            return Err(invalid("the address of a webhook begins with https://".to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() || settings.url.chars().count() > 2000 {
            return Err(invalid("an address has no user or password, and 2000 characters at most".to_owned()));
        }
        let host = url.host_str().unwrap_or_default().to_owned();
        let literal = host.trim_matches(['[', ']']).parse::<IpAddr>().ok();
        if !self.private && (literal.is_some_and(|ip| !is_public(ip)) || host == "localhost") {
            return Err(invalid(format!(
                "{host} is no public address: the server dials those only with `vctl up --allow-private-webhooks`"
            )));
        }
        if let Some(secret) = &settings.secret {
            key_of(secret)?;
        }
        let names = settings.events.iter().chain(&settings.projects);
        if settings.events.len().max(settings.projects.len()) > 100
            || names.clone().any(|n| n.is_empty() || n.chars().count() > 256)
        {
            return Err(invalid("`events` and `projects` have 100 names of 1 to 256 characters at most".to_owned()));
        }
        if let Some(unknown) = settings.events.iter().find(|pattern| !EVENTS.iter().any(|event| covers(pattern, event)))
        {
            return Err(Error::Invalid {
                kind: "invalid-webhook",
                detail: format!("nothing is told as {unknown:?}: docs/approvals.md has the events"),
                nearest: nearest(unknown, EVENTS),
            });
        }
        Ok(host)
    }
}

/// The writes that tell all webhooks that want it of something that happened in a project: to be made with what they tell.
///
/// # Errors
/// When the store fails.
pub(crate) async fn tell(
    documents: &Documents,
    event: &str,
    project: &str,
    mut data: Value,
    now: Timestamp,
) -> Result<Vec<Write>, Error> {
    let (webhooks, _) = documents.list::<WebhookDoc>().await?;
    if let Some(data) = data.as_object_mut() {
        // Of whoever asks; nobody does.
        data.remove("actions");
        data.remove("revision");
    }
    let body = json!({"type": event, "timestamp": now, "data": data}).to_string();
    let wants = |settings: &WebhookSettings| {
        let of_project = settings.projects.is_empty() || settings.projects.iter().any(|p| p == project);
        of_project && (settings.events.is_empty() || settings.events.iter().any(|pattern| covers(pattern, event)))
    };
    let wanting = webhooks.into_iter().filter(|webhook| wants(&webhook.value.settings));
    wanting.map(|webhook| put(&DeliveryDoc::new(&webhook.value.name, event, &body, now), Expect::Absent)).collect()
}

/// Everything that is told.
const EVENTS: [&str; 17] = [
    "approval.requested",
    "approval.approved",
    "approval.fulfilled",
    "approval.denied",
    "approval.withdrawn",
    "approval.expired",
    "approval.failed",
    "approval.active",
    "approval.ended",
    "approval.revoked",
    "breakGlass.begun",
    "breakGlass.ended",
    "breakGlass.revoked",
    "breakGlass.reviewed",
    "environment.expires",
    "environment.expired",
    "webhook.test",
];

/// Whether a pattern is this event: `approval.denied`, `approval.*`, `*`.
fn covers(pattern: &str, event: &str) -> bool {
    pattern == "*"
        || pattern == event
        || pattern.strip_suffix(".*").is_some_and(|kind| event.split_once('.').is_some_and(|(k, _)| k == kind))
}

/// The key that bodies are signed with.
fn key_of(secret: &str) -> Result<Vec<u8>, Error> {
    let bytes = secret.strip_prefix(SECRET_PREFIX).and_then(|text| STANDARD.decode(text).ok());
    bytes.filter(|bytes| (24..=64).contains(&bytes.len())).ok_or_else(|| {
        invalid(format!("a secret is {SECRET_PREFIX} and the base64 of 24 to 64 bytes; leave it out to have one made"))
    })
}

fn invalid(detail: String) -> Error {
    Error::invalid("invalid-webhook", detail)
}

fn view(stored: Stored<WebhookDoc>, deliveries: Vec<Delivery>) -> Webhook {
    let WebhookDoc { name, settings } = stored.value;
    Webhook { name, settings, deliveries, revision: stored.revision }
}

impl DeliveryDoc {
    fn new(webhook: &str, event: &str, body: &str, now: Timestamp) -> Self {
        Self {
            id: jobs::new_id(now),
            webhook: webhook.to_owned(),
            event: event.to_owned(),
            body: body.to_owned(),
            created_at: now,
            state: DeliveryState::Pending,
            attempts: 0,
            next_at: None,
            message: String::new(),
        }
    }

    fn view(&self) -> Delivery {
        Delivery {
            id: self.id.clone(),
            event: self.event.clone(),
            created_at: self.created_at,
            state: self.state,
            attempts: self.attempts,
            next_at: self.next_at,
            message: self.message.clone(),
        }
    }
}
