//! The engine over a database that does what the test says.

use std::{sync::Mutex, time::Duration};

use tokio::sync::mpsc;

use super::{
    durable::{CommitError, Failure},
    *,
};
use crate::{Event, WatchError};

/// A database that is always empty.
#[derive(Default)]
struct Empty {
    /// How often it was asked for documents.
    asked: AtomicUsize,
}

#[async_trait::async_trait]
impl Reader for Empty {
    async fn resources(&self, _: Tenant) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }
    async fn current(&self, _: Tenant, _: &Arc<str>) -> Result<Vec<Entry>, StoreError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(Vec::new())
    }
    async fn changes(
        &self,
        _: Tenant,
        _: &Scope,
        _: Revision,
        _: Revision,
        _: usize,
    ) -> Result<Vec<Arc<Event>>, StoreError> {
        Ok(Vec::new())
    }
    async fn before(
        &self,
        _: Tenant,
        _: &Scope,
        _: Revision,
        _: Revision,
    ) -> Result<Vec<(Key, Option<Entry>)>, StoreError> {
        Ok(Vec::new())
    }
    async fn export(&self, _: Tenant) -> Result<Export, StoreError> {
        Ok(Export { revision: 0, entries: Vec::new() })
    }
    async fn kept(&self, _: (Tenant, Revision), _: usize) -> Result<Vec<Kept>, StoreError> {
        Ok(Vec::new())
    }
    async fn close(&self) {}
}

type Verdict = Result<(), CommitError>;

/// Commits end as they are told to, when they are told.
struct Told {
    verdicts: mpsc::UnboundedReceiver<Verdict>,
    /// The number of changes of each commit that was tried.
    tried: Arc<Mutex<Vec<usize>>>,
}

#[async_trait::async_trait]
impl Journal for Told {
    async fn commit(&mut self, changes: &[Change]) -> Verdict {
        self.tried.lock().unwrap().push(changes.len());
        self.verdicts.recv().await.unwrap_or(Ok(()))
    }
    async fn sweep(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }
    async fn tidy(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    async fn close(self: Box<Self>) -> Result<(), StoreError> {
        Ok(())
    }
}

struct Bench {
    engine: Engine,
    reader: Arc<Empty>,
    say: mpsc::UnboundedSender<Verdict>,
    tried: Arc<Mutex<Vec<usize>>>,
}

fn bench() -> Bench {
    let (say, verdicts) = mpsc::unbounded_channel();
    let tried = Arc::<Mutex<Vec<usize>>>::default();
    let tenant = |number| KnownTenant { tenant: Tenant(number), name: format!("t{number}"), head: 0, compacted: 0 };
    let reader = Arc::<Empty>::default();
    let opened = Opened {
        reader: reader.clone(),
        journal: Box::new(Told { verdicts, tried: tried.clone() }),
        tenants: vec![tenant(0), tenant(1)],
        next_tenant: 2,
        tenant_limit: 3,
        keys: Vec::new(),
    };
    let options = StoreOptions { maintenance: Duration::from_hours(1), ..StoreOptions::default() };
    Bench { engine: Engine::start(opened, &Tasks::new(), options), reader, say, tried }
}

fn failure(failure: Failure) -> Verdict {
    Err(CommitError { error: StoreError::backend("told to fail"), failure })
}

fn pod(name: &str) -> Key {
    Key::new("pods", "default", name)
}

fn create(bench: &Bench, tenant: u32, name: &str) -> impl Future<Output = Result<Vec<Revision>, StoreError>> {
    bench.engine.transact(Tenant(tenant), vec![Write::create(pod(name), "x")])
}

/// Until so many commits have been tried.
async fn tried(bench: &Bench, count: usize) {
    let until = async {
        while bench.tried.lock().unwrap().len() < count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), until).await.expect("the commit was not tried");
}

#[tokio::test]
async fn nothing_is_seen_before_it_is_durable() {
    let bench = bench();
    let mut watch = bench.engine.watch(Tenant(0), Scope::all("pods"), 0).unwrap();
    let check = async {
        tried(&bench, 1).await;
        assert_eq!(bench.engine.revision(Tenant(0)).unwrap(), 0);
        assert_eq!(bench.engine.get(Tenant(0), &pod("a")).await.unwrap(), (None, 0));
        assert!(futures::poll!(std::pin::pin!(watch.next())).is_pending());
        bench.say.send(Ok(())).unwrap();
    };
    let (written, ()) = futures::join!(create(&bench, 0, "a"), check);
    assert_eq!(written.unwrap(), [1]);
    assert_eq!(watch.next().await.unwrap()[0].revision, 1);
}

#[tokio::test]
async fn a_conflict_with_a_write_that_fails_is_none() {
    let bench = bench();
    let tell = async {
        // With the barrier of the one that waits, then alone; then the one that waited.
        for (count, verdict) in [(1, failure(Failure::Rejected)), (2, failure(Failure::Rejected)), (3, Ok(()))] {
            tried(&bench, count).await;
            bench.say.send(verdict).unwrap();
        }
    };
    let (first, second, ()) = futures::join!(create(&bench, 0, "a"), create(&bench, 0, "a"), tell);
    assert!(matches!(first, Err(StoreError::Backend(_))), "{first:?}");
    assert_eq!(second.unwrap(), [1], "the revision was never seen: it is given out again");
}

#[tokio::test]
async fn a_conflict_with_a_write_that_succeeds_shows_it() {
    let bench = bench();
    let tell = async {
        tried(&bench, 1).await;
        bench.say.send(Ok(())).unwrap();
    };
    let (first, second, ()) = futures::join!(create(&bench, 0, "a"), create(&bench, 0, "a"), tell);
    assert_eq!(first.unwrap(), [1]);
    let Err(StoreError::Conflict { current: Some(current), .. }) = second else { panic!("{second:?}") };
    assert_eq!(current.revision, 1);
}

#[tokio::test]
async fn only_what_cannot_be_written_fails() {
    let bench = bench();
    // The group, then each alone: the first write of tenant 0 fails again, and takes the second with it.
    for verdict in [failure(Failure::Rejected), failure(Failure::Rejected), Ok(())] {
        bench.say.send(verdict).unwrap();
    }
    let (a, b, c) = futures::join!(create(&bench, 0, "a"), create(&bench, 0, "b"), create(&bench, 1, "c"));
    assert_eq!(*bench.tried.lock().unwrap(), [3, 1, 1]);
    assert!(matches!((a, b), (Err(StoreError::Backend(_)), Err(StoreError::Backend(_)))));
    assert_eq!(c.unwrap(), [1]);
    bench.say.send(Ok(())).unwrap();
    assert_eq!(create(&bench, 0, "b").await.unwrap(), [1]);
}

#[tokio::test]
async fn after_a_fatal_failure_only_reading_goes_on() {
    let bench = bench();
    bench.say.send(Ok(())).unwrap();
    create(&bench, 0, "a").await.unwrap();
    let mut watch = bench.engine.watch(Tenant(0), Scope::all("pods"), 1).unwrap();
    bench.say.send(failure(Failure::Unknown)).unwrap();
    assert!(create(&bench, 0, "b").await.is_err());
    let refused = create(&bench, 1, "c").await;
    assert!(matches!(refused, Err(StoreError::Backend(_))), "{refused:?}");
    assert_eq!(bench.tried.lock().unwrap().len(), 2, "nothing more is tried");
    let (entry, revision) = bench.engine.get(Tenant(0), &pod("a")).await.unwrap();
    assert_eq!((entry.is_some(), revision), (true, 1));
    bench.engine.close().await.unwrap();
    assert_eq!(watch.next().await, Err(WatchError::Closed));
    assert!(matches!(bench.engine.revision(Tenant(0)), Err(StoreError::Closed)));
}

#[tokio::test]
async fn numbers_of_tenants_run_out_with_a_clear_error() {
    let bench = bench();
    bench.say.send(Ok(())).unwrap();
    assert_eq!(bench.engine.create_tenant("last", Vec::new()).await.unwrap(), Tenant(2));
    let error = bench.engine.create_tenant("more", Vec::new()).await.unwrap_err().to_string();
    assert!(error.contains("new data directory"), "{error}");
}

#[tokio::test]
async fn an_idle_tenant_holds_nothing() {
    let bench = bench();
    bench.say.send(Ok(())).unwrap();
    create(&bench, 0, "a").await.unwrap();
    let cell = bench.engine.cell(Tenant(0)).unwrap();
    bench.engine.maintain().await.unwrap();
    assert_eq!(cell.lock().resources.len(), 1, "used since the last pass");
    bench.engine.maintain().await.unwrap();
    let state = cell.lock();
    assert!(state.resources.is_empty() && !state.ring.reaches(0));
}

#[tokio::test]
async fn only_resources_with_documents_are_read() {
    let bench = bench();
    let list = |resource: &'static str| bench.engine.list(Tenant(0), ListOptions::newest(Scope::all(resource)));
    assert!(list("services").await.unwrap().entries.is_empty());
    bench.say.send(Ok(())).unwrap();
    create(&bench, 0, "a").await.unwrap();
    assert_eq!(bench.reader.asked.load(Ordering::Relaxed), 0, "it has none of any");
    // Nothing of it is in memory any more.
    bench.engine.maintain().await.unwrap();
    bench.engine.maintain().await.unwrap();
    list("services").await.unwrap();
    assert_eq!(bench.reader.asked.load(Ordering::Relaxed), 0);
    list("pods").await.unwrap();
    assert_eq!(bench.reader.asked.load(Ordering::Relaxed), 1, "something was written there");
}

#[tokio::test]
async fn without_the_database_all_fail_at_once_and_it_goes_on_later() {
    let bench = bench();
    bench.say.send(failure(Failure::Unreachable)).unwrap();
    let (a, b, c) = futures::join!(create(&bench, 0, "a"), create(&bench, 0, "b"), create(&bench, 1, "c"));
    assert!(a.is_err() && b.is_err() && c.is_err());
    assert_eq!(*bench.tried.lock().unwrap(), [3], "not one by one");
    bench.say.send(Ok(())).unwrap();
    assert_eq!(create(&bench, 0, "a").await.unwrap(), [1]);
}

#[tokio::test]
async fn a_store_that_belongs_to_another_server_ends() {
    let bench = bench();
    bench.say.send(Ok(())).unwrap();
    create(&bench, 0, "a").await.unwrap();
    let mut watch = bench.engine.watch(Tenant(0), Scope::all("pods"), 1).unwrap();
    let lost = CommitError { error: StoreError::Locked("taken over".to_owned()), failure: Failure::Lost };
    bench.say.send(Err(lost)).unwrap();
    assert!(matches!(create(&bench, 0, "b").await, Err(StoreError::Locked(_))));
    assert!(matches!(bench.engine.ended().await, Err(StoreError::Locked(_))));
    assert_eq!(watch.next().await, Err(WatchError::Closed));
    assert!(
        matches!(bench.engine.get(Tenant(0), &pod("a")).await, Err(StoreError::Closed)),
        "what it holds may be stale"
    );
}
