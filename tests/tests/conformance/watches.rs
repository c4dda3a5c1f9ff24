//! Watches: events, versions, bookmarks, lists as streams.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::{api::Api, suite::Suite};

const BOOKMARKS: &str =
    "k8s.io/docs/reference/using-api/api-concepts (watch bookmarks); staging/src/k8s.io/apiserver/pkg/storage/cacher";
const STREAMS: &str = "KEP 3157 WatchList; test/e2e/apimachinery/watchlist.go";

fn config(api: &Api, name: &str, labels: &str) -> Result<String> {
    Ok(api
        .post("v1~/configmaps", format!("{{metadata: {{name: {name}, labels: {labels}}}}}"))
        .is(201)?
        .version()
        .to_owned())
}

pub(crate) fn checks(s: &mut Suite) {
    s.check(
        "add, update and delete are seen by the watchers of their labels",
        "[sig-api-machinery] Watchers should observe add, update, and delete watch notifications on configmaps",
        |api| {
            let mut a = api.watch("v1~/configmaps?labelSelector=w%3Da")?;
            let mut b = api.watch("v1~/configmaps?labelSelector=w%3Db")?;
            let mut both = api.watch("v1~/configmaps?labelSelector=w%20in%20(a,b)")?;
            config(api, "a", "{w: a}")?;
            for watch in [&mut a, &mut both] {
                watch.expect("ADDED", "{kind: ConfigMap, apiVersion: v1, metadata: {name: a}}")?;
            }
            for n in ["1", "2"] {
                api.patch("merge", "v1~/configmaps/a", format!("{{data: {{mutation: '{n}'}}}}")).is(200)?;
                for watch in [&mut a, &mut both] {
                    watch.expect("MODIFIED", &format!("{{metadata: {{name: a}}, data: {{mutation: '{n}'}}}}"))?;
                }
            }
            api.delete("v1~/configmaps/a").is(200)?;
            for watch in [&mut a, &mut both] {
                watch.expect("DELETED", "{metadata: {name: a}, data: {mutation: '2'}}")?;
            }
            config(api, "b", "{w: b}")?;
            for watch in [&mut b, &mut both] {
                watch.expect("ADDED", "{metadata: {name: b}}")?;
            }
            Ok(())
        },
    );
    s.check(
        "a watch starts after the version it names",
        "[sig-api-machinery] Watchers should be able to start watching from a specific resource version",
        |api| {
            config(api, "a", "{w: x}")?;
            let first = api.patch("merge", "v1~/configmaps/a", "{data: {mutation: '1'}}").is(200)?;
            api.patch("merge", "v1~/configmaps/a", "{data: {mutation: '2'}}").is(200)?;
            api.delete("v1~/configmaps/a").is(200)?;
            let mut watch =
                api.watch(&format!("v1~/configmaps?labelSelector=w%3Dx&resourceVersion={}", first.version()))?;
            watch.expect("MODIFIED", "{data: {mutation: '2'}}")?;
            watch.expect("DELETED", "{metadata: {name: a}}")?;
            Ok(())
        },
    );
    s.check("a closed watch goes on where it ended", "[sig-api-machinery] Watchers should be able to restart watching from the last resource version observed by the previous watch", |api| {
        let mut watch = api.watch("v1~/configmaps?labelSelector=w%3Dx")?;
        config(api, "a", "{w: x}")?;
        watch.expect("ADDED", "{metadata: {name: a}}")?;
        api.patch("merge", "v1~/configmaps/a", "{data: {mutation: '1'}}").is(200)?;
        let last = watch.expect("MODIFIED", "{data: {mutation: '1'}}")?;
        drop(watch);
        api.patch("merge", "v1~/configmaps/a", "{data: {mutation: '2'}}").is(200)?;
        api.delete("v1~/configmaps/a").is(200)?;
        let version = last["metadata"]["resourceVersion"].as_str().context("a version")?;
        let mut watch = api.watch(&format!("v1~/configmaps?labelSelector=w%3Dx&resourceVersion={version}"))?;
        watch.expect("MODIFIED", "{data: {mutation: '2'}}")?;
        watch.expect("DELETED", "{metadata: {name: a}}")?;
        Ok(())
    });
    s.check("an object that loses the label is DELETED, and ADDED when it has it again", "[sig-api-machinery] Watchers should observe an object deletion if it stops meeting the requirements of the selector", |api| {
        let mut watch = api.watch("v1~/configmaps?labelSelector=w%3Dx")?;
        config(api, "a", "{w: x}")?;
        watch.expect("ADDED", "{metadata: {name: a}}")?;
        api.patch("merge", "v1~/configmaps/a", "{metadata: {labels: {w: other}}}").is(200)?;
        watch.expect("DELETED", "{metadata: {name: a, labels: {w: x}}}")?;
        api.patch("merge", "v1~/configmaps/a", "{data: {mutation: unseen}}").is(200)?;
        api.patch("merge", "v1~/configmaps/a", "{metadata: {labels: {w: x}}}").is(200)?;
        watch.expect("ADDED", "{data: {mutation: unseen}}")?;
        api.delete("v1~/configmaps/a").is(200)?;
        watch.expect("DELETED", "{metadata: {name: a}}")?;
        Ok(())
    });
    s.check(
        "all watchers see one order",
        "[sig-api-machinery] Watchers should receive events on concurrent watches in same order",
        |api| {
            let start = api.get("v1~/configmaps").is(200)?.version().to_owned();
            let mut versions = Vec::new();
            for i in 0..20 {
                let name = format!("c{}", i % 4);
                let made = api.post("v1~/configmaps", format!("{{metadata: {{name: {name}, labels: {{w: x}}}}}}"));
                if made.code == 409 {
                    versions.push(
                        api.patch("merge", &format!("v1~/configmaps/{name}"), format!("{{data: {{n: '{i}'}}}}"))
                            .is(200)?
                            .version()
                            .to_owned(),
                    );
                } else {
                    versions.push(made.is(201)?.version().to_owned());
                }
            }
            for from in 0..versions.len() {
                let begin = if from == 0 { &start } else { &versions[from - 1] };
                let mut watch = api.watch(&format!("v1~/configmaps?labelSelector=w%3Dx&resourceVersion={begin}"))?;
                for expected in &versions[from..] {
                    let event = watch.next()?.context("it ended")?;
                    ensure!(
                        event["object"]["metadata"]["resourceVersion"] == expected.as_str(),
                        "{event} is not {expected}"
                    );
                }
            }
            Ok(())
        },
    );
    s.check(
        "a watch without a version begins with what is there",
        "k8s.io/docs/reference/using-api/api-concepts (semantics for watch: get state and start at most recent)",
        |api| {
            config(api, "a", "{w: x}")?;
            config(api, "b", "{w: x}")?;
            let mut watch = api.watch("v1~/configmaps?labelSelector=w%3Dx")?;
            watch.expect("ADDED", "{metadata: {name: a}}")?;
            watch.expect("ADDED", "{metadata: {name: b}}")?;
            config(api, "c", "{w: x}")?;
            watch.expect("ADDED", "{metadata: {name: c}}")?;
            Ok(())
        },
    );
    s.check(
        "the version of a list starts a watch without a gap",
        "k8s.io/docs/reference/using-api/api-concepts (efficient detection of changes)",
        |api| {
            config(api, "a", "{w: x}")?;
            let list = api.get("v1~/configmaps?labelSelector=w%3Dx").is(200)?;
            config(api, "b", "{w: x}")?;
            let mut watch =
                api.watch(&format!("v1~/configmaps?labelSelector=w%3Dx&resourceVersion={}", list.version()))?;
            watch.expect("ADDED", "{metadata: {name: b}}").map(drop)
        },
    );
    s.check("one object is watched by fieldSelector", "kubectl get NAME -w; test/e2e/apimachinery/watch.go", |api| {
        let mut watch = api.watch("v1~/configmaps?fieldSelector=metadata.name%3Db")?;
        config(api, "a", "{w: x}")?;
        config(api, "b", "{w: x}")?;
        watch.expect("ADDED", "{metadata: {name: b}}").map(drop)
    });
    s.check(
        "a watch of one object by its path",
        "staging/src/k8s.io/apiserver/pkg/endpoints/handlers/get.go ListResource (forceWatch, hasName)",
        |api| {
            config(api, "a", "{w: x}")?;
            let answer = api.get("/api/v1/watch/namespaces/{ns}/configmaps/a?timeoutSeconds=1").is(200)?;
            let text = String::from_utf8_lossy(&answer.bytes).into_owned();
            ensure!(text.contains("\"ADDED\""), "{text}");
            Ok(())
        },
    );
    s.check("timeoutSeconds ends a watch", "staging/src/k8s.io/apiserver/pkg/endpoints/handlers/watch.go", |api| {
        let begin = std::time::Instant::now();
        let mut watch = api.watch("v1~/configmaps?timeoutSeconds=1&labelSelector=none")?;
        ensure!(watch.next()?.is_none(), "an event");
        let took = begin.elapsed();
        ensure!(took >= Duration::from_millis(900) && took < Duration::from_secs(10), "{took:?}");
        Ok(())
    });
    s.check("a bookmark comes before the end, and only if it was asked for", BOOKMARKS, |api| {
        let mut watch = api.watch("v1~/configmaps?timeoutSeconds=3&allowWatchBookmarks=true&labelSelector=none")?;
        let event = watch.next()?.context("no bookmark before the end")?;
        ensure!(event["type"] == "BOOKMARK" && event["object"]["kind"] == "ConfigMap", "{event}");
        ensure!(event["object"]["metadata"]["resourceVersion"].as_str().is_some_and(|v| v != "0"), "{event}");
        Ok(())
    });
    s.check("initial events end with an annotated bookmark", STREAMS, |api| {
        config(api, "a", "{w: x}")?;
        let mut watch = api.watch("v1~/configmaps?labelSelector=w%3Dx&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")?;
        watch.expect("ADDED", "{metadata: {name: a}}")?;
        watch.expect("BOOKMARK", "{kind: ConfigMap, apiVersion: v1, metadata: {resourceVersion: <any>, annotations: {k8s.io/initial-events-end: 'true'}}}")?;
        config(api, "b", "{w: x}")?;
        watch.expect("ADDED", "{metadata: {name: b}}").map(drop)
    });
    s.check("initial events at a version are not older than it", STREAMS, |api| {
        let version = config(api, "a", "{w: x}")?;
        let mut watch = api.watch(&format!("v1~/configmaps?labelSelector=w%3Dx&resourceVersion={version}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"))?;
        watch.expect("ADDED", "{metadata: {name: a}}")?;
        let mark = watch.expect("BOOKMARK", "{metadata: {annotations: {k8s.io/initial-events-end: 'true'}}}")?;
        let at: u64 = mark["metadata"]["resourceVersion"].as_str().context("a version")?.parse()?;
        ensure!(at >= version.parse()?, "{at} < {version}");
        Ok(())
    });
    for (name, query, message) in [
        (
            "sendInitialEvents without a match",
            "sendInitialEvents=true",
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            "sendInitialEvents with another match",
            "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1",
            "resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"",
        ),
        (
            "a match without sendInitialEvents",
            "resourceVersion=1&resourceVersionMatch=NotOlderThan",
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
    ] {
        s.check(format!("a watch with {name} is 422"), "staging/src/k8s.io/apimachinery/pkg/apis/meta/internalversion/validation/validation.go validateWatchOptions", move |api| {
            api.get(&format!("v1~/configmaps?watch=true&{query}")).refused(422, "Invalid", message).map(drop)
        });
    }
    s.check(
        "a version that is gone ends the watch with 410 in an ERROR event",
        "staging/src/k8s.io/apiserver/pkg/storage/cacher/watch_cache.go (too old resource version)",
        |api| {
            let mut watch = api.watch("v1~/configmaps?resourceVersion=1&timeoutSeconds=2&labelSelector=none")?;
            if let Some(event) = watch.next()? {
                ensure!(event["type"] == "ERROR", "{event}");
                ensure!(event["object"]["code"] == 410 && event["object"]["reason"] == "Expired", "{event}");
            }
            Ok(())
        },
    );
    s.check(
        "a watch as a Table names its columns once",
        "staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go (tableOptions.NoHeaders)",
        |api| {
            config(api, "a", "{w: x}")?;
            config(api, "b", "{w: x}")?;
            let mut watch = api
                .with("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
                .watch("v1~/configmaps?labelSelector=w%3Dx")?;
            let first = watch.expect("ADDED", "{kind: Table, apiVersion: meta.k8s.io/v1}")?;
            ensure!(first["columnDefinitions"].as_array().is_some_and(|c| !c.is_empty()), "{first}");
            let second = watch.expect("ADDED", "{kind: Table}")?;
            ensure!(second["columnDefinitions"].as_array().is_none_or(Vec::is_empty), "{second}");
            Ok(())
        },
    );
    s.check(
        "a watch of metadata only",
        "staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go asPartialObjectMetadata",
        |api| {
            let mut watch = api
                .with("Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
                .watch("v1~/configmaps?labelSelector=w%3Dx")?;
            api.post("v1~/configmaps", "{metadata: {name: a, labels: {w: x}}, data: {k: v}}").is(201)?;
            watch.expect("ADDED", "{kind: PartialObjectMetadata, metadata: {name: a}, data: null}").map(drop)
        },
    );
    s.check(
        "a change that changes nothing is no event",
        "staging/src/k8s.io/apiserver/pkg/storage/etcd3/store.go GuaranteedUpdate (no-op)",
        |api| {
            let made = config(api, "a", "{w: x}")?;
            let mut watch = api.watch(&format!("v1~/configmaps?labelSelector=w%3Dx&resourceVersion={made}"))?;
            let same = api.patch("merge", "v1~/configmaps/a", "{metadata: {labels: {w: x}}}").is(200)?;
            ensure!(same.version() == made, "a new version");
            api.delete("v1~/configmaps/a").is(200)?;
            watch.expect("DELETED", "{metadata: {name: a}}").map(drop)
        },
    );
    s.check(
        "watches of all namespaces and of cluster-scoped kinds",
        "test/e2e/apimachinery/namespace.go; staging/src/k8s.io/apiserver/pkg/endpoints/installer.go (WATCHLIST)",
        |api| {
            let mut all = api.watch("v1/configmaps?labelSelector=w%3D{ns}")?;
            config(api, "a", "{w: '{ns}'}")?;
            all.expect("ADDED", "{metadata: {name: a, namespace: '{ns}'}}")?;
            let mut nodes = api.watch("v1/namespaces?fieldSelector=metadata.name%3D{ns}")?;
            nodes.expect("ADDED", "{metadata: {name: '{ns}'}}").map(drop)
        },
    );
}
