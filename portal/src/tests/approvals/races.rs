//! Everything that can happen at the same moment, and a crash in between.

use serde_json::{Value, json};

use super::{Place, S};
use crate::testing::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_twenty_who_approve_at_once_one_does() {
    for world in [World::new(), World::on_disk().await] {
        let place = Place::of(world).await;
        place.world.portal.start();
        place.rule("all", json!({})).await;
        let id = place.held("a").await;
        let approve = |i: usize| {
            let who = if i.is_multiple_of(2) { &place.lead } else { &place.second };
            let (place, id) = (&place, &id);
            async move { place.step(who, id, "approve", json!({})).await.0 }
        };
        let answers = futures::future::join_all((0..20).map(approve)).await;
        let (yes, no): (Vec<&S>, Vec<&S>) = answers.iter().partition(|s| **s == S::OK);
        assert_eq!((yes.len(), no.len()), (1, 19));
        assert!(no.iter().all(|s| **s == S::CONFLICT), "{answers:?}");
        place.until(&id, "Fulfilled").await;
        let actions = place.actions().await;
        assert_eq!(actions.iter().filter(|a| *a == "environment.create").count(), 1);
        assert_eq!(actions.iter().filter(|a| *a == "approval.approve").count(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_withdrawn_while_it_is_approved_is_made_or_not_but_never_both() {
    let place = Place::new().await;
    place.world.portal.start();
    place.rule("all", json!({})).await;
    for i in 0..10 {
        let name = format!("e{i}");
        let id = place.held(&name).await;
        let (approved, withdrawn) = tokio::join!(
            place.step(&place.lead, &id, "approve", json!({})),
            place.step(&place.dev, &id, "withdraw", json!({})),
        );
        assert!([S::OK, S::CONFLICT].contains(&approved.0) && [S::OK, S::CONFLICT].contains(&withdrawn.0));
        if withdrawn.0 == S::OK {
            place.run(&id).await;
            assert_eq!(place.get(&place.dev, &id).await["state"], "Withdrawn");
            assert!(place.environment(&name).await.is_none(), "it was withdrawn");
        } else {
            place.until(&id, "Fulfilled").await;
            assert!(place.environment(&name).await.is_some());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_at_once_get_no_more_than_a_rule_lets_through() {
    let place = Place::new().await;
    place.rule("many", json!({"largerThan": {"environments": 5}})).await;
    let asks = (0..20).map(|i| {
        let place = &place;
        async move { place.ask(&place.dev, &format!("e{i}"), 1, "test").await }
    });
    let answers = futures::future::join_all(asks).await;
    let made = answers.iter().filter(|(status, _)| *status == S::CREATED).count();
    let held = answers.iter().filter(|(status, _)| *status == S::ACCEPTED).count();
    assert_eq!((made, held), (5, 15), "{answers:?}");

    // And when all are approved at once, a quota holds.
    place.world.portal.start();
    let quota = json!({"members": [{"kind": "user", "name": "dev", "role": "developer"}, {"kind": "user", "name": "lead", "role": "maintainer"}], "quota": {"environments": 8}});
    assert_eq!(place.world.call("PUT", "/api/v1/projects/web", Some(quota)).await.0, S::OK);
    let ids: Vec<String> = answers
        .iter()
        .filter(|(status, _)| *status == S::ACCEPTED)
        .map(|(_, a)| a["id"].as_str().expect("id").to_owned())
        .collect();
    let approvals = ids.iter().map(|id| {
        let place = &place;
        async move { place.step(&place.lead, id, "approve", json!({})).await.0 }
    });
    assert!(futures::future::join_all(approvals).await.iter().all(|s| *s == S::OK));
    for id in &ids {
        let settled = |approval: &Value| {
            approval["state"] == "Fulfilled" || approval["message"].as_str().is_some_and(|m| m.contains("may have 8"))
        };
        place.world.until(Some(&place.lead), &format!("/api/v1/approvals/{id}"), settled).await;
    }
    let (_, usage) = place.world.call("GET", "/api/v1/projects/web/usage", None).await;
    assert_eq!(usage["used"]["environments"], 8);
}

#[tokio::test]
async fn what_was_approved_is_carried_out_after_a_crash_once() {
    let place = Place::of(World::on_disk().await).await;
    place.rule("all", json!({})).await;
    let id = place.held("a").await;
    place.step(&place.lead, &id, "approve", json!({})).await;
    // Nothing worked on it: the process dies right after the answer.
    let world = place.world.after_crash().await;
    world.portal.start();
    let path = format!("/api/v1/approvals/{id}");
    world.until(None, &path, |approval| approval["state"] == "Fulfilled").await;
    let (_, trail) = world.call("GET", "/api/v1/audit?action=environment.create", None).await;
    assert_eq!(trail["items"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn who_may_not_decide_any_more_has_not_decided() {
    let place = Place::new().await;
    place.rule("all", json!({"approvals": 3})).await;
    let id = place.held("a").await;
    let (_, first) = place.step(&place.lead, &id, "approve", json!({})).await;
    assert_eq!(first["state"], "Pending", "{first}");
    let member = |name: &str, role: &str| json!({"kind": "user", "name": name, "role": role});
    let (dev, lead) = (member("dev", "developer"), member("lead", "maintainer"));
    let others = [member("second", "maintainer"), member("boss", "admin")];
    let project = async |more: &[Value]| {
        let members: Vec<&Value> = others.iter().chain(more).collect();
        let body = json!({"members": members});
        assert_eq!(place.world.call("PUT", "/api/v1/projects/web", Some(body)).await.0, S::OK);
    };
    project(std::slice::from_ref(&dev)).await;
    let (status, second) = place.step(&place.second, &id, "approve", json!({})).await;
    assert_eq!((status, second["state"].as_str()), (S::OK, Some("Pending")), "{second}");
    assert!(second["message"].as_str().expect("text").contains("no longer counted"), "{second}");
    assert_eq!(second["decisions"].as_array().map(Vec::len), Some(1), "{second}");
    // Back again, they can say what they think of it now.
    project(&[dev, lead]).await;
    let (_, both) = place.step(&place.lead, &id, "approve", json!({})).await;
    assert_eq!((both["state"].as_str(), both["message"].as_str()), (Some("Pending"), Some("")), "{both}");
    let (_, trail) = place.world.call("GET", "/api/v1/audit?action=approval.approve", None).await;
    let told: Vec<&Value> = (0..3).map(|i| &trail["items"][i]["detail"]["noLongerCounted"]).collect();
    assert_eq!(told, [&Value::Null, &json!(["lead@example.com"]), &Value::Null], "newest first: {trail}");

    // What it says of somebody is over when it is granted, also without them.
    project(&[member("dev", "developer")]).await;
    let (_, again) = place.step(&place.admin, &id, "approve", json!({})).await;
    assert!(again["message"].as_str().expect("text").contains("approvals of lead@example.com"), "{again}");
    project(&[member("dev", "developer"), member("third", "maintainer")]).await;
    let third = place.world.sign_in("third", &[]).await;
    let (_, granted) = place.step(&third, &id, "approve", json!({})).await;
    assert_eq!((granted["state"].as_str(), granted["message"].as_str()), (Some("Approved"), Some("")), "{granted}");
}

#[tokio::test]
async fn a_reason_that_nobody_sees_is_none() {
    let place = Place::new().await;
    for reason in ["\u{200b}\u{2063}", " \u{3164}\u{202e}", "\u{feff}"] {
        let body = json!({"project": "web", "reason": reason});
        let (status, problem) = place.world.call_as(Some(&place.lead), "POST", "/api/v1/break-glass", Some(body)).await;
        assert_eq!((status, problem["type"].as_str()), (S::UNPROCESSABLE_ENTITY, Some("invalid-reason")), "{problem}");
    }
}
