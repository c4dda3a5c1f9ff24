//! Durable creates of 1 KiB per second, and what many tenants cost: `throughput [DIRECTORY | postgres://..] [SECONDS]`. With
//! `VCTL_ENCRYPTION_KEY_FILE` what is written is encrypted.
#![expect(clippy::print_stdout, reason = "it prints its figures")]

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use vctl_runtime::tasks::Tasks;
use vctl_store::{
    EncryptionKeys, Key, ListOptions, PostgresAddress, PostgresStore, Scope, SqliteStore, Store, StoreOptions, Write,
};

/// The first argument when it measures a start.
const REOPEN: &str = "--reopen";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if_eq(REOPEN).is_some() {
        return reopen(&arguments.next().map(PathBuf::from).ok_or("which directory?")?).await;
    }
    if let Some(url) = arguments.next_if(|text| PostgresAddress::is_one(text)) {
        let seconds = arguments.next().map_or(Ok(3), |s| s.parse())?;
        return postgres(&url.parse()?, Duration::from_secs(seconds)).await;
    }
    let directory = arguments.next().map_or_else(|| std::env::temp_dir().join("vctl-store-throughput"), PathBuf::from);
    let seconds = arguments.next().map_or(Ok(3), |s| s.parse())?;
    for writers in [1, 16, 64] {
        create(&directory.join(format!("w{writers}")), writers, Duration::from_secs(seconds)).await?;
    }
    tenants(&directory.join("tenants"), 2000).await?;
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}

async fn create(directory: &Path, writers: usize, duration: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let tasks = Tasks::new();
    let store = SqliteStore::open_with(directory, &tasks, options().await?).await?;
    measure(std::sync::Arc::new(store), &tasks, writers, duration).await
}

/// The same on a database of its own.
async fn postgres(address: &PostgresAddress, duration: Duration) -> Result<(), Box<dyn std::error::Error>> {
    for writers in [1, 16, 64] {
        let tasks = Tasks::new();
        let store = PostgresStore::open_with(address, &tasks, options().await?).await?;
        measure(std::sync::Arc::new(store), &tasks, writers, duration).await?;
    }
    Ok(())
}

async fn options() -> Result<StoreOptions, Box<dyn std::error::Error>> {
    let file = std::env::var_os("VCTL_ENCRYPTION_KEY_FILE");
    let encryption = match file {
        Some(file) => Some(EncryptionKeys::from_file(Path::new(&file)).await?),
        None => None,
    };
    Ok(StoreOptions { encryption, ..StoreOptions::default() })
}

async fn measure(
    store: std::sync::Arc<dyn Store>,
    tasks: &Tasks,
    writers: usize,
    duration: Duration,
) -> Result<(), Box<dyn std::error::Error>> {
    let tenant = store.create_tenant(&format!("writers-{writers}-{}", std::process::id()), Vec::new()).await?;
    let value = bytes::Bytes::from(vec![b'x'; 1024]);
    let start = Instant::now();
    for writer in 0..writers {
        let (store, value) = (store.clone(), value.clone());
        tasks.spawn("writer", async move {
            let mut n = 0;
            while start.elapsed() < duration {
                let key = Key::new("configmaps", &format!("ns-{writer}"), &format!("object-{n}"));
                if let Err(error) = store.transact(tenant, vec![Write::create(key, value.clone())]).await {
                    println!("writer {writer} failed: {error}");
                    return;
                }
                n += 1;
            }
        });
    }
    tokio::time::sleep(duration).await;
    let done = store.revision(tenant).await?;
    let elapsed = start.elapsed();
    println!("{writers:>3} writers: {:>7.0} durable creates of 1 KiB per second", done as f64 / elapsed.as_secs_f64());
    if !tasks.shutdown(Duration::from_secs(30)).await {
        println!("the store did not stop within 30 s");
    }
    Ok(())
}

async fn tenants(directory: &Path, count: usize) -> Result<(), Box<dyn std::error::Error>> {
    let store = SqliteStore::open(directory, &Tasks::new()).await?;
    let start = Instant::now();
    let names: Vec<_> = (0..count).map(|i| format!("t{i}")).collect();
    let creations = names.iter().map(|name| {
        let documents =
            (0..30).map(|i| Write::create(Key::new(&format!("r{}", i % 6), "", &i.to_string()), vec![b'x'; 1024]));
        store.create_tenant(name, documents.collect())
    });
    futures::future::try_join_all(creations).await?;
    println!("{count} tenants of 30 documents created in {:?}", start.elapsed());
    store.close().await?;
    drop(store);

    // In a process of its own: this one's memory has been used already.
    let output = std::process::Command::new(std::env::current_exe()?).arg(REOPEN).arg(directory).output()?;
    print!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Ok(())
}

async fn reopen(directory: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let before = resident()?;
    let start = Instant::now();
    let store = SqliteStore::open(directory, &Tasks::new()).await?;
    let tenants = store.tenants().await?;
    let count = tenants.len() as u64;
    println!("{count} tenants opened and listed in {:?}", start.elapsed());
    println!("idle: {:.1} KiB of memory per tenant, the store itself included", grown(before)? / count as f64);
    let start = Instant::now();
    for tenant in &tenants {
        store.list(tenant.tenant, ListOptions::newest(Scope::all("r0"))).await?;
    }
    println!("one resource of each listed cold in {:?}", start.elapsed());
    for tenant in &tenants {
        for i in 1..6 {
            store.list(tenant.tenant, ListOptions::newest(Scope::all(&format!("r{i}")))).await?;
        }
    }
    println!("all 30 documents loaded: {:.1} KiB per tenant", grown(before)? / count as f64);
    for _ in 0..2 {
        store.maintain().await?;
    }
    println!("forgotten again: {:.1} KiB per tenant", grown(before)? / count as f64);
    store.close().await?;
    Ok(())
}

/// KiB of memory more than before.
fn grown(before: u64) -> Result<f64, Box<dyn std::error::Error>> {
    Ok(resident()?.saturating_sub(before) as f64)
}

/// Resident memory of this process, in KiB.
fn resident() -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).ok_or("no VmRSS in /proc/self/status")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
