use std::fs;

use sqlx::{Connection, SqliteConnection};

use super::*;
use crate::{Key, StoreError, Write};

async fn written() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await;
    let writes = (0..200).map(|i| Write::create(Key::new("pods", "default", &i.to_string()), vec![b'x'; 1000]));
    store.transact(SYSTEM, writes.collect()).await.unwrap();
    store.close().await.unwrap();
    directory
}

async fn refusal(directory: &Path) -> StoreError {
    match SqliteStore::open_with(directory, &Tasks::new(), options()).await {
        Err(error) => error,
        // The part that is missing may only be read later.
        Ok(store) => store.list(SYSTEM, crate::ListOptions::newest(Scope::all("pods"))).await.unwrap_err(),
    }
}

#[track_caller]
fn unusable(error: StoreError, says: &[&str]) {
    let StoreError::Unusable(text) = &error else { panic!("{error:?}") };
    for part in says {
        assert!(text.contains(part), "{text:?} does not say {part:?}");
    }
}

#[tokio::test]
async fn a_directory_is_one_process_s_until_it_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await;
    let error = SqliteStore::open(directory.path(), &Tasks::new()).await.err();
    let Some(StoreError::Locked(text)) = error else { panic!("{error:?}") };
    assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
    store.close().await.unwrap();
    open(directory.path()).await.close().await.unwrap();
}

#[tokio::test]
async fn stopping_the_tasks_closes_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let tasks = Tasks::new();
    let store = SqliteStore::open(directory.path(), &tasks).await.unwrap();
    store.transact(SYSTEM, vec![Write::create(Key::new("pods", "", "a"), "x")]).await.unwrap();
    assert!(tasks.shutdown(Duration::from_secs(20)).await);
    assert!(matches!(store.revision(SYSTEM).await, Err(StoreError::Closed)));
    store.close().await.unwrap();
    assert_eq!(open(directory.path()).await.revision(SYSTEM).await.unwrap(), 1);
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_left_alone() {
    let directory = written().await;
    let path = directory.path().join("vctl.db");
    let mut connection = SqliteConnection::connect(&path.display().to_string()).await.unwrap();
    sqlx::raw_sql("PRAGMA user_version = 999").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    unusable(refusal(directory.path()).await, &["vctl.db", "format 999", "newer vctl"]);
}

#[tokio::test]
async fn a_file_of_another_application_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}?mode=rwc", directory.path().join("vctl.db").display());
    let mut connection = SqliteConnection::connect(&url).await.unwrap();
    sqlx::raw_sql("CREATE TABLE tenants (a)").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    unusable(refusal(directory.path()).await, &["vctl.db", "another application", "--data-dir"]);
}

#[tokio::test]
async fn a_truncated_file_is_refused() {
    for keep in [0, 50, 100, 4096, 40_000] {
        let directory = written().await;
        let path = directory.path().join("vctl.db");
        let file = fs::File::options().write(true).open(&path).unwrap();
        assert!(file.metadata().unwrap().len() > keep);
        file.set_len(keep).unwrap();
        unusable(refusal(directory.path()).await, &["vctl.db", "damaged", "backup"]);
    }
    // Within the last page.
    let directory = written().await;
    let file = fs::File::options().write(true).open(directory.path().join("vctl.db")).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    unusable(refusal(directory.path()).await, &["vctl.db", "damaged", "cut short"]);
}

#[tokio::test]
async fn garbage_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("vctl.db"), vec![b'g'; 10_000]).unwrap();
    unusable(refusal(directory.path()).await, &["vctl.db", "damaged"]);
}

#[tokio::test]
async fn a_file_left_half_made_is_made_again() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("vctl.db.new"), "half").unwrap();
    assert_eq!(open(directory.path()).await.revision(SYSTEM).await.unwrap(), 0);
}

#[tokio::test]
async fn a_place_that_cannot_be_a_directory_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "x").unwrap();
    let error = SqliteStore::open(&file, &Tasks::new()).await.err().unwrap().to_string();
    assert!(error.contains("file") && error.contains("permissions"), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_reads_the_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let check = || {
        let mut names = Vec::new();
        for entry in fs::read_dir(directory.path()).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{}", entry.path().display());
            names.push(entry.file_name());
        }
        assert!(names.iter().any(|n| n == "vctl.db-wal"), "{names:?}");
    };
    let store = open(directory.path()).await;
    store.transact(SYSTEM, vec![Write::create(Key::new("secrets", "", "a"), "x")]).await.unwrap();
    check();
    store.close().await.unwrap();
    // As earlier versions left it.
    fs::set_permissions(directory.path().join("vctl.db"), fs::Permissions::from_mode(0o644)).unwrap();
    let store = open(directory.path()).await;
    store.transact(SYSTEM, vec![Write::create(Key::new("secrets", "", "b"), "x")]).await.unwrap();
    check();
    store.close().await.unwrap();
}
