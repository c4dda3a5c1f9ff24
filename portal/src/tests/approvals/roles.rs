//! Roles for a time, break-glass, and whose rules are whose.

use serde_json::json;

use super::{Place, S, detail};

#[tokio::test]
async fn a_role_counts_for_its_time_and_gives_nothing_that_outlasts_it() {
    let place = Place::at_fixed_time().await;
    let (world, dev) = (&place.world, Some(&place.dev));
    let wish =
        |role: &str, period: &str| json!({"project": "web", "role": role, "period": period, "reason": "ticket 1"});
    for (wrong, status) in [
        (wish("platform-admin", "1h"), S::UNPROCESSABLE_ENTITY),
        (wish("nonsense", "1h"), S::UNPROCESSABLE_ENTITY),
        (wish("admin", "31d"), S::UNPROCESSABLE_ENTITY),
        (json!({"project": "web", "role": "admin", "period": "1h", "reason": ""}), S::UNPROCESSABLE_ENTITY),
        (json!({"project": "nowhere", "role": "admin", "period": "1h", "reason": "r"}), S::UNPROCESSABLE_ENTITY),
    ] {
        assert_eq!(world.call_as(dev, "POST", "/api/v1/approvals", Some(wrong.clone())).await.0, status, "{wrong}");
    }
    let (status, asked) = world.call_as(dev, "POST", "/api/v1/approvals", Some(wish("admin", "4h"))).await;
    assert_eq!(status, S::CREATED, "{asked}");
    let id = asked["id"].as_str().expect("id");
    let (status, problem) = place.step(&place.lead, id, "approve", json!({})).await;
    assert_eq!(status, S::FORBIDDEN, "a maintainer is no admin");
    assert!(detail(&problem).contains("projects.update"), "{problem}");
    let rules = "/api/v1/projects/web/approval-rules/r";
    assert_eq!(world.call_as(dev, "PUT", rules, Some(json!({}))).await.0, S::FORBIDDEN);
    let (status, active) = place.step(&place.admin, id, "approve", json!({"period": "2h"})).await;
    assert_eq!((status, active["state"].as_str()), (S::OK, Some("Active")), "{active}");
    assert_eq!(active["grantedUntil"], "2026-01-02T05:04:05Z");
    assert_eq!(world.call_as(dev, "PUT", rules, Some(json!({"templates": ["none"]}))).await.0, S::OK, "it counts");

    // Nothing that would outlast it: no member, no share, no keys, no role for somebody else.
    let (_, project) = world.call_as(dev, "GET", "/api/v1/projects/web", None).await;
    let mut settings = json!({"members": project["members"]});
    settings["members"].as_array_mut().expect("members").push(json!({"kind": "user", "name": "dev", "role": "admin"}));
    let (status, problem) = world.call_as(dev, "PUT", "/api/v1/projects/web", Some(settings)).await;
    assert_eq!(status, S::FORBIDDEN, "{problem}");
    let (_, _) = place.ask(&place.lead, "theirs", 1, "").await;
    let share = Some(json!({"access": "admin"}));
    assert_eq!(world.call_as(dev, "PUT", "/api/v1/environments/theirs/shares/dev", share).await.0, S::FORBIDDEN);
    assert_eq!(world.call_as(dev, "GET", "/api/v1/environments/theirs/snapshot", None).await.0, S::FORBIDDEN);
    let (_, theirs) =
        world.call_as(Some(&place.viewer), "POST", "/api/v1/approvals", Some(wish("maintainer", "1h"))).await;
    let theirs = theirs["id"].as_str().expect("id");
    assert_eq!(place.step(&place.dev, theirs, "approve", json!({})).await.0, S::FORBIDDEN);

    // It ends in the middle of what they do, whether or not anybody has written so.
    world.clock.advance(2 * 3600 - 1);
    assert_eq!(world.call_as(dev, "DELETE", rules, None).await.0, S::NO_CONTENT);
    world.clock.advance(1);
    assert_eq!(world.call_as(dev, "PUT", rules, Some(json!({}))).await.0, S::FORBIDDEN);
    place.run(id).await;
    assert_eq!(place.get(&place.dev, id).await["state"], "Ended");

    // Given back, and taken away: each counts at once.
    for (verb, who, state) in [("withdraw", &place.dev, "Ended"), ("revoke", &place.lead, "Revoked")] {
        let (_, asked) = world.call_as(dev, "POST", "/api/v1/approvals", Some(wish("maintainer", "4h"))).await;
        let id = asked["id"].as_str().expect("id");
        let decidable = "/api/v1/approvals?decidable=true&kind=role";
        let (_, page) = world.call_as(Some(&place.lead), "GET", decidable, None).await;
        assert!(page.to_string().contains(id), "{page}");
        assert_eq!(place.step(&place.lead, id, "approve", json!({})).await.0, S::OK);
        assert_eq!(world.call_as(dev, "DELETE", "/api/v1/environments/theirs", None).await.0, S::ACCEPTED);
        assert_eq!(place.step(who, id, verb, json!({"comment": "c"})).await.1["state"], state);
        assert_eq!(world.call_as(dev, "DELETE", "/api/v1/environments/theirs", None).await.0, S::FORBIDDEN);
    }
}

#[tokio::test]
async fn broken_glass_counts_at_once_is_loud_and_is_reviewed() {
    let place = Place::at_fixed_time().await;
    let world = &place.world;
    place.rule("all", json!({"approvers": "platform"})).await;
    let body = |reason: &str, period: &str| Some(json!({"project": "web", "reason": reason, "period": period}));
    let path = "/api/v1/break-glass";
    assert_eq!(world.call_as(Some(&place.dev), "POST", path, body("r", "1h")).await.0, S::FORBIDDEN);
    assert_eq!(world.call_as(Some(&place.lead), "POST", path, body(" ", "1h")).await.0, S::UNPROCESSABLE_ENTITY);
    assert_eq!(world.call_as(Some(&place.lead), "POST", path, body("r", "9h")).await.0, S::UNPROCESSABLE_ENTITY);
    let (status, taken) = world.call_as(Some(&place.lead), "POST", path, body("the shop is down", "1h")).await;
    assert_eq!((status, taken["state"].as_str(), taken["role"].as_str()), (S::CREATED, Some("Active"), Some("admin")));
    let id = taken["id"].as_str().expect("id");
    assert_eq!(world.call_as(Some(&place.lead), "POST", path, body("again", "1h")).await.0, S::CONFLICT);
    let rules = "/api/v1/projects/web/approval-rules/r";
    assert_eq!(world.call_as(Some(&place.lead), "PUT", rules, Some(json!({"templates": ["x"]}))).await.0, S::OK);
    assert_eq!(place.ask(&place.lead, "now", 9, "").await.0, S::CREATED, "no rule holds them");
    let (_, trail) = world.call("GET", "/api/v1/audit?action=environment.create", None).await;
    assert_eq!(trail["items"][0]["detail"]["breakGlass"], id, "{trail}");
    let (_, trail) = world.call("GET", "/api/v1/audit?action=break-glass.begin", None).await;
    assert_eq!(trail["items"][0]["detail"]["reason"], "the shop is down");

    let unreviewed = |who| world.call_as(Some(who), "GET", "/api/v1/approvals?unreviewed=true", None);
    assert_eq!(unreviewed(&place.second).await.1["items"].as_array().map(Vec::len), Some(1));
    world.clock.advance(3600);
    assert_eq!(place.ask(&place.lead, "later", 9, "").await.0, S::CONFLICT, "rules hold them again");
    assert_eq!(world.call_as(Some(&place.lead), "PUT", rules, Some(json!({}))).await.0, S::FORBIDDEN);
    place.run(id).await;
    assert_eq!(place.get(&place.second, id).await["state"], "Ended");
    assert_eq!(place.step(&place.lead, id, "review", json!({"comment": "fine"})).await.0, S::FORBIDDEN);
    let (status, reviewed) = place.step(&place.second, id, "review", json!({"comment": "looked at it"})).await;
    assert_eq!((status, reviewed["review"]["by"].as_str()), (S::OK, Some("second@example.com")), "{reviewed}");
    assert_eq!(place.step(&place.admin, id, "review", json!({"comment": "me too"})).await.0, S::CONFLICT);
    assert_eq!(unreviewed(&place.second).await.1["items"], json!([]));
}

#[tokio::test]
async fn rules_are_checked_and_belong_to_somebody() {
    let place = Place::new().await;
    let (world, admin) = (&place.world, Some(&place.admin));
    for wrong in [
        json!({"largerThan": {"cpu": "lots"}}),
        json!({"largerThan": {"memory": "-1"}}),
        json!({"largerThan": {}}),
        json!({"approvals": 0}),
        json!({"templates": [""]}),
    ] {
        let (status, problem) = world.call("PUT", "/api/v1/approval-rules/r", Some(wrong.clone())).await;
        assert_eq!((status, problem["type"].as_str()), (S::UNPROCESSABLE_ENTITY, Some("invalid-rule")), "{wrong}");
    }
    place.rule("r", json!({"templates": ["none"]})).await;
    let own = "/api/v1/projects/web/approval-rules/r";
    let (status, rule) = world.call_as(admin, "PUT", own, Some(json!({"largerThan": {"cpu": "2"}}))).await;
    assert_eq!((status, rule["project"].as_str()), (S::OK, Some("web")), "{rule}");
    assert_eq!(world.call_as(admin, "PUT", own, Some(json!({"projects": ["web"]}))).await.0, S::UNPROCESSABLE_ENTITY);
    assert_eq!(world.call_as(admin, "DELETE", "/api/v1/approval-rules/r", None).await.0, S::FORBIDDEN);
    assert_eq!(place.ask(&place.dev, "e", 3, "").await.0, S::CONFLICT);
    let (_, page) = world.call_as(Some(&place.dev), "GET", "/api/v1/approval-rules", None).await;
    assert_eq!(page["items"].as_array().map(Vec::len), Some(1), "{page}");
    assert_eq!(world.call_as(admin, "DELETE", own, None).await.0, S::NO_CONTENT);
    assert_eq!(place.ask(&place.dev, "e", 3, "").await.0, S::CREATED);
}
