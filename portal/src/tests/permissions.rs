//! Every endpoint, for everybody there can be: the real router, held to a golden list.

use std::fmt::Write as _;

use http::StatusCode;
use serde_json::{Value, json};
use vctl_api::rest::{Member, MemberKind, Operation, Phase, PlatformSettings, ProjectSettings, ShareAccess};
use vctl_store::Expect;

use crate::{
    access::{
        documents::{PlatformDoc, ProjectDoc, TeamDoc},
        permission::Permission,
        role::{BUILT_IN, BuiltIn},
    },
    approvals::documents::ApprovalDoc,
    documents::put,
    http::{Access, At, Endpoint, endpoints},
    jobs,
    testing::{self, SignedIn, World},
};

/// Every endpoint, the permission that it needs and where, and what each of [`SUBJECTS`] gets. After an endpoint was added or changed on
/// purpose: `VCTL_WRITE_GOLDEN=1 cargo nextest run -p vctl-portal every_endpoint`, and read what has changed.
const GOLDEN: &str = include_str!("permissions.golden");

/// Nobody, somebody without a role, somebody with whom the environment is shared for reading, the roles of its project, its owner, and the roles
/// of the platform.
const SUBJECTS: [&str; 10] = [
    "nobody",
    "stranger",
    "reader",
    "viewer",
    "developer",
    "owner",
    "maintainer",
    "admin",
    "auditor",
    "platform-admin",
];

const JOB: &str = "0000-job";
const APPROVAL: &str = "0000-approval";

fn member(role: &str) -> Member {
    Member { kind: MemberKind::User, name: role.to_owned(), role: role.to_owned() }
}

/// A project `web` with an environment `env`, and somebody in every role.
async fn world(subject: &str) -> (World, Option<SignedIn>) {
    let world = World::new();
    let members = ["viewer", "developer", "maintainer", "admin"].map(member).to_vec();
    let settings = ProjectSettings { members, ..ProjectSettings::default() };
    let project = ProjectDoc { name: "web".to_owned(), settings, created_at: None };
    let settings =
        PlatformSettings { members: ["auditor", "platform-admin"].map(member).to_vec(), ..PlatformSettings::default() };
    let mut environment = testing::environment("env", Phase::Ready);
    environment.project = "web".to_owned();
    environment.owner_id = "owner".to_owned();
    environment.shares.insert("reader".to_owned(), ShareAccess::ReadOnly);
    let mut job = jobs::new(world.clock.now(), &environment.name, &environment.uid, Operation::Create, None);
    job.id = JOB.to_owned();
    job.state = vctl_api::rest::JobState::Succeeded;
    job.project = "web".to_owned();
    environment.job = JOB.to_owned();
    world.planes.state().clusters.entry("env".to_owned()).or_default();
    let writes = vec![
        put(&project, Expect::Absent).expect("project"),
        put(&PlatformDoc { settings }, Expect::Absent).expect("platform"),
        put(&TeamDoc { name: "team".to_owned(), settings: vctl_api::rest::TeamSettings::default() }, Expect::Absent)
            .expect("team"),
        put(&environment, Expect::Absent).expect("environment"),
        put(&job, Expect::Absent).expect("job"),
        put(&approval(), Expect::Absent).expect("approval"),
    ];
    world.portal.inner().access.change(writes).await.expect("written");
    world.sign_in("other", &[]).await;
    let who = if subject == "nobody" { None } else { Some(world.sign_in(subject, &[]).await) };
    (world, who)
}

/// Somebody has asked for a role.
fn approval() -> ApprovalDoc {
    let document = json!({
        "id": APPROVAL, "kind": "role", "state": "Pending", "message": "", "project": "web", "requestedBy": "other@example.com",
        "requestedById": "other", "requestId": "r", "reason": "r", "createdAt": "2026-01-01T00:00:00Z", "decisions": [], "countedFrom": 0,
        "approvalsNeeded": 1, "rules": [], "role": "viewer", "period": "1h",
    });
    serde_json::from_value(document).expect("a request")
}

fn path_of(endpoint: &Endpoint) -> String {
    let name = match endpoint.access {
        Access::Needs(_, At::Project) => "web",
        Access::Needs(_, At::Environment) => "env",
        _ if endpoint.path.contains("/environments/") => "restored",
        _ if endpoint.path.contains("/templates/") => "blank",
        _ if endpoint.path.contains("/teams/") => "team",
        _ => "some",
    };
    let id = match endpoint.path {
        path if path.contains("/users/") => "other",
        path if path.contains("/approvals/") => APPROVAL,
        _ => JOB,
    };
    endpoint
        .path
        .replace("{name}", name)
        .replace("{id}", id)
        .replace("{version}", "1.0.0")
        .replace("{user}", "reader")
        .replace("{rule}", "large")
        .replace("{*path}", "api/v1/pods")
}

fn body_of(endpoint: &Endpoint) -> Option<Value> {
    if ["GET", "DELETE"].contains(&endpoint.method) {
        return None;
    }
    let body = match endpoint.path.rsplit('/').next().unwrap_or_default() {
        "environments" | "preview" if !endpoint.path.contains("{name}") => {
            json!({"name": "new", "template": "blank", "project": "web"})
        }
        "projects" => json!({"name": "new"}),
        "rotate-ca" => json!({"now": true}),
        "extend" => json!({"period": "1h"}),
        "approvals" => json!({"project": "web", "role": "viewer", "period": "1h", "reason": "r"}),
        "break-glass" => json!({"project": "web", "reason": "r"}),
        "approve" | "deny" | "withdraw" | "revoke" | "review" => json!({"comment": "c"}),
        "{rule}" => json!({}),
        "{name}" if endpoint.path.contains("/webhooks/") => json!({"url": "https://example.com/"}),
        "{version}" => json!({"yanked": true}),
        "{user}" => json!({"access": "readOnly"}),
        "{id}" => json!({"disabled": true}),
        "{name}" if endpoint.path.contains("/roles/") => json!({"rules": []}),
        _ => json!({}),
    };
    Some(body)
}

fn needs(endpoint: &Endpoint) -> String {
    match endpoint.access {
        Access::Needs(permission, at) => format!("{permission}@{at:?}"),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn every_endpoint_answers_everybody_as_the_golden_list_says() {
    let mut worlds = Vec::new();
    for subject in SUBJECTS {
        worlds.push(world(subject).await);
    }
    let mut list = format!("{:<86}{}\n", "# endpoint, permission@place", SUBJECTS.join(" "));
    for endpoint in endpoints() {
        let mut line = format!("{} {} {}", endpoint.method, endpoint.path, needs(&endpoint));
        if !matches!(endpoint.access, Access::Page | Access::Public) {
            line = format!("{line:<86}");
            for (i, subject) in SUBJECTS.iter().enumerate() {
                let changes = endpoint.method != "GET";
                let fresh = if changes { Some(world(subject).await) } else { None };
                let (world, who) = fresh.as_ref().unwrap_or(&worlds[i]);
                let (status, _) =
                    world.call_as(who.as_ref(), endpoint.method, &path_of(&endpoint), body_of(&endpoint)).await;
                assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{line} {subject}");
                write!(line, "{} ", status.as_u16()).expect("a text");
            }
        }
        list.push_str(line.trim_end());
        list.push('\n');
    }
    if std::env::var_os("VCTL_WRITE_GOLDEN").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/permissions.golden"), &list).expect("written");
        return;
    }
    for (is, should) in list.lines().zip(GOLDEN.lines()) {
        assert_eq!(is, should);
    }
    assert_eq!(list.lines().count(), GOLDEN.lines().count(), "an endpoint is not in the golden list");
}

#[test]
fn the_documentation_has_every_permission() {
    let roles = || BUILT_IN.iter();
    let mut table = format!("| permission | | {} |\n", roles().map(|r| r.name).collect::<Vec<_>>().join(" | "));
    table.push_str(&format!("|---|---|{}\n", roles().map(|_| "---|").collect::<String>()));
    for permission in Permission::ALL {
        let has = |r: &BuiltIn| if r.permissions.contains(*permission) { " x |" } else { " |" };
        let has: String = roles().map(has).collect();
        table.push_str(&format!("| `{permission}` | {} |{has}\n", permission.help().trim_end_matches('.')));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/access.md");
    let text = std::fs::read_to_string(path).expect("the documentation");
    let (before, rest) = text.split_once("permission` -->\n").expect("where it begins");
    let (is, after) = rest.split_once("<!-- /permissions -->").expect("where it ends");
    if std::env::var_os("VCTL_WRITE_GOLDEN").is_some() {
        std::fs::write(path, format!("{before}permission` -->\n{table}<!-- /permissions -->{after}")).expect("written");
        return;
    }
    assert_eq!(is, table, "run it with VCTL_WRITE_GOLDEN=1 and read what has changed");
}

#[test]
fn every_endpoint_that_needs_no_permission_is_known() {
    let free: Vec<&str> = endpoints().iter().filter(|e| e.access == Access::SignedIn).map(|e| e.path).collect();
    for path in free {
        let about_oneself =
            ["session", "identity", "login-links", "permissions", "roles", "api-keys", "tokens", "logins"];
        assert!(about_oneself.iter().any(|part| path.contains(part)), "{path}: say which permission it needs");
    }
}
