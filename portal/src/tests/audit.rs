//! The audit trail: filters, search, export, who may read it; and that a change of what was written is found.

use futures::future::join_all;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use jiff::SignedDuration;
use serde_json::{Value, json};
use vctl_store::{Expect, Key, ListOptions, Scope, Store, Tenant, Write};

use crate::{
    audit::{Subject, chain::HeadDoc, entry},
    documents::{AuditDoc, Document},
    environments::Caller,
    testing::World,
};

const CALLER: Caller<'static> = Caller { actor: "ann", user: "ann", request_id: "r" };

async fn write(world: &World, action: &str, project: &str, detail: Value) {
    let subject = Subject::of_project("thing", project);
    let entry = entry(world.clock.now(), CALLER, action, subject, detail).expect("entry");
    world.portal.inner().environments.documents.transact(vec![entry]).await.expect("written");
}

async fn verification(world: &World) -> Value {
    let (status, answer) = world.call("GET", "/api/v1/audit/verify", None).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    answer
}

async fn actions(world: &World, query: &str) -> Vec<String> {
    let (status, page) = world.call("GET", &format!("/api/v1/audit?{query}"), None).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    page["items"].as_array().expect("items").iter().map(|e| e["action"].as_str().expect("text").to_owned()).collect()
}

#[tokio::test]
async fn entries_are_found_by_what_they_say() {
    let world = World::at_fixed_time();
    for (i, (action, project)) in
        [("a.one", "web"), ("a.two", ""), ("b.one", "web"), ("b.two", "db")].iter().enumerate()
    {
        write(&world, action, project, json!({ "note": format!("Number {i} of them"), "list": [{"deep": "Needle"}] }))
            .await;
        world.clock.advance(60);
    }
    assert_eq!(actions(&world, "").await, ["b.two", "b.one", "a.two", "a.one"]);
    assert_eq!(actions(&world, "action=a.*").await, ["a.two", "a.one"]);
    assert_eq!(actions(&world, "action=a.one&project=web").await, ["a.one"]);
    assert_eq!(actions(&world, "q=number%201").await, ["a.two"]);
    assert_eq!(actions(&world, "q=nEEdle&project=db").await, ["b.two"]);
    assert_eq!(actions(&world, "actor=ben").await, [""; 0]);
    assert_eq!(actions(&world, "since=2026-01-02T03:05:05Z&until=2026-01-02T03:07:05Z").await, ["b.one", "a.two"]);
    let (_, page) = world.call("GET", "/api/v1/audit?project=web&limit=1", None).await;
    assert_eq!(page["items"][0]["action"], "b.one");
    let next = page["next"].as_str().expect("more");
    assert_eq!(actions(&world, &format!("project=web&limit=1&after={next}")).await, ["a.one"]);
    let (status, _) = world.call("GET", "/api/v1/audit?since=yesterday", None).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn who_may_read_of_one_project_reads_of_no_other() {
    let world = World::new();
    let ann = world.sign_in("ann", &[]).await;
    let member = json!({"kind": "user", "name": "ann", "role": "admin"});
    let (status, _) = world.call("POST", "/api/v1/projects", Some(json!({"name": "web", "members": [member]}))).await;
    assert_eq!(status, StatusCode::CREATED);
    for project in ["web", "db", ""] {
        write(&world, &format!("of.{project}"), project, Value::Null).await;
    }
    let (_, page) = world.call_as(Some(&ann), "GET", "/api/v1/audit", None).await;
    let seen: Vec<_> = page["items"].as_array().expect("items").iter().map(|e| e["action"].clone()).collect();
    assert_eq!(seen, ["of.web", "project.create"]);
    let (status, _) = world.call_as(Some(&ann), "GET", "/api/v1/audit/export", None).await;
    assert_eq!(status, StatusCode::OK);
    let (status, _) = world.call_as(Some(&ann), "GET", "/api/v1/audit/verify", None).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn an_export_has_everything_and_no_formula() {
    let world = World::new();
    for i in 0..1200 {
        write(&world, "a.b", "=1+1", json!({ "i": i })).await;
    }
    let export = async |format: &str| {
        let request = Request::builder()
            .uri(format!("/api/v1/audit/export?format={format}"))
            .header("authorization", format!("Bearer {}", world.token))
            .body(axum::body::Body::empty());
        let response = world.send(request.expect("request")).await;
        String::from_utf8(response.into_body().collect().await.expect("whole").to_bytes().to_vec()).expect("text")
    };
    let lines: Vec<Value> = export("jsonl").await.lines().map(|l| serde_json::from_str(l).expect("json")).collect();
    assert_eq!((lines.len(), &lines[0]["detail"]["i"], &lines[1199]["detail"]["i"]), (1200, &1199.into(), &0.into()));
    let csv = export("csv").await;
    assert_eq!((csv.lines().count(), csv.contains("\"'=1+1\"")), (1201, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_are_all_in_chains() {
    let world = World::on_disk().await;
    let there = &world;
    let writers = (0..100).map(|_| async move {
        for _ in 0..20 {
            write(there, "a.b", "", json!({"some": "detail"})).await;
        }
    });
    join_all(writers).await;
    let whole = verification(&world).await;
    assert_eq!((&whole["entries"], &whole["breaks"]), (&2000.into(), &0.into()), "{whole}");
    assert!(whole["chains"].as_u64().is_some_and(|chains| chains > 1), "{whole}");
    // A quiet server has one chain, also after a restart.
    let world = world.after_crash().await;
    write(&world, "a.c", "", Value::Null).await;
    assert_eq!(verification(&world).await["breaks"], 0);
}

#[tokio::test]
async fn a_refused_change_leaves_nothing_and_the_chain_whole() {
    let world = World::new();
    world.create("env", "blank").await;
    for _ in 0..3 {
        let body = json!({"name": "env", "template": "blank"});
        let (status, _) = world.call("POST", "/api/v1/environments", Some(body)).await;
        assert_eq!(status, StatusCode::CONFLICT);
    }
    write(&world, "a.b", "", Value::Null).await;
    let whole = verification(&world).await;
    assert_eq!((&whole["entries"], &whole["breaks"], &whole["chains"]), (&2.into(), &0.into(), &1.into()), "{whole}");
}

#[tokio::test]
async fn a_row_that_was_edited_in_the_database_is_named() {
    let world = World::on_disk().await;
    for action in ["first.action", "secret.deed", "third.action"] {
        write(&world, action, "", Value::Null).await;
    }
    assert_eq!(verification(&world).await["breaks"], 0);
    let world = world
        .after_edit(|file| {
            // Of the same length, so that the file stays a database: somebody with an editor, or an UPDATE.
            let at = file.windows(11).position(|w| w == b"secret.deed").expect("the row");
            file[at..at + 11].copy_from_slice(b"public.deed");
        })
        .await;
    let broken = verification(&world).await;
    assert_eq!(broken["breaks"], 1, "{broken}");
    assert_eq!((&broken["first"]["action"], &broken["first"]["actor"]), (&"public.deed".into(), &"ann".into()));
    assert!(broken["first"]["why"].as_str().is_some_and(|why| why.contains("not what was written")), "{broken}");
}

async fn entries(store: &dyn Store) -> Vec<vctl_store::Entry> {
    store.list(Tenant::SYSTEM, ListOptions::newest(Scope::all(AuditDoc::RESOURCE))).await.expect("list").entries
}

#[tokio::test]
async fn what_was_removed_added_or_cut_off_is_found() {
    let trail = async || {
        let world = World::new();
        for i in 0..5 {
            write(&world, &format!("a.{i}"), "", Value::Null).await;
        }
        let entries = entries(&*world.store).await;
        (world, entries)
    };
    let edit = async |world: &World, write: Write| {
        world.store.transact(Tenant::SYSTEM, vec![write]).await.expect("written");
        verification(world).await
    };
    let (world, all) = trail().await;
    let gone = edit(&world, Write::delete(all[2].key.clone(), Expect::Any)).await;
    assert_eq!((&gone["breaks"], &gone["first"]["action"]), (&1.into(), &"a.1".into()), "{gone}");
    assert!(gone["first"]["why"].as_str().is_some_and(|why| why.contains("1 entries that followed")), "{gone}");

    let (world, all) = trail().await;
    let oldest = edit(&world, Write::delete(all[4].key.clone(), Expect::Any)).await;
    assert!(oldest["first"]["why"].as_str().is_some_and(|why| why.contains("1 oldest")), "{oldest}");

    let (world, all) = trail().await;
    let newest = edit(&world, Write::delete(all[0].key.clone(), Expect::Any)).await;
    assert_eq!(newest["breaks"], 1, "{newest}");

    // An entry as they were before there were chains, among those of a chain.
    let (world, all) = trail().await;
    let mut forged: Value = serde_json::from_slice(&all[2].value).expect("json");
    forged.as_object_mut().expect("object").remove("link");
    let key = format!("{}0", all[2].key.name);
    forged["key"] = key.clone().into();
    let added = edit(&world, Write::create(Key::new(AuditDoc::RESOURCE, "", &key), forged.to_string())).await;
    assert_eq!(added["breaks"], 1, "{added}");

    let (world, all) = trail().await;
    let unreadable = edit(&world, Write::put(all[2].key.clone(), "{")).await;
    assert_eq!((&unreadable["breaks"], &unreadable["first"]["key"]), (&1.into(), &(*all[2].key.name).into()));

    // The head shows that the newest ones were cut off, and cannot itself be changed unseen.
    let (world, _) = trail().await;
    let head = json!({"name": "00", "sequence": 4, "hash": "0", "microsecond": 0});
    let changed = edit(&world, Write::put(Key::new(HeadDoc::RESOURCE, "", "00"), head.to_string())).await;
    assert!(changed["breaks"].as_u64().is_some_and(|breaks| breaks > 0), "{changed}");
}

#[tokio::test]
async fn what_is_old_enough_is_removed_and_the_rest_can_be_verified() {
    let world = World::at_fixed_time();
    for i in 0..6 {
        write(&world, &format!("a.{i}"), "", Value::Null).await;
        world.clock.advance(3600);
    }
    let before = world.clock.now().checked_sub(SignedDuration::from_mins(150)).expect("time");
    assert_eq!(world.portal.inner().trail.prune(before).await.expect("pruned"), 4);
    assert_eq!(actions(&world, "").await, ["a.5", "a.4"]);
    let whole = verification(&world).await;
    assert_eq!((&whole["entries"], &whole["removed"], &whole["breaks"]), (&2.into(), &4.into(), &0.into()), "{whole}");
    assert_eq!(world.portal.inner().trail.prune(before).await.expect("pruned"), 0);
    write(&world, "a.6", "", Value::Null).await;
    assert_eq!(verification(&world).await["breaks"], 0);
    // More than was due.
    let oldest = entries(&*world.store).await.pop().expect("some");
    world.store.transact(Tenant::SYSTEM, vec![Write::delete(oldest.key, Expect::Any)]).await.expect("deleted");
    assert_eq!(verification(&world).await["breaks"], 1);
}

#[tokio::test]
async fn an_entry_says_where_the_request_came_from_and_for_whom_a_job_works() {
    let world = World::new();
    world.portal.start();
    let request = Request::builder()
        .method("POST")
        .uri("/api/v1/environments")
        .header("authorization", format!("Bearer {}", world.token))
        .header("content-type", "application/json")
        .extension(vctl_runtime::serve::Peer::Address(([192, 0, 2, 7], 1234).into()))
        .body(axum::body::Body::from(json!({"name": "env", "template": "blank"}).to_string()));
    let response = world.send(request.expect("request")).await;
    let body = response.into_body().collect().await.expect("body").to_bytes();
    let environment: Value = serde_json::from_slice(&body).expect("json");
    world.ended(environment["job"].as_str().expect("job")).await;
    let (_, page) = world.call("GET", "/api/v1/audit", None).await;
    let (ready, create) = (&page["items"][0], &page["items"][1]);
    assert_eq!((&create["action"], &create["source"]), (&"environment.create".into(), &"192.0.2.7".into()));
    assert_eq!((&ready["action"], &ready["onBehalfOf"]), (&"environment.ready".into(), &"local-admin".into()));
    world.tasks.stop();
}
