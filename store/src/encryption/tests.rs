use std::{path::Path, time::Duration};

use vctl_runtime::tasks::Tasks;

use super::{cipher::Place, *};
use crate::{Key, Scope, SqliteStore, Store, StoreOptions, Tenant, Write, postgres::testing::Server};

const SECRET: &str = "correct-horse-battery-staple";
const SYSTEM: Tenant = Tenant::SYSTEM;

/// A line with a key.
fn line(seed: u8) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode([seed; 32])
}

fn keys(seeds: &[u8]) -> EncryptionKeys {
    let text: Vec<_> = seeds.iter().map(|s| line(*s)).collect();
    EncryptionKeys::parse(&text.join("\n"), "a test").unwrap()
}

fn options(seeds: &[u8]) -> StoreOptions {
    let encryption = (!seeds.is_empty()).then(|| keys(seeds));
    StoreOptions { encryption, maintenance: Duration::from_hours(1), ..StoreOptions::default() }
}

async fn open(directory: &Path, seeds: &[u8]) -> Result<SqliteStore, StoreError> {
    SqliteStore::open_with(directory, &Tasks::new(), options(seeds)).await
}

fn secret(name: &str) -> Key {
    Key::new("secrets", "default", name)
}

async fn write(store: &dyn Store, name: &str) {
    let value = format!("{{\"data\":\"{SECRET}\",\"pad\":\"{}\"}}", "x".repeat(6000));
    store.transact(SYSTEM, vec![Write::put(secret(name), value)]).await.unwrap();
}

async fn read(store: &dyn Store, name: &str) -> Result<String, StoreError> {
    let (entry, _) = store.get(SYSTEM, &secret(name)).await?;
    Ok(String::from_utf8(entry.unwrap().value.to_vec()).unwrap())
}

/// Files below a directory that contain a text.
fn files_with(directory: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if let Ok(bytes) = std::fs::read(&path)
            && bytes.windows(text.len()).any(|w| w == text.as_bytes())
        {
            found.push(path.display().to_string());
        }
    }
    found
}

#[tokio::test]
async fn the_secret_never_reaches_the_files() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), &[1]).await.unwrap();
    write(&store, "a").await;
    write(&store, "a").await;
    store.create_tenant("demo", vec![Write::create(secret("a"), SECRET)]).await.unwrap();
    // While it runs, its write-ahead log included, and afterwards.
    assert_eq!(files_with(directory.path(), SECRET), Vec::<String>::new());
    assert!(!files_with(directory.path(), "secrets").is_empty(), "names are readable: the right files were looked at");
    store.close().await.unwrap();
    assert_eq!(files_with(directory.path(), SECRET), Vec::<String>::new());
    let store = open(directory.path(), &[1]).await.unwrap();
    assert!(read(&store, "a").await.unwrap().contains(SECRET));
    // History too.
    let mut watch = store.watch(SYSTEM, Scope::all("secrets"), 0).await.unwrap();
    let events = watch.next().await.unwrap();
    assert!(events[0].value.as_ref().unwrap().windows(SECRET.len()).any(|w| w == SECRET.as_bytes()));
}

#[tokio::test]
async fn a_wrong_or_missing_key_is_told_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    open(directory.path(), &[1]).await.unwrap().close().await.unwrap();
    let id = keys(&[1]).ids().remove(0);
    for (seeds, says) in [(&[][..], "--encryption-key-file"), (&[2][..], "not among")] {
        let Err(StoreError::Unusable(text)) = open(directory.path(), seeds).await.map(drop) else {
            panic!("{seeds:?}")
        };
        assert!(text.contains(says) && text.contains(&id) && !text.contains(&line(1)), "{text}");
    }
    open(directory.path(), &[2, 1]).await.unwrap().close().await.unwrap();
}

#[tokio::test]
async fn keys_are_rotated() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), &[1]).await.unwrap();
    write(&store, "old").await;
    store.close().await.unwrap();
    // The new one writes, both read.
    let store = open(directory.path(), &[2, 1]).await.unwrap();
    assert!(read(&store, "old").await.unwrap().contains(SECRET));
    write(&store, "new").await;
    store.close().await.unwrap();
    for one in [&[1][..], &[2][..]] {
        assert!(open(directory.path(), one).await.is_err(), "both are needed");
    }
    let store = open(directory.path(), &[2, 1]).await.unwrap();
    let mut watch = store.watch(SYSTEM, Scope::all("secrets"), 0).await.unwrap();
    assert_eq!(store.reencrypt().await.unwrap(), 1);
    assert_eq!(store.reencrypt().await.unwrap(), 0, "nothing is left to do");
    assert_eq!(watch.next().await.unwrap().len(), 2);
    store.close().await.unwrap();
    // The old one is not needed any more.
    let store = open(directory.path(), &[2]).await.unwrap();
    for name in ["old", "new"] {
        assert!(read(&store, name).await.unwrap().contains(SECRET));
    }
    assert_eq!(store.revision(SYSTEM).await.unwrap(), 2, "to encrypt anew is no change of a document");
}

#[tokio::test]
async fn a_store_that_was_plain_is_encrypted_whole() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), &[]).await.unwrap();
    for i in 0..50 {
        write(&store, &i.to_string()).await;
    }
    for i in 0..50 {
        store.transact(SYSTEM, vec![Write::delete(secret(&i.to_string()), crate::Expect::Any)]).await.unwrap();
    }
    write(&store, "a").await;
    store.compact(SYSTEM, 100).await.unwrap();
    assert!(!files_with(directory.path(), SECRET).is_empty());
    assert!(matches!(store.reencrypt().await, Err(StoreError::Unusable(_))));
    store.close().await.unwrap();
    let store = open(directory.path(), &[1]).await.unwrap();
    assert!(read(&store, "a").await.unwrap().contains(SECRET), "what is plain is still read");
    assert!(store.reencrypt().await.unwrap() >= 1);
    assert_eq!(files_with(directory.path(), SECRET), Vec::<String>::new(), "also not in pages that are unused by now");
    assert!(read(&store, "a").await.unwrap().contains(SECRET));
    store.close().await.unwrap();
    assert_eq!(files_with(directory.path(), SECRET), Vec::<String>::new());
}

#[tokio::test]
async fn the_secret_never_reaches_the_files_of_postgres() {
    let server = Server::start();
    let address = server.database().await;
    let store = crate::PostgresStore::open_with(&address, &Tasks::new(), options(&[1])).await.unwrap();
    write(&store, "a").await;
    assert!(read(&store, "a").await.unwrap().contains(SECRET));
    store.close().await.unwrap();
    let refused = crate::PostgresStore::open_with(&address, &Tasks::new(), options(&[])).await.map(drop);
    assert!(matches!(refused, Err(StoreError::Unusable(_))), "{refused:?}");
    let store = crate::PostgresStore::open_with(&address, &Tasks::new(), options(&[2, 1])).await.unwrap();
    assert_eq!(store.reencrypt().await.unwrap(), 1);
    store.close().await.unwrap();
    let store = crate::PostgresStore::open_with(&address, &Tasks::new(), options(&[2])).await.unwrap();
    assert!(read(&store, "a").await.unwrap().contains(SECRET));
    let mut beside = crate::postgres::testing::beside(&address).await;
    sqlx::raw_sql("CHECKPOINT").execute(&mut beside).await.unwrap();
    assert_eq!(files_with(&server.data(), SECRET), Vec::<String>::new());
    assert!(!files_with(&server.data(), "secrets").is_empty(), "names are readable: the right files were looked at");
}

fn place(key: &Key, revision: u64) -> Place<'_> {
    Place { tenant: Tenant(3), key, revision }
}

#[test]
fn a_value_opens_only_where_it_belongs_and_whole() {
    let cipher = Cipher::new(&keys(&[1])).unwrap();
    let key = secret("a");
    let sealed = cipher.seal(place(&key, 5), b"value").unwrap();
    assert_ne!(sealed, cipher.seal(place(&key, 5), b"value").unwrap(), "never the same bytes");
    // Another process opens it, with the same key among others.
    let other = Cipher::new(&keys(&[2, 1])).unwrap();
    for cipher in [&cipher, &other, &other] {
        assert_eq!(cipher.open(place(&key, 5), sealed.clone()).unwrap(), "value");
        assert!(cipher.open(place(&key, 6), sealed.clone()).is_err(), "another revision");
        assert!(cipher.open(place(&secret("b"), 5), sealed.clone()).is_err(), "another document");
        let elsewhere = Place { tenant: Tenant(4), ..place(&key, 5) };
        assert!(cipher.open(elsewhere, sealed.clone()).is_err(), "another tenant");
    }
    for position in 4..sealed.len() {
        let mut changed = sealed.to_vec();
        changed[position] ^= 1;
        assert!(other.open(place(&key, 5), changed.into()).is_err(), "byte {position}");
    }
    assert!(other.open(place(&key, 5), sealed.slice(..40)).is_err());
    assert_eq!(cipher.open(place(&key, 5), "{}".into()).unwrap(), "{}", "what was never sealed stays as it is");
    let error = Cipher::new(&keys(&[2])).unwrap().open(place(&key, 5), sealed).unwrap_err().to_string();
    assert!(error.contains(&keys(&[1]).ids()[0]), "{error}");
}

#[tokio::test]
async fn keys_come_from_files_and_commands() {
    let limit = Duration::from_secs(30);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys");
    std::fs::write(&file, format!("# newest first\n{}\n\n{}\n", line(2), line(1))).unwrap();
    let found = EncryptionKeys::from_file(&file).await.unwrap();
    assert_eq!(found.ids(), keys(&[2, 1]).ids());
    let printed = EncryptionKeys::from_command(&format!("cat {}", file.display()), limit).await.unwrap();
    assert_eq!(printed.ids(), found.ids());
    assert_eq!(keys(&[3, 1]).and(found).ids(), keys(&[3, 1, 2]).ids());
    std::fs::write(&file, "hunter2\n").unwrap();
    let wrong = EncryptionKeys::from_file(&file).await.unwrap_err().to_string();
    assert!(wrong.contains("line 1") && wrong.contains("openssl rand") && !wrong.contains("hunter2"), "{wrong}");
    std::fs::write(&file, "# nothing\n").unwrap();
    assert!(EncryptionKeys::from_file(&file).await.unwrap_err().to_string().contains("no key"));
    let missing = EncryptionKeys::from_file(&directory.path().join("missing")).await.unwrap_err().to_string();
    assert!(missing.contains("missing") && missing.contains("--encryption-key-file"), "{missing}");
    let failed = EncryptionKeys::from_command("echo no vault >&2; exit 3", limit).await.unwrap_err().to_string();
    assert!(failed.contains("no vault") && failed.contains("--encryption-key-command"), "{failed}");
    let hangs =
        EncryptionKeys::from_command("exec sleep 1000", Duration::from_millis(50)).await.unwrap_err().to_string();
    assert!(hangs.contains("did not end within") && hangs.contains("--encryption-key-command"), "{hangs}");
    assert!(!format!("{:?}", keys(&[1])).contains(&line(1)));
}
