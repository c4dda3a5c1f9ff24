use std::{
    fs::{self, File},
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Row, SqliteConnection,
    sqlite::{SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use crate::{
    DirectoryLock, StoreError, Tenant,
    directory::{close_to_others, io, private},
    engine::durable::KnownTenant,
    sqlite::schema::{APPLICATION_ID, MIGRATIONS, last_id, revision, row_id},
};

/// Size of the WAL, in pages of 4 KiB, at which it is copied into the file. Larger means fewer copies of pages that change often,
/// and a longer start after a crash; 16 MiB are read back in well under 0.1 s.
const CHECKPOINT_PAGES: &str = "4096";

/// The file, locked, of the right format, with the connection that writes.
pub(crate) struct DataFile {
    pub(super) path: PathBuf,
    pub(crate) connection: SqliteConnection,
    /// Given up when it is dropped, or by the system when the process ends.
    pub(super) lock: DirectoryLock,
}

impl DataFile {
    pub(crate) async fn open(directory: &Path) -> Result<Self, StoreError> {
        let lock = DirectoryLock::take(directory)?;
        let path = directory.join("vctl.db");
        if !path.try_exists().map_err(|e| io("look for", &path, &e))? {
            create(directory, &path).await?;
        }
        for suffix in ["", "-wal", "-shm"] {
            close_to_others(&directory.join(format!("vctl.db{suffix}")))?;
        }
        check_header(&path)?;
        let mut connection = connect(&path, options(&path)).await?;
        migrate(&mut connection, &path).await?;
        Ok(Self { path, connection, lock })
    }

    /// All tenants, and the first number never used.
    pub(super) async fn tenants(&mut self) -> Result<(Vec<KnownTenant>, u32), StoreError> {
        let path = &self.path;
        let rows = sqlx::query("SELECT vc, name, compacted FROM tenants WHERE deleted = 0 ORDER BY vc")
            .fetch_all(&mut self.connection)
            .await
            .map_err(|e| describe(path, &e))?;
        let mut tenants = Vec::with_capacity(rows.len());
        for row in rows {
            let tenant = Tenant(row.get(0));
            let compacted: i64 = row.get(2);
            // One step to the end of the tenant's range.
            let last: Option<i64> = sqlx::query_scalar("SELECT max(id) FROM log WHERE id BETWEEN ? AND ?")
                .bind(row_id(tenant, 0))
                .bind(last_id(tenant))
                .fetch_one(&mut self.connection)
                .await
                .map_err(|e| describe(path, &e))?;
            let compacted = compacted as u64;
            let head = last.map_or(0, revision).max(compacted);
            let name: Option<String> = row.get(1);
            tenants.push(KnownTenant { tenant, name: name.unwrap_or_default(), head, compacted });
        }
        let last: i64 = sqlx::query_scalar("SELECT seq FROM sqlite_sequence WHERE name = 'tenants'")
            .fetch_one(&mut self.connection)
            .await
            .map_err(|e| describe(path, &e))?;
        Ok((tenants, last as u32 + 1))
    }

    /// Ids of the keys that values are sealed with.
    pub(super) async fn keys(&mut self) -> Result<Vec<String>, StoreError> {
        sqlx::query_scalar("SELECT key FROM encryption")
            .fetch_all(&mut self.connection)
            .await
            .map_err(|e| describe(&self.path, &e))
    }

    /// From now on deleted content is overwritten with zeros: what was there before encryption must not stay behind.
    pub(super) async fn overwrite_deleted(&mut self) -> Result<(), StoreError> {
        let done = sqlx::raw_sql("PRAGMA secure_delete = ON").execute(&mut self.connection).await;
        done.map(drop).map_err(|e| describe(&self.path, &e))
    }
}

/// How every connection is opened.
pub(super) fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .journal_mode(SqliteJournalMode::Wal)
        // A commit returns after the WAL was synced.
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(10))
        .pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        .pragma("temp_store", "MEMORY")
        .statement_cache_capacity(256)
        .disable_statement_logging()
}

async fn connect(path: &Path, options: SqliteConnectOptions) -> Result<SqliteConnection, StoreError> {
    options.connect().await.map_err(|e| describe(path, &e))
}

/// Makes an empty file under another name and moves it into place when it is whole: a file called `vctl.db` is never half made.
async fn create(directory: &Path, path: &Path) -> Result<(), StoreError> {
    let making = directory.join("vctl.db.new");
    for suffix in ["", "-journal"] {
        let left = directory.join(format!("vctl.db.new{suffix}"));
        match fs::remove_file(&left) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(io("remove", &left, &e)),
            _ => {}
        }
    }
    // Keys and secrets are in it. SQLite gives the journal and the WAL the mode of the file.
    private().write(true).create_new(true).open(&making).map_err(|e| io("create", &making, &e))?;
    let options = options(&making)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Delete)
        // Must be said before the first table.
        .auto_vacuum(SqliteAutoVacuum::Incremental);
    let mut connection = connect(&making, options).await?;
    let mark = format!("PRAGMA application_id = {APPLICATION_ID}");
    sqlx::raw_sql(AssertSqlSafe(mark)).execute(&mut connection).await.map_err(|e| describe(&making, &e))?;
    migrate(&mut connection, &making).await?;
    connection.close().await.map_err(|e| describe(&making, &e))?;
    fs::rename(&making, path).map_err(|e| io("rename", &making, &e))?;
    File::open(directory).and_then(|d| d.sync_all()).map_err(|e| io("sync", directory, &e))
}

/// Looks at the file before SQLite does, for what SQLite would take for a new database, and for a file that was cut short within its
/// last page, the rest of which SQLite would take for zeros. The header: <https://www.sqlite.org/fileformat2.html#the_database_header>.
fn check_header(path: &Path) -> Result<(), StoreError> {
    let mut header = [0; 100];
    let mut file = File::open(path).map_err(|e| io("open", path, &e))?;
    match file.read_exact(&mut header) {
        Ok(()) if header.starts_with(b"SQLite format 3\0") => {}
        Err(e) if e.kind() != ErrorKind::UnexpectedEof => return Err(io("read", path, &e)),
        _ => return Err(damaged(path, "it is not a SQLite file, or was cut short")),
    }
    // While there is a WAL, pages that the file lacks may be in it.
    if fs::metadata(path.with_extension("db-wal")).is_ok_and(|wal| wal.len() > 0) {
        return Ok(());
    }
    let number = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let page = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        size => u64::from(size),
    };
    let (changes, valid_for) = (number(24), number(92));
    let length = file.metadata().map_err(|e| io("look at", path, &e))?.len();
    if changes == valid_for && length < u64::from(number(28)) * page {
        return Err(damaged(path, "it was cut short"));
    }
    Ok(())
}

/// Checks that the file is ours and not newer, and brings it to today's format.
async fn migrate(connection: &mut SqliteConnection, path: &Path) -> Result<(), StoreError> {
    let application: i32 = pragma(connection, path, "PRAGMA application_id").await?;
    if application != APPLICATION_ID {
        return Err(StoreError::Unusable(format!(
            "{} is a SQLite file of another application; move it away or use another --data-dir",
            path.display()
        )));
    }
    let format: i32 = pragma(connection, path, "PRAGMA user_version").await?;
    let done = usize::try_from(format).unwrap_or(usize::MAX);
    if done > MIGRATIONS.len() {
        return Err(StoreError::Unusable(format!(
            "{} has format {format}, written by a newer vctl; this one knows formats up to {}. Run the newer vctl, or use another \
             --data-dir",
            path.display(),
            MIGRATIONS.len()
        )));
    }
    for (number, step) in MIGRATIONS.iter().enumerate().skip(done) {
        let script = format!("BEGIN IMMEDIATE; {step}; PRAGMA user_version = {}; COMMIT", number + 1);
        sqlx::raw_sql(AssertSqlSafe(script)).execute(&mut *connection).await.map_err(|e| describe(path, &e))?;
    }
    Ok(())
}

async fn pragma(connection: &mut SqliteConnection, path: &Path, sql: &'static str) -> Result<i32, StoreError> {
    sqlx::query_scalar(sql).fetch_one(connection).await.map_err(|e| describe(path, &e))
}

/// A failure of SQLite as one of ours. Result codes: <https://www.sqlite.org/rescode.html>.
pub(super) fn describe(path: &Path, error: &sqlx::Error) -> StoreError {
    const CORRUPT: i32 = 11;
    const FULL: i32 = 13;
    const NOTADB: i32 = 26;
    match code(error).map(|c| c & 0xff) {
        Some(CORRUPT | NOTADB) => damaged(path, &error.to_string()),
        Some(FULL) => StoreError::backend(format!("the disk of {} is full; free some space", path.display())),
        _ => StoreError::backend(format!("{}: {error}", path.display())),
    }
}

/// SQLite's extended result code.
pub(super) fn code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}

fn damaged(path: &Path, reason: &str) -> StoreError {
    StoreError::Unusable(format!(
        "{} is damaged ({reason}); restore it from a backup, or move it away (with {0}-wal) to start empty",
        path.display()
    ))
}
