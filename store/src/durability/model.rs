//! Random operations on SQLite and on the memory model must have the same results.

use proptest::prelude::*;

use super::*;
use crate::{Entry, Expect, Key, List, ListOptions, MemoryStore, StoreError, Write};

#[derive(Debug, Clone)]
enum Operation {
    CreateTenant {
        name: u8,
        writes: Vec<Change>,
    },
    DeleteTenant {
        tenant: usize,
    },
    Transact {
        tenant: usize,
        writes: Vec<Change>,
    },
    /// Several at a time, so that they are decided on top of each other.
    Together {
        tenant: usize,
        transactions: Vec<Vec<Change>>,
    },
    Get {
        tenant: usize,
        key: u8,
    },
    List {
        tenant: usize,
        resource: u8,
        namespace: Option<u8>,
        at: Option<u8>,
        after: Option<(u8, u8)>,
        limit: usize,
    },
    Watch {
        tenant: usize,
        resource: u8,
        namespace: Option<u8>,
        back: u8,
    },
    Compact {
        tenant: usize,
        back: u8,
    },
    Tenants,
    /// SQLite only: end and start again.
    Reopen,
    /// SQLite only: give back all memory.
    Forget,
}

#[derive(Debug, Clone)]
struct Change {
    key: u8,
    expect: u8,
    value: Option<Vec<u8>>,
}

fn change() -> impl Strategy<Value = Change> {
    let value = proptest::option::weighted(0.7, proptest::collection::vec(any::<u8>(), 0..4));
    (0..16_u8, 0..5_u8, value).prop_map(|(key, expect, value)| Change { key, expect, value })
}

fn operation() -> impl Strategy<Value = Operation> {
    let writes = || proptest::collection::vec(change(), 0..4);
    let tenant = 0..4_usize;
    let resource = 0..2_u8;
    let namespace = proptest::option::of(0..3_u8);
    prop_oneof![
        2 => (0..3_u8, writes()).prop_map(|(name, writes)| Operation::CreateTenant { name, writes }),
        1 => tenant.clone().prop_map(|tenant| Operation::DeleteTenant { tenant }),
        12 => (tenant.clone(), writes()).prop_map(|(tenant, writes)| Operation::Transact { tenant, writes }),
        4 => (tenant.clone(), proptest::collection::vec(writes(), 2..5))
            .prop_map(|(tenant, transactions)| Operation::Together { tenant, transactions }),
        3 => (tenant.clone(), 0..16_u8).prop_map(|(tenant, key)| Operation::Get { tenant, key }),
        6 => (
            tenant.clone(), resource.clone(), namespace.clone(), proptest::option::of(0..8_u8),
            proptest::option::of((0..3_u8, 0..3_u8)), 0..4_usize,
        ).prop_map(|(tenant, resource, namespace, at, after, limit)|
            Operation::List { tenant, resource, namespace, at, after, limit }),
        4 => (tenant.clone(), resource, namespace, 0..8_u8)
            .prop_map(|(tenant, resource, namespace, back)| Operation::Watch { tenant, resource, namespace, back }),
        2 => (tenant, 0..6_u8).prop_map(|(tenant, back)| Operation::Compact { tenant, back }),
        1 => Just(Operation::Tenants),
        2 => Just(Operation::Reopen),
        2 => Just(Operation::Forget),
    ]
}

/// 2 resources, 3 namespaces, and a few names.
fn key(number: u8) -> Key {
    let [resource, namespace, name] = [number % 2, number % 3, number / 6];
    Key::new(&format!("r{resource}"), &format!("n{namespace}"), &format!("a{name}"))
}

fn scope(resource: u8, namespace: Option<u8>) -> Scope {
    Scope { resource: format!("r{resource}").into(), namespace: namespace.map(|n| format!("n{n}").into()) }
}

/// Both stores, and the tenants that were ever made: the numbers need not be the same.
struct Pair {
    model: MemoryStore,
    sqlite: SqliteStore,
    directory: tempfile::TempDir,
    tenants: Vec<(Tenant, Tenant)>,
}

/// A result in words, without the number of a tenant.
fn outcome<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::NoTenant(_)) => "no such tenant".to_owned(),
        other => format!("{other:?}"),
    }
}

impl Pair {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let sqlite = open(directory.path()).await;
        Self { model: MemoryStore::new(), sqlite, directory, tenants: vec![(SYSTEM, SYSTEM)] }
    }

    fn tenant(&self, number: usize) -> (Tenant, Tenant) {
        self.tenants[number % self.tenants.len()]
    }

    async fn back(&self, tenant: Tenant, back: u8) -> Revision {
        // One may lie in the future.
        (self.model.revision(tenant).await.unwrap_or(0) + 1).saturating_sub(u64::from(back))
    }

    async fn writes(&self, tenant: Option<Tenant>, changes: &[Change]) -> Vec<Write> {
        let mut writes = Vec::new();
        for change in changes {
            let key = key(change.key);
            let current = match tenant {
                Some(tenant) => self.model.get(tenant, &key).await.ok().and_then(|(entry, _)| entry),
                None => None,
            };
            let expect = match change.expect {
                0 => Expect::Absent,
                1 | 2 => Expect::Any,
                3 => Expect::Revision(current.map_or(1, |e: Entry| e.revision)),
                _ => Expect::Revision(2),
            };
            writes.push(Write { key, expect, value: change.value.clone().map(Into::into) });
        }
        writes
    }

    async fn run(&mut self, operation: Operation) {
        match operation {
            Operation::CreateTenant { name, writes } => {
                let writes = self.writes(None, &writes).await;
                let name = format!("t{name}");
                let model = self.model.create_tenant(&name, writes.clone()).await;
                let sqlite = self.sqlite.create_tenant(&name, writes).await;
                if let (Ok(model), Ok(sqlite)) = (&model, &sqlite) {
                    self.tenants.push((*model, *sqlite));
                } else {
                    assert_eq!(outcome(model), outcome(sqlite));
                }
            }
            Operation::DeleteTenant { tenant } => {
                let (model, sqlite) = self.tenant(tenant);
                let (model, sqlite) = (self.model.delete_tenant(model).await, self.sqlite.delete_tenant(sqlite).await);
                assert_eq!(outcome(model), outcome(sqlite));
            }
            Operation::Transact { tenant, writes } => {
                let (model, sqlite) = self.tenant(tenant);
                let writes = self.writes(Some(model), &writes).await;
                let model = self.model.transact(model, writes.clone()).await;
                assert_eq!(outcome(model), outcome(self.sqlite.transact(sqlite, writes).await));
            }
            Operation::Together { tenant, transactions } => self.together(tenant, transactions).await,
            Operation::Get { tenant, key: number } => {
                let (model, sqlite) = self.tenant(tenant);
                let key = key(number);
                assert_eq!(outcome(self.model.get(model, &key).await), outcome(self.sqlite.get(sqlite, &key).await));
            }
            Operation::List { tenant, resource, namespace, at, after, limit } => {
                let (model, sqlite) = self.tenant(tenant);
                let at = match at {
                    Some(back) => Some(self.back(model, back).await),
                    None => None,
                };
                let after = after.map(|(namespace, name)| (format!("n{namespace}"), format!("a{name}")));
                let options = ListOptions { scope: scope(resource, namespace), at, after, limit };
                let words = |list: Result<List, _>| outcome(list);
                let model = words(self.model.list(model, options.clone()).await);
                assert_eq!(model, words(self.sqlite.list(sqlite, options).await));
            }
            Operation::Watch { tenant, resource, namespace, back } => {
                let (model, sqlite) = self.tenant(tenant);
                let after = self.back(model, back).await;
                let scope = scope(resource, namespace);
                let model = replayed(&self.model, model, scope.clone(), after).await;
                assert_eq!(model, replayed(&self.sqlite, sqlite, scope, after).await);
            }
            Operation::Compact { tenant, back } => {
                let (model, sqlite) = self.tenant(tenant);
                let revision = self.back(model, back).await;
                let model = self.model.compact(model, revision).await;
                assert_eq!(outcome(model), outcome(self.sqlite.compact(sqlite, revision).await));
            }
            Operation::Tenants => {
                let words = |tenants: Vec<crate::TenantInfo>| -> Vec<_> {
                    tenants.into_iter().map(|t| (t.name, t.revision)).collect()
                };
                let model = words(self.model.tenants().await.unwrap());
                assert_eq!(model, words(self.sqlite.tenants().await.unwrap()));
            }
            Operation::Reopen => {
                self.sqlite.close().await.unwrap();
                self.sqlite = open(self.directory.path()).await;
            }
            Operation::Forget => {
                for _ in 0..2 {
                    self.sqlite.maintain().await.unwrap();
                }
            }
        }
    }

    /// Started together, they are decided in the order in which they were started when everything is in memory. Whichever order
    /// SQLite took, the model must come to the same in that order.
    async fn together(&mut self, tenant: usize, transactions: Vec<Vec<Change>>) {
        let (model, sqlite) = self.tenant(tenant);
        let mut all = Vec::new();
        for changes in &transactions {
            let writes = self.writes(Some(model), changes).await;
            // Conflicts depend on when exactly they are found; what is left always applies, or fails by itself.
            all.push(writes.into_iter().filter(|w| w.value.is_some()).map(|w| Write { expect: Expect::Any, ..w }));
        }
        let all: Vec<Vec<_>> = all.into_iter().map(Iterator::collect).collect();
        let started = all.iter().map(|writes| self.sqlite.transact(sqlite, writes.clone()));
        let done = futures::future::join_all(started).await;
        let mut order: Vec<_> = done.into_iter().zip(all).collect();
        order.sort_by_key(|(result, _)| result.as_ref().ok().and_then(|r| r.first().copied()));
        for (result, writes) in order {
            assert_eq!(outcome(self.model.transact(model, writes).await), outcome(result));
        }
    }
}

/// What a watch says about the past, or why not.
async fn replayed(store: &dyn Store, tenant: Tenant, scope: Scope, after: Revision) -> String {
    let mut watch = match store.watch(tenant, scope.clone(), after).await {
        Ok(watch) => watch,
        Err(error) => return outcome::<()>(Err(error)),
    };
    // A write at the end says when it is complete.
    let namespace = scope.namespace.as_deref().unwrap_or("n0");
    let end = Write::put(Key::new(&scope.resource, namespace, "end"), "end");
    let last = store.transact(tenant, vec![end]).await.unwrap()[0];
    let mut events = Vec::new();
    while events.last().is_none_or(|e: &std::sync::Arc<Event>| e.revision < last) {
        events.extend(watch.next().await.unwrap());
    }
    format!("{events:?}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_behaves_like_the_model(operations in proptest::collection::vec(operation(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut pair = Pair::new().await;
            for operation in operations {
                pair.run(operation).await;
            }
            // In the end everything is the same, also after a restart.
            for operation in [Operation::Tenants, Operation::Reopen, Operation::Tenants] {
                pair.run(operation).await;
            }
            for tenant in 0..pair.tenants.len() {
                for resource in 0..2 {
                    let list = Operation::List { tenant, resource, namespace: None, at: None, after: None, limit: 0 };
                    pair.run(list).await;
                    pair.run(Operation::Watch { tenant, resource, namespace: None, back: 5 }).await;
                }
            }
            pair.sqlite.close().await.unwrap();
        });
    }
}
