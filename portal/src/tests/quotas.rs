//! Quotas: never exceeded, also when many ask at the same moment.

use http::StatusCode;
use serde_json::{Value, json};

use crate::testing::{SignedIn, World};

async fn create(world: &World, who: Option<&SignedIn>, name: &str, template: &str) -> (StatusCode, Value) {
    let body = json!({"name": name, "template": template, "project": "a"});
    match who {
        Some(who) => world.call_as(Some(who), "POST", "/api/v1/environments", Some(body)).await,
        None => world.call("POST", "/api/v1/environments", Some(body)).await,
    }
}

async fn project(world: &World, settings: Value) {
    let (status, answer) = world.call("POST", "/api/v1/projects", Some(settings)).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_creates_at_once_never_exceed() {
    for world in [World::new(), World::on_disk().await] {
        project(&world, json!({"name": "a", "quota": {"environments": 7}})).await;
        let creates = (0..20).map(|i| {
            let world = &world;
            async move { create(world, None, &format!("env-{i}"), "blank").await }
        });
        let answers = futures::future::join_all(creates).await;
        let made = answers.iter().filter(|(status, _)| *status == StatusCode::CREATED).count();
        let refused = answers.iter().filter(|(_, body)| body["type"] == "quota-exceeded").count();
        assert_eq!((made, refused), (7, 13), "{answers:?}");
        let (_, usage) = world.call("GET", "/api/v1/projects/a/usage", None).await;
        assert_eq!((&usage["used"]["environments"], &usage["quota"]["environments"]), (&7.into(), &7.into()));
    }
}

#[tokio::test]
async fn a_quota_counts_what_is_there_and_says_who_can_raise_it() {
    let world = World::new();
    let (ann, ben) = (world.sign_in("ann", &[]).await, world.sign_in("ben", &["ops"]).await);
    let member = |name: &str| json!({"kind": "user", "name": name, "role": "developer"});
    let settings = json!({"name": "a", "members": [member("ann"), member("ben")], "memberQuota": {"environments": 1}});
    project(&world, settings).await;
    assert_eq!(create(&world, Some(&ann), "a1", "blank").await.0, StatusCode::CREATED);
    let (status, problem) = create(&world, Some(&ann), "a2", "blank").await;
    let detail = problem["detail"].as_str().expect("detail");
    assert_eq!((status, problem["type"].as_str()), (StatusCode::FORBIDDEN, Some("quota-exceeded")));
    assert!(
        detail.contains("may have 1 environments, and 1 are there") && detail.contains("project \"a\""),
        "{detail}"
    );
    assert_eq!(create(&world, Some(&ben), "b1", "blank").await.0, StatusCode::CREATED, "another member has their own");

    // Over all projects, by template, for a team by its group.
    let team = json!({"groups": ["ops"], "quota": {"templates": {"blank": 1}}});
    let (status, _) = world.call("PUT", "/api/v1/teams/ops", Some(team)).await;
    assert_eq!(status, StatusCode::OK);
    let open = json!({"members": [member("ann"), member("ben")]});
    assert_eq!(world.call("PUT", "/api/v1/projects/a", Some(open)).await.0, StatusCode::OK);
    let (_, problem) = create(&world, Some(&ben), "b2", "blank").await;
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("team \"ops\"") && detail.contains("template \"blank\""), "{problem}");
    assert_eq!(create(&world, Some(&ben), "b2", "team-x").await.0, StatusCode::CREATED);
    assert_eq!(create(&world, Some(&ann), "a2", "blank").await.0, StatusCode::CREATED, "who is not in the team");
    let (status, _) = world.call("PUT", "/api/v1/platform", Some(json!({"userQuota": {"awake": 2}}))).await;
    assert_eq!(status, StatusCode::OK);
    let (_, problem) = create(&world, Some(&ann), "a3", "blank").await;
    assert!(
        problem["detail"].as_str().is_some_and(|d| d.contains("each user may have 2 environments awake")),
        "{problem}"
    );
}
