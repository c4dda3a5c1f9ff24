//! Quotas: never exceeded, also when many ask at the same moment.

use http::StatusCode;
use serde_json::{Value, json};

use vctl_api::rest::Phase;
use vctl_store::Expect;

use crate::{
    Taken,
    documents::{EnvironmentDoc, put},
    testing::{SignedIn, World},
};
use vctl_machinery::requests::Requests;

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

const PARAMETERS: &str = "parameters:\n  - {name: replicas, type: number, default: 1}\n";
const MANIFEST: &str = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec:\n  serviceName: db\n  replicas: {{ parameters.replicas }}\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec: {containers: [{name: c, image: nginx, resources: {requests: {cpu: 500m, memory: 1Gi}}}]}\n  volumeClaimTemplates:\n    - {metadata: {name: d}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}}}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn amounts_are_never_exceeded_by_twenty_at_once_and_count_what_is_awake() {
    let world = World::new();
    world.portal.start();
    world.template_with("app", "1.0.0", PARAMETERS, &[("all.yaml", MANIFEST)]);
    project(&world, json!({"name": "a", "quota": {"cpu": "3", "storage": "75Gi", "templates": {"app": 9}}})).await;
    let creates = (0..20).map(|i| {
        let world = &world;
        async move { create(world, None, &format!("env-{i}"), "app").await }
    });
    let answers = futures::future::join_all(creates).await;
    let (made, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|(status, _)| *status == StatusCode::CREATED);
    assert_eq!((made.len(), refused.len()), (6, 14), "{answers:?}");
    assert!(
        refused[0].1["detail"]
            .as_str()
            .is_some_and(|d| d.contains("may have 3 of cpu, 3 are taken and this asks for 500m")),
        "{:?}",
        refused[0]
    );
    let (_, usage) = world.call("GET", "/api/v1/projects/a/usage", None).await;
    assert_eq!(
        usage["limits"],
        json!([
            {"holder": "project", "name": "a", "what": "cpu", "unit": "millicores", "used": 3000, "limit": 3000},
            {"holder": "project", "name": "a", "what": "storage", "unit": "bytes", "used": 60_u64 << 30, "limit": 75_u64 << 30},
            {"holder": "project", "name": "a", "what": "template app", "unit": "count", "used": 6, "limit": 9},
        ])
    );
    assert_eq!((&usage["used"]["cpu"], &usage["used"]["memory"]), (&json!("3"), &json!("6Gi")));

    // Asleep they need no processor, but keep their storage; waking counts again.
    let (name, job) = (made[0].1["name"].as_str().expect("name"), made[0].1["job"].as_str().expect("job"));
    for (_, environment) in &made {
        world.ended(environment["job"].as_str().expect("job")).await;
    }
    assert!(!job.is_empty());
    let path = format!("/api/v1/environments/{name}");
    let (_, asleep) = world.call("POST", &format!("{path}/sleep"), None).await;
    world.ended(asleep["id"].as_str().expect("job")).await;
    let (_, usage) = world.call("GET", "/api/v1/projects/a/usage", None).await;
    assert_eq!((&usage["used"]["cpu"], &usage["used"]["storage"]), (&json!("2500m"), &json!("60Gi")));
    assert_eq!(create(&world, None, "one-more", "app").await.0, StatusCode::CREATED);
    let (status, problem) = world.call("POST", &format!("{path}/wake"), None).await;
    assert_eq!((status, problem["type"].as_str()), (StatusCode::FORBIDDEN, Some("quota-exceeded")), "{problem}");

    // And so does an update that makes one larger.
    let other = made[1].1["name"].as_str().expect("name");
    let update = Some(json!({"parameters": {"replicas": 2}}));
    let (status, problem) = world.call("POST", &format!("/api/v1/environments/{other}/update"), update).await;
    assert_eq!((status, problem["type"].as_str()), (StatusCode::FORBIDDEN, Some("quota-exceeded")), "{problem}");
    let wrong = json!({"name": "b", "quota": {"memory": "much"}});
    let (status, problem) = world.call("POST", "/api/v1/projects", Some(wrong)).await;
    assert_eq!((status.as_u16(), problem["type"].as_str()), (422, Some("invalid-quota")));
}

/// Requests so many thousandths of a processor inside of an environment, as a pod would.
async fn start(world: &World, name: &str, cpu: u64) -> Result<(), String> {
    let more = Requests { cpu, ..Requests::NONE };
    match world.portal.take(name, more).await.expect("an answer") {
        Taken::Yes(turn) => {
            world.planes.state().requested.entry(name.to_owned()).or_default().cpu += cpu;
            drop(turn);
            Ok(())
        }
        Taken::Exceeded(why) => Err(why),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_requested_inside_counts_where_it_is_more_than_the_template() {
    let world = World::new();
    world.template_with("app", "1.0.0", PARAMETERS, &[("all.yaml", MANIFEST)]);
    project(&world, json!({"name": "a", "quota": {"cpu": "3"}})).await;
    assert_eq!(create(&world, None, "one", "app").await.0, StatusCode::CREATED);
    assert_eq!(create(&world, None, "two", "blank").await.0, StatusCode::CREATED);
    start(&world, "one", 500).await.expect("what is set aside for its template");
    start(&world, "two", 2000).await.expect("500m and 2 are less than 3");
    let refused = start(&world, "one", 600).await.expect_err("refused");
    assert_eq!(refused, "exceeded quota: project/a, requested: cpu=600m, used: cpu=2500m, limited: cpu=3");
    let (_, problem) = create(&world, None, "three", "app").await;
    assert_ne!(problem["type"], "quota-exceeded", "there is room for one: {problem}");
    let (_, problem) = create(&world, None, "four", "app").await;
    assert!(problem["detail"].as_str().is_some_and(|d| d.contains("3 are taken and this asks for 500m")), "{problem}");
    let (_, usage) = world.call("GET", "/api/v1/projects/a/usage", None).await;
    assert_eq!((&usage["used"]["cpu"], &usage["limits"][0]["used"]), (&json!("3"), &json!(3000)));

    // After a restart the same is counted, and what is no environment is not limited.
    let world = world.after_crash().await;
    assert!(start(&world, "two", 1).await.is_err());
    start(&world, "nobody's", 9000).await.expect("of no project");
    let rules = world.portal.cluster_rules("two").await.expect("rules").expect("an environment");
    assert_eq!((rules.project.as_str(), rules.cpu.as_deref(), rules.memory), ("a", Some("project/a"), None));
    assert_eq!(world.portal.cluster_rules("nobody's").await.expect("rules"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_and_environments_at_once_never_exceed() {
    let world = World::new();
    world.template_with("app", "1.0.0", PARAMETERS, &[("all.yaml", MANIFEST)]);
    project(&world, json!({"name": "a", "quota": {"cpu": "5"}, "memberQuota": {"cpu": "4"}})).await;
    for name in ["one", "two"] {
        assert_eq!(create(&world, None, name, "blank").await.0, StatusCode::CREATED);
    }
    let work = (0..20).map(|i| {
        let world = &world;
        async move {
            if i % 2 == 0 {
                start(world, if i % 4 == 0 { "one" } else { "two" }, 500).await.is_ok()
            } else {
                create(world, None, &format!("env-{i}"), "app").await.0 == StatusCode::CREATED
            }
        }
    });
    let done = futures::future::join_all(work).await;
    assert_eq!(done.iter().filter(|done| **done).count(), 8, "4 of the member's processors, by 500m each: {done:?}");
}

#[tokio::test]
async fn what_a_project_allows_counts_at_once() {
    let world = World::new();
    let settings = json!({"name": "a", "allowedImages": ["docker.io/library/*"], "allowedWorkers": ["gpu-*"]});
    project(&world, settings).await;
    assert_eq!(create(&world, None, "one", "blank").await.0, StatusCode::CREATED);
    let rules = async || world.portal.cluster_rules("one").await.expect("rules").expect("an environment");
    assert_eq!(
        (rules().await.images, rules().await.workers),
        (vec!["docker.io/library/*".to_owned()], vec!["gpu-*".to_owned()])
    );
    let (status, _) = world.call("PUT", "/api/v1/projects/a", Some(json!({"allowedImages": ["quay.io/*"]}))).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((rules().await.images, rules().await.workers), (vec!["quay.io/*".to_owned()], Vec::new()));
    assert_eq!(world.planes.state().placed, ["one"], "what waits for a worker is looked at");
    let (_, audit) = world.call("GET", "/api/v1/audit?action=project.update", None).await;
    let changes = audit["items"][0]["detail"]["changes"].to_string();
    assert!(changes.contains("/allowedWorkers") && changes.contains("quay.io/*"), "{audit}");
    let (status, problem) = world.call("PUT", "/api/v1/projects/a", Some(json!({"allowedWorkers": [""]}))).await;
    assert_eq!((status.as_u16(), problem["type"].as_str()), (422, Some("invalid-project")));
}

#[tokio::test]
async fn each_environment_has_a_quota_of_its_own() {
    let world = World::new();
    world.template_with("app", "1.0.0", PARAMETERS, &[("all.yaml", MANIFEST)]);
    project(&world, json!({"name": "a", "environmentQuota": {"cpu": "1"}})).await;
    for name in ["one", "two"] {
        assert_eq!(create(&world, None, name, "app").await.0, StatusCode::CREATED);
        start(&world, name, 1000).await.expect("of its own");
    }
    let refused = start(&world, "one", 1).await.expect_err("refused");
    assert_eq!(refused, "exceeded quota: environment/one, requested: cpu=1m, used: cpu=1, limited: cpu=1");
    let rules = world.portal.cluster_rules("one").await.expect("rules").expect("an environment");
    assert_eq!(rules.cpu.as_deref(), Some("environment/one"));
    let large = json!({"name": "three", "template": "app", "project": "a", "parameters": {"replicas": 3}});
    let (_, problem) = world.call("POST", "/api/v1/environments", Some(large)).await;
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("each environment of project \"a\" may have 1 of cpu"), "{problem}");
    let wrong = json!({"environmentQuota": {"cpu": "much"}});
    let (status, problem) = world.call("PUT", "/api/v1/projects/a", Some(wrong)).await;
    assert_eq!((status.as_u16(), problem["type"].as_str()), (422, Some("invalid-quota")));
}

#[tokio::test]
async fn what_changes_while_somebody_waits_for_a_turn_counts() {
    let world = World::new();
    project(&world, json!({"name": "a", "quota": {"cpu": "1"}})).await;
    for name in ["one", "two"] {
        assert_eq!(create(&world, None, name, "blank").await.0, StatusCode::CREATED);
    }
    let documents = &world.portal.inner().environments.documents;
    let become_ = async |phase: Phase| {
        let stored = documents.get::<EnvironmentDoc>("one").await.expect("read").expect("an environment");
        let changed = EnvironmentDoc { phase, ..stored.value };
        let write = put(&changed, Expect::Revision(stored.revision)).expect("a document");
        documents.transact(vec![write]).await.expect("written");
    };
    let cpu = |cpu| Requests { cpu, ..Requests::NONE };
    become_(Phase::Sleeping).await;
    let Taken::Yes(turn) = world.portal.take("two", cpu(500)).await.expect("an answer") else { panic!("refused") };
    world.planes.state().requested.insert("two".to_owned(), cpu(500));

    // Asleep it would need no processor; when it has its turn, it is awake.
    let second = world.portal.take("one", cpu(600));
    tokio::pin!(second);
    for _ in 0..100 {
        assert!(futures::poll!(&mut second).is_pending(), "it waits for its turn");
        tokio::task::yield_now().await;
    }
    become_(Phase::Ready).await;
    drop(turn);
    match second.await.expect("an answer") {
        Taken::Exceeded(why) => {
            assert_eq!(why, "exceeded quota: project/a, requested: cpu=600m, used: cpu=500m, limited: cpu=1");
        }
        Taken::Yes(_) => panic!("more than there is"),
    }
}
