use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    child::{Acknowledged, Orders, parse},
    trace::{Call, read},
    *,
};

/// Files as a disk has them: what a power cut at this moment leaves, at least (`synced`) and at most (`written`).
#[derive(Default)]
struct Disk {
    written: BTreeMap<String, Vec<u8>>,
    synced: BTreeMap<String, Vec<u8>>,
}

impl Disk {
    fn apply(&mut self, call: &Call) {
        match call {
            Call::Write { path, offset, data } => {
                let file = self.written.entry(path.clone()).or_default();
                let start = offset.unwrap_or(file.len() as u64) as usize;
                let end = start + data.len();
                if file.len() < end {
                    file.resize(end, 0);
                }
                file[start..end].copy_from_slice(data);
            }
            Call::Truncate { path, length } => {
                self.written.entry(path.clone()).or_default().resize(*length as usize, 0);
            }
            Call::Sync { path } => {
                if let Some(file) = self.written.get(path) {
                    self.synced.insert(path.clone(), file.clone());
                }
            }
            Call::Rename { from, to } => {
                for files in [&mut self.written, &mut self.synced] {
                    if let Some(file) = files.remove(from) {
                        files.insert(to.clone(), file);
                    }
                }
            }
            Call::Unlink { path } => {
                self.written.remove(path);
                self.synced.remove(path);
            }
        }
    }
}

/// Starts a store on these files and checks that it has every acknowledged write.
async fn recovers(files: &BTreeMap<String, Vec<u8>>, acknowledged: &HashMap<Revision, Acknowledged>) {
    let directory = tempfile::tempdir().unwrap();
    for (path, data) in files {
        let name = Path::new(path).file_name().unwrap();
        if name != "vctl.lock" {
            fs::write(directory.path().join(name), data).unwrap();
        }
    }
    let store = open(directory.path()).await;
    let head = store.revision(SYSTEM).await.unwrap();
    let events = log(&store, "pods", head).await;
    for (revision, write) in acknowledged {
        let event = events.get(*revision as usize - 1).unwrap_or_else(|| panic!("{write:?} is lost; newest is {head}"));
        assert_eq!((&*event.key.name, event.value.is_none()), (&*write.name, write.deleted));
    }
    store.close().await.unwrap();
}

/// Runs a child under strace; returns its directory, with symbolic links resolved, and the calls.
fn traced(writers: usize, writes: usize) -> (tempfile::TempDir, PathBuf, Vec<Call>) {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().canonicalize().unwrap().join("data");
    let trace = directory.path().join("trace");
    let mut strace = Command::new("strace");
    let calls = "trace=write,pwrite64,ftruncate,fsync,fdatasync,rename,unlink";
    strace.args(["-f", "-y", "-xx", "-s", "1000000", "-e", calls, "-e", "signal=none", "-o"]).arg(&trace);
    let orders = Orders { directory: &data, round: 0, writers, writes };
    let output = orders.command(strace).output().expect("strace is needed: apt-get install strace");
    assert!(String::from_utf8_lossy(&output.stdout).contains("closed"), "the child failed: {output:?}");
    let calls = read(&fs::read_to_string(trace).unwrap());
    (directory, data, calls)
}

/// The acknowledgement that a call prints, if any.
fn printed(call: &Call) -> Option<Acknowledged> {
    match call {
        Call::Write { offset: None, data, .. } => parse(str::from_utf8(data).ok()?),
        _ => None,
    }
}

#[tokio::test]
async fn a_sync_of_the_wal_completes_before_each_acknowledgement() {
    let (_directory, data, calls) = traced(1, 40);
    let wal = data.join("vctl.db-wal").display().to_string();
    let (mut unsynced, mut synced, mut acknowledged) = (false, false, 0);
    for call in &calls {
        match call {
            Call::Write { path, .. } if *path == wal => unsynced = true,
            Call::Sync { path } if *path == wal => (unsynced, synced) = (false, true),
            _ => {}
        }
        if let Some(write) = printed(call) {
            assert!(synced && !unsynced, "{write:?} was acknowledged before the WAL was synced");
            // The next one needs a sync of its own.
            synced = false;
            acknowledged += 1;
        }
    }
    assert_eq!(acknowledged, 40 + 14);
}

#[tokio::test]
async fn the_files_cut_at_every_sync_recover_every_acknowledged_write() {
    let (_directory, data, calls) = traced(4, 30);
    let inside = |path: &str| Path::new(path).starts_with(&data);
    let mut disk = Disk::default();
    let mut acknowledged = HashMap::new();
    let mut ready = false;
    let mut cuts = 0;
    for call in &calls {
        // A power cut just before this sync has completed, with everything since the last one lost, or all of it there.
        let is_sync = matches!(call, Call::Sync { path } if inside(path));
        if is_sync && ready {
            recovers(&disk.synced, &acknowledged).await;
            recovers(&disk.written, &acknowledged).await;
            cuts += 1;
        }
        match call {
            Call::Write { path, .. } | Call::Truncate { path, .. } if !inside(path) => {}
            call => disk.apply(call),
        }
        if let Some(write) = printed(call) {
            ready = true;
            acknowledged.insert(write.revision, write);
        }
    }
    recovers(&disk.synced, &acknowledged).await;
    assert_eq!(acknowledged.len(), 4 * (30 + 10));
    assert!(cuts >= 30, "only {cuts} syncs: too few to mean anything");
}
