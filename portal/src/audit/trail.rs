//! Reading the audit trail: filters, search, pages, export; and removing what is old enough.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use vctl_api::rest::AuditEntry;
use vctl_runtime::{clock::Clock, tasks::Tasks};
use vctl_store::{ListOptions, Scope, Tenant};

use super::chain::{Anchor, key_at};
use crate::{
    access::{self, permission::Permission, policy::Permit},
    documents::{AuditDoc, Document, Documents, Stored},
    error::Error,
};

/// Entries that are read at a time.
const PAGE: usize = 500;
/// Entries that one request for a page looks at, at most: a rare match is found by asking on.
const LOOKED_AT: usize = 20_000;

/// How often old entries are looked for.
const EVERY: Duration = Duration::from_hours(1);

/// The audit trail. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Trail {
    pub(super) documents: Documents,
    clock: Clock,
}

/// Which entries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Filter {
    /// By this actor.
    pub(crate) actor: Option<String>,
    /// Of this action; `environment.*` for all that begin so.
    pub(crate) action: Option<String>,
    /// In this project.
    pub(crate) project: Option<String>,
    /// About this.
    pub(crate) subject: Option<String>,
    /// From then on.
    pub(crate) since: Option<Timestamp>,
    /// Before then.
    pub(crate) until: Option<Timestamp>,
    /// With this text anywhere, in whatever case.
    pub(crate) q: Option<String>,
}

impl Filter {
    fn matches(&self, entry: &AuditDoc) -> bool {
        let is = |wanted: &Option<String>, text: &str| wanted.as_deref().is_none_or(|wanted| wanted == text);
        let action = self.action.as_deref().is_none_or(|wanted| match wanted.strip_suffix('*') {
            Some(beginning) => entry.action.starts_with(beginning),
            None => entry.action == wanted,
        });
        action
            && is(&self.actor, &entry.actor)
            && is(&self.project, &entry.project)
            && is(&self.subject, &entry.subject)
            && self.since.is_none_or(|since| entry.at >= since)
            && self.until.is_none_or(|until| entry.at < until)
            && self.q.as_deref().is_none_or(|q| has_text(entry, &q.to_lowercase()))
    }
}

fn has_text(entry: &AuditDoc, text: &str) -> bool {
    let fields = [
        &entry.actor,
        &entry.on_behalf_of,
        &entry.source,
        &entry.action,
        &entry.subject,
        &entry.project,
        &entry.request_id,
    ];
    fields.iter().any(|field| field.to_lowercase().contains(text))
        || entry.detail.to_string().to_lowercase().contains(text)
}

/// What people see of an entry.
fn view(stored: Stored<AuditDoc>) -> AuditEntry {
    let AuditDoc { key, at, actor, on_behalf_of, source, action, subject, project, request_id, detail, link } =
        stored.value;
    let hash = link.map(|link| link.hash).unwrap_or_default();
    AuditEntry {
        id: stored.created,
        key,
        at,
        actor,
        on_behalf_of,
        source,
        action,
        subject,
        project,
        request_id,
        detail,
        hash,
    }
}

impl Trail {
    pub(crate) fn new(documents: Documents, clock: Clock) -> Self {
        Self { documents, clock }
    }

    /// Entries that somebody may see, newest first, and the key to go on after when there is more. A page can be short, or empty, and
    /// still have a next one: a request looks at 20,000 entries at most.
    pub(crate) async fn list(
        &self,
        permit: &Permit,
        permission: Permission,
        filter: &Filter,
        after: Option<String>,
        limit: usize,
    ) -> Result<(Vec<AuditEntry>, Option<String>), Error> {
        let mut after = after.or_else(|| filter.until.map(key_at));
        let mut found = Vec::new();
        for _ in 0..LOOKED_AT / PAGE {
            let (entries, _, more) = self.documents.page::<AuditDoc>(after.as_deref(), PAGE).await?;
            for stored in entries {
                if filter.since.is_some_and(|since| stored.value.at < since) {
                    // Keys are in the order of time, but for a clock that went back: no more than that is left out.
                    return Ok((found, None));
                }
                let key = stored.value.key.clone();
                if access::allows_audit(permit, permission, &stored.value.project) && filter.matches(&stored.value) {
                    if found.len() == limit {
                        return Ok((found, after));
                    }
                    found.push(view(stored));
                }
                after = Some(key);
            }
            if !more {
                return Ok((found, None));
            }
        }
        Ok((found, after))
    }

    /// Removes entries from before a time; of each chain its oldest ones, and what is left says where it begins. Returns how many.
    pub(crate) async fn prune(&self, before: Timestamp) -> Result<u64, Error> {
        let mut old: BTreeMap<u8, Vec<(u64, String, vctl_store::Key)>> = BTreeMap::new();
        let mut after = Some(key_at(before));
        loop {
            let options = ListOptions {
                scope: Scope::all(AuditDoc::RESOURCE),
                at: None,
                after: after.map(|key| (String::new(), key)),
                limit: PAGE,
            };
            let list = self.documents.store().list(Tenant::SYSTEM, options).await?;
            for entry in &list.entries {
                // What cannot be read stays, for `verify` to find.
                if let Some(link) = super::chain::check(entry).0.and_then(|e| e.link) {
                    old.entry(link.chain).or_default().push((link.sequence, link.hash, entry.key.clone()));
                }
            }
            after = list.entries.last().map(|e| e.key.name.to_string());
            if list.remaining == 0 || after.is_none() {
                break;
            }
        }
        let mut removed = 0;
        for (chain, mut entries) in old {
            // Oldest first, a piece at a time: whatever is cut off in the middle, what is left is a whole chain.
            entries.sort_by_key(|(sequence, ..)| *sequence);
            for piece in entries.chunks(PAGE) {
                let Some((sequence, hash, _)) = piece.last().cloned() else { continue };
                let keys = piece.iter().map(|(.., key)| key.clone()).collect();
                self.documents.remove_entries(chain, Anchor { sequence, hash }, keys).await?;
                removed += piece.len() as u64;
            }
        }
        Ok(removed)
    }

    /// Removes what is older than this, now and every hour until the server stops.
    pub(crate) async fn keep(&self, retention: Duration, tasks: &Tasks) {
        loop {
            match self.clock.now().checked_sub(retention) {
                Ok(before) => match self.prune(before).await {
                    Ok(0) => {}
                    Ok(removed) => tracing::info!(removed, %before, "old entries of the audit trail were removed"),
                    Err(error) => {
                        tracing::warn!(%error, "old entries of the audit trail could not be removed; trying again in an hour")
                    }
                },
                Err(error) => tracing::warn!(%error, "--audit-retention reaches back before time: nothing is removed"),
            }
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = tasks.cancelled() => return,
            }
        }
    }
}

/// An entry as a line of CSV (RFC 4180). What a spreadsheet would take for a formula is marked as text.
pub(crate) fn csv_line(entry: &AuditEntry) -> String {
    let at = entry.at.to_string();
    let detail = if entry.detail.is_null() { String::new() } else { entry.detail.to_string() };
    let cells = [
        &entry.key,
        &at,
        &entry.actor,
        &entry.on_behalf_of,
        &entry.source,
        &entry.action,
        &entry.subject,
        &entry.project,
        &entry.request_id,
        &detail,
        &entry.hash,
    ];
    let mut line = cells.map(|cell| csv_cell(cell)).join(",");
    line.push_str("\r\n");
    line
}

/// The first line of a CSV export.
pub(crate) const CSV_HEAD: &str = "key,at,actor,onBehalfOf,source,action,subject,project,requestId,detail,hash\r\n";

fn csv_cell(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
    format!("\"{}{}\"", if formula { "'" } else { "" }, text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_never_a_formula() {
        assert_eq!(csv_cell("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\"");
        for text in ["+1", "-1", "@x", "\tx", "\r=1"] {
            assert!(csv_cell(text).starts_with("\"'"), "{text}");
        }
        assert_eq!(csv_cell("plain, \"quoted\"\nline"), "\"plain, \"\"quoted\"\"\nline\"");
    }
}
