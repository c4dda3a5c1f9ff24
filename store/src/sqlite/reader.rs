use std::{path::PathBuf, sync::Arc};

use bytes::Bytes;
use sqlx::{
    Row, SqlitePool,
    sqlite::{SqlitePoolOptions, SqliteRow},
};

use crate::{
    Entry, Event, Export, Key, Revision, Scope, StoreError, Tenant,
    engine::durable::{Kept, Reader},
    sqlite::{
        file::{DataFile, describe, options},
        schema::{last_id, revision, row_id, tenant},
    },
};

/// Connections for reading; each is a thread, opened when needed.
const CONNECTIONS: u32 = 3;

/// The reading side.
pub(super) struct SqliteReader {
    path: PathBuf,
    pool: SqlitePool,
}

impl SqliteReader {
    pub(super) fn open(file: &DataFile) -> Self {
        let options = options(&file.path).pragma("query_only", "1");
        let pool =
            SqlitePoolOptions::new().max_connections(CONNECTIONS).test_before_acquire(false).connect_lazy_with(options);
        Self { path: file.path.clone(), pool }
    }

    fn fail(&self, error: sqlx::Error) -> StoreError {
        match error {
            sqlx::Error::PoolClosed => StoreError::Closed,
            error => describe(&self.path, &error),
        }
    }
}

#[async_trait::async_trait]
impl Reader for SqliteReader {
    async fn resources(&self, tenant: Tenant) -> Result<Vec<String>, StoreError> {
        // One step for each, not for each document.
        let found = sqlx::query_scalar(
            "WITH RECURSIVE found (kind) AS (
                 SELECT (SELECT min(kind) FROM current WHERE vc = ?1)
                 UNION ALL
                 SELECT (SELECT min(kind) FROM current WHERE vc = ?1 AND kind > found.kind) FROM found WHERE found.kind IS NOT NULL
             ) SELECT kind FROM found WHERE kind IS NOT NULL",
        );
        found.bind(tenant.0).fetch_all(&self.pool).await.map_err(|e| self.fail(e))
    }

    async fn current(&self, tenant: Tenant, resource: &Arc<str>) -> Result<Vec<Entry>, StoreError> {
        let rows = sqlx::query(
            "SELECT c.ns, c.name, c.rev, l.created, l.value FROM current c JOIN log l ON l.id = ?1 + c.rev
             WHERE c.vc = ?2 AND c.kind = ?3 ORDER BY c.ns, c.name",
        )
        .bind(row_id(tenant, 0))
        .bind(tenant.0)
        .bind(resource.clone())
        .fetch_all(&self.pool)
        .await
        .map_err(|e| self.fail(e))?;
        let mut names = Names::default();
        let entries = rows.iter().map(|row| Entry {
            key: names.key(resource, row),
            revision: unsigned(row, 2),
            created: unsigned(row, 3),
            value: blob(row, 4).unwrap_or_default(),
        });
        Ok(entries.collect())
    }

    async fn changes(
        &self,
        tenant: Tenant,
        scope: &Scope,
        after: Revision,
        until: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Event>>, StoreError> {
        let rows = sqlx::query(
            "SELECT l.ns, l.name, l.id, l.value, l.prev, p.value FROM log l LEFT JOIN log p ON l.prev > 0 AND p.id = ?1 + l.prev
             WHERE l.id > ?1 + ?2 AND l.id <= ?1 + ?3 AND l.kind = ?4 AND (?5 IS NULL OR l.ns = ?5) ORDER BY l.id LIMIT ?6",
        )
        .bind(row_id(tenant, 0))
        .bind(after as i64)
        .bind(until as i64)
        .bind(scope.resource.clone())
        .bind(scope.namespace.clone())
        .bind(limit as i64)
        .fetch_all(&self.pool)
        .await
        .map_err(|e| self.fail(e))?;
        let mut names = Names::default();
        let events = rows.iter().map(|row| {
            let previous = unsigned(row, 4);
            Arc::new(Event {
                revision: revision(row.get(2)),
                key: names.key(&scope.resource, row),
                value: blob(row, 3),
                previous: (previous > 0).then(|| (previous, blob(row, 5).unwrap_or_default())),
            })
        });
        Ok(events.collect())
    }

    async fn before(
        &self,
        tenant: Tenant,
        scope: &Scope,
        at: Revision,
        until: Revision,
    ) -> Result<Vec<(Key, Option<Entry>)>, StoreError> {
        // The first change after `at` of each document says what was there.
        let rows = sqlx::query(
            "SELECT l.ns, l.name, l.prev, l.created, p.value
             FROM (SELECT min(id) AS id FROM log
                   WHERE id > ?1 + ?2 AND id <= ?1 + ?3 AND kind = ?4 AND (?5 IS NULL OR ns = ?5) GROUP BY ns, name) f
             JOIN log l ON l.id = f.id LEFT JOIN log p ON l.prev > 0 AND p.id = ?1 + l.prev",
        )
        .bind(row_id(tenant, 0))
        .bind(at as i64)
        .bind(until as i64)
        .bind(scope.resource.clone())
        .bind(scope.namespace.clone())
        .fetch_all(&self.pool)
        .await
        .map_err(|e| self.fail(e))?;
        let mut names = Names::default();
        let found = rows.iter().map(|row| {
            let key = names.key(&scope.resource, row);
            let revision = unsigned(row, 2);
            let entry = (revision > 0).then(|| Entry {
                key: key.clone(),
                revision,
                created: unsigned(row, 3),
                value: blob(row, 4).unwrap_or_default(),
            });
            (key, entry)
        });
        Ok(found.collect())
    }

    async fn export(&self, tenant: Tenant) -> Result<Export, StoreError> {
        // One statement sees one moment, two do not.
        let mut transaction = self.pool.begin().await.map_err(|e| self.fail(e))?;
        let rows = sqlx::query(
            "SELECT c.ns, c.name, c.rev, l.created, l.value, c.kind FROM current c JOIN log l ON l.id = ?1 + c.rev
             WHERE c.vc = ?2 ORDER BY c.kind, c.ns, c.name",
        )
        .bind(row_id(tenant, 0))
        .bind(tenant.0)
        .fetch_all(&mut *transaction)
        .await
        .map_err(|e| self.fail(e))?;
        let newest = sqlx::query(
            "SELECT coalesce((SELECT max(id) FROM log WHERE id BETWEEN ?1 AND ?2), 0), compacted FROM tenants WHERE vc = ?3",
        )
        .bind(row_id(tenant, 0))
        .bind(last_id(tenant))
        .bind(tenant.0)
        .fetch_optional(&mut *transaction)
        .await
        .map_err(|e| self.fail(e))?;
        let Some(newest) = newest else { return Err(StoreError::NoTenant(tenant)) };
        let mut names = Names::default();
        let entries = rows.iter().map(|row| {
            let resource: &str = row.get(5);
            names.entry(resource, row)
        });
        let entries = entries.collect();
        Ok(Export { revision: revision(newest.get(0)).max(unsigned(&newest, 1)), entries })
    }

    async fn kept(&self, after: (Tenant, Revision), limit: usize) -> Result<Vec<Kept>, StoreError> {
        let rows = sqlx::query(
            "SELECT ns, name, id, kind, value FROM log WHERE id > ? AND value IS NOT NULL ORDER BY id LIMIT ?",
        )
        .bind(row_id(after.0, after.1))
        .bind(limit as i64)
        .fetch_all(&self.pool)
        .await
        .map_err(|e| self.fail(e))?;
        let kept = rows.iter().map(|row| Kept {
            tenant: tenant(row.get(2)),
            revision: revision(row.get(2)),
            key: Key::new(row.get(3), row.get(0), row.get(1)),
            value: blob(row, 4).unwrap_or_default(),
        });
        Ok(kept.collect())
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

/// Makes one allocation of a resource or namespace that many rows have.
#[derive(Default)]
struct Names {
    resource: Option<Arc<str>>,
    namespace: Option<Arc<str>>,
}

impl Names {
    /// The key of a row whose first columns are namespace and name.
    fn key(&mut self, resource: &Arc<str>, row: &SqliteRow) -> Key {
        let namespace: &str = row.get(0);
        let namespace = match &self.namespace {
            Some(last) if **last == *namespace => last.clone(),
            _ => self.namespace.insert(namespace.into()).clone(),
        };
        Key { resource: resource.clone(), namespace, name: row.get::<&str, _>(1).into() }
    }

    /// The document of a row: namespace, name, revision, revision of its creation, value.
    fn entry(&mut self, resource: &str, row: &SqliteRow) -> Entry {
        let resource = match &self.resource {
            Some(last) if **last == *resource => last.clone(),
            _ => self.resource.insert(resource.into()).clone(),
        };
        Entry {
            key: self.key(&resource, row),
            revision: unsigned(row, 2),
            created: unsigned(row, 3),
            value: blob(row, 4).unwrap_or_default(),
        }
    }
}

fn unsigned(row: &SqliteRow, column: usize) -> u64 {
    row.get::<i64, _>(column) as u64
}

fn blob(row: &SqliteRow, column: usize) -> Option<Bytes> {
    row.get::<Option<&[u8]>, _>(column).map(Bytes::copy_from_slice)
}
