use sqlx::{AssertSqlSafe, Connection, Row};

use crate::{
    StoreError, Tenant,
    engine::durable::{Change, CommitError, Failure, Journal},
    sqlite::{
        file::{DataFile, code, describe},
        schema::{last_id, row_id},
        statements,
    },
};

/// Rows removed at a time, between commits.
const SWEEP_ROWS: i64 = 1000;

/// So many unused pages of 4 KiB may always stay..
const FREE_PAGES: i64 = 4096;

/// ..and so many are given back at a time, between commits.
const PAGES_TOGETHER: i64 = 512;

/// The writing side.
pub(super) struct SqliteJournal {
    file: DataFile,
}

impl SqliteJournal {
    pub(super) fn new(file: DataFile) -> Self {
        Self { file }
    }

    async fn write(&mut self, changes: &[Change]) -> Result<(), sqlx::Error> {
        for script in statements::commit(changes) {
            script.query().execute(&mut self.file.connection).await?;
        }
        Ok(())
    }

    async fn roll_back(&mut self) {
        // SQLite may have rolled back already: then this fails and all is well.
        if let Err(error) = sqlx::raw_sql("ROLLBACK").execute(&mut self.file.connection).await {
            tracing::debug!(%error, "nothing to roll back");
        }
    }

    /// Removes rows of a deleted tenant. Each statement stands for itself: it does not matter where a crash falls.
    async fn sweep_deleted(&mut self, tenant: Tenant) -> Result<(), sqlx::Error> {
        let connection = &mut self.file.connection;
        let rows = sqlx::query(
            "DELETE FROM log WHERE id IN (SELECT id FROM log WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?)",
        )
        .bind(row_id(tenant, 0))
        .bind(last_id(tenant))
        .bind(SWEEP_ROWS)
        .execute(&mut *connection)
        .await?;
        if rows.rows_affected() > 0 {
            return Ok(());
        }
        let rows = sqlx::query(
            "DELETE FROM current WHERE vc = ?1 AND (kind, ns, name) IN (SELECT kind, ns, name FROM current WHERE vc = ?1 LIMIT ?2)",
        )
        .bind(tenant.0)
        .bind(SWEEP_ROWS)
        .execute(&mut *connection)
        .await?;
        if rows.rows_affected() == 0 {
            sqlx::query("DELETE FROM tenants WHERE vc = ?").bind(tenant.0).execute(connection).await?;
        }
        Ok(())
    }

    /// Removes what is not the state at `compacted` from the next piece of a tenant's log: rows that a later one in the piece
    /// replaced or deleted, and the deletions themselves.
    async fn sweep_compacted(&mut self, tenant: Tenant, swept: i64, compacted: i64) -> Result<(), sqlx::Error> {
        let until = compacted.min(swept + SWEEP_ROWS);
        sqlx::query(
            "BEGIN IMMEDIATE;
             DELETE FROM log WHERE id IN (SELECT ?1 + prev FROM log WHERE id > ?1 + ?2 AND id <= ?1 + ?3 AND prev > 0);
             DELETE FROM log WHERE id > ?1 + ?2 AND id <= ?1 + ?3 AND value IS NULL;
             UPDATE tenants SET swept = ?3 WHERE vc = ?4;
             COMMIT",
        )
        .bind(row_id(tenant, 0))
        .bind(swept)
        .bind(until)
        .bind(tenant.0)
        .execute(&mut self.file.connection)
        .await?;
        Ok(())
    }

    /// Gives pages at the end of the file back to the system, when many are unused. Else they are filled by the next writes.
    async fn give_space_back(&mut self) -> Result<bool, sqlx::Error> {
        const INCREMENTAL: i64 = 2;
        let connection = &mut self.file.connection;
        let [mode, free, all] = ["PRAGMA auto_vacuum", "PRAGMA freelist_count", "PRAGMA page_count"];
        let mut figures = [0_i64; 3];
        for (figure, sql) in figures.iter_mut().zip([mode, free, all]) {
            *figure = sqlx::query_scalar(sql).fetch_one(&mut *connection).await?;
        }
        let [mode, free, all] = figures;
        // A file that was made before this was thought of keeps its pages until it is tidied.
        if mode != INCREMENTAL || free < FREE_PAGES || free < all / 4 {
            return Ok(false);
        }
        sqlx::raw_sql(AssertSqlSafe(format!("PRAGMA incremental_vacuum({PAGES_TOGETHER})")))
            .execute(connection)
            .await?;
        Ok(true)
    }

    async fn tidy_file(&mut self) -> Result<(), sqlx::Error> {
        let connection = &mut self.file.connection;
        sqlx::raw_sql("PRAGMA auto_vacuum = INCREMENTAL").execute(&mut *connection).await?;
        sqlx::raw_sql("VACUUM").execute(&mut *connection).await?;
        // What the WAL had is in the file now. Readers that are at work keep it from being cut; they are short.
        for _ in 0..50 {
            let row = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(&mut *connection).await?;
            if row.get::<i64, _>(0) == 0 {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        Err(sqlx::Error::Protocol("long reads keep the write-ahead log from being emptied; try again".to_owned()))
    }

    async fn sweep_next(&mut self) -> Result<bool, sqlx::Error> {
        let next = sqlx::query(
            "SELECT vc, deleted, swept, compacted FROM tenants WHERE deleted = 1 OR swept < compacted LIMIT 1",
        )
        .fetch_optional(&mut self.file.connection)
        .await?;
        let Some(row) = next else { return self.give_space_back().await };
        let tenant = Tenant(row.get(0));
        if row.get(1) {
            self.sweep_deleted(tenant).await?;
        } else {
            self.sweep_compacted(tenant, row.get(2), row.get(3)).await?;
        }
        Ok(true)
    }
}

#[async_trait::async_trait]
impl Journal for SqliteJournal {
    async fn commit(&mut self, changes: &[Change]) -> Result<(), CommitError> {
        let Err(error) = self.write(changes).await else { return Ok(()) };
        self.roll_back().await;
        let failure = if is_fatal(&error) { Failure::Unknown } else { Failure::Rejected };
        let mut error = describe(&self.file.path, &error);
        if failure == Failure::Unknown {
            error = StoreError::backend(format!("{error}; nothing more is written until the server is restarted"));
        }
        Err(CommitError { error, failure })
    }

    async fn sweep(&mut self) -> Result<bool, StoreError> {
        let swept = self.sweep_next().await;
        if let Err(error) = swept {
            self.roll_back().await;
            return Err(describe(&self.file.path, &error));
        }
        swept.map_err(|e| describe(&self.file.path, &e))
    }

    async fn tidy(&mut self) -> Result<(), StoreError> {
        self.tidy_file().await.map_err(|e| describe(&self.file.path, &e))
    }

    async fn close(self: Box<Self>) -> Result<(), StoreError> {
        let DataFile { path, connection, lock } = self.file;
        let closed = connection.close().await.map_err(|e| describe(&path, &e));
        // Only when nothing touches the files any more may another process have them.
        let unlocked =
            lock.release().map_err(|e| StoreError::backend(format!("cannot unlock {}: {e}", path.display())));
        closed.and(unlocked)
    }
}

/// Whether what is on the disk is not known after this failure. A sync that failed may have dropped what it was to write, and the
/// next one will not say so; a key that exists already means that a commit that we thought had failed is there.
fn is_fatal(error: &sqlx::Error) -> bool {
    const CORRUPT: i32 = 11;
    const CONSTRAINT: i32 = 19;
    const NOTADB: i32 = 26;
    const IOERR_FSYNC: i32 = 0x040a;
    const IOERR_DIR_FSYNC: i32 = 0x050a;
    match code(error) {
        Some(code) => {
            matches!(code, IOERR_FSYNC | IOERR_DIR_FSYNC) || matches!(code & 0xff, CORRUPT | CONSTRAINT | NOTADB)
        }
        // Not from SQLite: its thread is gone.
        None => true,
    }
}
