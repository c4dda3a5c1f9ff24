use sqlx::{Connection, PgConnection, Row};

use crate::{
    StoreError, Tenant,
    engine::durable::{Change, CommitError, Failure, Journal},
    postgres::{
        failure::{contradicts, describe, is_connection},
        owner::{Owner, answered},
        statements::{Batch, batches, number},
    },
};

/// Rows removed at a time, between commits.
const SWEEP_ROWS: i64 = 5000;

/// The writing side.
pub(super) struct PostgresJournal {
    owner: Owner,
}

impl PostgresJournal {
    pub(super) fn new(owner: Owner) -> Self {
        Self { owner }
    }

    /// Writes the group with this number. False: we are not the owner, or the number is not next.
    async fn write(&mut self, changes: &[Change], next: i64) -> Result<Result<bool, sqlx::Error>, CommitError> {
        let epoch = self.owner.epoch();
        let connection = self.owner.connection().await?;
        // After reconnecting it may have been read anew.
        let mut batches = batches(changes);
        let result = match batches.pop() {
            Some(batch) if batches.is_empty() => answered(one(connection, batch, epoch, next - 1, next)).await,
            Some(batch) => {
                batches.push(batch);
                answered(many(connection, batches, epoch, next)).await
            }
            None => Ok(true),
        };
        Ok(result)
    }

    /// Why a group was not taken.
    async fn refused(&mut self) -> CommitError {
        let failure = |error| CommitError { error, failure: Failure::Unknown };
        let address = self.owner.address.clone();
        let ours = self.owner.epoch();
        let connection = match self.owner.connection().await {
            Ok(connection) => connection,
            Err(error) => return error,
        };
        match sqlx::query("SELECT epoch, committed FROM owner").fetch_one(connection).await {
            Ok(row) if row.get::<i64, _>(0) != ours => self.owner.lost(row.get(0)),
            Ok(row) => failure(StoreError::backend(format!(
                "{address}: commit {} was found where {} was expected; somebody else has changed the tables. Nothing more is written \
                 until the server is restarted",
                row.get::<i64, _>(1),
                self.owner.committed
            ))),
            Err(error) => failure(describe(&address, &error)),
        }
    }

    async fn sweep_next(&mut self) -> Result<bool, sqlx::Error> {
        // To sweep can wait: no connection is made for it.
        let Some(connection) = self.owner.if_connected() else { return Ok(false) };
        let next =
            sqlx::query("SELECT vc, deleted, swept, compacted FROM tenants WHERE deleted OR swept < compacted LIMIT 1")
                .fetch_optional(&mut *connection)
                .await?;
        let Some(row) = next else { return Ok(false) };
        let tenant = Tenant(row.get::<i32, _>(0) as u32);
        if row.get(1) {
            sweep_deleted(connection, tenant).await?;
        } else {
            sweep_compacted(connection, tenant, row.get(2), row.get(3)).await?;
        }
        Ok(true)
    }
}

async fn one(
    connection: &mut PgConnection,
    batch: Batch<'_>,
    epoch: i64,
    before: i64,
    next: i64,
) -> Result<bool, sqlx::Error> {
    // Returns when the server is ready for the next query: after it has committed, not when it has sent the row.
    let row = batch.query(epoch, before, next).fetch_one(connection).await?;
    Ok(row.get::<i64, _>(0) == 1)
}

async fn many(
    connection: &mut PgConnection,
    batches: Vec<Batch<'_>>,
    epoch: i64,
    next: i64,
) -> Result<bool, sqlx::Error> {
    let mut transaction = connection.begin().await?;
    let mut before = next - 1;
    for batch in batches {
        if !one(&mut transaction, batch, epoch, before, next).await? {
            transaction.rollback().await?;
            return Ok(false);
        }
        before = next;
    }
    transaction.commit().await?;
    Ok(true)
}

/// Removes rows of a deleted tenant. Each statement stands for itself: it does not matter where a crash falls.
async fn sweep_deleted(connection: &mut PgConnection, tenant: Tenant) -> Result<(), sqlx::Error> {
    for piece in [
        "DELETE FROM log WHERE ctid = ANY (ARRAY(SELECT ctid FROM log WHERE vc = $1 ORDER BY rev LIMIT $2))",
        "DELETE FROM current WHERE ctid = ANY (ARRAY(SELECT ctid FROM current WHERE vc = $1 LIMIT $2))",
    ] {
        let done = sqlx::query(piece).bind(number(tenant)).bind(SWEEP_ROWS).execute(&mut *connection).await?;
        if done.rows_affected() > 0 {
            return Ok(());
        }
    }
    sqlx::query("DELETE FROM tenants WHERE vc = $1").bind(number(tenant)).execute(connection).await.map(drop)
}

/// Removes what is not the state at `compacted` from the next piece of a tenant's log: rows that a later one in the piece replaced
/// or deleted, and the deletions themselves.
async fn sweep_compacted(
    connection: &mut PgConnection,
    tenant: Tenant,
    swept: i64,
    compacted: i64,
) -> Result<(), sqlx::Error> {
    let until = compacted.min(swept + SWEEP_ROWS);
    sqlx::query(
        "WITH replaced AS (
             DELETE FROM log
             WHERE vc = $1 AND rev = ANY (ARRAY(SELECT prev FROM log WHERE vc = $1 AND rev > $2 AND rev <= $3 AND prev > 0))
         ), deletions AS (
             DELETE FROM log WHERE vc = $1 AND rev > $2 AND rev <= $3 AND value IS NULL
         )
         UPDATE tenants SET swept = greatest(swept, $3) WHERE vc = $1",
    )
    .bind(number(tenant))
    .bind(swept)
    .bind(until)
    .execute(connection)
    .await
    .map(drop)
}

#[async_trait::async_trait]
impl Journal for PostgresJournal {
    async fn commit(&mut self, changes: &[Change]) -> Result<(), CommitError> {
        loop {
            // A connection first: making it may tell what is committed.
            self.owner.connection().await?;
            let next = self.owner.committed + 1;
            let error = match self.write(changes, next).await? {
                Ok(true) => {
                    self.owner.committed = next;
                    return Ok(());
                }
                Ok(false) => return Err(self.refused().await),
                Err(error) => error,
            };
            if is_connection(&error) {
                tracing::warn!(address = %self.owner.address, %error, "the connection broke during a commit");
                if self.owner.settle(next).await? {
                    return Ok(());
                }
                // It is not there, and never will be: again.
                continue;
            }
            let mut described = describe(&self.owner.address, &error);
            let failure = if contradicts(&error) { Failure::Unknown } else { Failure::Rejected };
            if failure == Failure::Unknown {
                described =
                    StoreError::backend(format!("{described}; nothing more is written until the server is restarted"));
            }
            return Err(CommitError { error: described, failure });
        }
    }

    async fn sweep(&mut self) -> Result<bool, StoreError> {
        let swept = answered(self.sweep_next()).await;
        if swept.as_ref().is_err_and(is_connection) {
            self.owner.disconnect();
        }
        swept.map_err(|e| describe(&self.owner.address, &e))
    }

    async fn tidy(&mut self) -> Result<(), StoreError> {
        let address = self.owner.address.clone();
        let connection = self.owner.connection().await.map_err(|e| e.error)?;
        // Writes the tables anew: the rows that were replaced are not in the files any more. It may take longer than an answer should.
        for table in ["VACUUM (FULL, ANALYZE) log", "VACUUM (FULL, ANALYZE) current"] {
            if let Err(error) = sqlx::raw_sql(table).execute(&mut *connection).await {
                let described = describe(&address, &error);
                if is_connection(&error) {
                    self.owner.disconnect();
                }
                return Err(described);
            }
        }
        Ok(())
    }

    async fn close(self: Box<Self>) -> Result<(), StoreError> {
        self.owner.close().await
    }
}
