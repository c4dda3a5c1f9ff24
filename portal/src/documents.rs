//! The portal's state: typed documents in the store's system tenant, cluster-scoped, JSON.

mod read;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use vctl_api::{
    names::EnvironmentName,
    rest::{DEFAULT_PROJECT, EnvironmentKind, JobState, LogLine, Operation, Phase, ShareAccess, Step},
};
use vctl_machinery::version::MinorVersion;
use vctl_store::{Entry, Expect, Key, ListOptions, Revision, Scope, Store, StoreError, Tenant, Watch, Write};

use crate::{
    audit::{
        chain::{self, Anchor, Chains, Link},
        source,
    },
    error::Error,
};

pub(crate) use read::Read;

/// A kind of document.
pub(crate) trait Document: Serialize + DeserializeOwned {
    /// Its resource, `plural.group`.
    const RESOURCE: &'static str;
    /// Its unique name.
    fn name(&self) -> &str;
}

/// What belonged to no project belongs to the one that always exists.
fn default_project() -> String {
    DEFAULT_PROJECT.to_owned()
}

/// An environment as it is kept. Secrets are in [`SecretsDoc`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnvironmentDoc {
    pub(crate) name: EnvironmentName,
    pub(crate) uid: String,
    pub(crate) template: String,
    pub(crate) template_version: String,
    pub(crate) parameters: BTreeMap<String, serde_json::Value>,
    /// The Kubernetes that it is.
    #[serde(default)]
    pub(crate) kubernetes_version: MinorVersion,
    /// Whose tokens count in it: an AuthenticationConfiguration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) authentication: Option<serde_json::Value>,
    /// What is recorded of requests to it: an audit Policy; none: the server's counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) audit_policy: Option<serde_json::Value>,
    pub(crate) phase: Phase,
    pub(crate) message: String,
    pub(crate) created_at: Timestamp,
    pub(crate) ready_at: Option<Timestamp>,
    /// The project that it belongs to.
    #[serde(default = "default_project")]
    pub(crate) project: String,
    pub(crate) owner: String,
    /// Id of the user who made it: what `owner` says is for people.
    #[serde(default)]
    pub(crate) owner_id: String,
    /// Ids of users with whom it is shared, and how.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) shares: BTreeMap<String, ShareAccess>,
    /// The job that was enqueued last; empty when none was since it was restored.
    pub(crate) job: String,
    /// Content of the template that it was made from; environments from before it was kept have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) template_digest: Option<String>,
    /// Parameters that were given; the others are the template's defaults. None in environments from before that was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) given: Option<BTreeSet<String>>,
    /// What it was before the last update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) previous: Option<Box<crate::update::Made>>,
    /// What its dependencies are.
    #[serde(default)]
    pub(crate) kind: EnvironmentKind,
    /// Resources by the template's bindings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) bindings: BTreeMap<String, String>,
    /// What its template requests; none of one from before that was kept, which counts nothing until it is updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<vctl_machinery::requests::Requests>,
    /// When it sleeps and ends.
    #[serde(default)]
    pub(crate) times: crate::sleep::Times,
    /// While it is put back from a backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) restoring: Option<crate::environments::restore::Restoring>,
}

/// Values of password parameters of an environment; read by its create job only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SecretsDoc {
    pub(crate) name: EnvironmentName,
    pub(crate) parameters: BTreeMap<String, String>,
    /// Those from before the last update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) previous: Option<BTreeMap<String, String>>,
}

/// A job as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobDoc {
    /// Sorts by time.
    pub(crate) id: String,
    pub(crate) environment: EnvironmentName,
    /// `uid` of the environment: one of the same name that was made later is another one.
    pub(crate) environment_uid: String,
    pub(crate) operation: Operation,
    pub(crate) state: JobState,
    /// Number of starts; with the lease's holder it fences writes of earlier starts.
    pub(crate) attempt: u32,
    /// Failures so far that are worth a retry.
    pub(crate) failures: u32,
    /// Not to be started before.
    pub(crate) not_before: Option<Timestamp>,
    /// Job of the same environment that must have ended first.
    pub(crate) after: Option<String>,
    pub(crate) lease: Option<Lease>,
    pub(crate) steps: Vec<Step>,
    pub(crate) log: Vec<LogLine>,
    pub(crate) created_at: Timestamp,
    pub(crate) finished_at: Option<Timestamp>,
    pub(crate) error: String,
    /// Whether whoever runs the job is told to stop.
    pub(crate) cancel: bool,
    /// Who asked for it, as the audit trail says it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) requested_by: String,
    /// The request in which that was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) request_id: String,
    /// Of what trace it is part (W3C Trace Context).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) traceparent: Option<String>,
    /// Project of the environment: who may see the job when the environment is gone.
    #[serde(default = "default_project")]
    pub(crate) project: String,
    /// Of a change of the certificate authority: how long the old one counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) overlap_seconds: Option<u64>,
}

/// Who works on a job, and until when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lease {
    pub(crate) holder: String,
    pub(crate) until: Timestamp,
}

/// An entry of the audit trail. Its name counts down with time, so that a list is newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditDoc {
    pub(crate) key: String,
    pub(crate) at: Timestamp,
    pub(crate) actor: String,
    pub(crate) action: String,
    pub(crate) subject: String,
    /// Project of the subject; empty for what belongs to the platform.
    #[serde(default)]
    pub(crate) project: String,
    pub(crate) request_id: String,
    pub(crate) detail: serde_json::Value,
    /// Whom the actor does it for, when a program does it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) on_behalf_of: String,
    /// Address that the request came from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) source: String,
    /// Where it is in its chain; none of an entry from before there were chains. Given when it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) link: Option<Link>,
}

/// A sign-in link that has not been used. Named by the SHA-256 of its token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LinkDoc {
    pub(crate) digest: String,
    pub(crate) actor: String,
    /// Id of the user whom it signs in; empty in one from before there were users.
    #[serde(default)]
    pub(crate) user: String,
    /// The sign-in at an issuer that the session will hang on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sign_in: Option<String>,
    pub(crate) expires_at: Timestamp,
}

/// A browser session. Named by the SHA-256 of its cookie.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionDoc {
    pub(crate) digest: String,
    pub(crate) actor: String,
    /// Id of the user; empty in one from before there were users.
    #[serde(default)]
    pub(crate) user: String,
    /// The sign-in at an issuer that it hangs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sign_in: Option<String>,
    pub(crate) csrf: String,
    pub(crate) created_at: Timestamp,
    pub(crate) seen_at: Timestamp,
}

macro_rules! document {
    ($type:ty, $resource:literal, $self:ident => $name:expr) => {
        impl Document for $type {
            const RESOURCE: &'static str = $resource;
            fn name(&$self) -> &str {
                $name
            }
        }
    };
}
document!(EnvironmentDoc, "environments.vctl.dev", self => self.name.as_str());
document!(SecretsDoc, "environmentsecrets.vctl.dev", self => self.name.as_str());
document!(JobDoc, "jobs.vctl.dev", self => &self.id);
document!(AuditDoc, "audit.vctl.dev", self => &self.key);
document!(LinkDoc, "loginlinks.vctl.dev", self => &self.digest);
document!(SessionDoc, "sessions.vctl.dev", self => &self.digest);

/// A document with where it stands in the log.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stored<T> {
    pub(crate) value: T,
    pub(crate) revision: Revision,
    pub(crate) created: Revision,
}

/// Typed access to the system tenant.
#[derive(Clone)]
pub(crate) struct Documents {
    store: Arc<dyn Store>,
    chains: Arc<Chains>,
}

impl Documents {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, chains: Arc::default() }
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(crate) async fn get<T: Document>(&self, name: &str) -> Result<Option<Stored<T>>, Error> {
        let (entry, _) = self.store.get(Tenant::SYSTEM, &key::<T>(name)).await?;
        entry.map(|e| stored(&e)).transpose()
    }

    /// The revision of a document, if it is there.
    pub(crate) async fn revision_of<T: Document>(&self, name: &str) -> Result<Option<Revision>, Error> {
        let (entry, _) = self.store.get(Tenant::SYSTEM, &key::<T>(name)).await?;
        Ok(entry.map(|e| e.revision))
    }

    /// All documents of a kind, with the revision they show.
    pub(crate) async fn list<T: Document>(&self) -> Result<(Vec<Stored<T>>, Revision), Error> {
        let (items, revision, _) = self.page(None, 0).await?;
        Ok((items, revision))
    }

    /// At most `limit` documents after the one named, the revision they show, and whether more follow.
    pub(crate) async fn page<T: Document>(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Stored<T>>, Revision, bool), Error> {
        let after = after.map(|name| (String::new(), name.to_owned()));
        let options = ListOptions { scope: scope::<T>(), at: None, after, limit };
        let list = self.store.list(Tenant::SYSTEM, options).await?;
        let items = list.entries.iter().map(stored).collect::<Result<_, _>>()?;
        Ok((items, list.revision, list.remaining > 0))
    }

    /// Applies all writes or none. Entries of the audit trail among them are put into a chain.
    pub(crate) async fn transact(&self, writes: Vec<Write>) -> Result<Vec<Revision>, StoreError> {
        if writes.iter().any(chain::is_entry) {
            return self.chains.transact(&*self.store, writes).await;
        }
        self.store.transact(Tenant::SYSTEM, writes).await
    }

    /// Adds entries to the audit trail, all or none.
    pub(crate) async fn append_entries(&self, entries: &[AuditDoc]) -> Result<(), StoreError> {
        self.chains.append(&*self.store, entries).await
    }

    /// Removes the oldest entries of a chain of the audit trail, up to this one.
    pub(crate) async fn remove_entries(&self, chain: u8, last: Anchor, keys: Vec<Key>) -> Result<(), StoreError> {
        self.chains.remove(&*self.store, chain, last, keys).await
    }

    pub(crate) async fn watch<T: Document>(&self, after: Revision) -> Result<Watch, StoreError> {
        self.store.watch(Tenant::SYSTEM, scope::<T>(), after).await
    }

    /// Whether the store has ended: the server stops, or has lost its database, of which the store tells. Whatever goes on for as long as the
    /// store does then ends too, and has no failure of its own to tell of.
    pub(crate) async fn is_closed(&self) -> bool {
        matches!(self.revision().await, Err(StoreError::Closed))
    }

    pub(crate) async fn revision(&self) -> Result<Revision, StoreError> {
        self.store.revision(Tenant::SYSTEM).await
    }
}

fn key<T: Document>(name: &str) -> Key {
    Key::new(T::RESOURCE, "", name)
}

fn scope<T: Document>() -> Scope {
    Scope { resource: T::RESOURCE.into(), namespace: None }
}

fn stored<T: Document>(entry: &Entry) -> Result<Stored<T>, Error> {
    Ok(Stored { value: decode(&entry.value)?, revision: entry.revision, created: entry.created })
}

/// Reads a document; a broken one is reported with its kind, never skipped.
pub(crate) fn decode<T: Document>(value: &Bytes) -> Result<T, Error> {
    serde_json::from_slice(value)
        .map_err(|e| Error::Internal(format!("a document of {} cannot be read: {e}", T::RESOURCE)))
}

/// The write that stores a document.
pub(crate) fn put<T: Document>(document: &T, expect: Expect) -> Result<Write, Error> {
    let value = serde_json::to_vec(document)
        .map_err(|e| Error::Internal(format!("a document of {} cannot be written: {e}", T::RESOURCE)))?;
    Ok(Write { key: key::<T>(document.name()), expect, value: Some(value.into()) })
}

/// What `If-Match: *` asks for: any revision of what is there.
pub(crate) const ANY: Revision = Revision::MAX - 1;
/// What asks for a revision that nothing ever has.
pub(crate) const NEVER: Revision = Revision::MAX;

/// What `If-Match` asks for.
///
/// # Errors
/// [`Error::Changed`] when it is another revision.
pub(crate) fn unchanged(current: Revision, wanted: Option<Revision>) -> Result<(), Error> {
    match wanted {
        Some(wanted) if wanted != current && wanted != ANY => Err(Error::Changed { current }),
        _ => Ok(()),
    }
}

/// The write that removes a document.
pub(crate) fn remove<T: Document>(name: &str, expect: Expect) -> Write {
    Write { key: key::<T>(name), expect, value: None }
}

/// The write that adds an audit entry about something of the platform. What belongs to a project is told by [`crate::audit::entry`].
pub(crate) fn audit(
    at: Timestamp,
    actor: &str,
    action: &str,
    subject: &str,
    request_id: &str,
    detail: serde_json::Value,
) -> Result<Write, Error> {
    audit_document(&AuditDoc {
        key: String::new(),
        at,
        actor: actor.to_owned(),
        action: action.to_owned(),
        subject: subject.to_owned(),
        project: String::new(),
        request_id: request_id.to_owned(),
        detail,
        on_behalf_of: String::new(),
        source: source(),
        link: None,
    })
}

/// The write that adds an audit entry. It gets its key with its place in a chain.
pub(crate) fn audit_document(entry: &AuditDoc) -> Result<Write, Error> {
    put(entry, Expect::Absent)
}
