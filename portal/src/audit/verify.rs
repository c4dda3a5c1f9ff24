//! Whether anybody has changed the audit trail.

use std::collections::BTreeMap;

use vctl_api::rest::{AuditBreak, AuditVerification};
use vctl_store::{ListOptions, Revision, Scope, Tenant};

use super::{
    Trail,
    chain::{self, HeadDoc},
};
use crate::{
    documents::{AuditDoc, Document},
    error::Error,
};

/// Entries that are read at a time.
const PAGE: usize = 1000;

/// What the next older entry of a chain has to be.
struct Wanted {
    sequence: u64,
    /// None when the entry after it was changed: what that says of it counts for nothing.
    hash: Option<String>,
}

impl Trail {
    /// Walks every chain from its head back to its beginning, or to where old entries were removed, at one revision while others write.
    ///
    /// # Errors
    /// When the store fails; a broken trail is no error but an answer.
    pub(crate) async fn verify(&self) -> Result<AuditVerification, Error> {
        let (heads, revision) = self.documents.list::<HeadDoc>().await?;
        let mut walk = Walk::new(heads.into_iter().map(|head| head.value).collect());
        let mut after = None;
        loop {
            let (entries, more) = self.raw(after, revision).await?;
            for entry in &entries {
                walk.see(entry);
            }
            after = entries.last().map(|entry| entry.key.name.to_string());
            if !more || after.is_none() {
                return Ok(walk.end());
            }
        }
    }

    async fn raw(&self, after: Option<String>, at: Revision) -> Result<(Vec<vctl_store::Entry>, bool), Error> {
        let options = ListOptions {
            scope: Scope::all(AuditDoc::RESOURCE),
            at: Some(at),
            after: after.map(|key| (String::new(), key)),
            limit: PAGE,
        };
        let list = self.documents.store().list(Tenant::SYSTEM, options).await?;
        Ok((list.entries, list.remaining > 0))
    }
}

/// A walk from the newest entry to the oldest.
struct Walk {
    heads: BTreeMap<u8, HeadDoc>,
    wanted: BTreeMap<u8, Wanted>,
    entries: u64,
    unchained: u64,
    /// The entry from before there were chains that was seen last.
    unchained_newest: Option<AuditBreak>,
    breaks: u64,
    /// The oldest so far.
    first: Option<AuditBreak>,
}

fn named(entry: &AuditDoc, why: &str) -> AuditBreak {
    AuditBreak {
        key: entry.key.clone(),
        at: Some(entry.at),
        actor: entry.actor.clone(),
        action: entry.action.clone(),
        subject: entry.subject.clone(),
        why: why.to_owned(),
    }
}

fn unnamed(key: &str, why: String) -> AuditBreak {
    AuditBreak { key: key.to_owned(), why, ..AuditBreak::default() }
}

impl Walk {
    fn new(heads: Vec<HeadDoc>) -> Self {
        let heads: BTreeMap<u8, HeadDoc> =
            heads.into_iter().filter_map(|h| Some((u8::from_str_radix(&h.name, 16).ok()?, h))).collect();
        let wanted =
            heads.iter().map(|(n, h)| (*n, Wanted { sequence: h.sequence, hash: Some(h.hash.clone()) })).collect();
        Self { heads, wanted, entries: 0, unchained: 0, unchained_newest: None, breaks: 0, first: None }
    }

    fn found(&mut self, broken: AuditBreak) {
        self.breaks += 1;
        self.first = Some(broken);
    }

    fn see(&mut self, stored: &vctl_store::Entry) {
        self.entries += 1;
        let (entry, wrong) = chain::check(stored);
        let Some(entry) = entry else {
            self.found(unnamed(&stored.key.name, "it cannot be read".to_owned()));
            if let Some((chain, sequence)) = chain::position(&stored.key.name)
                && let Some(wanted) = self.wanted.get_mut(&chain)
            {
                *wanted = Wanted { sequence: sequence.saturating_sub(1), hash: None };
            }
            return;
        };
        let Some(link) = &entry.link else {
            self.unchained += 1;
            self.unchained_newest.get_or_insert_with(|| {
                named(&entry, "it is in no chain, but newer than entries that are: somebody has put it there")
            });
            return;
        };
        if let Some(inserted) = self.unchained_newest.take() {
            self.found(inserted);
        }
        if let Some(wrong) = wrong {
            self.found(named(&entry, wrong));
        }
        let Some(wanted) = self.wanted.get_mut(&link.chain) else {
            self.found(named(&entry, "its chain has no head"));
            return;
        };
        let previous = wrong.is_none().then(|| link.previous.clone());
        let before = Wanted { sequence: link.sequence.saturating_sub(1), hash: previous };
        let expected = std::mem::replace(wanted, before);
        if link.sequence > expected.sequence {
            self.found(named(&entry, "it is newer than the head of its chain: the head was changed"));
        } else if link.sequence < expected.sequence {
            let missing = expected.sequence - link.sequence;
            self.found(named(&entry, &format!("{missing} entries that followed it in its chain are gone")));
        } else if wrong.is_none() && expected.hash.is_some_and(|hash| hash != link.hash) {
            self.found(named(&entry, "the entry after it, or the head of its chain, was made for another one"));
        }
    }

    fn end(mut self) -> AuditVerification {
        for (chain, wanted) in std::mem::take(&mut self.wanted) {
            let Some(head) = self.heads.get(&chain) else { continue };
            let (sequence, hash) = head.anchor.as_ref().map_or((0, ""), |a| (a.sequence, a.hash.as_str()));
            if wanted.sequence > sequence {
                let missing = wanted.sequence - sequence;
                self.found(unnamed("", format!("the {missing} oldest entries of chain {chain} are gone")));
            } else if wanted.sequence != sequence || wanted.hash.is_some_and(|wanted| wanted != hash) {
                self.found(unnamed("", format!("chain {chain} does not begin where old entries were removed")));
            }
        }
        AuditVerification {
            entries: self.entries,
            chains: self.heads.len() as u64,
            unchained: self.unchained,
            removed: self.heads.values().filter_map(|h| h.anchor.as_ref()).map(|a| a.sequence).sum(),
            breaks: self.breaks,
            first: self.first,
        }
    }
}
