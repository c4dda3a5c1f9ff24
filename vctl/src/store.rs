//! Where a server keeps its documents, as the options of `vctl up` say.

use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Args;
use vctl_runtime::tasks::Tasks;
use vctl_store::{DirectoryLock, PostgresAddress, PostgresStore, SqliteStore, Store};

use crate::data_dir::DataDir;

// No doc comment: it would become the help text of whoever flattens it in.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Postgres database for everything that the server keeps: postgres://USER@HOST:PORT/DATABASE. Better in VCTL_STORE or with
    /// PGPASSWORD when it has a password: others can see arguments [default: SQLite in the data directory]
    // Text, and parsed by us: the error of a parser of arguments would show the password, and the help the variable's value.
    #[arg(long, env = "VCTL_STORE", value_name = "URL", hide_env_values = true)]
    store: Option<Secret>,
}

/// An argument that is not shown.
#[derive(Clone)]
struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(not shown)")
    }
}

impl std::str::FromStr for Secret {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

/// Where the documents are.
enum Place {
    /// In the data directory.
    Sqlite,
    Postgres(PostgresAddress),
}

/// What [`StoreArgs`] say, checked.
pub(crate) struct StoreSettings {
    place: Place,
}

/// An open store, and the data directory taken for this process.
pub(crate) struct OpenStore {
    pub(crate) store: Arc<dyn Store>,
    /// The SQLite store has its own.
    lock: Option<DirectoryLock>,
}

impl StoreArgs {
    /// Checks the options, before anything is made or bound.
    pub(crate) fn settings(&self) -> Result<StoreSettings> {
        let place = match self.store.as_ref().map(|s| s.0.as_str()) {
            None | Some("" | "sqlite") => Place::Sqlite,
            Some(text) if PostgresAddress::is_one(text) => Place::Postgres(text.parse()?),
            Some(_) => bail!(
                "--store (or VCTL_STORE) must begin with postgres://; leave it out for SQLite in the data directory"
            ),
        };
        Ok(StoreSettings { place })
    }
}

impl StoreSettings {
    /// Opens the store, and takes the data directory for this process.
    pub(crate) async fn open(&self, data: &DataDir, tasks: &Tasks) -> Result<OpenStore> {
        match &self.place {
            Place::Sqlite => {
                let store = SqliteStore::open(data.root(), tasks).await?;
                Ok(OpenStore { store: Arc::new(store), lock: None })
            }
            Place::Postgres(address) => {
                let lock = DirectoryLock::take(data.root())?;
                let store = PostgresStore::open(address, tasks).await?;
                tracing::info!(database = %address, "documents are in Postgres");
                Ok(OpenStore { store: Arc::new(store), lock: Some(lock) })
            }
        }
    }
}

impl OpenStore {
    /// Closes the store and gives the data directory up.
    pub(crate) async fn close(self) -> Result<()> {
        let closed = self.store.close().await;
        if let Some(lock) = self.lock {
            lock.release()?;
        }
        Ok(closed?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(store: &str) -> Result<StoreSettings> {
        StoreArgs { store: Some(store.parse()?) }.settings()
    }

    #[test]
    fn a_wrong_store_is_told_without_its_password() {
        for wrong in ["mysql://me:hidden@db/vctl", "postgres://me:hidden@db:port/vctl", "/some/file"] {
            let Err(error) = settings(wrong) else { panic!("{wrong} was taken") };
            assert!(
                format!("{error:#}").contains("postgres://") && !format!("{error:#?}").contains("hidden"),
                "{error:#?}"
            );
        }
        let args = StoreArgs { store: Some(Secret("postgres://me:hidden@db/vctl".to_owned())) };
        assert!(!format!("{args:?}").contains("hidden"));
        assert!(matches!(settings("postgres://me:hidden@db/vctl").map(|s| s.place), Ok(Place::Postgres(_))));
        assert!(matches!(settings("").map(|s| s.place), Ok(Place::Sqlite)));
    }
}
