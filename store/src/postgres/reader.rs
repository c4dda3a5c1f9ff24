use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use sqlx::{
    PgPool, Row,
    postgres::{PgPoolOptions, PgRow},
};

use crate::{
    Entry, Event, Key, Revision, Scope, StoreError, Tenant,
    engine::durable::Reader,
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
            .connect_lazy_with(address.options.clone());
        Self { address: address.clone(), pool }
    }

    pub(super) fn pool(&self) -> PgPool {
        self.pool.clone()
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

    async fn close(&self) {
        self.pool.close().await;
    }
}

/// Makes one allocation of a namespace that many rows have.
#[derive(Default)]
struct Names {
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
}

fn unsigned(row: &PgRow, column: usize) -> u64 {
    row.get::<i64, _>(column) as u64
}

fn blob(row: &PgRow, column: usize) -> Option<Bytes> {
    row.get::<Option<&[u8]>, _>(column).map(Bytes::copy_from_slice)
}
