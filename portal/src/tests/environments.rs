//! Environments, templates, audit and events through the REST API.

use axum::body::Body;
use futures::StreamExt;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use vctl_api::rest::{Change, Phase};

use crate::{environments::changes::Since, testing::World};

async fn refused(world: &World, body: Value, status: StatusCode, kind: &str) -> Value {
    let (got, problem) = world.call("POST", "/api/v1/environments", Some(body.clone())).await;
    assert_eq!((got, problem["type"].as_str()), (status, Some(kind)), "{body}: {problem}");
    problem
}

#[tokio::test]
async fn bad_input_is_refused_with_what_would_be_right() {
    use StatusCode as S;
    let world = World::new();
    let problem =
        refused(&world, json!({"name": "My_Env", "template": "blank"}), S::UNPROCESSABLE_ENTITY, "invalid-name").await;
    assert_eq!(problem["nearest"], json!(["my-env"]));
    let problem =
        refused(&world, json!({"name": "e", "template": "taem-x"}), S::UNPROCESSABLE_ENTITY, "unknown-template").await;
    assert_eq!(problem["nearest"], json!(["team-x"]));
    let wrong = json!({"name": "e", "template": "team-x", "parameters": {"repilcas": 1}});
    let problem = refused(&world, wrong, S::UNPROCESSABLE_ENTITY, "unknown-parameter").await;
    assert_eq!(problem["nearest"], json!(["replicas"]));
    let wrong = json!({"name": "e", "template": "team-x", "parameters": {"replicas": "lots"}});
    refused(&world, wrong, S::UNPROCESSABLE_ENTITY, "invalid-parameter").await;
    refused(&world, json!({"name": "e"}), S::UNPROCESSABLE_ENTITY, "invalid-body").await;
    let wrong = json!({"name": "e", "template": "blank", "colour": 1});
    refused(&world, wrong, S::UNPROCESSABLE_ENTITY, "invalid-body").await;
    let (_, audit) = world.call("GET", "/api/v1/audit", None).await;
    assert_eq!(audit["items"], json!([]), "a refused request changes nothing");
}

#[tokio::test]
async fn a_change_writes_intent_audit_entry_and_job_together() {
    let world = World::new();
    let before = world.portal.inner().environments.documents.revision().await.expect("revision");
    let job = world.create("env", "team-x").await;
    let after = world.portal.inner().environments.documents.revision().await.expect("revision");
    assert_eq!(
        after - before,
        6,
        "environment, job, audit entry, its chain, secrets and the template in one transaction"
    );
    let (_, audit) = world.call("GET", "/api/v1/audit", None).await;
    let entry = &audit["items"][0];
    assert_eq!(
        (&entry["action"], &entry["subject"], &entry["detail"]["job"]),
        (&"environment.create".into(), &"env".into(), &job.into())
    );

    let (status, problem) =
        world.call("POST", "/api/v1/environments", Some(json!({"name": "env", "template": "blank"}))).await;
    assert_eq!((status, &problem["type"]), (StatusCode::CONFLICT, &"already-exists".into()));
    assert_eq!(
        world.portal.inner().environments.documents.revision().await.expect("revision"),
        after,
        "a refused create writes nothing"
    );
}

#[tokio::test]
async fn passwords_are_never_shown() {
    let world = World::new();
    world.portal.start();
    let password = "correcthorse1";
    let body = json!({"name": "env", "template": "team-x", "parameters": {"redisPassword": password}});
    let (_, created) = world.call("POST", "/api/v1/environments", Some(body)).await;
    world.ended(created["job"].as_str().expect("job")).await;
    for path in ["environments", "environments/env", "jobs", "audit"] {
        let (status, answer) = world.call("GET", &format!("/api/v1/{path}"), None).await;
        assert!(status == StatusCode::OK && !answer.to_string().contains(password), "{path}: {answer}");
    }
    world.tasks.stop();
}

#[tokio::test]
async fn life_of_an_environment() {
    let world = World::new();
    world.portal.start();
    let job = world.ended(&world.create("env", "team-x").await).await;
    assert_eq!(job.error, "");
    let steps: Vec<_> = job.steps.iter().map(|s| (s.name.as_str(), s.message.as_str())).collect();
    assert_eq!(
        steps,
        [
            ("create virtual cluster", "https://127.0.0.1:8443/clusters/env"),
            ("render template", "team-x 1.0.0: 6 objects"),
            ("apply manifests", "6 created, 0 configured, 0 unchanged"),
            ("wait for workloads", "nothing to wait for"),
        ]
    );
    let (_, environment) = world.call("GET", "/api/v1/environments/env", None).await;
    assert_eq!((&environment["phase"], &environment["pods"]["total"]), (&"Ready".into(), &2.into()));
    assert_eq!(environment["kubernetesVersion"], "v1.36.0");
    let (_, kubeconfig) = world.call("GET", "/api/v1/environments/env/kubeconfig", None).await;
    assert_eq!(kubeconfig["kubeconfig"], "users: [{name: env, user: {client-key-data: KEY}}]\n");

    world.planes.state().draining = 3;
    let (status, job) = world.call("DELETE", "/api/v1/environments/env?wait", None).await;
    assert_eq!((status, &job["state"]), (StatusCode::OK, &"succeeded".into()), "{job}");
    assert!(world.planes.state().clusters.is_empty());
    let (status, problem) = world.call("GET", "/api/v1/environments/env", None).await;
    assert_eq!((status, &problem["type"]), (StatusCode::NOT_FOUND, &"not-found".into()));
    let (_, audit) = world.call("GET", "/api/v1/audit?limit=3", None).await;
    let actions: Vec<_> =
        audit["items"].as_array().expect("items").iter().map(|e| e["action"].as_str().expect("action")).collect();
    assert_eq!(actions, ["environment.deleted", "environment.delete", "environment.kubeconfig"]);
    let next = audit["next"].as_str().expect("more");
    let (_, rest) = world.call("GET", &format!("/api/v1/audit?after={next}"), None).await;
    assert_eq!(rest["items"].as_array().map(Vec::len), Some(2));
    world.create("env", "blank").await;
    world.tasks.stop();
}

#[tokio::test]
async fn near_names_are_offered() {
    let world = World::new();
    world.create("frontend", "blank").await;
    for (method, path) in [("GET", "frontned"), ("DELETE", "frontned"), ("GET", "frontned/kubeconfig")] {
        let (status, problem) = world.call(method, &format!("/api/v1/environments/{path}"), None).await;
        assert_eq!((status, &problem["nearest"]), (StatusCode::NOT_FOUND, &json!(["frontend"])), "{method} {path}");
    }
}

#[tokio::test]
async fn entity_tags_spare_and_protect() {
    let world = World::new();
    world.create("env", "blank").await;
    let request = |method: &str, name: &'static str, tag: &str| {
        Request::builder()
            .method(method)
            .uri("/api/v1/environments/env")
            .header("authorization", format!("Bearer {}", world.token))
            .header(name, tag)
            .body(Body::empty())
            .expect("request")
    };
    let first = world.send(request("GET", "accept", "*/*")).await;
    let tag = first.headers()["etag"].to_str().expect("tag").to_owned();
    let again = world.send(request("GET", "if-none-match", &tag)).await;
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    let stale = world.send(request("DELETE", "if-match", "\"99999-x\"")).await;
    assert_eq!(stale.status(), StatusCode::PRECONDITION_FAILED);
    let fresh = world.send(request("DELETE", "if-match", &tag)).await;
    assert_eq!(fresh.status(), StatusCode::ACCEPTED);
}

#[tokio::test]
async fn changes_are_streamed_and_can_be_resumed() {
    let world = World::new();
    let environments = &world.portal.inner().environments;
    let access = || world.portal.inner().access.clone();
    let permit = world.administrator().await;
    let mut live = Box::pin(environments.changes(Since::Now, access(), permit.clone()).await.expect("changes").1);
    world.create("env", "blank").await;
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let next = tokio::time::timeout(std::time::Duration::from_secs(5), live.next()).await.expect("in time");
        seen.push(next.expect("change"));
    }
    let creating =
        |change: &Change| matches!(change, Change::Environment { object } if object.phase == Phase::Creating);
    assert!(
        seen.iter().any(|(_, change)| creating(change)) && seen.iter().any(|(_, c)| matches!(c, Change::Job { .. }))
    );
    // Whichever of the two came first: whoever goes on after it gets the other one.
    let position = seen[0].0.to_string().parse().expect("position");
    let mut resumed =
        Box::pin(environments.changes(Since::After(position), access(), permit.clone()).await.expect("changes").1);
    assert_eq!(resumed.next().await.expect("change"), seen[1]);
    let ahead = "100000.100000".parse().expect("position");
    let mut ahead = Box::pin(environments.changes(Since::After(ahead), access(), permit).await.expect("changes").1);
    assert!(matches!(ahead.next().await, Some((_, Change::Reset))), "a revision of another life of the server");
}

#[tokio::test]
async fn templates_say_what_can_be_set() {
    let world = World::new();
    let (_, all) = world.call("GET", "/api/v1/templates", None).await;
    let names: Vec<_> = all["items"].as_array().expect("items").iter().map(|t| t["name"].clone()).collect();
    assert_eq!(names, ["blank", "operator-development", "team-x", "web-with-redis-and-postgres"]);
    let (_, template) = world.call("GET", "/api/v1/templates/team-x", None).await;
    assert_eq!(template["parameters"][2]["type"], "number");
    let (status, problem) = world.call("GET", "/api/v1/templates/teamx", None).await;
    assert_eq!((status, &problem["nearest"]), (StatusCode::NOT_FOUND, &json!(["team-x"])));
    let (_, status) = world.call("GET", "/api/v1/status", None).await;
    assert_eq!((&status["version"], &status["environments"]), (&"0.0.0-test".into(), &0.into()));
}
