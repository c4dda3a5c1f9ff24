//! Failures of Postgres as ours. Codes: <https://www.postgresql.org/docs/current/errcodes-appendix.html>.

use crate::{StoreError, postgres::PostgresAddress};

/// Whether the connection is gone, or the server: another attempt may succeed.
pub(super) fn is_connection(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(error) => error.code().is_some_and(|code| {
            // Connection exceptions, shutdown, start, too many connections, and a server that has become a standby.
            code.starts_with("08") || code.starts_with("57P") || matches!(&*code, "53300" | "25006")
        }),
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::WorkerCrashed => true,
        _ => false,
    }
}

/// Whether the database says something else than what we know to be there: a row that we are about to write exists.
pub(super) fn contradicts(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|e| e.code()).is_some_and(|code| code.starts_with("23"))
}

/// What happened, and what to do.
pub(super) fn describe(address: &PostgresAddress, error: &sqlx::Error) -> StoreError {
    if matches!(error, sqlx::Error::PoolClosed) {
        return StoreError::Closed;
    }
    let code = error.as_database_error().and_then(|e| e.code());
    let advice = match code.as_deref() {
        Some("28P01" | "28000") => "check user and password, and pg_hba.conf of the server",
        Some("3D000") => "create the database first, with this user as its owner",
        Some("42501") => "let this user own the database, or create the schema vctl for it",
        Some("53100") => "the disk of the server is full: free some space",
        _ if is_connection(error) => "check that the server runs and can be reached",
        _ => "see also the server's log",
    };
    StoreError::backend(format!("{address}: {error}; {advice}"))
}
