//! Watches that begin with the state, in every form; protobuf; what many bytes become.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::{
    api::{Api, Watch},
    suite::Suite,
};

const STREAMS: &str = "KEP 3157 WatchList; test/e2e/apimachinery/watchlist.go";
const OPTIONS: &str =
    "staging/src/k8s.io/apimachinery/pkg/apis/meta/internalversion/defaults.go SetListOptionsDefaults";
const CACHER: &str = "staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go";
const STREAM: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
const ENDS: &str = "k8s.io/initial-events-end";

fn config(api: &Api, name: &str) -> Result<String> {
    let made = api.post("v1~/configmaps", format!("{{metadata: {{name: {name}, labels: {{w: x}}}}}}")).is(201)?;
    Ok(made.version().to_owned())
}

/// The state that a stream begins with: the objects of its events up to the bookmark that ends it, and that bookmark.
fn state(watch: &mut Watch) -> Result<(Vec<Value>, Value)> {
    let mut objects = Vec::new();
    loop {
        let event = watch.next()?.context("it ended before the bookmark")?;
        let object = event["object"].clone();
        match event["type"].as_str() {
            Some("ADDED") => objects.push(object),
            Some("BOOKMARK") => return Ok((objects, object)),
            _ => anyhow::bail!("{event}"),
        }
    }
}

pub(crate) fn checks(s: &mut Suite) {
    s.check("a stream of tables: the bookmark's annotation is in its row", STREAMS, |api| {
        config(api, "a")?;
        config(api, "b")?;
        let mut watch = api
            .with("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .watch(&format!("v1~/configmaps?labelSelector=w&{STREAM}"))?;
        let (tables, end) = state(&mut watch)?;
        let names: Vec<_> = tables.iter().map(|t| &t["rows"][0]["cells"][0]).collect();
        ensure!(names == ["a", "b"], "{names:?}");
        ensure!(end["kind"] == "Table" && end["rows"][0]["object"]["metadata"]["annotations"][ENDS] == "true", "{end}");
        config(api, "c")?;
        watch.expect("ADDED", "{kind: Table, rows: [{cells: [c, 0, <any>]}]}").map(drop)
    });
    s.check("a stream of metadata", STREAMS, |api| {
        api.post("v1~/configmaps", "{metadata: {name: a, labels: {w: x}}, data: {k: v}}").is(201)?;
        let mut watch = api
            .with("Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
            .watch(&format!("v1~/configmaps?labelSelector=w&{STREAM}"))?;
        let (objects, end) = state(&mut watch)?;
        ensure!(objects.len() == 1 && objects[0]["kind"] == "PartialObjectMetadata", "{objects:?}");
        ensure!(objects[0]["data"].is_null() && objects[0]["metadata"]["uid"].is_string(), "{objects:?}");
        ensure!(end["kind"] == "PartialObjectMetadata" && end["metadata"]["annotations"][ENDS] == "true", "{end}");
        Ok(())
    });
    s.check("a stream of custom resources, defaulted, and their selectable fields", STREAMS, |api| {
        let group = format!("{}.streams.example.com", api.ns);
        let definition = json!({
            "metadata": { "name": format!("gadgets.{group}") },
            "spec": {
                "group": group, "scope": "Namespaced", "names": { "plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList" },
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "selectableFields": [{ "jsonPath": ".spec.color" }],
                    "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": { "type": "object", "properties": {
                        "size": { "type": "integer", "default": 3 }, "color": { "type": "string" } } } } } },
                }],
            },
        });
        api.post("apiextensions.k8s.io/v1/customresourcedefinitions", definition).is(201)?;
        let gadgets = format!("{group}/v1~/gadgets");
        api.until(&gadgets, |a| a.clone().is(200).map(drop))?;
        api.post(&gadgets, "{apiVersion: '{ns}.streams.example.com/v1', kind: Gadget, metadata: {name: a}, spec: {color: red}}").is(201)?;
        let mut all = api.watch(&format!("{gadgets}?{STREAM}"))?;
        let (objects, end) = state(&mut all)?;
        ensure!(objects.len() == 1 && objects[0]["spec"]["size"] == 3 && objects[0]["kind"] == "Gadget", "{objects:?}");
        ensure!(end["kind"] == "Gadget" && end["metadata"]["annotations"][ENDS] == "true", "{end}");
        let mut red = api.watch(&format!("{gadgets}?fieldSelector=spec.color%3Dred&{STREAM}"))?;
        ensure!(state(&mut red)?.0.len() == 1, "one is red");
        let mut blue = api.watch(&format!("{gadgets}?fieldSelector=spec.color%3Dblue&{STREAM}"))?;
        ensure!(state(&mut blue)?.0.is_empty(), "none is blue");
        api.patch("merge", &format!("{gadgets}/a"), "{spec: {color: blue}}").is(200)?;
        all.expect("MODIFIED", "{spec: {color: blue, size: 3}}")?;
        red.expect("DELETED", "{metadata: {name: a}, spec: {color: red}}")?;
        blue.expect("ADDED", "{metadata: {name: a}, spec: {color: blue, size: 3}}").map(drop)
    });
    s.check("a stream of nothing is only the bookmark", STREAMS, |api| {
        let mut watch = api.watch(&format!("v1~/configmaps?labelSelector=none&{STREAM}"))?;
        let (objects, end) = state(&mut watch)?;
        ensure!(objects.is_empty() && end["metadata"]["resourceVersion"].is_string(), "{objects:?} {end}");
        Ok(())
    });
    s.check("a stream of one object by its name", STREAMS, |api| {
        config(api, "a")?;
        config(api, "b")?;
        let mut watch = api.watch(&format!("v1~/configmaps?fieldSelector=metadata.name%3Db&{STREAM}"))?;
        let (objects, _) = state(&mut watch)?;
        ensure!(objects.len() == 1 && objects[0]["metadata"]["name"] == "b", "{objects:?}");
        api.delete("v1~/configmaps/a").is(200)?;
        api.delete("v1~/configmaps/b").is(200)?;
        watch.expect("DELETED", "{metadata: {name: b}}").map(drop)
    });
    s.check("many objects are streamed whole and once", STREAMS, |api| {
        for i in 0..200 {
            config(api, &format!("c{i:03}"))?;
        }
        let mut watch = api.watch(&format!("v1~/configmaps?labelSelector=w&{STREAM}"))?;
        let (objects, _) = state(&mut watch)?;
        let mut names: Vec<_> = objects.iter().filter_map(|o| o["metadata"]["name"].as_str()).collect();
        names.sort_unstable();
        names.dedup();
        ensure!(names.len() == 200 && objects.len() == 200, "{} names, {} objects", names.len(), objects.len());
        Ok(())
    });
    s.check("initial events without bookmarks have no end", CACHER, |api| {
        config(api, "a")?;
        let mut watch =
            api.watch("v1~/configmaps?labelSelector=w&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")?;
        watch.expect("ADDED", "{metadata: {name: a}}")?;
        config(api, "b")?;
        watch.expect("ADDED", "{metadata: {name: b}}").map(drop)
    });
    s.check("sendInitialEvents=false begins with what comes", CACHER, |api| {
        config(api, "a")?;
        for version in ["", "&resourceVersion=0"] {
            let mut watch = api.watch(&format!(
                "v1~/configmaps?labelSelector=w&sendInitialEvents=false&resourceVersionMatch=NotOlderThan{version}"
            ))?;
            api.patch("merge", "v1~/configmaps/a", json!({ "data": { "version": format!("v{version}") } })).is(200)?;
            watch.expect("MODIFIED", "{metadata: {name: a}}")?;
        }
        Ok(())
    });
    s.check("sendInitialEvents=false with a version goes on from there", CACHER, |api| {
        let version = config(api, "a")?;
        config(api, "b")?;
        let mut watch = api.watch(&format!(
            "v1~/configmaps?labelSelector=w&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion={version}"
        ))?;
        watch.expect("ADDED", "{metadata: {name: b}}").map(drop)
    });
    s.check("a watch without a version begins as a stream", OPTIONS, |api| {
        config(api, "a")?;
        for version in ["", "&resourceVersion=0"] {
            let mut watch = api.watch(&format!("v1~/configmaps?labelSelector=w&allowWatchBookmarks=true{version}"))?;
            let (objects, end) = state(&mut watch)?;
            ensure!(objects.len() == 1 && end["metadata"]["annotations"][ENDS] == "true", "{objects:?} {end}");
        }
        Ok(())
    });
    s.check("a watch from a version has no bookmark that ends a state", CACHER, |api| {
        let version = config(api, "a")?;
        let mut watch = api.watch(&format!(
            "v1~/configmaps?labelSelector=w&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds=3"
        ))?;
        let event = watch.next()?.context("the bookmark before the end")?;
        ensure!(event["type"] == "BOOKMARK" && event["object"]["metadata"]["annotations"].is_null(), "{event}");
        Ok(())
    });
    s.check(
        "a change of a selected field is ADDED and DELETED",
        "staging/src/k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go convertToWatchEvent",
        |api| {
            let mut cluster = api.watch("v1~/services?fieldSelector=spec.type%3DClusterIP&labelSelector=w")?;
            let mut ports = api.watch("v1~/services?fieldSelector=spec.type%3DNodePort&labelSelector=w")?;
            api.post("v1~/services", "{metadata: {name: s, labels: {w: x}}, spec: {ports: [{port: 80}]}}").is(201)?;
            cluster.expect("ADDED", "{metadata: {name: s}}")?;
            let changed = api.patch("merge", "v1~/services/s", "{spec: {type: NodePort}}").is(200)?;
            let gone = cluster.expect("DELETED", "{metadata: {name: s}, spec: {type: ClusterIP}}")?;
            ensure!(gone["metadata"]["resourceVersion"] == changed.version(), "the version of the change: {gone}");
            ports.expect("ADDED", "{metadata: {name: s}, spec: {type: NodePort}}").map(drop)
        },
    );
    s.check(
        "protobuf: watch frames with their length",
        "staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go LengthDelimitedFramer",
        |api| {
            config(api, "a")?;
            let proto = api.with("Accept", "application/vnd.kubernetes.protobuf;stream=watch");
            let answer =
                proto.get(&format!("v1~/configmaps?watch=true&labelSelector=w&timeoutSeconds=1&{STREAM}")).is(200)?;
            ensure!(
                answer.header("content-type") == "application/vnd.kubernetes.protobuf;stream=watch",
                "{}",
                answer.header("content-type")
            );
            let (mut rest, mut kinds) = (answer.bytes.as_slice(), Vec::new());
            while let Some((length, tail)) = rest.split_first_chunk::<4>() {
                let (frame, tail) =
                    tail.split_at_checked(u32::from_be_bytes(*length) as usize).context("a whole frame")?;
                // WatchEvent: field 1 is the type, field 2 holds the object, which begins with the prefix of the encoding.
                let (kind, object) =
                    frame.split_at_checked(2 + usize::from(*frame.get(1).context("a length")?)).context("a type")?;
                kinds.push(String::from_utf8_lossy(&kind[2..]).into_owned());
                ensure!(frame[0] == 0x0a && object.first() == Some(&0x12), "{frame:?}");
                ensure!(
                    object.windows(4).any(|w| w == b"k8s\0") && object.windows(9).any(|w| w == b"ConfigMap"),
                    "{object:?}"
                );
                rest = tail;
            }
            ensure!(rest.is_empty() && kinds.starts_with(&["ADDED".to_owned(), "BOOKMARK".to_owned()]), "{kinds:?}");
            Ok(())
        },
    );
    s.check(
        "protobuf: objects and lists for who takes nothing else",
        "staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go",
        |api| {
            config(api, "a")?;
            let proto = api.with("Accept", "application/vnd.kubernetes.protobuf");
            for (path, kind) in [("v1~/configmaps/a", "ConfigMap"), ("v1~/configmaps?labelSelector=w", "ConfigMapList")]
            {
                let answer = proto.get(path).is(200)?;
                ensure!(answer.header("content-type") == "application/vnd.kubernetes.protobuf", "{path}");
                ensure!(answer.bytes.starts_with(b"k8s\0"), "{path}: the prefix");
                ensure!(answer.bytes.windows(kind.len()).any(|w| w == kind.as_bytes()), "{path}: {kind}");
            }
            Ok(())
        },
    );
    s.check(
        "YAML is no encoding of a watch",
        "staging/src/k8s.io/apimachinery/pkg/runtime/serializer/codec_factory.go (no StreamSerializer)",
        |api| {
            api.with("Accept", "application/yaml")
                .get("v1~/configmaps?watch=true&timeoutSeconds=1")
                .refused(406, "NotAcceptable", "only the following media types are accepted")
                .map(drop)
        },
    );
    s.check(
        "answers above 128 KiB are compressed for who takes it",
        "staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/writers.go (defaultGzipThresholdBytes)",
        |api| {
            let gzip = api.with("Accept-Encoding", "gzip");
            let large = "x".repeat(50_000);
            for name in ["a", "b"] {
                api.post(
                    "v1~/configmaps",
                    json!({ "metadata": { "name": name, "labels": { "w": "x" } }, "data": { "k": large } }),
                )
                .is(201)?;
            }
            let small = gzip.get("v1~/configmaps?labelSelector=w").is(200)?;
            ensure!(
                small.header("content-encoding").is_empty() && small.names() == ["a", "b"],
                "{}",
                small.header("content-encoding")
            );
            api.post(
                "v1~/configmaps",
                json!({ "metadata": { "name": "c", "labels": { "w": "x" } }, "data": { "k": large } }),
            )
            .is(201)?;
            let many = gzip.get("v1~/configmaps?labelSelector=w").is(200)?;
            ensure!(
                many.header("content-encoding") == "gzip" && many.bytes.starts_with(&[0x1f, 0x8b]),
                "{} bytes",
                many.bytes.len()
            );
            ensure!(many.bytes.len() < 10_000, "{} bytes", many.bytes.len());
            let plain = api.get("v1~/configmaps?labelSelector=w").is(200)?;
            ensure!(
                plain.header("content-encoding").is_empty() && plain.names() == ["a", "b", "c"],
                "{:?}",
                plain.names()
            );
            Ok(())
        },
    );
}
