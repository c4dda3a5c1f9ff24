//! Versions of templates, updates of environments, and jobs that are cancelled and resumed, through the REST API.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use vctl_api::rest::{JobState, Phase};

use crate::{
    documents::SecretsDoc,
    ports::{PortError, Readiness},
    testing::{World, workload},
};

const PARAMETERS: &str = "parameters:\n  - {name: size, type: number, default: 1}\n  - {name: key, type: password}\n";

fn map(name: &str, data: &str) -> String {
    format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: {data}}}\n")
}

fn files(version: &str, more: &str, manifest: &str) -> Value {
    let head = format!("apiVersion: vctl.dev/v1\nkind: Template\nname: app\nversion: {version}\ntitle: T\n{more}");
    json!({ "template.yaml": head, "manifests/all.yaml": manifest })
}

async fn publish(world: &World, version: &str, channel: &str, manifest: &str) -> (StatusCode, Value) {
    let body = json!({ "files": files(version, PARAMETERS, manifest), "channel": channel });
    world.call("POST", "/api/v1/templates", Some(body)).await
}

async fn done(world: &World, (status, job): (StatusCode, Value)) {
    assert_eq!(status, StatusCode::ACCEPTED, "{job}");
    let job = world.ended(job["id"].as_str().expect("id")).await;
    assert_eq!(job.state, JobState::Succeeded, "{}", job.error);
}

const UPDATE: &str = "/api/v1/environments/env/update";

async fn environment(world: &World) -> Value {
    world.call("GET", "/api/v1/environments/env", None).await.1
}

fn objects(world: &World) -> Vec<String> {
    world.planes.state().clusters["env"].iter().cloned().collect()
}

async fn password(world: &World) -> String {
    let environments = &world.portal.inner().environments;
    let secrets = environments.documents.get::<SecretsDoc>("env").await.expect("read").expect("secrets");
    secrets.value.parameters["key"].clone()
}

#[tokio::test]
async fn a_version_is_for_ever_the_same_and_channels_point_to_them() {
    let world = World::new();
    let (status, first) = publish(&world, "1.0.0", "stable", &map("a", "1")).await;
    assert_eq!(status, StatusCode::CREATED, "{first}");
    let (status, again) = publish(&world, "1.0.0", "stable", &map("a", "1")).await;
    assert_eq!((status, &again["digest"]), (StatusCode::CREATED, &first["digest"]));
    let (status, problem) = publish(&world, "1.0.0", "stable", &map("a", "2")).await;
    assert_eq!((status, &problem["type"]), (StatusCode::CONFLICT, &"already-exists".into()));
    publish(&world, "2.0.0-rc.1", "beta", &map("a", "2")).await;
    let (_, template) = world.call("GET", "/api/v1/templates/app", None).await;
    assert_eq!(template["version"], "1.0.0");
    let (_, template) = world.call("GET", "/api/v1/templates/app@beta", None).await;
    assert_eq!(template["version"], "2.0.0-rc.1");
    let (status, problem) = world.call("GET", "/api/v1/templates/app@3.0.0", None).await;
    assert_eq!(
        (status, &problem["nearest"]),
        (StatusCode::NOT_FOUND, &json!(["1.0.0", "2.0.0-rc.1", "beta", "stable"]))
    );
    publish(&world, "2.0.0-rc.1", "stable", &map("a", "2")).await;
    let (_, template) = world.call("GET", "/api/v1/templates/app", None).await;
    assert_eq!(template["version"], "2.0.0-rc.1");
    let (_, versions) = world.call("GET", "/api/v1/templates/app/versions", None).await;
    let seen: Vec<_> =
        versions["items"].as_array().expect("items").iter().map(|v| (&v["version"], &v["channels"])).collect();
    assert_eq!(seen, [(&json!("2.0.0-rc.1"), &json!(["beta", "stable"])), (&json!("1.0.0"), &json!(["stable"]))]);

    for (body, kind) in [
        (json!({ "files": files("1", "", "") }), "broken-template"),
        (json!({ "files": { "template.yaml": "x", "../../etc/passwd": "x" } }), "broken-template"),
        (json!({ "files": {} }), "broken-template"),
        (json!({ "files": files("3.0.0", "", ""), "channel": "Not A Channel" }), "invalid-channel"),
    ] {
        let (status, problem) = world.call("POST", "/api/v1/templates", Some(body)).await;
        assert_eq!((status, problem["type"].as_str()), (StatusCode::UNPROCESSABLE_ENTITY, Some(kind)), "{problem}");
    }
}

#[tokio::test]
async fn an_upgrade_shows_the_difference_applies_it_and_removes_what_is_gone() {
    let world = World::new();
    world.portal.start();
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: '{{ parameters.key }}'}\n";
    publish(
        &world,
        "1.0.0",
        "stable",
        &format!("{}{}{secret}", map("kept", "'{{ parameters.size }}'"), map("old", "1")),
    )
    .await;
    world.ended(&world.create("env", "app").await).await;
    assert_eq!(objects(&world), ["ConfigMap/kept", "ConfigMap/old", "Secret/s"]);
    let made = password(&world).await;
    publish(
        &world,
        "1.1.0",
        "stable",
        &format!("{}{}{secret}", map("kept", "'x{{ parameters.size }}'"), map("new", "1")),
    )
    .await;
    assert_eq!(environment(&world).await["newerVersion"], "1.1.0");

    let body = json!({ "to": "stable", "parameters": { "size": 3 } });
    let (status, preview) = world.call("POST", &format!("{UPDATE}/preview"), Some(body.clone())).await;
    assert_eq!(status, StatusCode::OK, "{preview}");
    let seen: Vec<_> =
        preview["changes"].as_array().expect("changes").iter().map(|c| (&c["change"], &c["name"])).collect();
    let expected = [("update", "kept"), ("create", "new"), ("delete", "old")].map(|(c, n)| (json!(c), json!(n)));
    assert_eq!(seen, expected.iter().map(|(c, n)| (c, n)).collect::<Vec<_>>());
    assert!(preview["changes"][0]["diff"].as_str().expect("diff").contains("-  a: '1'\n+  a: x3\n"), "{preview}");
    assert!(!preview.to_string().contains(&made));
    assert_eq!(environment(&world).await["templateVersion"], "1.0.0", "a preview changes nothing");

    done(&world, world.call("POST", UPDATE, Some(body)).await).await;
    let now = environment(&world).await;
    assert_eq!((&now["phase"], &now["templateVersion"]), (&"Ready".into(), &"1.1.0".into()));
    assert_eq!((&now["parameters"]["size"], &now["newerVersion"]), (&3.into(), &Value::Null));
    assert_eq!(objects(&world), ["ConfigMap/kept", "ConfigMap/new", "Secret/s"]);
    assert_eq!(password(&world).await, made, "a password that was made up stays");

    done(&world, world.call("POST", UPDATE, Some(json!({ "rollback": true }))).await).await;
    let back = environment(&world).await;
    assert_eq!((&back["templateVersion"], &back["parameters"]["size"]), (&"1.0.0".into(), &1.into()));
    assert_eq!(objects(&world), ["ConfigMap/kept", "ConfigMap/old", "Secret/s"]);
    assert_eq!(password(&world).await, made);
    world.tasks.stop();
}

#[tokio::test]
async fn parameters_that_were_given_stay_and_others_follow_the_template() {
    let world = World::new();
    world.portal.start();
    let with = |default: i32| {
        format!(
            "parameters:\n  - {{name: a, type: number, default: {default}}}\n  - {{name: b, type: number, default: {default}}}\n"
        )
    };
    world.template_with("own", "1.0.0", &with(1), &[("m.yaml", &map("m", "'{{ parameters.a }}{{ parameters.b }}'"))]);
    let body = json!({ "name": "env", "template": "own", "parameters": { "a": 7 } });
    let (_, created) = world.call("POST", "/api/v1/environments", Some(body)).await;
    world.ended(created["job"].as_str().expect("job")).await;
    // The directory changes: the environment is pinned to what it was made from.
    world.template_with("own", "1.1.0", &with(2), &[("m.yaml", &map("m", "'{{ parameters.a }}{{ parameters.b }}'"))]);
    let set = json!({ "parameters": { "a": 8 } });
    done(&world, world.call("POST", UPDATE, Some(set)).await).await;
    let now = environment(&world).await;
    assert_eq!((&now["templateVersion"], &now["parameters"]), (&"1.0.0".into(), &json!({"a": 8, "b": 1})));
    done(&world, world.call("POST", UPDATE, Some(json!({ "to": "1.1.0" }))).await).await;
    assert_eq!(environment(&world).await["parameters"], json!({"a": 8, "b": 2}));
    done(&world, world.call("POST", UPDATE, Some(json!({ "parameters": { "a": null } }))).await).await;
    assert_eq!(environment(&world).await["parameters"], json!({"a": 2, "b": 2}));

    for (body, status, kind) in [
        (json!({ "parameters": { "c": 1 } }), StatusCode::UNPROCESSABLE_ENTITY, "unknown-parameter"),
        (json!({ "parameters": { "a": "many" } }), StatusCode::UNPROCESSABLE_ENTITY, "invalid-parameter"),
        (json!({ "to": "9.9.9" }), StatusCode::NOT_FOUND, "not-found"),
        (json!({ "rollback": true, "to": "1.0.0" }), StatusCode::UNPROCESSABLE_ENTITY, "invalid-update"),
    ] {
        let (got, problem) = world.call("POST", UPDATE, Some(body)).await;
        assert_eq!((got, problem["type"].as_str()), (status, Some(kind)), "{problem}");
    }
    world.tasks.stop();
}

#[tokio::test]
async fn an_update_that_fails_can_be_resumed_or_rolled_back() {
    let world = World::new();
    world.portal.start();
    publish(&world, "1.0.0", "stable", &map("m", "1")).await;
    world.ended(&world.create("env", "app").await).await;
    publish(&world, "2.0.0", "stable", &map("n", "1")).await;
    world.planes.state().failures.insert("apply", vec![PortError::Permanent("no such field".to_owned()); 2]);
    let (_, job) = world.call("POST", UPDATE, Some(json!({ "to": "2.0.0" }))).await;
    let id = job["id"].as_str().expect("id");
    assert_eq!(world.ended(id).await.state, JobState::Failed);
    let (status, resumed) = world.call("POST", &format!("/api/v1/jobs/{id}/resume"), None).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{resumed}");
    let again = resumed["id"].as_str().expect("id");
    assert_eq!(world.ended(again).await.state, JobState::Failed);
    let (status, problem) = world.call("POST", &format!("/api/v1/jobs/{id}/resume"), None).await;
    assert_eq!(status, StatusCode::CONFLICT, "only the last job: {problem}");
    let now = environment(&world).await;
    assert_eq!((&now["phase"], now["message"].as_str()), (&"Failed".into(), Some("configmap n: no such field")));
    done(&world, world.call("POST", UPDATE, Some(json!({ "rollback": true }))).await).await;
    assert_eq!(
        (&environment(&world).await["phase"], objects(&world)),
        (&"Ready".into(), vec!["ConfigMap/m".to_owned()])
    );
    done(&world, world.call("POST", UPDATE, Some(json!({ "to": "2.0.0" }))).await).await;
    assert_eq!(objects(&world), ["ConfigMap/n"]);
    world.tasks.stop();
}

#[tokio::test]
async fn a_job_can_be_cancelled_and_resumed() {
    let world = World::new();
    world.planes.state().readiness = Readiness { workloads: vec![workload("web", 0, 1)], unready_pods: Vec::new() };
    world.template("slow", "readyTimeoutSeconds: 3600\n");
    world.template_with("slow", "1.0.0", "readyTimeoutSeconds: 3600\n", &[("m.yaml", &map("m", "1"))]);
    world.portal.start();
    let id = world.create("env", "slow").await;
    let wait = async {
        while world.portal.inner().environments.get("env").await.expect("env").message.is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("it is being worked on");
    let (status, _) = world.call("POST", &format!("/api/v1/jobs/{id}/cancel"), None).await;
    assert_eq!(status, StatusCode::OK);
    let job = world.ended(&id).await;
    assert_eq!(job.state, JobState::Cancelled);
    let now = world.portal.inner().environments.get("env").await.expect("env");
    assert_eq!(now.phase, Phase::Failed);
    assert!(now.message.contains(&format!("vctl jobs resume {id}")), "{}", now.message);
    let (status, problem) = world.call("POST", &format!("/api/v1/jobs/{id}/cancel"), None).await;
    assert_eq!((status, &problem["type"]), (StatusCode::CONFLICT, &"conflict".into()));

    world.planes.state().readiness = Readiness::default();
    let (_, job) = world.call("POST", &format!("/api/v1/jobs/{id}/resume"), None).await;
    assert_eq!(world.ended(job["id"].as_str().expect("id")).await.state, JobState::Succeeded);
    assert_eq!(environment(&world).await["phase"], "Ready");
    world.tasks.stop();
}

#[tokio::test]
async fn what_a_create_would_make_is_shown_without_secrets() {
    let world = World::new();
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {key: '{{ parameters.key }}'}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {key: 'is {{ parameters.key }}', size: '{{ parameters.size }}'}\n";
    assert_eq!(publish(&world, "1.0.0", "stable", secret).await.0, StatusCode::CREATED);
    let body = json!({"name": "env", "template": "app", "parameters": {"key": "hidden-word", "size": 7}});
    let (status, preview) = world.call("POST", "/api/v1/preview", Some(body)).await;
    assert_eq!(status, StatusCode::OK, "{preview}");
    assert_eq!(preview["environment"]["templateVersion"], "1.0.0");
    let changes = preview["changes"].as_array().expect("changes");
    let names: Vec<_> = changes.iter().map(|c| (c["change"].as_str(), c["kind"].as_str())).collect();
    assert_eq!(names, [(Some("create"), Some("Secret")), (Some("create"), Some("ConfigMap"))]);
    assert!(changes[1]["diff"].as_str().is_some_and(|d| d.contains("size: '7'")), "{preview}");
    assert!(!preview.to_string().contains("hidden-word"), "{preview}");
    let (status, _) = world.call("GET", "/api/v1/environments/env", None).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "it was made");
    let (status, problem) = world.call("POST", "/api/v1/preview", Some(json!({"name": "env", "template": "no"}))).await;
    assert_eq!((status, &problem["type"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("unknown-template")));
}
