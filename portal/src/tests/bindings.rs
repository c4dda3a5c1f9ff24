//! Resources, and environments that are bound to them, through the REST API.

use http::StatusCode;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use vctl_api::rest::JobState;

use crate::{ports::PortError, testing::World};

const TEMPLATE: &str =
    "bindings:\n  - name: api\n    kind: http\n    mocked: {host: stand-in, port: 8080, secret: stand-in}\n";
const USER: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: user}\ndata:\n  host: {{ bindings.api.host }}\n  \
                    secret: {{ bindings.api.secret }}\n  kind: {{ environment.kind }}\n";
const STAND_IN: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: stand-in}\n";

fn template(world: &World) {
    world.template_with("app", "1.0.0", TEMPLATE, &[("user.yaml", USER)]);
    world.template_file("app", "mocked/stand-in.yaml", STAND_IN);
}

/// An HTTP server that wants a password.
async fn server(world: &World) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let port = listener.local_addr().expect("address").port();
    world.tasks.spawn_until_stopped("played server", async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = vec![0; 4096];
            let read = stream.read(&mut bytes).await.unwrap_or_default();
            // user:s3cret
            let good = String::from_utf8_lossy(&bytes[..read]).contains("Basic dXNlcjpzM2NyZXQ=");
            let status = if good { "200 OK" } else { "401 Unauthorized" };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    port
}

async fn add(world: &World, port: u16, password: &str) -> (StatusCode, Value) {
    let body = json!({"name": "billing", "kind": "http", "host": "127.0.0.1", "port": port, "user": "user", "password": password});
    world.call("POST", "/api/v1/resources", Some(body)).await
}

#[tokio::test]
async fn resources_are_kept_asked_and_forgotten_and_their_passwords_not_shown() {
    let world = World::new();
    let port = server(&world).await;
    assert_eq!(add(&world, port, "wr0ng").await.0, StatusCode::CREATED);
    let (_, probe) = world.call("POST", "/api/v1/resources/billing/probe", None).await;
    assert_eq!(probe["ok"], false);
    assert!(probe["message"].as_str().expect("text").contains("refuses user \"user\""), "{probe}");
    assert_eq!(add(&world, port, "s3cret").await.0, StatusCode::CREATED);
    let (_, probe) = world.call("POST", "/api/v1/resources/billing/probe", None).await;
    assert_eq!(probe["ok"], true, "{probe}");
    let (_, list) = world.call("GET", "/api/v1/resources", None).await;
    assert_eq!((&list["items"][0]["name"], &list["items"][0]["hasPassword"]), (&"billing".into(), &true.into()));
    let (_, audit) = world.call("GET", "/api/v1/audit", None).await;
    assert!(!list.to_string().contains("s3cret") && !audit.to_string().contains("s3cret"));
    let certificate = rcgen::generate_simple_self_signed(vec!["h".to_owned()]).expect("certificate");
    let pem = certificate.cert.pem();
    let private = json!({"name": "private", "kind": "http", "host": "h", "tls": true, "caBundle": pem});
    let (status, added) = world.call("POST", "/api/v1/resources", Some(private)).await;
    assert_eq!((status, &added["caBundle"]), (StatusCode::CREATED, &pem.clone().into()), "{added}");
    let (_, audit) = world.call("GET", "/api/v1/audit?action=resource.add", None).await;
    let told = |i: usize| &audit["items"][i]["detail"]["caBundle"];
    let fingerprint = hex::encode(ring::digest::digest(&ring::digest::SHA256, pem.as_bytes()));
    assert_eq!((told(0), told(1)), (&format!("sha256:{fingerprint}").into(), &Value::Null), "{audit}");
    for wrong in [
        json!({"name": "A B", "kind": "http", "host": "h"}),
        json!({"name": "a", "kind": "http", "host": "h h"}),
        json!({"name": "a", "kind": "postgres", "host": "h"}),
        json!({"name": "a", "kind": "http", "host": "h", "caBundle": certificate.cert.pem()}),
        json!({"name": "a", "kind": "http", "host": "h", "tls": true, "caBundle": certificate.signing_key.serialize_pem()}),
        json!({"name": "a", "kind": "http", "host": "h", "tls": true, "caBundle": "x"}),
    ] {
        let (status, problem) = world.call("POST", "/api/v1/resources", Some(wrong)).await;
        assert_eq!((status, &problem["type"]), (StatusCode::UNPROCESSABLE_ENTITY, &"invalid-resource".into()));
    }
    assert_eq!(world.call("DELETE", "/api/v1/resources/billing", None).await.0, StatusCode::OK);
    assert_eq!(world.call("DELETE", "/api/v1/resources/billing", None).await.0, StatusCode::NOT_FOUND);
    world.tasks.stop();
}

#[tokio::test]
async fn one_manifest_serves_stand_ins_and_real_resources() {
    let world = World::new();
    template(&world);
    world.portal.start();
    let job = world.ended(&world.create("mocked", "app").await).await;
    assert_eq!(job.state, JobState::Succeeded, "{}", job.error);
    let objects = |name: &str| world.planes.state().clusters[name].iter().cloned().collect::<Vec<_>>();
    assert_eq!(objects("mocked"), ["ConfigMap/stand-in", "ConfigMap/user"]);

    let port = server(&world).await;
    let real = |bindings: Value| json!({"name": "real", "template": "app", "kind": "real", "bindings": bindings});
    let refused = async |body: Value, why: &str| {
        let (status, problem) = world.call("POST", "/api/v1/environments", Some(body)).await;
        assert_eq!(
            (status, &problem["type"]),
            (StatusCode::UNPROCESSABLE_ENTITY, &"invalid-binding".into()),
            "{problem}"
        );
        assert!(problem["detail"].as_str().expect("detail").contains(why), "{why}: {problem}");
    };
    refused(real(json!({})), "--bind api=RESOURCE").await;
    refused(real(json!({"api": "billing"})), "there is no resource \"billing\"").await;
    refused(real(json!({"apy": "billing"})), "no binding \"apy\"").await;
    refused(json!({"name": "e", "template": "app", "bindings": {"api": "billing"}}), "--kind real").await;
    refused(json!({"name": "e", "template": "blank", "kind": "real"}), "no bindings").await;
    add(&world, port, "wr0ng").await;
    refused(real(json!({"api": "billing"})), "resource \"billing\": 127.0.0.1").await;
    add(&world, port, "s3cret").await;
    let (status, created) = world.call("POST", "/api/v1/environments", Some(real(json!({"api": "billing"})))).await;
    assert_eq!(status, StatusCode::CREATED, "{created}");
    let job = world.ended(created["job"].as_str().expect("job")).await;
    assert_eq!(job.state, JobState::Succeeded, "{}", job.error);
    assert_eq!(objects("real"), ["ConfigMap/user", "Secret/binding-api"]);
    let (_, environment) = world.call("GET", "/api/v1/environments/real", None).await;
    assert_eq!((&environment["kind"], &environment["bindings"]["api"]), (&"real".into(), &"billing".into()));
    let (status, problem) = world.call("DELETE", "/api/v1/resources/billing", None).await;
    assert_eq!((status, &problem["type"]), (StatusCode::CONFLICT, &"conflict".into()), "{problem}");
    let detail = problem["detail"].as_str().expect("detail");
    assert!(detail.contains("real is bound to it: delete it first") && !detail.contains("vctl set"), "{problem}");
    world.tasks.stop();
}

const REFERENCES: &str = "parameters:\n  - {name: api, type: resource, resourceKind: http, required: true}\n  \
                          - {name: search_2, type: resource}\n";
const REFERRING: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: user}\ndata:\n  name: {{ parameters.api }}\n  \
                         host: {{ bindings.api.host }}\n  secret: {{ bindings.api.secret }}\n  ca: {{ bindings.api.ca }}\n{% if parameters.search_2 %}\
                         ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: search}\ndata:\n  kind: {{ bindings.search_2.kind }}\n{% endif %}";

#[tokio::test]
async fn a_parameter_names_a_resource_whose_facts_manifests_get() {
    let world = World::new();
    world.template_with("app", "1.0.0", REFERENCES, &[("user.yaml", REFERRING)]);
    world.portal.start();
    let port = server(&world).await;
    let body = |parameters: Value| json!({"name": "e", "template": "app", "parameters": parameters});
    let refused = async |parameters: Value, why: &str| {
        let (status, problem) = world.call("POST", "/api/v1/environments", Some(body(parameters))).await;
        let kind = &problem["type"];
        assert_eq!((status, kind), (StatusCode::UNPROCESSABLE_ENTITY, &"invalid-parameter".into()), "{problem}");
        assert!(problem["detail"].as_str().expect("detail").contains(why), "{why}: {problem}");
        problem
    };
    add(&world, port, "s3cret").await;
    let database = json!({"name": "orders", "kind": "redis", "host": "127.0.0.1", "port": port});
    assert_eq!(world.call("POST", "/api/v1/resources", Some(database)).await.0, StatusCode::CREATED);
    refused(json!({}), "parameter \"api\": it must be given").await;
    refused(json!({"api": 7}), "7 is not a name of a resource").await;
    let near = refused(json!({"api": "biling"}), "no resource \"biling\" (did you mean billing?)").await;
    assert_eq!(near["nearest"], json!(["billing"]));
    refused(json!({"api": "orders"}), "parameter \"api\" is http, but resource \"orders\" is redis").await;
    refused(json!({"api": "billing", "search_2": "orders"}), "resource \"orders\": 127.0.0.1").await;
    let (status, created) = world.call("POST", "/api/v1/environments", Some(body(json!({"api": "billing"})))).await;
    assert_eq!(status, StatusCode::CREATED, "{created}");
    let job = world.ended(created["job"].as_str().expect("job")).await;
    assert_eq!(job.state, JobState::Succeeded, "{}", job.error);
    let objects = || world.planes.state().clusters["e"].iter().cloned().collect::<Vec<_>>();
    assert_eq!(objects(), ["ConfigMap/user", "Secret/binding-api"], "the environment is mocked, the resource is not");
    let (_, environment) = world.call("GET", "/api/v1/environments/e", None).await;
    assert_eq!(environment["parameters"], json!({"api": "billing", "search_2": null}));
    let (_, audit) = world.call("GET", "/api/v1/audit", None).await;
    assert!(!environment.to_string().contains("s3cret") && !audit.to_string().contains("s3cret"));

    // What it names stays; another one is asked first.
    let (status, problem) = world.call("DELETE", "/api/v1/resources/billing", None).await;
    assert_eq!(status, StatusCode::CONFLICT, "{problem}");
    let detail = problem["detail"].as_str().expect("detail");
    assert!(
        detail.contains("name another one first (`vctl set e api=OTHER`)") && !detail.contains("delete"),
        "{problem}"
    );
    add(&world, port, "wr0ng").await;
    let update = async |parameters: Value| {
        let body = json!({ "parameters": parameters });
        world.call("POST", "/api/v1/environments/e/update", Some(body)).await
    };
    let (status, problem) = update(json!({"search_2": "billing"})).await;
    assert_eq!(
        (status, &problem["type"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &"invalid-parameter".into()),
        "{problem}"
    );
    add(&world, port, "s3cret").await;
    let (status, job) = update(json!({"search_2": "billing"})).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{job}");
    let job = world.ended(job["id"].as_str().expect("job")).await;
    assert_eq!(job.state, JobState::Succeeded, "{}", job.error);
    assert_eq!(objects(), ["ConfigMap/search", "ConfigMap/user", "Secret/binding-api", "Secret/binding-search-2"]);
    assert_eq!(world.call("DELETE", "/api/v1/resources/orders", None).await.0, StatusCode::OK, "nobody names it");
    world.tasks.stop();
}

#[tokio::test]
async fn what_a_project_allows_no_more_is_not_delivered_anew() {
    let world = World::new();
    template(&world);
    world.template_with("named", "1.0.0", REFERENCES, &[("user.yaml", REFERRING)]);
    world.portal.start();
    let port = server(&world).await;
    add(&world, port, "s3cret").await;
    let real = json!({"name": "real", "template": "app", "kind": "real", "bindings": {"api": "billing"}});
    let naming = json!({"name": "naming", "template": "named", "parameters": {"api": "billing"}});
    // The last one's job fails: it can be resumed.
    let mut jobs = Vec::new();
    for (i, body) in [real, naming].into_iter().enumerate() {
        if i == 1 {
            world.planes.state().failures.insert("apply", vec![PortError::Permanent("no".to_owned())]);
        }
        let (status, created) = world.call("POST", "/api/v1/environments", Some(body)).await;
        assert_eq!(status, StatusCode::CREATED, "{created}");
        jobs.push(world.ended(created["job"].as_str().expect("job")).await);
    }
    assert_eq!((jobs[0].state, jobs[1].state), (JobState::Succeeded, JobState::Failed));
    let other = json!({"name": "other", "kind": "http", "host": "127.0.0.1", "port": port});
    assert_eq!(world.call("POST", "/api/v1/resources", Some(other)).await.0, StatusCode::CREATED);
    let allowed = Some(json!({"allowedResources": ["other"]}));
    assert_eq!(world.call("PUT", "/api/v1/projects/default", allowed).await.0, StatusCode::OK);
    add(&world, port, "n3w").await;

    let resume = format!("/api/v1/jobs/{}/resume", jobs[1].id);
    for (path, what) in [
        ("/api/v1/environments/real/update", "binding \"api\""),
        ("/api/v1/environments/real/update/preview", "binding \"api\""),
        (resume.as_str(), "parameter \"api\""),
    ] {
        let (status, problem) = world.call("POST", path, Some(json!({}))).await;
        let kind = problem["type"].as_str();
        assert_eq!((status, kind), (StatusCode::UNPROCESSABLE_ENTITY, Some("resource-not-allowed")), "{problem}");
        let detail = problem["detail"].as_str().expect("detail");
        assert!(detail.starts_with(what) && detail.contains("does not allow resource \"billing\""), "{detail}");
    }
    let allowed = Some(json!({"allowedResources": ["other", "billing"]}));
    assert_eq!(world.call("PUT", "/api/v1/projects/default", allowed).await.0, StatusCode::OK);
    let update = async || world.call("POST", "/api/v1/environments/real/update", Some(json!({}))).await;
    let (status, job) = update().await;
    assert_eq!(status, StatusCode::ACCEPTED, "{job}");
    world.ended(job["id"].as_str().expect("job")).await;

    // Nor what is for other projects from now on.
    assert_eq!(world.call("POST", "/api/v1/projects", Some(json!({"name": "b"}))).await.0, StatusCode::CREATED);
    let moved = json!({"name": "billing", "kind": "http", "host": "127.0.0.1", "port": port, "projects": ["b"]});
    assert_eq!(world.call("POST", "/api/v1/resources", Some(moved)).await.0, StatusCode::CREATED);
    let (status, problem) = update().await;
    assert_eq!((status, &problem["type"]), (StatusCode::UNPROCESSABLE_ENTITY, &"invalid-binding".into()), "{problem}");
    assert!(problem["detail"].as_str().expect("detail").contains("no resource \"billing\" for project"), "{problem}");
    world.tasks.stop();
}
