//! Being the one server that writes.

use std::time::Duration;

use sqlx::{ConnectOptions, Connection, PgConnection, Row};
use tokio::time::Instant;
use vctl_runtime::tasks::Tasks;

use crate::{
    StoreError,
    engine::durable::{CommitError, Failure},
    postgres::{
        PostgresAddress,
        failure::describe,
        schema::{self, Known},
        takeover::CHANNEL,
    },
};

/// The advisory lock of the owner, in the database's own space of locks: "vctl" and "stor".
const LOCK: i64 = 0x7663_746c_7374_6f72;

/// So long a starting server waits for the one before it to be gone.
const PREDECESSOR: Duration = Duration::from_secs(5);

/// So long a write waits for a database that cannot be reached. A restart of Postgres is over by then.
const UNREACHABLE: Duration = Duration::from_secs(20);

/// So long is waited when it is not known whether the last write is there: nothing else can go on before that.
const IN_DOUBT: Duration = Duration::from_mins(10);

/// A connection that was not used for so long is tried before it is relied on.
const TRIED: Duration = Duration::from_millis(500);

/// A server that does not answer for so long is treated as gone.
const ANSWER: Duration = Duration::from_secs(30);

/// The ownership of a database, with the connection that writes.
pub(crate) struct Owner {
    pub(super) address: PostgresAddress,
    tasks: Tasks,
    /// None while it is broken.
    connection: Option<PgConnection>,
    /// When it last worked.
    used: Instant,
    epoch: i64,
    /// Number of the newest group commit that is known to be there.
    pub(super) committed: i64,
    /// The backend process of the last connection: while it lives it may hold the lock, and finish what it was told.
    backend: Backend,
}

/// A process of the server. Its number alone may come again.
#[derive(Clone, PartialEq, Eq)]
struct Backend {
    pid: i32,
    started: String,
}

impl Owner {
    /// Takes the database for this process, with tables of today's format.
    pub(super) async fn take(address: PostgresAddress, tasks: Tasks) -> Result<(Self, Known), StoreError> {
        let fail = |e: sqlx::Error| describe(&address, &e);
        let mut connection = connect(&address).await.map_err(fail)?;
        let deadline = Instant::now() + PREDECESSOR;
        while !lock(&mut connection).await.map_err(fail)? {
            if Instant::now() > deadline {
                let holder = holder(&mut connection).await.map_err(fail)?;
                return Err(StoreError::Locked(format!(
                    "{address} is in use by {holder}; stop that server first, or use another database"
                )));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        schema::migrate(&mut connection, &address).await?;
        let settings = durability(&mut connection).await.map_err(fail)?;
        if let Some(problem) = settings {
            tracing::warn!(%address, "{problem}");
        }
        let row = sqlx::query("UPDATE owner SET epoch = epoch + 1 RETURNING epoch, committed")
            .fetch_one(&mut connection)
            .await
            .map_err(fail)?;
        let epoch: i64 = row.get(0);
        // Whoever believes to be the owner looks again.
        sqlx::query("SELECT pg_notify($1, $2)")
            .bind(CHANNEL)
            .bind(epoch.to_string())
            .execute(&mut connection)
            .await
            .map_err(fail)?;
        let known = schema::known(&mut connection).await.map_err(fail)?;
        let backend = backend(&mut connection).await.map_err(fail)?;
        let committed = row.get(1);
        let used = Instant::now();
        Ok((Self { address, tasks, connection: Some(connection), used, epoch, committed, backend }, known))
    }

    pub(super) fn epoch(&self) -> i64 {
        self.epoch
    }

    /// The connection, made anew if need be.
    ///
    /// # Errors
    /// When the database cannot be reached for a while, or belongs to another server.
    pub(super) async fn connection(&mut self) -> Result<&mut PgConnection, CommitError> {
        // What breaks during a commit leaves it in doubt; so a connection that may have broken unnoticed is tried first.
        if self.used.elapsed() > TRIED
            && let Some(connection) = &mut self.connection
            && answered(connection.ping()).await.is_err()
        {
            self.disconnect();
        }
        self.used = Instant::now();
        if self.connection.is_none() {
            self.reconnect(UNREACHABLE, Failure::Unreachable).await?;
        }
        self.connection.as_mut().ok_or_else(|| CommitError { error: StoreError::Closed, failure: Failure::Unreachable })
    }

    /// The connection, if there is one.
    pub(super) fn if_connected(&mut self) -> Option<&mut PgConnection> {
        self.connection.as_mut()
    }

    /// The connection is broken, or cannot be relied on.
    pub(super) fn disconnect(&mut self) {
        self.connection = None;
    }

    /// Whether a group commit is there that was under way when the connection broke.
    pub(super) async fn settle(&mut self, number: i64) -> Result<bool, CommitError> {
        self.disconnect();
        self.reconnect(IN_DOUBT, Failure::Unknown).await?;
        Ok(self.committed >= number)
    }

    /// Connects until it works, with the lock, and finds out what is committed.
    async fn reconnect(&mut self, patience: Duration, failure: Failure) -> Result<(), CommitError> {
        let deadline = Instant::now() + patience;
        let mut pause = Duration::from_millis(20);
        tracing::warn!(address = %self.address, "the connection to the database is lost; connecting again");
        loop {
            let error = match self.try_reconnect().await {
                Ok(true) => {
                    tracing::info!(address = %self.address, "connected to the database again");
                    return Ok(());
                }
                Ok(false) => StoreError::Locked(format!("{} is in use by another server", self.address)),
                Err(Reconnect::Lost(epoch)) => return Err(self.lost(epoch)),
                Err(Reconnect::Failed(error)) => describe(&self.address, &error),
            };
            if Instant::now() >= deadline {
                return Err(CommitError { error, failure });
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(Duration::from_secs(1)),
                // Nobody waits for long when the process is to end; what is in doubt nobody has seen.
                () = self.tasks.cancelled() => return Err(CommitError { error, failure }),
            }
        }
    }

    async fn try_reconnect(&mut self) -> Result<bool, Reconnect> {
        let mut connection = connect(&self.address).await?;
        self.check_epoch(&mut connection).await?;
        if !lock(&mut connection).await? {
            self.end_previous(&mut connection).await?;
            return Ok(false);
        }
        // With the lock: what the connection before was told is done or will never be.
        self.committed = self.check_epoch(&mut connection).await?;
        durability(&mut connection).await?;
        self.backend = backend(&mut connection).await?;
        self.used = Instant::now();
        self.connection = Some(connection);
        Ok(true)
    }

    /// Still the owner? Returns what is committed.
    async fn check_epoch(&self, connection: &mut PgConnection) -> Result<i64, Reconnect> {
        let row = sqlx::query("SELECT epoch, committed FROM owner").fetch_one(connection).await?;
        let epoch: i64 = row.get(0);
        if epoch == self.epoch { Ok(row.get(1)) } else { Err(Reconnect::Lost(epoch)) }
    }

    /// Ends the server's side of the connection before, when it has not noticed yet that we are gone.
    async fn end_previous(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        sqlx::query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start::text = $2",
        )
        .bind(self.backend.pid)
        .bind(&self.backend.started)
        .fetch_optional(connection)
        .await
        .map(drop)
    }

    /// Another server owns the database.
    pub(super) fn lost(&self, epoch: i64) -> CommitError {
        CommitError { error: taken_over(&self.address.to_string(), self.epoch, epoch), failure: Failure::Lost }
    }

    pub(super) async fn close(mut self) -> Result<(), StoreError> {
        let Some(connection) = self.connection.take() else { return Ok(()) };
        connection.close().await.map_err(|e| describe(&self.address, &e))
    }
}

/// What a server is told that has been replaced.
pub(super) fn taken_over(address: &str, ours: i64, theirs: i64) -> StoreError {
    StoreError::Locked(format!(
        "another server has taken {address} over (epoch {theirs} after {ours}); this one has ended: start it again to wait for its turn"
    ))
}

/// Waits for an answer, but not for ever: a machine that is gone does not close its connections.
pub(super) async fn answered<T>(future: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    tokio::time::timeout(ANSWER, future).await.unwrap_or_else(|_| {
        let silent = std::io::Error::new(std::io::ErrorKind::TimedOut, format!("no answer for {ANSWER:?}"));
        Err(sqlx::Error::Io(silent))
    })
}

enum Reconnect {
    /// The epoch of another owner.
    Lost(i64),
    Failed(sqlx::Error),
}

impl From<sqlx::Error> for Reconnect {
    fn from(error: sqlx::Error) -> Self {
        Self::Failed(error)
    }
}

async fn connect(address: &PostgresAddress) -> Result<PgConnection, sqlx::Error> {
    answered(address.writing().connect()).await
}

async fn lock(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("SELECT pg_try_advisory_lock($1)").bind(LOCK).fetch_one(connection).await
}

/// Who has the lock, for people.
async fn holder(connection: &mut PgConnection) -> Result<String, sqlx::Error> {
    let row = sqlx::query(
        "SELECT a.application_name, a.pid, coalesce(host(a.client_addr), 'the same machine') FROM pg_locks l
         JOIN pg_stat_activity a ON a.pid = l.pid
         WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
           AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
           AND l.classid::bigint = $1 >> 32 AND l.objid::bigint = $1 & 4294967295",
    )
    .bind(LOCK)
    .fetch_optional(connection)
    .await?;
    Ok(row.map_or_else(
        || "another server".to_owned(),
        |row| {
            let (name, pid, host): (String, i32, String) = (row.get(0), row.get(1), row.get(2));
            format!("`{name}` on {host} (backend {pid} of Postgres)")
        },
    ))
}

async fn backend(connection: &mut PgConnection) -> Result<Backend, sqlx::Error> {
    let row = sqlx::query("SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()")
        .fetch_one(connection)
        .await?;
    Ok(Backend { pid: row.get(0), started: row.get(1) })
}

/// An acknowledged commit must be on the disk. Returns what is wrong with the server in that respect.
async fn durability(connection: &mut PgConnection) -> Result<Option<&'static str>, sqlx::Error> {
    let row = sqlx::query("SELECT current_setting('synchronous_commit'), current_setting('fsync')")
        .fetch_one(&mut *connection)
        .await?;
    if row.get::<&str, _>(0) == "off" {
        sqlx::raw_sql("SET synchronous_commit = on").execute(connection).await?;
    }
    let unsafe_server = row.get::<&str, _>(1) == "off";
    Ok(unsafe_server.then_some("the server runs with fsync = off: what it acknowledges is lost when its machine fails"))
}
