use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use sqlx::{
    PgPool, Row,
    postgres::{PgPoolOptions, PgRow},
};

use crate::{
    Entry, Event, Export, Key, Revision, Scope, StoreError, Tenant,
    engine::durable::{Kept, Reader},
    postgres::{
        PostgresAddress,
        failure::{describe, is_connection},
        owner::answered,
        statements::number,
    },
};

/// Connections for reading, opened when needed; one more listens.
const CONNECTIONS: u32 = 5;

/// So often a read is tried again when the connection breaks: each of the connections may be broken by a restart of the server,
/// and then it takes a while to come back.
const ATTEMPTS: u32 = 12;

/// The reading side.
pub(super) struct PostgresReader {
    address: PostgresAddress,
    pool: PgPool,
}

impl PostgresReader {
    pub(super) fn open(address: &PostgresAddress) -> Self {
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(Duration::from_secs(10))
            // A broken one is found out by using it.
            .test_before_acquire(false)
            .connect_lazy_with(address.reading());
        Self { address: address.clone(), pool }
    }

    pub(super) fn pool(&self) -> PgPool {
        self.pool.clone()
    }

    /// The current documents of a tenant, and its newest revision, at one moment.
    async fn read_export(&self, tenant: Tenant) -> Result<(Vec<PgRow>, Option<PgRow>), sqlx::Error> {
        let mut transaction = self.pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        let rows = sqlx::query(
            "SELECT c.ns, c.name, c.rev, l.created, l.value, c.kind FROM current c JOIN log l ON l.vc = c.vc AND l.rev = c.rev
             WHERE c.vc = $1 ORDER BY c.kind, c.ns, c.name",
        )
        .bind(number(tenant))
        .fetch_all(&mut *transaction)
        .await?;
        let newest = sqlx::query(
            "SELECT greatest(compacted, (SELECT max(rev) FROM log WHERE vc = $1)) FROM tenants WHERE vc = $1 AND NOT deleted",
        )
        .bind(number(tenant))
        .fetch_optional(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok((rows, newest))
    }

    /// Returns when it is worth trying again after a failure.
    ///
    /// # Errors
    /// When it is not.
    async fn again(&self, attempt: &mut u32, error: sqlx::Error) -> Result<(), StoreError> {
        *attempt += 1;
        if !is_connection(&error) || *attempt > ATTEMPTS {
            return Err(describe(&self.address, &error));
        }
        if *attempt > CONNECTIONS {
            tokio::time::sleep(Duration::from_millis(50 << (*attempt - CONNECTIONS).min(5))).await;
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl Reader for PostgresReader {
    async fn resources(&self, tenant: Tenant) -> Result<Vec<String>, StoreError> {
        let mut attempt = 0;
        loop {
            // One step for each, not for each document.
            let query = sqlx::query_scalar(
                "WITH RECURSIVE found (kind) AS (
                     SELECT (SELECT min(kind) FROM current WHERE vc = $1)
                     UNION ALL
                     SELECT (SELECT min(kind) FROM current WHERE vc = $1 AND kind > found.kind) FROM found WHERE found.kind IS NOT NULL
                 ) SELECT kind FROM found WHERE kind IS NOT NULL",
            )
            .bind(number(tenant))
            .fetch_all(&self.pool);
            match answered(query).await {
                Ok(found) => return Ok(found),
                Err(error) => self.again(&mut attempt, error).await?,
            }
        }
    }

    async fn current(&self, tenant: Tenant, resource: &Arc<str>) -> Result<Vec<Entry>, StoreError> {
        let mut attempt = 0;
        let rows = loop {
            let query = sqlx::query(
                    "SELECT c.ns, c.name, c.rev, l.created, l.value FROM current c JOIN log l ON l.vc = c.vc AND l.rev = c.rev
                     WHERE c.vc = $1 AND c.kind = $2 ORDER BY c.ns, c.name",
                )
                .bind(number(tenant))
                .bind(&**resource)
                .fetch_all(&self.pool);
            match answered(query).await {
                Ok(rows) => break rows,
                Err(error) => self.again(&mut attempt, error).await?,
            }
        };
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
        let mut attempt = 0;
        let rows = loop {
            let query = sqlx::query(
                "SELECT l.ns, l.name, l.rev, l.value, l.prev, p.value
                     FROM log l LEFT JOIN log p ON l.prev > 0 AND p.vc = l.vc AND p.rev = l.prev
                     WHERE l.vc = $1 AND l.rev > $2 AND l.rev <= $3 AND l.kind = $4 AND ($5::text IS NULL OR l.ns = $5)
                     ORDER BY l.rev LIMIT $6",
            )
            .bind(number(tenant))
            .bind(after as i64)
            .bind(until as i64)
            .bind(&*scope.resource)
            .bind(scope.namespace.as_deref())
            .bind(limit as i64)
            .fetch_all(&self.pool);
            match answered(query).await {
                Ok(rows) => break rows,
                Err(error) => self.again(&mut attempt, error).await?,
            }
        };
        let mut names = Names::default();
        let events = rows.iter().map(|row| {
            let previous = unsigned(row, 4);
            Arc::new(Event {
                revision: unsigned(row, 2),
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
        let mut attempt = 0;
        let rows = loop {
            let query = sqlx::query(
                    "SELECT l.ns, l.name, l.prev, l.created, p.value
                     FROM (SELECT min(rev) AS rev FROM log
                           WHERE vc = $1 AND rev > $2 AND rev <= $3 AND kind = $4 AND ($5::text IS NULL OR ns = $5) GROUP BY ns, name) f
                     JOIN log l ON l.vc = $1 AND l.rev = f.rev
                     LEFT JOIN log p ON l.prev > 0 AND p.vc = l.vc AND p.rev = l.prev",
                )
                .bind(number(tenant))
                .bind(at as i64)
                .bind(until as i64)
                .bind(&*scope.resource)
                .bind(scope.namespace.as_deref())
                .fetch_all(&self.pool);
            match answered(query).await {
                Ok(rows) => break rows,
                Err(error) => self.again(&mut attempt, error).await?,
            }
        };
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
        let mut attempt = 0;
        let (rows, newest) = loop {
            match answered(self.read_export(tenant)).await {
                Ok(read) => break read,
                Err(error) => self.again(&mut attempt, error).await?,
            }
        };
        let Some(newest) = newest else { return Err(StoreError::NoTenant(tenant)) };
        let mut names = Names::default();
        let entries = rows.iter().map(|row| names.entry(row.get(5), row)).collect();
        Ok(Export { revision: unsigned(&newest, 0), entries })
    }

    async fn kept(&self, after: (Tenant, Revision), limit: usize) -> Result<Vec<Kept>, StoreError> {
        let mut attempt = 0;
        let rows = loop {
            let query = sqlx::query(
                "SELECT ns, name, rev, kind, value, vc FROM log WHERE (vc, rev) > ($1, $2) AND value IS NOT NULL
                 ORDER BY vc, rev LIMIT $3",
            )
            .bind(number(after.0))
            .bind(after.1 as i64)
            .bind(limit as i64)
            .fetch_all(&self.pool);
            match answered(query).await {
                Ok(rows) => break rows,
                Err(error) => self.again(&mut attempt, error).await?,
            }
        };
        let kept = rows.iter().map(|row| Kept {
            tenant: Tenant(row.get::<i32, _>(5) as u32),
            revision: unsigned(row, 2),
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
    fn key(&mut self, resource: &Arc<str>, row: &PgRow) -> Key {
        let namespace: &str = row.get(0);
        let namespace = match &self.namespace {
            Some(last) if **last == *namespace => last.clone(),
            _ => self.namespace.insert(namespace.into()).clone(),
        };
        Key { resource: resource.clone(), namespace, name: row.get::<&str, _>(1).into() }
    }

    /// The document of a row: namespace, name, revision, revision of its creation, value.
    fn entry(&mut self, resource: &str, row: &PgRow) -> Entry {
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

fn unsigned(row: &PgRow, column: usize) -> u64 {
    row.get::<i64, _>(column) as u64
}

fn blob(row: &PgRow, column: usize) -> Option<Bytes> {
    row.get::<Option<&[u8]>, _>(column).map(Bytes::copy_from_slice)
}
