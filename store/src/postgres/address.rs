use std::{fmt, str::FromStr};

use sqlx::{ConnectOptions, postgres::PgConnectOptions};

use crate::StoreError;

/// Where a database is and how to sign in: a URL `postgres://user:password@host:port/database`, with the parameters of libpq
/// (`sslmode`, `sslrootcert`, `host` for the directory of a socket). What it leaves out comes from the environment (`PGHOST`,
/// `PGPASSWORD`, ..) and from `~/.pgpass`. It prints without the password.
#[derive(Clone)]
pub struct PostgresAddress {
    pub(super) options: PgConnectOptions,
    shown: String,
}

impl PostgresAddress {
    /// Whether a text is meant as one.
    pub fn is_one(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }
}

impl FromStr for PostgresAddress {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        // The reasons of the parsers name the part that is wrong, never the password.
        let wrong = |reason: &dyn fmt::Display| {
            StoreError::Unusable(format!(
                "the address of the database is not valid ({reason}); write postgres://USER:PASSWORD@HOST:PORT/DATABASE, with special \
                 characters percent-encoded"
            ))
        };
        if !Self::is_one(text) {
            return Err(wrong(&"it does not begin with postgres://"));
        }
        let url = url::Url::parse(text).map_err(|e| wrong(&e))?;
        let options = PgConnectOptions::from_str(text).map_err(|e| wrong(&e))?;
        let database = options.get_database().unwrap_or(options.get_username());
        let place = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        let shown = format!("postgres://{}@{place}/{database}", options.get_username());
        if url.query_pairs().any(|(key, _)| key == "password") {
            // It would work, but it is also the place that others log.
            return Err(wrong(&"put the password before the host, or into PGPASSWORD"));
        }
        let options = options
            .application_name(&format!("vctl {}", std::process::id()))
            .options([
                ("search_path", "vctl"),
                // The server finds out soon that this process is gone with its machine, and frees what it holds.
                ("tcp_keepalives_idle", "10"),
                ("tcp_keepalives_interval", "5"),
                ("tcp_keepalives_count", "3"),
                ("idle_in_transaction_session_timeout", "30s"),
            ])
            .disable_statement_logging();
        Ok(Self { options, shown })
    }
}

impl PostgresAddress {
    /// For the connection that writes. Its statements find rows by their keys and are planned once, at first of empty tables: what is the
    /// cheapest then, to read a table whole, would cost more with every row that is written, until something has the plan made anew.
    pub(super) fn writing(&self) -> PgConnectOptions {
        self.options.clone().options([
            ("plan_cache_mode", "force_generic_plan"),
            ("enable_seqscan", "off"),
            ("enable_bitmapscan", "off"),
            ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"),
            // The one row of `owner` has no key: to read it counts as dear, which is no reason to compile anything.
            ("jit", "off"),
        ])
    }

    /// For connections that read, seldom and very different amounts: planned each time, of the tables as they are.
    pub(super) fn reading(&self) -> PgConnectOptions {
        self.options.clone().options([("plan_cache_mode", "force_custom_plan")])
    }
}

impl fmt::Display for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresAddress").field(&self.shown).finish()
    }
}
