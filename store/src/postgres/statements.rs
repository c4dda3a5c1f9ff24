//! One group commit as one statement: one trip to the server, one sync of its disk.

use std::collections::{BTreeMap, HashMap};

use sqlx::{Postgres, query::Query};

use crate::{
    Key, Revision, Tenant,
    engine::durable::{Change, Record, replaced},
};

/// Values of one statement, in bytes. Postgres holds a statement's arguments in memory several times.
const STATEMENT_BYTES: usize = 16 << 20;

/// Checks that we are the owner, and writes nothing when we are not. `committed` must be what we believe it to be ($2), and becomes
/// the number of this group ($3).
pub(super) const COMMIT: &str = "
WITH fence AS (
    UPDATE owner SET committed = $3, last_tenant = greatest(last_tenant, $4) WHERE epoch = $1 AND committed = $2 RETURNING 1
), unused AS (
    DELETE FROM encryption WHERE $28 AND key <> ALL ($29::text[]) AND EXISTS (SELECT FROM fence)
), used AS (
    INSERT INTO encryption (key) SELECT unnest($29::text[]) WHERE EXISTS (SELECT FROM fence) ON CONFLICT DO NOTHING
), rewritten AS (
    UPDATE log l SET value = u.value FROM unnest($30::int[], $31::bigint[], $32::bytea[]) u (vc, rev, value)
    WHERE l.vc = u.vc AND l.rev = u.rev AND l.value IS NOT NULL AND EXISTS (SELECT FROM fence)
), created AS (
    INSERT INTO tenants (vc, name, compacted, swept)
    SELECT u.vc, u.name, u.base, u.base FROM unnest($5::int[], $6::text[], $7::bigint[]) u (vc, name, base)
    WHERE EXISTS (SELECT FROM fence)
), marked AS (
    UPDATE tenants t SET deleted = u.deleted, name = CASE WHEN u.deleted THEN NULL ELSE t.name END,
                         compacted = greatest(t.compacted, u.compacted)
    FROM unnest($8::int[], $9::bool[], $10::bigint[]) u (vc, deleted, compacted)
    WHERE t.vc = u.vc AND t.vc = ANY ($8::int[]) AND EXISTS (SELECT FROM fence)
), logged AS (
    INSERT INTO log (vc, rev, kind, ns, name, created, prev, value)
    SELECT u.* FROM unnest($11::int[], $12::bigint[], $13::text[], $14::text[], $15::text[], $16::bigint[], $17::bigint[], $18::bytea[]) u
    WHERE EXISTS (SELECT FROM fence)
), kept AS (
    INSERT INTO current (vc, kind, ns, name, rev)
    SELECT u.* FROM unnest($19::int[], $20::text[], $21::text[], $22::text[], $23::bigint[]) u
    WHERE EXISTS (SELECT FROM fence)
    ON CONFLICT (vc, kind, ns, name) DO UPDATE SET rev = EXCLUDED.rev
), gone AS (
    DELETE FROM current c USING unnest($24::int[], $25::text[], $26::text[], $27::text[]) u (vc, kind, ns, name)
    WHERE c.vc = u.vc AND c.kind = u.kind AND c.ns = u.ns AND c.name = u.name AND EXISTS (SELECT FROM fence)
), replaced AS (
    DELETE FROM log l USING unnest($33::int[], $34::bigint[]) u (vc, rev)
    WHERE l.vc = u.vc AND l.rev = u.rev AND EXISTS (SELECT FROM fence)
)
SELECT count(*) FROM fence";

/// The arguments of one statement, column by column.
#[derive(Default)]
pub(super) struct Batch<'a> {
    last_tenant: i32,
    created: (Vec<i32>, Vec<&'a str>, Vec<i64>),
    marked: (Vec<i32>, Vec<bool>, Vec<i64>),
    log: Log<'a>,
    kept: (Places<'a>, Vec<i64>),
    gone: Places<'a>,
    /// Whether the keys are the only ones from now on.
    only: bool,
    keys: Vec<&'a str>,
    rewritten: (Vec<i32>, Vec<i64>, Vec<&'a [u8]>),
    /// Revisions that are not kept any more.
    replaced: (Vec<i32>, Vec<i64>),
}

#[derive(Default)]
struct Log<'a> {
    revisions: Vec<i64>,
    places: Places<'a>,
    created: Vec<i64>,
    previous: Vec<i64>,
    values: Vec<Option<&'a [u8]>>,
    bytes: usize,
}

#[derive(Default)]
struct Places<'a> {
    tenants: Vec<i32>,
    resources: Vec<&'a str>,
    namespaces: Vec<&'a str>,
    names: Vec<&'a str>,
}

impl<'a> Places<'a> {
    fn push(&mut self, tenant: Tenant, key: &'a Key) {
        self.tenants.push(number(tenant));
        self.resources.push(&key.resource);
        self.namespaces.push(&key.namespace);
        self.names.push(&key.name);
    }
}

impl<'a> Log<'a> {
    fn push(&mut self, tenant: Tenant, record: &'a Record) {
        let event = &record.event;
        self.places.push(tenant, &event.key);
        self.revisions.push(event.revision as i64);
        self.created.push(record.created as i64);
        self.previous.push(event.previous.as_ref().map_or(0, |(revision, _)| *revision as i64));
        self.values.push(event.value.as_deref());
        self.bytes += event.value.as_ref().map_or(0, |v| v.len());
    }
}

impl<'a> Batch<'a> {
    /// The statement with its arguments.
    pub(super) fn query(
        self,
        epoch: i64,
        before: i64,
        number: i64,
    ) -> Query<'a, Postgres, sqlx::postgres::PgArguments> {
        let Self { last_tenant, created, marked, log, kept, gone, only, keys, rewritten, replaced } = self;
        sqlx::query(COMMIT)
            .bind(epoch)
            .bind(before)
            .bind(number)
            .bind(last_tenant)
            .bind(created.0)
            .bind(created.1)
            .bind(created.2)
            .bind(marked.0)
            .bind(marked.1)
            .bind(marked.2)
            .bind(log.places.tenants)
            .bind(log.revisions)
            .bind(log.places.resources)
            .bind(log.places.namespaces)
            .bind(log.places.names)
            .bind(log.created)
            .bind(log.previous)
            .bind(log.values)
            .bind(kept.0.tenants)
            .bind(kept.0.resources)
            .bind(kept.0.namespaces)
            .bind(kept.0.names)
            .bind(kept.1)
            .bind(gone.tenants)
            .bind(gone.resources)
            .bind(gone.namespaces)
            .bind(gone.names)
            .bind(only)
            .bind(keys)
            .bind(rewritten.0)
            .bind(rewritten.1)
            .bind(rewritten.2)
            .bind(replaced.0)
            .bind(replaced.1)
    }
}

/// The changes as batches, nearly always one. Written in order in one transaction they are the group.
pub(super) fn batches(changes: &[Change]) -> Vec<Batch<'_>> {
    let mut done = Vec::new();
    let mut batch = Batch::default();
    // A row can be changed once in a statement.
    let mut marked: BTreeMap<Tenant, (bool, Revision)> = BTreeMap::new();
    // Of a document that is written several times only the last state counts.
    let mut last: HashMap<(Tenant, &Key), Option<Revision>> = HashMap::new();
    let replaced = replaced(changes.iter().flat_map(|change| match change {
        Change::Write { tenant, records } => records.iter().map(|record| (*tenant, record)).collect(),
        _ => Vec::new(),
    }));
    for change in changes {
        match change {
            Change::Write { tenant, records } | Change::Create { tenant, records, .. } => {
                if let Change::Create { name, base, replaces, .. } = change {
                    if let Some(replaced) = replaces {
                        marked.entry(*replaced).or_default().0 = true;
                    }
                    batch.last_tenant = batch.last_tenant.max(number(*tenant));
                    batch.created.0.push(number(*tenant));
                    batch.created.1.push(name);
                    batch.created.2.push(*base as i64);
                }
                for record in records {
                    let event = &record.event;
                    last.insert((*tenant, &event.key), event.value.is_some().then_some(event.revision));
                    if replaced.contains(&(*tenant, event.revision)) {
                        continue;
                    }
                    batch.log.push(*tenant, record);
                    if batch.log.bytes >= STATEMENT_BYTES {
                        done.push(std::mem::take(&mut batch));
                    }
                }
            }
            Change::Delete { tenant } => marked.entry(*tenant).or_default().0 = true,
            Change::Compact { tenant, revision } => {
                let compacted = &mut marked.entry(*tenant).or_default().1;
                *compacted = (*compacted).max(*revision);
            }
            Change::Rewrite { values } => {
                for (tenant, revision, value) in values {
                    batch.rewritten.0.push(number(*tenant));
                    batch.rewritten.1.push(*revision as i64);
                    batch.rewritten.2.push(value);
                    batch.log.bytes += value.len();
                    if batch.log.bytes >= STATEMENT_BYTES {
                        done.push(std::mem::take(&mut batch));
                    }
                }
            }
            Change::UseKeys { ids } => {
                batch.only = true;
                batch.keys = ids.iter().map(String::as_str).collect();
            }
            Change::Tidy | Change::Barrier => {}
        }
    }
    for (tenant, revision) in replaced {
        batch.replaced.0.push(number(tenant));
        batch.replaced.1.push(revision as i64);
    }
    for (tenant, (deleted, compacted)) in marked {
        batch.marked.0.push(number(tenant));
        batch.marked.1.push(deleted);
        batch.marked.2.push(compacted as i64);
    }
    // In the order of the index.
    let mut last: Vec<_> = last.into_iter().collect();
    last.sort_unstable();
    for ((tenant, key), revision) in last {
        match revision {
            Some(revision) => {
                batch.kept.0.push(tenant, key);
                batch.kept.1.push(revision as i64);
            }
            None => batch.gone.push(tenant, key),
        }
    }
    done.push(batch);
    done
}

pub(super) fn number(tenant: Tenant) -> i32 {
    tenant.0 as i32
}
