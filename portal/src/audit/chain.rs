//! The chains of the audit trail (docs/decisions/0008).
//!
//! Every entry holds the hash of the entry before it in its chain, and its own. A chain has a head, which says how long it is and which hash
//! is its last; the head is written by compare-and-swap in the transaction of the change that the entry tells of, so that there is neither a
//! change without its entry nor an entry outside of a chain. Who writes has a chain for the time of the transaction: with several chains
//! there are as many transactions in one group commit. The first free chain is taken, so that a quiet server has one chain.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, MutexGuard};
use vctl_store::{Entry, Expect, Key, Revision, Store, StoreError, Tenant, Write};

use crate::documents::{AuditDoc, Document};

/// Transactions with entries that can be under way at the same moment.
pub(crate) const CHAINS: usize = 64;
/// Hash before the first entry of a chain.
const START: &str = "";
/// How often a head that was written by somebody else is read anew.
const TRIES: usize = 20;

/// Where an entry is in its chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Link {
    /// Number of the chain.
    pub(crate) chain: u8,
    /// Position, from 1.
    pub(crate) sequence: u64,
    /// Hash of the entry before it; empty for the first.
    pub(crate) previous: String,
    /// SHA-256, in hex, of the entry as it is kept with this field empty.
    pub(crate) hash: String,
}

/// How far a chain is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HeadDoc {
    /// Its name: the chain's number in hex.
    pub(crate) name: String,
    pub(crate) sequence: u64,
    pub(crate) hash: String,
    /// Keys of entries go up in their chain, also when the clock goes back.
    pub(crate) microsecond: i64,
    /// Entries up to this one were removed when they were old enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) anchor: Option<Anchor>,
}

/// The last entry that was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Anchor {
    pub(crate) sequence: u64,
    pub(crate) hash: String,
}

impl Document for HeadDoc {
    const RESOURCE: &'static str = "auditchains.vctl.dev";
    fn name(&self) -> &str {
        &self.name
    }
}

/// A head with its revision; 0 before it was ever written.
#[derive(Debug, Clone)]
struct Head {
    document: HeadDoc,
    revision: Revision,
}

/// Seals entries as they are written.
pub(crate) struct Chains {
    /// What is known of each head; none when it has to be read.
    heads: [Mutex<Option<Head>>; CHAINS],
}

impl Default for Chains {
    fn default() -> Self {
        Self { heads: std::array::from_fn(|_| Mutex::new(None)) }
    }
}

fn broken(why: impl std::fmt::Display) -> StoreError {
    StoreError::Unusable(format!("an entry of the audit trail cannot be read or written: {why}"))
}

/// Whether a write adds an entry.
pub(crate) fn is_entry(write: &Write) -> bool {
    &*write.key.resource == AuditDoc::RESOURCE && write.value.is_some()
}

impl Chains {
    /// Applies all writes or none, with their entries sealed. The revisions are those of `writes`.
    pub(crate) async fn transact(&self, store: &dyn Store, writes: Vec<Write>) -> Result<Vec<Revision>, StoreError> {
        self.with_chain(store, writes.len(), |chain, head| seal(&writes, chain, head)).await
    }

    /// Adds entries to one chain, in their order, all or none.
    pub(crate) async fn append(&self, store: &dyn Store, entries: &[AuditDoc]) -> Result<(), StoreError> {
        let sealed = |chain, head: &HeadDoc| {
            let mut next = head.clone();
            let seal = |entry: &AuditDoc| seal_one(entry.clone(), chain, &mut next);
            Ok((entries.iter().map(seal).collect::<Result<_, _>>()?, next))
        };
        self.with_chain(store, entries.len(), sealed).await.map(drop)
    }

    /// Applies what `sealed` makes of the head of a chain: `count` writes, and the head after them.
    async fn with_chain(
        &self,
        store: &dyn Store,
        count: usize,
        sealed: impl Fn(u8, &HeadDoc) -> Result<(Vec<Write>, HeadDoc), StoreError> + Send + Sync,
    ) -> Result<Vec<Revision>, StoreError> {
        let (chain, mut slot) = self.free().await;
        for _ in 0..TRIES {
            // Taken: should this future be dropped in the middle, nobody knows how it ended, and the head is read anew.
            let head = match slot.take() {
                Some(head) => head,
                None => read(store, chain).await?,
            };
            let (writes, next) = sealed(chain, &head.document)?;
            match store.transact(Tenant::SYSTEM, with_head(writes, &next, head.revision)?).await {
                Ok(mut revisions) => {
                    let revision = revisions.pop().unwrap_or_default();
                    *slot = Some(Head { document: next, revision });
                    return Ok(revisions);
                }
                Err(StoreError::Conflict { index, .. }) if index >= count => {}
                Err(e) => {
                    if matches!(e, StoreError::Conflict { .. }) {
                        *slot = Some(head);
                    }
                    return Err(e);
                }
            }
        }
        Err(broken("the head of a chain is changing all the time"))
    }

    /// The first chain that nobody writes to; the first to become free of a few when there is none.
    async fn free(&self) -> (u8, MutexGuard<'_, Option<Head>>) {
        for (chain, head) in (0u8..).zip(&self.heads) {
            if let Ok(slot) = head.try_lock() {
                return (chain, slot);
            }
        }
        let chain = rand::random_range(0..CHAINS);
        (chain as u8, self.heads[chain].lock().await)
    }

    /// Removes the oldest entries of a chain, given with their keys in order, and remembers the last of them.
    pub(crate) async fn remove(
        &self,
        store: &dyn Store,
        chain: u8,
        last: Anchor,
        keys: Vec<Key>,
    ) -> Result<(), StoreError> {
        let Some(slot) = self.heads.get(usize::from(chain)) else { return Err(broken("there is no such chain")) };
        let mut slot = slot.lock().await;
        *slot = None;
        let head = read(store, chain).await?;
        let next = HeadDoc { anchor: Some(last), ..head.document };
        let writes = keys.into_iter().map(|key| Write::delete(key, Expect::Any)).collect();
        store.transact(Tenant::SYSTEM, with_head(writes, &next, head.revision)?).await?;
        Ok(())
    }
}

fn name(chain: u8) -> String {
    format!("{chain:02x}")
}

fn with_head(mut writes: Vec<Write>, head: &HeadDoc, revision: Revision) -> Result<Vec<Write>, StoreError> {
    let expect = if revision == 0 { Expect::Absent } else { Expect::Revision(revision) };
    let value = serde_json::to_vec(head).map_err(broken)?;
    writes.push(Write { key: Key::new(HeadDoc::RESOURCE, "", &head.name), expect, value: Some(value.into()) });
    Ok(writes)
}

async fn read(store: &dyn Store, chain: u8) -> Result<Head, StoreError> {
    let (entry, _) = store.get(Tenant::SYSTEM, &Key::new(HeadDoc::RESOURCE, "", &name(chain))).await?;
    match entry {
        Some(entry) => {
            Ok(Head { document: serde_json::from_slice(&entry.value).map_err(broken)?, revision: entry.revision })
        }
        None => {
            let document =
                HeadDoc { name: name(chain), sequence: 0, hash: START.to_owned(), microsecond: 0, anchor: None };
            Ok(Head { document, revision: 0 })
        }
    }
}

/// The writes with their entries in the chain, and the head after them.
fn seal(writes: &[Write], chain: u8, head: &HeadDoc) -> Result<(Vec<Write>, HeadDoc), StoreError> {
    let mut next = head.clone();
    let mut sealed = Vec::with_capacity(writes.len() + 1);
    for write in writes {
        let (true, Some(value)) = (is_entry(write), &write.value) else {
            sealed.push(write.clone());
            continue;
        };
        sealed.push(seal_one(serde_json::from_slice(value).map_err(broken)?, chain, &mut next)?);
    }
    Ok((sealed, next))
}

/// How an entry ends whose hash is not known yet: the hash of its link is its last field.
const WITHOUT_HASH: &[u8] = b"\"\"}}";

/// The write of an entry behind the others of a chain.
fn seal_one(mut entry: AuditDoc, chain: u8, next: &mut HeadDoc) -> Result<Write, StoreError> {
    next.microsecond = entry.at.as_microsecond().max(next.microsecond + 1);
    next.sequence += 1;
    entry.key = key(next.microsecond, chain, next.sequence);
    entry.link =
        Some(Link { chain, sequence: next.sequence, previous: std::mem::take(&mut next.hash), hash: String::new() });
    // What is hashed is what is kept but for the hash itself: it is written once.
    let mut value = serde_json::to_vec(&entry).map_err(broken)?;
    next.hash = hex::encode(Sha256::digest(&value));
    if !value.ends_with(WITHOUT_HASH) {
        return Err(broken("its hash is not its last field"));
    }
    value.truncate(value.len() - WITHOUT_HASH.len());
    value.extend_from_slice(format!("\"{}\"}}}}", next.hash).as_bytes());
    Ok(Write::create(Key::new(AuditDoc::RESOURCE, "", &entry.key), value))
}

/// Counts down with time, so that a list is newest first.
fn key(microsecond: i64, chain: u8, sequence: u64) -> String {
    format!("{}-{chain:02x}-{sequence:x}", before(microsecond))
}

fn before(microsecond: i64) -> String {
    format!("{:016x}", u64::MAX - microsecond.unsigned_abs())
}

/// A key that all entries from this time on come before, and all older ones after.
pub(crate) fn key_at(at: Timestamp) -> String {
    before(at.as_microsecond())
}

/// Chain and position that a key says.
pub(crate) fn position(key: &str) -> Option<(u8, u64)> {
    let mut parts = key.split('-').skip(1);
    let chain = u8::from_str_radix(parts.next()?, 16).ok()?;
    Some((chain, u64::from_str_radix(parts.next()?, 16).ok()?))
}

/// SHA-256 of an entry as it is kept, but for the hash itself.
fn hash(entry: &AuditDoc) -> Result<String, serde_json::Error> {
    let mut plain = entry.clone();
    if let Some(link) = &mut plain.link {
        link.hash.clear();
    }
    Ok(hex::encode(Sha256::digest(serde_json::to_vec(&plain)?)))
}

/// An entry as it was read, with what is wrong with it by itself.
pub(crate) fn check(stored: &Entry) -> (Option<AuditDoc>, Option<&'static str>) {
    let Ok(entry) = serde_json::from_slice::<AuditDoc>(&stored.value) else {
        return (None, Some("it cannot be read"));
    };
    let Some(link) = &entry.link else { return (Some(entry), None) };
    let as_kept = serde_json::to_vec(&entry).is_ok_and(|bytes| bytes == stored.value);
    let wrong = if !as_kept || hash(&entry).ok().as_ref() != Some(&link.hash) {
        Some("its content is not what was written")
    } else if *stored.key.name != entry.key {
        Some("it is not where it was written")
    } else {
        None
    };
    (Some(entry), wrong)
}
