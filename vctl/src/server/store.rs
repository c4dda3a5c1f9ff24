//! Where a server keeps its documents, as the options of `vctl up` say.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use vctl_runtime::tasks::Tasks;
use vctl_store::{
    Backup, DirectoryLock, EncryptionKeys, PostgresAddress, PostgresStore, SqliteStore, Store, StoreError,
    StoreOptions, Tenant,
};

use super::data_dir::DataDir;

/// How long the command gets that prints the keys.
const KEY_COMMAND_LIMIT: Duration = Duration::from_mins(1);

// No doc comment: it would become the help text of whoever flattens it in.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Postgres database for everything that the server keeps: postgres://USER@HOST:PORT/DATABASE. Better in VCTL_STORE or with
    /// PGPASSWORD when it has a password: others can see arguments [default: SQLite in the data directory]
    // Text, and parsed by us: the error of a parser of arguments would show the password, and the help the variable's value.
    #[arg(long, env = "VCTL_STORE", value_name = "URL", hide_env_values = true)]
    store: Option<Secret>,
    /// Encrypt everything that the server keeps with the key in this file: 32 bytes in base64, as `openssl rand -base64 32` prints.
    /// For another key put the new one first, on a line of its own or with this option again; then `vctl reencrypt`
    #[arg(long, env = "VCTL_ENCRYPTION_KEY_FILE", value_name = "FILE", value_delimiter = ',')]
    encryption_key_file: Vec<PathBuf>,
    /// Encrypt everything that the server keeps with the key that this shell command prints within a minute, in the form of such a file
    #[arg(long, env = "VCTL_ENCRYPTION_KEY_COMMAND", value_name = "COMMAND")]
    encryption_key_command: Option<String>,
    /// Fill the empty store from a file that `vctl backup` wrote; ignored once the store is not empty
    #[arg(long, value_name = "FILE")]
    restore: Option<PathBuf>,
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
    Postgres(Box<PostgresAddress>),
}

/// What [`StoreArgs`] say, checked.
pub(crate) struct StoreSettings {
    place: Place,
    encryption: Option<EncryptionKeys>,
    restore: Option<PathBuf>,
}

/// An open store, and the data directory taken for this process.
pub(crate) struct OpenStore {
    pub(crate) store: Arc<dyn Store>,
    /// The SQLite store has its own.
    lock: Option<DirectoryLock>,
}

impl StoreArgs {
    /// Checks the options, before anything is made or bound. It waits for whoever gives the keys; dropped, it ends their command.
    pub(crate) async fn settings(&self) -> Result<StoreSettings> {
        let place = match self.store.as_ref().map(|s| s.0.as_str()) {
            None | Some("" | "sqlite") => Place::Sqlite,
            Some(text) if PostgresAddress::is_one(text) => Place::Postgres(Box::new(text.parse()?)),
            Some(_) => bail!(
                "--store (or VCTL_STORE) must begin with postgres://; leave it out for SQLite in the data directory"
            ),
        };
        Ok(StoreSettings { place, encryption: self.keys().await?, restore: self.restore.clone() })
    }

    /// The keys: those of the files in their order, then those of the command.
    async fn keys(&self) -> Result<Option<EncryptionKeys>, StoreError> {
        let mut all = Vec::new();
        for path in &self.encryption_key_file {
            all.push(EncryptionKeys::from_file(path).await?);
        }
        if let Some(command) = &self.encryption_key_command {
            all.push(EncryptionKeys::from_command(command, KEY_COMMAND_LIMIT).await?);
        }
        Ok(all.into_iter().reduce(EncryptionKeys::and))
    }
}

impl StoreSettings {
    /// Opens the store, and takes the data directory for this process.
    pub(crate) async fn open(&self, data: &DataDir, tasks: &Tasks) -> Result<OpenStore> {
        // A file that cannot be used is told before the store is touched.
        let backup = match self.restore.clone() {
            // It may be large.
            Some(path) => Some(tokio::task::spawn_blocking(move || read_backup(&path)).await??),
            None => None,
        };
        let opened = self.open_store(data, tasks).await?;
        if let Some(backup) = backup
            && let Err(error) = fill(&*opened.store, &backup).await
        {
            opened.close().await?;
            return Err(error);
        }
        Ok(opened)
    }

    async fn open_store(&self, data: &DataDir, tasks: &Tasks) -> Result<OpenStore> {
        let options = StoreOptions { encryption: self.encryption.clone(), ..StoreOptions::default() };
        if let Some(keys) = &self.encryption {
            tracing::info!(keys = keys.ids().join(", "), "what is kept is encrypted with the first of these keys");
        }
        match &self.place {
            Place::Sqlite => {
                let store = SqliteStore::open_with(data.root(), tasks, options).await?;
                Ok(OpenStore { store: Arc::new(store), lock: None })
            }
            Place::Postgres(address) => {
                let lock = DirectoryLock::take(data.root())?;
                let store = PostgresStore::open_with(address, tasks, options).await?;
                tracing::info!(database = %address, "documents are in Postgres");
                Ok(OpenStore { store: Arc::new(store), lock: Some(lock) })
            }
        }
    }
}

fn read_backup(path: &Path) -> Result<Backup> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Backup::decode(&bytes.into()).with_context(|| path.display().to_string())
}

/// Puts everything of a backup into an empty store. The platform's own documents come last: a store that was filled in part is
/// filled on at the next start.
async fn fill(store: &dyn Store, backup: &Backup) -> Result<()> {
    if store.revision(Tenant::SYSTEM).await? > 0 {
        tracing::info!("the store is not empty: nothing is restored");
        return Ok(());
    }
    let (system, clusters): (Vec<_>, Vec<_>) = backup.tenants.iter().partition(|t| t.name.is_empty());
    for cluster in &clusters {
        store.restore_tenant(&cluster.name, cluster.writes(), cluster.export.revision, true).await?;
    }
    let documents: Vec<_> = system.iter().flat_map(|t| t.writes()).collect();
    if documents.is_empty() {
        bail!(
            "there is nothing of the platform in this backup: give a file that `vctl backup` wrote, not one of `vctl snapshot`"
        );
    }
    store.transact(Tenant::SYSTEM, documents).await?;
    tracing::info!(clusters = clusters.len(), "the store is filled from the backup");
    Ok(())
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

    fn args(store: &str) -> StoreArgs {
        let store = Some(Secret(store.to_owned()));
        StoreArgs { store, encryption_key_file: Vec::new(), encryption_key_command: None, restore: None }
    }

    async fn settings(store: &str) -> Result<StoreSettings> {
        args(store).settings().await
    }

    #[tokio::test]
    async fn a_wrong_store_is_told_without_its_password() {
        for wrong in ["mysql://me:hidden@db/vctl", "postgres://me:hidden@db:port/vctl", "/some/file"] {
            let Err(error) = settings(wrong).await else { panic!("{wrong} was taken") };
            assert!(
                format!("{error:#}").contains("postgres://") && !format!("{error:#?}").contains("hidden"),
                "{error:#?}"
            );
        }
        assert!(!format!("{:?}", args("postgres://me:hidden@db/vctl")).contains("hidden"));
        assert!(matches!(settings("postgres://me:hidden@db/vctl").await.map(|s| s.place), Ok(Place::Postgres(_))));
        assert!(matches!(settings("").await.map(|s| s.place), Ok(Place::Sqlite)));
    }

    #[tokio::test]
    async fn the_first_key_comes_from_the_first_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = |name: &str, letter: &str| {
            let path = directory.path().join(name);
            // 43 letters and the padding are 32 bytes, when the last one ends in zeros.
            std::fs::write(&path, format!("{}=\n", letter.repeat(43))).expect("written");
            path
        };
        let [a, b, c] = [file("a", "A"), file("b", "Q"), file("c", "g")];
        let command = format!("cat {}", c.display());
        let settings = StoreArgs {
            encryption_key_file: vec![b.clone(), a.clone()],
            encryption_key_command: Some(command),
            ..args("")
        };
        let ids = settings.settings().await.expect("valid").encryption.expect("keys").ids();
        let mut wanted = Vec::new();
        for path in [&b, &a, &c] {
            wanted.extend(EncryptionKeys::from_file(path).await.expect("a key").ids());
        }
        assert_eq!(ids, wanted);
        let wrong = StoreArgs { encryption_key_file: vec![directory.path().join("none")], ..args("") };
        assert!(wrong.settings().await.is_err());
    }

    #[tokio::test]
    async fn an_empty_store_is_filled_and_another_one_left_alone() {
        use vctl_store::{Key, MemoryStore, Write};
        let from = MemoryStore::new();
        let write = |name: &str| vec![Write::create(Key::new("things", "", name), name.to_owned())];
        from.transact(Tenant::SYSTEM, write("platform")).await.expect("written");
        let tenant = from.create_tenant("demo", write("a")).await.expect("created");
        let mut tenants = Vec::new();
        for (tenant, name) in [(Tenant::SYSTEM, ""), (tenant, "demo")] {
            let export = from.export(tenant).await.expect("exported");
            tenants.push(vctl_store::TenantBackup { name: name.to_owned(), export });
        }
        let backup = Backup { tenants };
        let to = MemoryStore::new();
        for _ in 0..2 {
            fill(&to, &backup).await.expect("filled");
            assert_eq!(to.revision(Tenant::SYSTEM).await.expect("revision"), 1);
            assert_eq!(to.tenants().await.expect("tenants").len(), 1);
        }
        let found = to.tenant("demo").await.expect("read").expect("there");
        assert_eq!(to.export(found.tenant).await.expect("exported").entries.len(), 1);
        assert!(found.revision > 1, "above what was seen of it");
        let part = backup.only("demo");
        let snapshot = Backup { tenants: part.tenants.into_iter().filter(|t| !t.name.is_empty()).collect() };
        assert!(fill(&MemoryStore::new(), &snapshot).await.is_err());
    }
}
