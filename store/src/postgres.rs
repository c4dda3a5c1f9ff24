//! The store in a Postgres database. Only what SQL there is lives here: deciding, caching and watching are the engine's.
//!
//! * One server owns the database at a time: its writing connection holds an advisory lock, and it has counted up `owner.epoch`.
//!   Every transaction that writes checks the epoch in its own statement, so that a server that has been replaced without noticing
//!   cannot write, whatever became of its lock.
//! * Every group commit carries a number, kept in the same row. When the connection breaks while one is under way, the number says
//!   after reconnecting whether it is there; so nothing acknowledged is lost and no revision given out twice.
//! * NOTIFY tells a replaced server early. It is a hint: correctness does not depend on it.
//!
//! Everything is in the schema `vctl` of the database. The connection must be a session of its own: a pooler that shares
//! sessions between transactions cannot be in between.

mod address;
mod failure;
mod journal;
mod owner;
mod reader;
mod schema;
mod statements;
mod takeover;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use vctl_runtime::tasks::Tasks;

pub use crate::postgres::address::PostgresAddress;
use crate::{
    StoreError, StoreOptions,
    engine::{Engine, Opened, delegate::store_over_engine},
    postgres::{journal::PostgresJournal, owner::Owner, reader::PostgresReader},
};

/// A store in a Postgres database.
pub struct PostgresStore {
    engine: Engine,
    tasks: Tasks,
}

impl PostgresStore {
    /// Opens the store in a database, and creates its tables at the first time. The database is this process's until the store is
    /// closed or the process ends.
    ///
    /// When the connection is lost, or Postgres restarts, it connects again; until then writes wait, and then fail.
    ///
    /// The store ends with [`crate::Store::close`], when the tasks are stopped, or when another server takes the database over
    /// ([`crate::Store::ended`] tells). Give it tasks that are stopped after those that write.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another server has the database, [`StoreError::Unusable`] when its tables are from a newer
    /// version, [`StoreError::Backend`] when it cannot be reached, read or written.
    pub async fn open(address: &PostgresAddress, tasks: &Tasks) -> Result<Self, StoreError> {
        Self::open_with(address, tasks, StoreOptions::default()).await
    }

    /// [`PostgresStore::open`] with options.
    ///
    /// # Errors
    /// The same.
    pub async fn open_with(
        address: &PostgresAddress,
        tasks: &Tasks,
        options: StoreOptions,
    ) -> Result<Self, StoreError> {
        let tasks = tasks.child();
        let (owner, known) = Owner::take(address.clone(), tasks.clone()).await?;
        let epoch = owner.epoch();
        let reader = PostgresReader::open(address);
        let pool = reader.pool();
        let opened = Opened {
            reader: Arc::new(reader),
            journal: Box::new(PostgresJournal::new(owner)),
            tenants: known.tenants,
            next_tenant: known.next_tenant,
            tenant_limit: i32::MAX as u32,
            keys: known.keys,
        };
        let engine = Engine::open(opened, &tasks, options).await?;
        tasks.spawn_until_stopped("store-takeover", takeover::watch(pool, epoch, engine.shared()));
        Ok(Self { engine, tasks })
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

impl Drop for PostgresStore {
    fn drop(&mut self) {
        // Its connections go with it.
        self.tasks.stop();
    }
}

store_over_engine!(PostgresStore);
