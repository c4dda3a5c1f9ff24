//! Approvals: what is held, who decides, what becomes of it; and everything that can happen at the same moment.

mod live;
mod races;
mod roles;

use http::StatusCode;
use serde_json::{Value, json};
use vctl_api::rest::JobState;

use crate::{
    approvals::documents::ApprovalSecretsDoc,
    documents::{EnvironmentDoc, SecretsDoc},
    testing::{SignedIn, World},
};

type S = StatusCode;

const PARAMETERS: &str =
    "parameters:\n  - {name: replicas, type: number, default: 1}\n  - {name: key, type: password}\n";
const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: {{ parameters.replicas }}\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec: {containers: [{name: c, image: nginx, resources: {requests: {cpu: \"1\", memory: 1Gi}}}]}\n";

/// A project `web` with a developer, two maintainers and an administrator, and a template `app` of a processor for each replica.
struct Place {
    world: World,
    dev: SignedIn,
    lead: SignedIn,
    second: SignedIn,
    admin: SignedIn,
    viewer: SignedIn,
}

impl Place {
    async fn of(world: World) -> Self {
        world.template_with("app", "1.0.0", PARAMETERS, &[("all.yaml", DEPLOYMENT)]);
        let member = |name: &str, role: &str| json!({"kind": "user", "name": name, "role": role});
        let members = [
            member("dev", "developer"),
            member("lead", "maintainer"),
            member("second", "maintainer"),
            member("boss", "admin"),
            member("vi", "viewer"),
        ];
        let (status, answer) =
            world.call("POST", "/api/v1/projects", Some(json!({"name": "web", "members": members}))).await;
        assert_eq!(status, S::CREATED, "{answer}");
        Self {
            dev: world.sign_in("dev", &[]).await,
            lead: world.sign_in("lead", &[]).await,
            second: world.sign_in("second", &[]).await,
            admin: world.sign_in("boss", &[]).await,
            viewer: world.sign_in("vi", &[]).await,
            world,
        }
    }

    async fn new() -> Self {
        Self::of(World::new()).await
    }

    async fn at_fixed_time() -> Self {
        Self::of(World::at_fixed_time()).await
    }

    async fn rule(&self, name: &str, settings: Value) {
        let (status, answer) = self.world.call("PUT", &format!("/api/v1/approval-rules/{name}"), Some(settings)).await;
        assert_eq!(status, S::OK, "{answer}");
    }

    async fn ask(&self, who: &SignedIn, name: &str, replicas: u32, reason: &str) -> (S, Value) {
        let body = json!({
            "name": name, "project": "web", "template": "app", "reason": reason,
            "parameters": {"replicas": replicas, "key": "hidden-word"},
        });
        self.world.call_as(Some(who), "POST", "/api/v1/environments", Some(body)).await
    }

    /// Asks for what a rule holds; the request's id.
    async fn held(&self, name: &str) -> String {
        let (status, approval) = self.ask(&self.dev, name, 5, "load test").await;
        assert_eq!((status, approval["state"].as_str()), (S::ACCEPTED, Some("Pending")), "{approval}");
        approval["id"].as_str().expect("id").to_owned()
    }

    async fn step(&self, who: &SignedIn, id: &str, verb: &str, body: Value) -> (S, Value) {
        self.world.call_as(Some(who), "POST", &format!("/api/v1/approvals/{id}/{verb}"), Some(body)).await
    }

    async fn get(&self, who: &SignedIn, id: &str) -> Value {
        self.world.call_as(Some(who), "GET", &format!("/api/v1/approvals/{id}"), None).await.1
    }

    /// What is due of it is done now.
    async fn run(&self, id: &str) {
        self.world.portal.inner().approvals.run(id).await.expect("run");
    }

    /// The request once it is in a state; fails the test when it does not get there.
    async fn until(&self, id: &str, state: &str) -> Value {
        let path = format!("/api/v1/approvals/{id}");
        self.world.until(Some(&self.dev), &path, |approval| approval["state"] == state).await
    }

    async fn environment(&self, name: &str) -> Option<EnvironmentDoc> {
        let documents = &self.world.portal.inner().environments.documents;
        documents.get::<EnvironmentDoc>(name).await.expect("read").map(|stored| stored.value)
    }

    async fn actions(&self) -> Vec<String> {
        let (_, page) = self.world.call("GET", "/api/v1/audit?limit=200", None).await;
        let items = page["items"].as_array().expect("items");
        items.iter().map(|i| i["action"].as_str().expect("action").to_owned()).collect()
    }
}

fn detail(problem: &Value) -> &str {
    problem["detail"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn what_a_rule_holds_is_made_by_itself_once_it_is_approved() {
    let place = Place::new().await;
    place.world.portal.start();
    place.rule("large", json!({"largerThan": {"cpu": "4"}, "title": "ask"})).await;
    assert_eq!(place.ask(&place.dev, "small", 4, "").await.0, S::CREATED, "it is not larger");

    let (status, problem) = place.ask(&place.dev, "big", 5, "  ").await;
    assert_eq!((status, problem["type"].as_str()), (S::CONFLICT, Some("approval-required")), "{problem}");
    assert!(detail(&problem).contains("large (cpu 5 is more than 4)"), "{problem}");
    let id = place.held("big").await;
    assert!(place.environment("big").await.is_none());
    let (status, problem) = place.ask(&place.lead, "big", 5, "me too").await;
    assert_eq!(status, S::CONFLICT);
    assert!(detail(&problem).contains(&id), "{problem}");

    let seen = place.get(&place.lead, &id).await;
    assert_eq!((&seen["size"]["cpu"], &seen["actions"]["decide"]), (&json!("5"), &json!(true)));
    assert!(!seen.to_string().contains("hidden-word"), "{seen}");
    let mine = place.get(&place.dev, &id).await;
    assert_eq!((&mine["actions"]["decide"], &mine["actions"]["withdraw"]), (&json!(false), &json!(true)));

    let (status, approved) = place.step(&place.lead, &id, "approve", json!({"comment": "until Friday"})).await;
    assert_eq!((status, approved["state"].as_str()), (S::OK, Some("Approved")), "{approved}");
    let done = place.until(&id, "Fulfilled").await;
    let job = place.world.ended(done["job"].as_str().expect("job")).await;
    assert_eq!(job.state, JobState::Succeeded, "{}", job.error);
    let made = place.environment("big").await.expect("made");
    assert_eq!((made.owner_id.as_str(), made.owner.as_str()), ("dev", "dev@example.com"));
    let documents = &place.world.portal.inner().environments.documents;
    let secrets = documents.get::<SecretsDoc>("big").await.expect("read").expect("secrets");
    assert_eq!(secrets.value.parameters["key"], "hidden-word");
    assert!(documents.get::<ApprovalSecretsDoc>(&id).await.expect("read").is_none(), "nothing of it is left");
    let actions = place.actions().await;
    for action in ["approval.request", "approval.approve", "environment.create", "approval-rule.set"] {
        assert!(actions.iter().any(|a| a == action), "{action}: {actions:?}");
    }
    let (_, trail) = place.world.call("GET", "/api/v1/audit?limit=200", None).await;
    assert!(!trail.to_string().contains("hidden-word"));
}

#[tokio::test]
async fn only_others_with_the_right_decide_and_once() {
    let place = Place::new().await;
    place.rule("all", json!({})).await;
    let id = place.held("a").await;
    assert_eq!(place.step(&place.dev, &id, "approve", json!({})).await.0, S::FORBIDDEN);
    assert_eq!(place.step(&place.viewer, &id, "approve", json!({})).await.0, S::NOT_FOUND, "not theirs to see");
    let (status, own) = place.ask(&place.lead, "b", 1, "r").await;
    assert_eq!(status, S::ACCEPTED);
    let own = own["id"].as_str().expect("id");
    let (status, problem) = place.step(&place.lead, own, "approve", json!({})).await;
    assert_eq!(status, S::FORBIDDEN);
    assert!(detail(&problem).contains("their own"), "{problem}");
    assert_eq!(place.step(&place.second, own, "deny", json!({"comment": " "})).await.0, S::UNPROCESSABLE_ENTITY);
    let (status, denied) = place.step(&place.second, own, "deny", json!({"comment": "no"})).await;
    assert_eq!((status, denied["state"].as_str()), (S::OK, Some("Denied")));
    assert_eq!(place.step(&place.second, own, "approve", json!({})).await.0, S::CONFLICT);

    assert_eq!(place.step(&place.lead, &id, "withdraw", json!({})).await.0, S::FORBIDDEN, "somebody else's");
    assert_eq!(place.step(&place.dev, &id, "withdraw", json!({})).await.0, S::OK);
    let (status, problem) = place.step(&place.lead, &id, "approve", json!({})).await;
    assert_eq!(status, S::CONFLICT);
    assert!(detail(&problem).contains("was withdrawn"), "{problem}");
    place.run(&id).await;
    assert!(place.environment("a").await.is_none());

    // Where the rule says so, one may.
    place.rule("all", json!({"allowOwn": true})).await;
    let (_, own) = place.ask(&place.lead, "c", 1, "r").await;
    assert_eq!(place.step(&place.lead, own["id"].as_str().expect("id"), "approve", json!({})).await.0, S::OK);
    let (_, page) =
        place.world.call_as(Some(&place.lead), "GET", "/api/v1/approvals?state=Approved,Denied", None).await;
    assert_eq!(page["items"].as_array().map(Vec::len), Some(2), "{page}");
    let (_, page) = place.world.call_as(Some(&place.viewer), "GET", "/api/v1/approvals", None).await;
    assert_eq!(page["items"], json!([]));
}

#[tokio::test]
async fn rules_count_as_they_are_when_it_is_approved_and_carried_out() {
    let place = Place::new().await;
    place.rule("all", json!({})).await;
    // Changed between request and approval: who decides now is somebody else.
    let id = place.held("a").await;
    place.rule("all", json!({"approvers": "platform"})).await;
    let (status, problem) = place.step(&place.lead, &id, "approve", json!({})).await;
    assert_eq!(status, S::FORBIDDEN);
    assert!(detail(&problem).contains("on the platform"), "{problem}");
    let path = format!("/api/v1/approvals/{id}/approve");
    assert_eq!(place.world.call("POST", &path, Some(json!({}))).await.0, S::OK);
    // Changed between approval and carrying out: it is asked for again.
    place.rule("all", json!({"approvals": 2})).await;
    place.run(&id).await;
    let again = place.get(&place.lead, &id).await;
    assert_eq!((again["state"].as_str(), &again["approvalsNeeded"]), (Some("Pending"), &json!(2)), "{again}");
    assert!(place.environment("a").await.is_none());
    let (status, first) = place.step(&place.lead, &id, "approve", json!({})).await;
    assert_eq!((status, first["state"].as_str()), (S::OK, Some("Pending")), "{first}");
    assert_eq!(place.step(&place.lead, &id, "approve", json!({})).await.0, S::FORBIDDEN, "two different people");
    // Another change: the approval that was given does not count under it.
    place.rule("all", json!({"approvals": 2, "title": "changed"})).await;
    let (_, again) = place.step(&place.second, &id, "approve", json!({})).await;
    assert_eq!(again["state"], "Pending", "{again}");
    let (_, both) = place.step(&place.lead, &id, "approve", json!({})).await;
    assert_eq!(both["state"], "Approved", "{both}");
    place.run(&id).await;
    assert_eq!(place.get(&place.lead, &id).await["state"], "Fulfilled");

    // A new rule holds what was approved, too; one that is gone asks for nothing.
    let id = place.held("b").await;
    place.step(&place.lead, &id, "approve", json!({})).await;
    place.step(&place.second, &id, "approve", json!({})).await;
    place.rule("new", json!({})).await;
    place.run(&id).await;
    assert_eq!(place.get(&place.lead, &id).await["state"], "Pending");
    for name in ["all", "new"] {
        let path = format!("/api/v1/approval-rules/{name}");
        assert_eq!(place.world.call("DELETE", &path, None).await.0, S::NO_CONTENT);
    }
    assert_eq!(place.step(&place.lead, &id, "approve", json!({})).await.1["state"], "Approved");
    place.run(&id).await;
    assert_eq!(place.get(&place.lead, &id).await["state"], "Fulfilled");
}

#[tokio::test]
async fn what_is_made_is_what_was_asked_for_and_what_is_still_allowed() {
    let place = Place::new().await;
    place.rule("all", json!({})).await;
    let (first, second) = (place.held("a").await, place.held("b").await);
    // The template has other content now: what was seen counts.
    place.world.template_with("app", "2.0.0", PARAMETERS, &[("all.yaml", DEPLOYMENT)]);
    place.step(&place.lead, &first, "approve", json!({})).await;
    place.run(&first).await;
    assert_eq!(place.environment("a").await.expect("made").template_version, "1.0.0");
    // Who asked is not in the project any more.
    let members = json!([{"kind": "user", "name": "lead", "role": "maintainer"}]);
    place.world.call("PUT", "/api/v1/projects/web", Some(json!({"members": members}))).await;
    place.step(&place.lead, &second, "approve", json!({})).await;
    place.run(&second).await;
    let failed = place.get(&place.lead, &second).await;
    assert_eq!(failed["state"], "Failed");
    assert!(failed["message"].as_str().is_some_and(|m| m.contains("any more")), "{failed}");
    assert!(place.environment("b").await.is_none());
}

#[tokio::test]
async fn an_approval_waits_for_a_quota_and_ends_in_time() {
    let place = Place::at_fixed_time().await;
    place.rule("all", json!({"answerWithin": "1h", "grant": "2h"})).await;
    let (late, full) = (place.held("late").await, place.held("full").await);
    let quota = json!({"members": [{"kind": "user", "name": "dev", "role": "developer"}, {"kind": "user", "name": "lead", "role": "maintainer"}], "quota": {"environments": 0}});
    assert_eq!(place.world.call("PUT", "/api/v1/projects/web", Some(quota)).await.0, S::OK);
    place.step(&place.lead, &full, "approve", json!({})).await;
    place.run(&full).await;
    let waiting = place.get(&place.lead, &full).await;
    assert_eq!(waiting["state"], "Approved");
    assert!(waiting["message"].as_str().is_some_and(|m| m.contains("may have 0 environments")), "{waiting}");
    place.world.clock.advance(3600);
    assert_eq!(place.step(&place.lead, &late, "approve", json!({})).await.0, S::CONFLICT, "also before it is written");
    place.run(&late).await;
    assert_eq!(place.get(&place.lead, &late).await["state"], "Expired");
    place.world.clock.advance(3600);
    place.run(&full).await;
    assert_eq!(place.get(&place.lead, &full).await["state"], "Expired");
    assert!(place.actions().await.iter().any(|a| a == "approval.expire"));
}

#[tokio::test]
async fn an_update_is_held_where_it_makes_something_larger() {
    let place = Place::new().await;
    place.world.portal.start();
    let (_, made) = place.ask(&place.dev, "env", 2, "").await;
    place.world.ended(made["job"].as_str().expect("job")).await;
    place.rule("large", json!({"largerThan": {"cpu": "1"}})).await;
    let update = |replicas: u32, reason: &str| json!({"parameters": {"replicas": replicas}, "reason": reason});
    let path = "/api/v1/environments/env/update";
    let (status, job) = place.world.call_as(Some(&place.dev), "POST", path, Some(update(2, ""))).await;
    assert_eq!(status, S::ACCEPTED, "it does not grow: {job}");
    place.world.ended(job["id"].as_str().expect("job")).await;
    let (status, problem) = place.world.call_as(Some(&place.dev), "POST", path, Some(update(3, ""))).await;
    assert_eq!((status, problem["type"].as_str()), (S::CONFLICT, Some("approval-required")), "{problem}");
    let (status, approval) = place.world.call_as(Some(&place.dev), "POST", path, Some(update(3, "more"))).await;
    assert_eq!((status, approval["kind"].as_str()), (S::ACCEPTED, Some("update")), "{approval}");
    let id = approval["id"].as_str().expect("id");
    place.step(&place.lead, id, "approve", json!({})).await;
    let done = place.until(id, "Fulfilled").await;
    let job = place.world.ended(done["job"].as_str().expect("job")).await;
    assert_eq!(job.state, JobState::Succeeded, "{}", job.error);
    assert_eq!(place.environment("env").await.expect("there").parameters["replicas"], 3);
}
