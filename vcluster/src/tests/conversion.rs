//! Conversion webhooks on a real TLS server. Upstream: `test/e2e/apimachinery/crd_conversion_webhook.go` and apiextensions-apiserver
//! `test/integration/conversion`.

use super::{webhooks::*, *};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const V1: &str = "/apis/stable.example.com/v1/namespaces/default/hosts";
const V2: &str = "/apis/stable.example.com/v2/namespaces/default/hosts";

/// v1 has `hostPort: "host:port"`, v2 has `host` and `port`.
fn definition(hook: &Webhook, storage: &str) -> Value {
    let version = |name: &str, fields: Value| {
        json!({ "name": name, "served": true, "storage": name == storage, "subresources": { "status": {} },
            "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                "spec": { "type": "object", "properties": fields }, "status": { "type": "object", "properties": { "up": { "type": "boolean" } } },
            } } } })
    };
    let text = json!({ "type": "string" });
    json!({
        "metadata": { "name": "hosts.stable.example.com" },
        "spec": { "group": "stable.example.com", "scope": "Namespaced", "names": { "plural": "hosts", "kind": "Host" },
            "versions": [
                version("v1", json!({ "hostPort": text })),
                version("v2", json!({ "host": text, "port": text, "zone": { "type": "string", "default": "z" } })),
            ],
            "conversion": { "strategy": "Webhook", "webhook": { "conversionReviewVersions": ["v9", "v1"], "clientConfig": {
                "url": format!("https://{}/convert", hook.address), "caBundle": hook.bundle,
            } } } },
    })
}

fn convert(request: &Value) -> Value {
    let wanted = request["desiredAPIVersion"].as_str().unwrap();
    let one = |object: &Value| {
        let mut object = object.clone();
        assert_ne!(object["apiVersion"], wanted, "what is right already is not asked about");
        assert!(object["metadata"].get("resourceVersion").is_none());
        object["apiVersion"] = wanted.into();
        let spec = object["spec"].clone();
        let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
        object["spec"] = if wanted.ends_with("v2") {
            let (host, port) = (text("hostPort"), String::new());
            let (host, port) = host.split_once(':').map_or((host.clone(), port), |(h, p)| (h.to_owned(), p.to_owned()));
            json!({ "host": host, "port": port, "unknown": "dropped" })
        } else {
            json!({ "hostPort": format!("{}:{}", text("host"), text("port")) })
        };
        object["metadata"]["annotations"] = json!({ "converted-to": wanted });
        object
    };
    let objects: Vec<Value> = request["objects"].as_array().unwrap().iter().map(one).collect();
    json!({ "result": { "status": "Success" }, "convertedObjects": objects })
}

fn host(version: &str, name: &str, spec: Value) -> Value {
    json!({ "apiVersion": format!("stable.example.com/{version}"), "kind": "Host", "metadata": { "name": name }, "spec": spec })
}

async fn defined(storage: &str) -> (Webhook, Fixture) {
    let hook = Webhook::start().await;
    let f = fixture(&hook).await;
    hook.on("/convert", convert);
    f.ok("POST", DEFINITIONS, definition(&hook, storage)).await;
    (hook, f)
}

#[tokio::test]
async fn objects_are_converted_on_their_way_in_and_out() {
    let (hook, f) = defined("v1").await;
    let made = f.ok("POST", V1, host("v1", "a", json!({ "hostPort": "local:80" }))).await;
    assert!(hook.asked().is_empty(), "the storage version needs no conversion");
    let uid = &made["metadata"]["uid"];
    let read = f.ok("GET", &format!("{V2}/a"), Value::Null).await;
    assert_eq!(read["spec"], json!({ "host": "local", "port": "80", "zone": "z" }), "pruned and defaulted by v2");
    assert_eq!((&read["metadata"]["uid"], &read["apiVersion"]), (uid, &json!("stable.example.com/v2")));
    assert_eq!(read["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    assert_eq!(read["metadata"]["annotations"]["converted-to"], "stable.example.com/v2");
    let asked = hook.asked();
    assert_eq!((asked.len(), &asked[0]["desiredAPIVersion"]), (1, &json!("stable.example.com/v2")));
    // The same state is converted once, for as long as the cluster is in memory: that its creation is told may throw it out once.
    let mut quiet = false;
    for _ in 0..3 {
        f.ok("GET", &format!("{V2}/a"), Value::Null).await;
        f.ok("GET", V2, Value::Null).await;
        quiet |= hook.asked().is_empty();
    }
    assert!(quiet);
    // A write in v2 is stored in v1.
    let mut changed = read;
    changed["spec"]["port"] = "81".into();
    let changed = f.ok("PUT", &format!("{V2}/a"), changed).await;
    assert_eq!(changed["spec"], json!({ "host": "local", "port": "81", "zone": "z" }));
    let asked: Vec<Value> = hook.asked().iter().map(|a| a["desiredAPIVersion"].clone()).collect();
    assert_eq!(asked[asked.len() - 2..], ["stable.example.com/v1", "stable.example.com/v2"]);
    assert_eq!(f.ok("GET", &format!("{V1}/a"), Value::Null).await["spec"], json!({ "hostPort": "local:81" }));
    assert!(hook.asked().is_empty());
    let (_, patched) = f
        .send_as(
            &f.admin,
            &[("content-type", "application/merge-patch+json")],
            "PATCH",
            &format!("{V2}/a/status"),
            json!({ "status": { "up": true } }),
        )
        .await;
    assert_eq!((&patched["status"]["up"], &patched["spec"]["port"]), (&json!(true), &json!("81")));
    f.ok("DELETE", &format!("{V2}/a"), Value::Null).await;
}

#[tokio::test]
async fn a_list_of_several_versions_is_shown_in_one() {
    let (hook, f) = defined("v1").await;
    for name in ["a", "b"] {
        f.ok("POST", V1, host("v1", name, json!({ "hostPort": "h:1" }))).await;
    }
    let uri = format!("{DEFINITIONS}/hosts.stable.example.com");
    let mut live = f.ok("GET", &uri, Value::Null).await;
    live["spec"] = definition(&hook, "v2")["spec"].clone();
    let live = f.ok("PUT", &uri, live).await;
    assert_eq!(live["status"]["storedVersions"], json!(["v1", "v2"]));
    f.ok("POST", V2, host("v2", "c", json!({ "host": "h", "port": "2" }))).await;
    hook.asked();
    let listed = f.ok("GET", V2, Value::Null).await;
    let of = |list: &Value| -> Vec<Value> {
        list["items"].as_array().unwrap().iter().map(|i| json!([i["apiVersion"], i["spec"]])).collect()
    };
    let v2 = |port: &str| json!(["stable.example.com/v2", { "host": "h", "port": port, "zone": "z" }]);
    assert_eq!(of(&listed), [v2("1"), v2("1"), v2("2")]);
    let asked = hook.asked();
    assert_eq!(asked.len(), 1, "one review for the whole list");
    assert_eq!(asked[0]["objects"].as_array().unwrap().len(), 2, "without the one that is in v2 already");
    let v1 = |port: &str| json!(["stable.example.com/v1", { "hostPort": format!("h:{port}") }]);
    assert_eq!(of(&f.ok("GET", V1, Value::Null).await), [v1("1"), v1("1"), v1("2")]);
    assert_eq!(hook.asked()[0]["objects"].as_array().unwrap().len(), 1);
    // Who has written everything anew says so.
    let mut status = f.ok("GET", &uri, Value::Null).await;
    status["status"]["storedVersions"] = json!(["v2"]);
    f.ok("PUT", &format!("{uri}/status"), status).await;
}

#[tokio::test]
async fn watchers_share_conversions() {
    use futures::StreamExt;

    let (hook, f) = defined("v1").await;
    let made = f.ok("POST", V1, host("v1", "a", json!({ "hostPort": "h:1" }))).await;
    let from = made["metadata"]["resourceVersion"].as_str().unwrap();
    let uri = format!("{V2}?watch=1&resourceVersion={from}&timeoutSeconds=20");
    let mut watches = Vec::new();
    for _ in 0..5 {
        let response = f.raw(&f.admin, &[], "GET", &uri, Value::Null).await;
        assert_eq!(response.status(), StatusCode::OK);
        watches.push(Box::pin(response.into_body().into_data_stream()));
    }
    f.ok("POST", V1, host("v1", "b", json!({ "hostPort": "h:2" }))).await;
    let read = watches.iter_mut().map(|w| async {
        let line = w.next().await.unwrap().unwrap();
        serde_json::from_slice::<Value>(&line).unwrap()
    });
    for event in futures::future::join_all(read).await {
        assert_eq!((&event["type"], &event["object"]["spec"]["port"]), (&json!("ADDED"), &json!("2")));
        assert_eq!(event["object"]["apiVersion"], "stable.example.com/v2");
    }
    // Watches that were opened before the cluster's creation was told have a memory of their own.
    let calls = hook.asked().len();
    assert!((1..=2).contains(&calls), "{calls} calls for five watchers");
    f.ok("DELETE", &format!("{V1}/b"), Value::Null).await;
    let event = watches[0].next().await.unwrap().unwrap();
    let event: Value = serde_json::from_slice(&event).unwrap();
    assert_eq!((&event["type"], &event["object"]["spec"]["host"]), (&json!("DELETED"), &json!("h")));
}

#[tokio::test]
async fn failures_are_told_in_upstreams_words() {
    let (hook, f) = defined("v1").await;
    f.ok("POST", V1, host("v1", "a", json!({ "hostPort": "h:1" }))).await;
    let fails = async |why: &str| {
        let (code, answer) = f.send("GET", &format!("{V2}/a"), Value::Null).await;
        assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(answer["message"], format!("conversion webhook for stable.example.com/v1, Kind=Host {why}"));
        assert!(answer.get("reason").is_none(), "{answer}");
    };
    hook.on("/convert", |_| json!({ "result": { "status": "Failure", "message": "custom webhook conversion error" } }));
    fails("failed: custom webhook conversion error").await;
    let (_, refused) = f.send("POST", V2, host("v2", "n", json!({}))).await;
    assert_eq!(
        refused["message"],
        "conversion webhook for stable.example.com/v2, Kind=Host failed: custom webhook conversion error"
    );
    hook.on("/convert", |_| json!({ "uid": "x", "result": { "status": "Success" } }));
    let (_, answer) = f.send("GET", &format!("{V2}/a"), Value::Null).await;
    assert!(answer["message"].as_str().unwrap().ends_with(", got \"x\""), "{answer}");
    hook.on("/convert", |_| json!({ "result": { "status": "Success" }, "convertedObjects": [] }));
    fails("returned 0 objects, expected 1").await;
    hook.on("/convert", |r| json!({ "result": { "status": "Success" }, "convertedObjects": r["objects"] }));
    fails("returned invalid object at index 0: invalid groupVersion (expected stable.example.com/v2, received stable.example.com/v1)").await;
    hook.on("/convert", |r| {
        let mut answer = convert(r);
        answer["convertedObjects"][0]["metadata"]["name"] = "other".into();
        answer
    });
    fails("returned invalid object: must have the same name: a != other").await;
    // Nothing of it was kept, and what needs no conversion goes on.
    f.ok("GET", &format!("{V1}/a"), Value::Null).await;
    hook.on("/convert", convert);
    f.ok("GET", &format!("{V2}/a"), Value::Null).await;
    // A dry run is not encoded, as upstream.
    hook.asked();
    f.ok("POST", &format!("{V2}?dryRun=All"), host("v2", "dry", json!({ "host": "h" }))).await;
    assert!(hook.asked().is_empty());
}

#[tokio::test]
async fn admission_webhooks_see_the_version_they_ask_for() {
    let (hook, f) = defined("v1").await;
    hook.on("/admit", allow);
    let mut configured = hook.hook("v", "/admit");
    configured["rules"] = json!([{ "operations": ["CREATE"], "apiGroups": ["stable.example.com"], "apiVersions": ["v2"], "resources": ["hosts"] }]);
    configure(&f, "validating", "v", vec![configured.clone()]).await;
    f.ok("POST", V1, host("v1", "a", json!({ "hostPort": "h:1" }))).await;
    let asked = hook.asked();
    let review = asked.iter().find(|a| a["path"] == "/admit").unwrap();
    assert_eq!((&review["object"]["spec"]["port"], &review["requestKind"]["version"]), (&json!("1"), &json!("v1")));
    assert_eq!(review["kind"]["version"], "v2");
    configured["matchPolicy"] = "Exact".into();
    let uri = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/v";
    let mut live = f.ok("GET", uri, Value::Null).await;
    live["webhooks"] = json!([configured]);
    f.ok("PUT", uri, live).await;
    f.ok("POST", V1, host("v1", "b", json!({ "hostPort": "h:1" }))).await;
    assert!(hook.asked().is_empty());
}
