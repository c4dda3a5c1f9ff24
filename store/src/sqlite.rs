//! The store in one SQLite file. Only what SQL there is lives here: deciding, caching and watching are the engine's.
//!
//! The file is `vctl.db` (with `-wal` and `-shm` beside it) in a directory that one process holds at a time, by a lock on
//! `vctl.lock`. It is in WAL mode with synchronous=FULL: a commit returns after the WAL has been synced.

mod file;
mod journal;
mod reader;
mod schema;
mod statements;

pub(crate) use file::DataFile;

use std::path::Path;

use vctl_runtime::tasks::Tasks;

use crate::{
    StoreError, StoreOptions,
    engine::{Engine, Opened, delegate::store_over_engine},
    sqlite::{journal::SqliteJournal, reader::SqliteReader},
};

/// A store in a SQLite file.
pub struct SqliteStore {
    engine: Engine,
}

impl SqliteStore {
    /// Opens the store in a directory, or creates it. The directory is this process's until the store is closed or the process
    /// ends, however it ends.
    ///
    /// The store ends with [`Store::close`], or when the tasks are stopped: what was begun is finished, and nothing more
    /// is taken. Give it tasks that are stopped after those that write.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process has the directory, [`StoreError::Unusable`] when the file is from a newer
    /// version, not ours, or damaged, [`StoreError::Backend`] when it cannot be read or written.
    pub async fn open(directory: &Path, tasks: &Tasks) -> Result<Self, StoreError> {
        Self::open_with(directory, tasks, StoreOptions::default()).await
    }

    /// [`SqliteStore::open`] with options.
    ///
    /// # Errors
    /// The same.
    pub async fn open_with(directory: &Path, tasks: &Tasks, options: StoreOptions) -> Result<Self, StoreError> {
        Self::start(DataFile::open(directory).await?, tasks, options).await
    }

    pub(crate) async fn start(mut file: DataFile, tasks: &Tasks, options: StoreOptions) -> Result<Self, StoreError> {
        let (tenants, next_tenant) = file.tenants().await?;
        let keys = file.keys().await?;
        if options.encryption.is_some() {
            file.overwrite_deleted().await?;
        }
        let reader = SqliteReader::open(&file);
        let opened = Opened {
            reader: std::sync::Arc::new(reader),
            journal: Box::new(SqliteJournal::new(file)),
            tenants,
            next_tenant,
            tenant_limit: schema::TENANT_LIMIT,
            keys,
        };
        Ok(Self { engine: Engine::open(opened, tasks, options).await? })
    }

    /// Compacts history that is due and gives back memory of what is idle. This happens by itself every
    /// [`StoreOptions::maintenance`]; tests call it.
    ///
    /// # Errors
    /// When a compaction cannot be written.
    pub async fn maintain(&self) -> Result<(), StoreError> {
        self.engine.maintain().await
    }
}

store_over_engine!(SqliteStore);
