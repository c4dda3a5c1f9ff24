//! Tables and their migrations.
//!
//! A value is kept once, in `log`; `current` says which row of the log is a document's newest. That halves what a write costs
//! compared with a copy of the value in `current`. The key of `log` packs tenant and revision into one integer, so that the log of a
//! tenant is one range that only grows at its end.

use crate::{Revision, Tenant};

/// "vctl" in the header of the file: what `file vctl.db` and we recognise it by.
pub(super) const APPLICATION_ID: i32 = 0x7663_746c;

/// Bits of a row's key that are the revision.
const REVISION_BITS: u32 = 40;

/// Numbers of tenants from here on do not fit the key.
pub(super) const TENANT_LIMIT: u32 = 1 << (63 - REVISION_BITS);

/// Steps from one format to the next; `user_version` in the header counts those done. Never change one that was released.
pub(super) const MIGRATIONS: &[&str] = &["
CREATE TABLE tenants (
    vc        INTEGER PRIMARY KEY AUTOINCREMENT, -- never re-used, also after the row is gone
    name      TEXT UNIQUE,                       -- null: the platform itself, or deleted
    compacted INTEGER NOT NULL DEFAULT 0,        -- oldest revision that can be read
    swept     INTEGER NOT NULL DEFAULT 0,        -- rows that compaction made useless are removed up to here
    deleted   INTEGER NOT NULL DEFAULT 0         -- 1: its rows are being removed
) STRICT;
INSERT INTO tenants (vc) VALUES (0);
CREATE INDEX unswept ON tenants (vc) WHERE deleted = 1 OR swept < compacted;

CREATE TABLE log (
    id      INTEGER PRIMARY KEY, -- vc << 40 | rev
    kind    TEXT NOT NULL,
    ns      TEXT NOT NULL,
    name    TEXT NOT NULL,
    created INTEGER NOT NULL,    -- revision of the document's creation
    prev    INTEGER NOT NULL,    -- revision of the document before, 0: there was none
    value   BLOB,                -- null: deleted; last, so that the rest is read without it
    vc      INTEGER GENERATED ALWAYS AS (id >> 40) VIRTUAL,
    rev     INTEGER GENERATED ALWAYS AS (id & 0xffffffffff) VIRTUAL,
    op      TEXT GENERATED ALWAYS AS (CASE WHEN value IS NULL THEN 'delete' WHEN prev = 0 THEN 'create' ELSE 'update' END) VIRTUAL
) STRICT;

CREATE TABLE current (
    vc   INTEGER NOT NULL,
    kind TEXT NOT NULL,
    ns   TEXT NOT NULL,
    name TEXT NOT NULL,
    rev  INTEGER NOT NULL,
    PRIMARY KEY (vc, kind, ns, name)
) STRICT, WITHOUT ROWID;
", "
CREATE TABLE encryption (
    key TEXT PRIMARY KEY -- id of a key that values of the log are sealed with
) STRICT, WITHOUT ROWID;
"];

/// The key of a row of the log.
pub(super) fn row_id(tenant: Tenant, revision: Revision) -> i64 {
    (i64::from(tenant.0) << REVISION_BITS) | revision as i64
}

/// The revision in a key.
pub(super) fn revision(id: i64) -> Revision {
    id as Revision & ((1 << REVISION_BITS) - 1)
}

/// The tenant in a key.
pub(super) fn tenant(id: i64) -> Tenant {
    Tenant((id >> REVISION_BITS) as u32)
}

/// The last key that a tenant can have.
pub(super) fn last_id(tenant: Tenant) -> i64 {
    row_id(tenant, (1 << REVISION_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_tenants_do_not_meet() {
        let (a, b) = (Tenant(7), Tenant(8));
        assert!(last_id(a) < row_id(b, 0));
        assert_eq!(revision(row_id(b, 123)), 123);
        assert!(row_id(Tenant(TENANT_LIMIT - 1), 1) > 0);
    }
}
