//! Projects, teams, roles, shares: who sees what, and that nobody gives what they do not have.

use axum::body::Body;
use futures::StreamExt;
use http::{Request, StatusCode};
use serde_json::{Value, json};

use crate::testing::{SignedIn, World};

type S = StatusCode;

async fn ok(world: &World, method: &str, path: &str, body: Value) -> Value {
    let (status, answer) = world.call(method, path, Some(body)).await;
    assert!(status.is_success(), "{method} {path}: {status} {answer}");
    answer
}

async fn status(world: &World, who: &SignedIn, method: &str, path: &str, body: Option<Value>) -> (S, String) {
    let (status, answer) = world.call_as(Some(who), method, path, body).await;
    (status, answer["detail"].as_str().unwrap_or_default().to_owned())
}

fn names(page: &Value) -> Vec<&str> {
    page["items"].as_array().expect("items").iter().map(|i| i["name"].as_str().expect("name")).collect()
}

fn member(kind: &str, name: &str, role: &str) -> Value {
    json!({"kind": kind, "name": name, "role": role})
}

#[tokio::test]
async fn lists_show_what_one_may_see_and_the_rest_is_not_there() {
    let world = World::new();
    let (ann, ben) = (world.sign_in("ann", &[]).await, world.sign_in("ben", &["ops"]).await);
    ok(&world, "POST", "/api/v1/projects", json!({"name": "a", "members": [member("user", "ann", "developer")]})).await;
    ok(&world, "PUT", "/api/v1/teams/b-team", json!({"groups": ["ops"]})).await;
    ok(&world, "POST", "/api/v1/projects", json!({"name": "b", "members": [member("team", "b-team", "viewer")]})).await;
    for (name, project) in [("in-a", "a"), ("in-b", "b"), ("in-default", "default")] {
        ok(&world, "POST", "/api/v1/environments", json!({"name": name, "template": "blank", "project": project}))
            .await;
    }
    for (who, project, environment) in [(&ann, "a", "in-a"), (&ben, "b", "in-b")] {
        for (path, seen) in [("projects", vec![project]), ("environments", vec![environment])] {
            let (_, page) = world.call_as(Some(who), "GET", &format!("/api/v1/{path}"), None).await;
            assert_eq!(names(&page), seen, "{path}");
        }
        let (_, jobs) = world.call_as(Some(who), "GET", "/api/v1/jobs", None).await;
        assert_eq!(jobs["items"].as_array().map(Vec::len), Some(1));
        assert_eq!(jobs["items"][0]["environment"], environment);
        let (_, server) = world.call_as(Some(who), "GET", "/api/v1/status", None).await;
        assert_eq!(server["environments"], 1);
    }
    // What is not for ann is as if it were not there, also in what is offered instead.
    let (s, detail) = status(&world, &ann, "GET", "/api/v1/environments/in-b", None).await;
    assert!(s == S::NOT_FOUND && !detail.contains("mean in-b") && detail.contains("in-a"), "{detail}");
    let (_, jobs) = world.call("GET", "/api/v1/jobs?environment=in-b", None).await;
    let job = format!("/api/v1/jobs/{}", jobs["items"][0]["id"].as_str().expect("id"));
    assert_eq!(status(&world, &ann, "GET", &job, None).await.0, S::NOT_FOUND);
    assert_eq!(status(&world, &ben, "GET", &job, None).await.0, S::OK);
    let create = json!({"name": "e", "template": "blank", "project": "b"});
    assert_eq!(
        status(&world, &ann, "POST", "/api/v1/environments", Some(create.clone())).await.0,
        S::UNPROCESSABLE_ENTITY
    );
    assert_eq!(status(&world, &ben, "POST", "/api/v1/environments", Some(create)).await.0, S::FORBIDDEN);
    // Who leaves the team sees nothing from the next request on.
    ok(&world, "PUT", "/api/v1/teams/b-team", json!({"groups": []})).await;
    let (_, page) = world.call_as(Some(&ben), "GET", "/api/v1/environments", None).await;
    assert!(names(&page).is_empty());
}

#[tokio::test]
async fn nobody_gives_what_they_do_not_have() {
    let world = World::new();
    let (ann, ben) = (world.sign_in("ann", &[]).await, world.sign_in("ben", &[]).await);
    ok(&world, "PUT", "/api/v1/roles/delegate", json!({"rules": ["projects.update", "projects.get"]})).await;
    ok(&world, "PUT", "/api/v1/roles/people", json!({"rules": ["teams.*", "roles.*", "platform.*"]})).await;
    ok(&world, "PUT", "/api/v1/teams/strong", json!({})).await;
    let members = [member("user", "ann", "delegate"), member("team", "strong", "admin")];
    ok(&world, "POST", "/api/v1/projects", json!({"name": "a", "members": members})).await;
    let platform = json!({"members": [member("user", "ben", "people")]});
    ok(&world, "PUT", "/api/v1/platform", platform).await;

    let with = |more: Value| json!({"members": [members[0], members[1], more]});
    let put = async |who: &SignedIn, path: &str, body: Value| status(&world, who, "PUT", path, Some(body)).await;
    let (s, detail) = put(&ann, "/api/v1/projects/a", with(member("user", "ann", "admin"))).await;
    assert!(s == S::FORBIDDEN && detail.contains("environments.delete"), "{detail}");
    assert_eq!(put(&ann, "/api/v1/projects/a", with(member("user", "carl", "delegate"))).await.0, S::OK);
    // Keeping what others were given is no gift.
    assert_eq!(put(&ann, "/api/v1/projects/a", json!({"members": members, "title": "A"})).await.0, S::OK);
    let (s, detail) = put(&ann, "/api/v1/projects/a", json!({"members": members, "quota": {"environments": 9}})).await;
    assert!(s == S::FORBIDDEN && detail.contains("projects.quota"), "{detail}");
    // Who decides who is in a team gives what the team has; so does who writes a role.
    let (s, detail) = put(&ben, "/api/v1/teams/strong", json!({"users": ["ben"]})).await;
    assert!(s == S::FORBIDDEN && detail.contains("environments.delete"), "{detail}");
    assert_eq!(put(&ben, "/api/v1/teams/weak", json!({"users": ["ben"]})).await.0, S::OK);
    assert_eq!(put(&ben, "/api/v1/roles/all", json!({"rules": ["*"]})).await.0, S::FORBIDDEN);
    assert_eq!(put(&ben, "/api/v1/roles/some", json!({"rules": ["teams.list"]})).await.0, S::OK);
    let (s, _) = put(&ben, "/api/v1/platform", json!({"members": [member("user", "ben", "platform-admin")]})).await;
    assert_eq!(s, S::FORBIDDEN);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let world = World::new();
    let refused = |method: &'static str, path: &'static str, body: Value| {
        let world = &world;
        async move {
            let (status, problem) = world.call(method, path, Some(body)).await;
            (status.as_u16(), problem["type"].as_str().unwrap_or_default().to_owned(), problem["nearest"][0].clone())
        }
    };
    let project = |member: Value| json!({"name": "a", "members": [member]});
    let got = refused("POST", "/api/v1/projects", project(member("user", "x", "devloper"))).await;
    assert_eq!(got, (422, "unknown-role".to_owned(), "developer".into()));
    let got = refused("POST", "/api/v1/projects", project(member("team", "x", "developer"))).await;
    assert_eq!(got.1, "unknown-team");
    let got = refused("POST", "/api/v1/projects", project(member("user", "x", "auditor"))).await;
    assert_eq!(got.1, "invalid-role");
    let got = refused("POST", "/api/v1/projects", json!({"name": "My Project"})).await;
    assert_eq!(got, (422, "invalid-name".to_owned(), "my-project".into()));
    let got = refused("POST", "/api/v1/projects", json!({"name": "default"})).await;
    assert_eq!(got.1, "already-exists");
    let got = refused("PUT", "/api/v1/roles/r", json!({"rules": ["environment.get"]})).await;
    assert_eq!(got, (422, "invalid-role".to_owned(), "environments.get".into()));
    assert_eq!(refused("PUT", "/api/v1/roles/viewer", json!({"rules": ["*"]})).await.1, "conflict");
    let (status, _) = world.call("DELETE", "/api/v1/projects/default", None).await;
    assert_eq!(status, S::CONFLICT);

    ok(&world, "PUT", "/api/v1/teams/t", json!({})).await;
    ok(&world, "PUT", "/api/v1/roles/r", json!({"rules": ["jobs.*"]})).await;
    ok(&world, "POST", "/api/v1/projects", project(member("team", "t", "r"))).await;
    ok(&world, "POST", "/api/v1/environments", json!({"name": "e", "template": "blank", "project": "a"})).await;
    for path in ["/api/v1/teams/t", "/api/v1/roles/r", "/api/v1/projects/a"] {
        let (status, problem) = world.call("DELETE", path, None).await;
        assert_eq!(status, S::CONFLICT, "{path}: {problem}");
    }
}

#[tokio::test]
async fn two_people_who_edit_one_project_do_not_overwrite_each_other() {
    let world = World::new();
    let project = ok(&world, "POST", "/api/v1/projects", json!({"name": "a", "title": "one"})).await;
    let with_match = |revision: &Value, title: &str| {
        Request::builder()
            .method("PUT")
            .uri("/api/v1/projects/a")
            .header("authorization", format!("Bearer {}", world.token))
            .header("content-type", "application/json")
            .header("if-match", format!("\"{revision}-x\""))
            .body(Body::from(json!({"title": title}).to_string()))
            .expect("request")
    };
    assert_eq!(world.send(with_match(&project["revision"], "two")).await.status(), S::OK);
    let late = world.send(with_match(&project["revision"], "three")).await;
    assert_eq!(late.status(), S::PRECONDITION_FAILED);
    let (_, project) = world.call("GET", "/api/v1/projects/a", None).await;
    assert_eq!(project["title"], "two");
    // What has changed is in the audit trail, as it was and as it is.
    let (_, audit) = world.call("GET", "/api/v1/audit", None).await;
    let entry = &audit["items"][0];
    assert_eq!((&entry["action"], &entry["project"]), (&"project.update".into(), &"a".into()));
    assert_eq!(entry["detail"]["changes"], json!([{"path": "/title", "before": "one", "after": "two"}]));
}

#[tokio::test]
async fn an_environment_is_shared_and_not_any_more() {
    let world = World::new();
    let (ann, ben) = (world.sign_in("ann", &[]).await, world.sign_in("ben", &[]).await);
    ok(&world, "POST", "/api/v1/projects", json!({"name": "a", "members": [member("user", "ann", "developer")]})).await;
    let create = json!({"name": "env", "template": "blank", "project": "a"});
    assert_eq!(status(&world, &ann, "POST", "/api/v1/environments", Some(create)).await.0, S::CREATED);
    world.planes.state().clusters.entry("env".to_owned()).or_default();
    let share = async |who: &SignedIn, access: &str| {
        let body = json!({ "access": access });
        status(&world, who, "PUT", "/api/v1/environments/env/shares/ben", Some(body)).await
    };
    let (get, kubeconfig) = ("/api/v1/environments/env", "/api/v1/environments/env/kubeconfig");
    assert_eq!(status(&world, &ben, "GET", get, None).await.0, S::NOT_FOUND);
    assert_eq!(share(&ben, "admin").await.0, S::NOT_FOUND);

    assert_eq!(share(&ann, "readOnly").await.0, S::OK);
    assert_eq!(status(&world, &ben, "GET", get, None).await.0, S::OK);
    assert_eq!(share(&ben, "admin").await.0, S::FORBIDDEN);
    assert_eq!(share(&ann, "admin").await.0, S::OK);
    assert_eq!(status(&world, &ben, "GET", kubeconfig, None).await.0, S::OK);
    assert_eq!(status(&world, &ben, "DELETE", get, None).await.0, S::FORBIDDEN);
    let (_, seen) = world.call_as(Some(&ben), "GET", get, None).await;
    assert_eq!(seen["shares"], json!({"ben": "admin"}));

    // By the address that the issuer has verified; what is kept is the id.
    let by_address = "/api/v1/environments/env/shares/BEN@example.com";
    let (s, _) = status(&world, &ann, "PUT", by_address, Some(json!({"access": "readOnly"}))).await;
    assert_eq!(s, S::OK);
    let (_, seen) = world.call_as(Some(&ben), "GET", get, None).await;
    assert_eq!(seen["shares"], json!({"ben": "readOnly"}));
    let nobody = "/api/v1/environments/env/shares/nobody@example.com";
    let (s, _) = status(&world, &ann, "PUT", nobody, Some(json!({"access": "readOnly"}))).await;
    assert_eq!(s, S::UNPROCESSABLE_ENTITY);

    let unshare = "/api/v1/environments/env/shares/ben";
    assert_eq!(status(&world, &ann, "DELETE", unshare, None).await.0, S::OK);
    assert_eq!(status(&world, &ann, "DELETE", unshare, None).await.0, S::NOT_FOUND);
    assert_eq!(status(&world, &ben, "GET", get, None).await.0, S::NOT_FOUND);
}

#[tokio::test]
async fn a_follower_is_told_of_what_they_may_see_and_that_it_is_gone_when_they_may_no_more() {
    let world = World::new();
    let ben = world.sign_in("ben", &[]).await;
    ok(&world, "POST", "/api/v1/environments", json!({"name": "hidden", "template": "blank"})).await;
    let response = world.send(crate::testing::as_somebody(Some(&ben), "GET", "/api/v1/events", None)).await;
    assert_eq!(response.status(), S::OK);
    let mut body = response.into_body().into_data_stream();
    let mut next = async || {
        let piece = tokio::time::timeout(std::time::Duration::from_secs(20), body.next()).await.expect("an event");
        String::from_utf8(piece.expect("more").expect("data").to_vec()).expect("text")
    };
    let begin = next().await;
    assert!(begin.starts_with("id:") && !begin.contains("event:"), "{begin}");
    ok(&world, "POST", "/api/v1/environments", json!({"name": "shared", "template": "blank"})).await;
    ok(&world, "PUT", "/api/v1/environments/shared/shares/ben", json!({"access": "readOnly"})).await;
    let event = next().await;
    assert!(event.contains("\"shared\"") && !event.contains("hidden"), "{event}");
    let (status, _) = world.call("DELETE", "/api/v1/environments/shared/shares/ben", None).await;
    assert_eq!(status, S::OK);
    // Jobs come by a watch of their own: what was done with it may be told in between.
    let mut event = next().await;
    while !event.contains("environmentDeleted") {
        assert!(event.contains("\"job\"") && !event.contains("hidden"), "{event}");
        event = next().await;
    }
    assert!(event.contains("shared"), "{event}");
}

#[tokio::test]
async fn a_project_says_which_templates_and_images_are_allowed() {
    let world = World::new();
    let ann = world.sign_in("ann", &[]).await;
    let members = [member("user", "ann", "developer")];
    let settings = json!({"name": "a", "members": members, "allowedTemplates": ["team-x"], "allowedImages": ["registry.example.com/*"]});
    ok(&world, "POST", "/api/v1/projects", settings).await;
    let (_, seen) = world.call_as(Some(&ann), "GET", "/api/v1/templates", None).await;
    assert_eq!(names(&seen), ["team-x"]);
    assert_eq!(status(&world, &ann, "GET", "/api/v1/templates/blank", None).await.0, S::NOT_FOUND);
    for (template, kind) in [("blank", "template-not-allowed"), ("team-x", "image-not-allowed")] {
        let create = json!({"name": "e", "template": template, "project": "a"});
        let (status, problem) = world.call_as(Some(&ann), "POST", "/api/v1/environments", Some(create)).await;
        assert_eq!((status, problem["type"].as_str()), (S::UNPROCESSABLE_ENTITY, Some(kind)), "{problem}");
    }
}

#[tokio::test]
async fn a_project_says_which_resources_are_allowed() {
    let world = World::new();
    world.template_with("app", "1.0.0", "parameters:\n  - {name: db, type: resource}\n", &[("a.yaml", "")]);
    let ann = world.sign_in("ann", &[]).await;
    let register = async |name: &str, more: Value| {
        let mut body = json!({"name": name, "kind": "http", "host": "127.0.0.1", "port": 1});
        body.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
        ok(&world, "POST", "/api/v1/resources", body).await
    };
    for name in ["orders", "billing"] {
        register(name, json!({"projects": ["*"]})).await;
    }
    let members = [member("user", "ann", "developer")];
    ok(&world, "POST", "/api/v1/projects", json!({"name": "a", "members": members, "allowedResources": ["orders"]}))
        .await;
    let (_, seen) = world.call_as(Some(&ann), "GET", "/api/v1/resources", None).await;
    assert_eq!(names(&seen), ["orders"]);
    let (_, all) = world.call("GET", "/api/v1/resources", None).await;
    assert_eq!(names(&all), ["billing", "orders"]);
    let create = async |resource: &str| {
        let create = json!({"name": "e", "template": "app", "project": "a", "parameters": {"db": resource}});
        world.call_as(Some(&ann), "POST", "/api/v1/environments", Some(create)).await
    };
    for (resource, kind) in [("billing", "resource-not-allowed"), ("orders", "invalid-parameter")] {
        let (status, problem) = create(resource).await;
        assert_eq!((status, problem["type"].as_str()), (S::UNPROCESSABLE_ENTITY, Some(kind)), "{problem}");
    }
    // A resource is for the projects that it was registered for, which is the default one when nothing is said.
    ok(&world, "PUT", "/api/v1/projects/a", json!({"members": members})).await;
    register("payroll", json!({})).await;
    let payroll =
        |list: &Value| list["items"].as_array().expect("items").iter().find(|r| r["name"] == "payroll").cloned();
    let (_, seen) = world.call_as(Some(&ann), "GET", "/api/v1/resources", None).await;
    assert_eq!(names(&seen), ["billing", "orders"]);
    let (_, unseen) = create("payroll").await;
    let (_, absent) = create("payrolls").await;
    let text = |problem: &Value| problem["detail"].as_str().expect("why").replace("payrolls", "payroll");
    assert_eq!(text(&unseen), text(&absent), "whoever it is not for is not told that it is there");
    register("payroll", json!({"projects": ["a"]})).await;
    register("payroll", json!({"database": "x"})).await;
    let (_, seen) = world.call_as(Some(&ann), "GET", "/api/v1/resources", None).await;
    assert_eq!(payroll(&seen).expect("it is seen")["projects"], json!(["a"]), "as it was when it is replaced");
    assert!(create("payroll").await.1["detail"].as_str().expect("why").contains("resource \"payroll\":"));
    let wrong = json!({"name": "x", "kind": "http", "host": "h", "projects": ["aa"]});
    let (status, problem) = world.call("POST", "/api/v1/resources", Some(wrong)).await;
    assert_eq!((status, problem["type"].as_str()), (S::UNPROCESSABLE_ENTITY, Some("unknown-project")), "{problem}");
    // One from before that was kept is for all.
    let mut old: vctl_api::rest::Resource =
        serde_json::from_value(payroll(&seen).expect("it is seen")).expect("a resource");
    let mut text = serde_json::to_value(&old).expect("JSON");
    text.as_object_mut().expect("fields").remove("projects");
    old = serde_json::from_value(text).expect("it is read");
    assert!(old.is_for("anything"));
}
