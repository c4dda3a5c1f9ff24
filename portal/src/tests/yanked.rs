//! Versions of templates that are offered no more: nothing new is made from them, and what was made from them goes on.

use http::StatusCode;
use serde_json::{Value, json};
use vctl_api::rest::JobState;

use crate::{
    environments::Caller,
    error::Error,
    templates::registry::Origin,
    testing::{SignedIn, World},
};

type S = StatusCode;

const ONE: &str = "/api/v1/templates/app/versions/1.0.0";
const TWO: &str = "/api/v1/templates/app/versions/2.0.0";

fn files(version: &str) -> Value {
    let head = format!(
        "apiVersion: vctl.dev/v1\nkind: Template\nname: app\nversion: {version}\ntitle: T\n\
         parameters:\n  - {{name: size, type: number, default: 1}}\n"
    );
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {size: '{{ parameters.size }}'}\n";
    json!({ "template.yaml": head, "manifests/all.yaml": map })
}

async fn publish(world: &World, version: &str, channel: &str) -> (S, Value) {
    let body = json!({ "files": files(version), "channel": channel });
    world.call("POST", "/api/v1/templates", Some(body)).await
}

async fn yank(world: &World, version: &str, reason: &str) -> Value {
    let (status, answer) = world.call("PATCH", version, Some(json!({ "yanked": true, "yankReason": reason }))).await;
    assert_eq!(status, S::OK, "{answer}");
    answer
}

/// Two stable versions, and an environment of the newer one.
async fn two_versions() -> World {
    let world = World::new();
    world.portal.start();
    for version in ["1.0.0", "2.0.0"] {
        assert_eq!(publish(&world, version, "stable").await.0, S::CREATED);
    }
    let job = world.ended(&world.create("env", "app").await).await;
    assert_eq!(job.state, JobState::Succeeded, "{}", job.error);
    world
}

async fn create(world: &World, template: &str) -> (S, Value) {
    world.call("POST", "/api/v1/environments", Some(json!({"name": "new", "template": template}))).await
}

async fn updated(world: &World, body: Value) -> Value {
    let (status, job) = world.call("POST", "/api/v1/environments/env/update", Some(body)).await;
    assert_eq!(status, S::ACCEPTED, "{job}");
    let job = world.ended(job["id"].as_str().expect("id")).await;
    assert_eq!(job.state, JobState::Succeeded, "{}", job.error);
    world.call("GET", "/api/v1/environments/env", None).await.1
}

#[tokio::test]
async fn a_yanked_version_is_not_offered_and_can_be_taken_back() {
    let world = two_versions().await;
    publish(&world, "2.0.0", "beta").await;
    let answer = yank(&world, TWO, "loses its data").await;
    assert_eq!((&answer["yanked"], &answer["yankReason"]), (&json!(true), &json!("loses its data")));
    assert!(answer["yankedAt"].is_string() && answer["yankedBy"].is_string(), "{answer}");

    let (_, template) = world.call("GET", "/api/v1/templates/app", None).await;
    assert_eq!(template["version"], "1.0.0", "it is not the newest one");
    let (status, problem) = create(&world, "app@2.0.0").await;
    assert_eq!((status, &problem["type"]), (S::UNPROCESSABLE_ENTITY, &json!("yanked-version")), "{problem}");
    assert!(problem["detail"].as_str().expect("why").contains("loses its data"), "{problem}");
    let (status, problem) = create(&world, "app@beta").await;
    assert_eq!((status, &problem["type"]), (S::UNPROCESSABLE_ENTITY, &json!("unknown-template")), "{problem}");
    assert_eq!(problem["nearest"], json!(["1.0.0", "stable"]), "what is offered: {problem}");
    // It can be looked at, and lists say so.
    assert_eq!(world.call("GET", "/api/v1/templates/app@2.0.0", None).await.0, S::OK);
    let (_, versions) = world.call("GET", "/api/v1/templates/app/versions", None).await;
    let seen: Vec<_> =
        versions["items"].as_array().expect("items").iter().map(|v| (&v["version"], &v["yanked"])).collect();
    assert_eq!(seen, [(&json!("2.0.0"), &json!(true)), (&json!("1.0.0"), &json!(false))]);
    let (_, offered) = world.call("GET", "/api/v1/templates/app/versions?yanked=false", None).await;
    assert_eq!(offered["items"].as_array().expect("items").len(), 1);

    // Of a template whose versions are all yanked it is said, and not that there is none.
    yank(&world, ONE, "").await;
    let (status, problem) = create(&world, "app").await;
    assert_eq!((status, &problem["type"]), (S::UNPROCESSABLE_ENTITY, &json!("yanked-version")), "{problem}");
    let (_, templates) = world.call("GET", "/api/v1/templates", None).await;
    assert!(templates["items"].as_array().expect("items").iter().all(|t| t["name"] != "app"));

    let (status, again) = world.call("PATCH", TWO, Some(json!({"yanked": false}))).await;
    assert_eq!((status, &again["yanked"], &again["channels"]), (S::OK, &json!(false), &json!(["stable", "beta"])));
    let (status, made) = create(&world, "app@beta").await;
    assert_eq!((status, &made["templateVersion"]), (S::CREATED, &json!("2.0.0")), "{made}");
    let (_, entries) = world.call("GET", "/api/v1/audit?subject=app", None).await;
    let actions: Vec<_> = entries["items"].as_array().expect("items").iter().map(|e| &e["action"]).collect();
    assert_eq!(actions[..3], [&json!("template.unyank"), &json!("template.yank"), &json!("template.yank")]);
    assert_eq!(entries["items"][2]["detail"]["reason"], "loses its data");
}

#[tokio::test]
async fn environments_of_a_yanked_version_go_on_and_can_leave_it() {
    let world = two_versions().await;
    yank(&world, TWO, "").await;
    let env = updated(&world, json!({"parameters": {"size": 3}})).await;
    assert_eq!((&env["templateVersion"], &env["phase"]), (&json!("2.0.0"), &json!("Ready")), "{env}");
    assert_eq!(updated(&world, json!({"to": "stable"})).await["templateVersion"], "1.0.0");
    let body = json!({"to": "2.0.0"});
    let (status, problem) = world.call("POST", "/api/v1/environments/env/update", Some(body)).await;
    assert_eq!((status, &problem["type"]), (S::UNPROCESSABLE_ENTITY, &json!("yanked-version")), "{problem}");
    // The way back is its own content.
    assert_eq!(updated(&world, json!({"rollback": true})).await["templateVersion"], "2.0.0");
    assert_eq!(updated(&world, json!({"rollback": true})).await["templateVersion"], "1.0.0");
}

#[tokio::test]
async fn nobody_publishes_a_yanked_version_again() {
    let world = two_versions().await;
    yank(&world, TWO, "").await;
    for channel in ["stable", "beta"] {
        let (status, problem) = publish(&world, "2.0.0", channel).await;
        assert_eq!((status, &problem["type"]), (S::CONFLICT, &json!("conflict")), "{problem}");
        assert!(problem["detail"].as_str().expect("why").contains("--undo"), "{problem}");
    }
    // Nor does a Git repository that still has it.
    let registry = &world.portal.inner().environments.registry;
    let caller = Caller { actor: "template-source", user: "", request_id: "r" };
    let files: Vec<(String, String)> = serde_json::from_value::<std::collections::BTreeMap<_, _>>(files("2.0.0"))
        .expect("files")
        .into_iter()
        .collect();
    let origin = Origin { source: "team".to_owned(), commit: "c".to_owned() };
    let take_over = ["app".to_owned()];
    let again = registry.publish_of_source(caller, files, "stable", (origin, &take_over), world.clock.now()).await;
    assert!(matches!(&again, Err(Error::Conflict(why)) if why.contains("yanked")), "{again:?}");
    let (_, template) = world.call("GET", "/api/v1/templates/app", None).await;
    assert_eq!(template["version"], "1.0.0");
}

#[tokio::test]
async fn only_what_was_published_is_yanked_and_only_by_whoever_may_as_it_was_read() {
    let world = two_versions().await;
    let change = |who: Option<SignedIn>, path: &'static str, body: Value| {
        let world = &world;
        async move { world.call_as(who.as_ref(), "PATCH", path, Some(body)).await }
    };
    let yanked = json!({"yanked": true});
    let (status, problem) = world.call("PATCH", "/api/v1/templates/blank/versions/1.0.0", Some(yanked.clone())).await;
    assert_eq!((status, &problem["type"]), (S::CONFLICT, &json!("conflict")), "{problem}");
    let (status, problem) = world.call("PATCH", "/api/v1/templates/app/versions/2.0.1", Some(yanked.clone())).await;
    assert_eq!((status, &problem["nearest"][0]), (S::NOT_FOUND, &json!("2.0.0")), "{problem}");
    let (status, problem) = world.call("PATCH", ONE, Some(json!({"yanked": false, "yankReason": "x"}))).await;
    assert_eq!((status, &problem["type"]), (S::UNPROCESSABLE_ENTITY, &json!("invalid-reason")), "{problem}");
    assert_eq!(change(Some(world.sign_in("dev", &[]).await), ONE, yanked.clone()).await.0, S::FORBIDDEN);
    assert_eq!(change(None, ONE, yanked.clone()).await.0, S::UNAUTHORIZED);

    let (_, version) = world.call("GET", ONE, None).await;
    let matches = |revision: &Value| {
        let request = http::Request::builder()
            .method("PATCH")
            .uri(ONE)
            .header("authorization", format!("Bearer {}", world.token))
            .header("content-type", "application/json")
            .header("if-match", format!("\"{revision}\""));
        world.send(request.body(axum::body::Body::from(r#"{"yanked": true}"#)).expect("request"))
    };
    assert_eq!(matches(&json!(999)).await.status(), S::PRECONDITION_FAILED);
    assert_eq!(matches(&version["revision"]).await.status(), S::OK);
    assert_eq!(matches(&version["revision"]).await.status(), S::PRECONDITION_FAILED, "it has changed");
}
