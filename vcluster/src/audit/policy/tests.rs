//! Tests of the policy.

use http::Method;
use serde_json::json;

use super::*;
use crate::request::Query;

fn info(method: &Method, uri: &str) -> RequestInfo {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    RequestInfo::new(method, path, &Query::parse(query))
}

fn policy(document: Value) -> AuditPolicy {
    let mut whole = json!({ "apiVersion": "audit.k8s.io/v1", "kind": "Policy" });
    for (field, value) in document.as_object().into_iter().flatten() {
        whole[field] = value.clone();
    }
    AuditPolicy::new(&whole).expect("a policy")
}

fn level(policy: &AuditPolicy, method: Method, uri: &str) -> Level {
    policy.decide(&info(&method, uri), "ann", &["devs".to_owned()]).level
}

/// Whether a rule with these fields matches a request.
fn hits(rule: Value, method: Method, uri: &str) -> bool {
    let mut rule = rule;
    rule["level"] = "Request".into();
    level(&policy(json!({ "rules": [rule] })), method, uri) == Level::Request
}

const LOG: &str = "/api/v1/namespaces/a/pods/web/log";
const PODS: &str = "/api/v1/namespaces/a/pods";

#[test]
fn the_first_rule_that_matches_counts() {
    let policy = policy(json!({ "rules": [
        { "level": "None", "users": ["bob"] },
        { "level": "Metadata", "verbs": ["get"] },
        { "level": "RequestResponse", "userGroups": ["devs"], "verbs": ["create", "get"] },
    ] }));
    assert_eq!(level(&policy, Method::GET, LOG), Level::Metadata);
    assert_eq!(level(&policy, Method::POST, PODS), Level::RequestResponse);
    assert_eq!(level(&policy, Method::PUT, LOG), Level::None, "no rule is about it");
    assert_eq!(policy.decide(&info(&Method::POST, PODS), "bob", &["devs".to_owned()]).level, Level::None);
}

#[test]
fn resources_are_named_as_upstream_names_them() {
    let resources = |group: &str, list: Value| json!({ "resources": [{ "group": group, "resources": list }] });
    for (list, pod, log) in [
        (json!(["pods"]), true, false),
        (json!(["pods/log"]), false, true),
        (json!(["pods/*"]), true, true),
        (json!(["*/log"]), false, true),
        (json!(["*"]), true, true),
        (json!([]), true, true),
        (json!(["services"]), false, false),
    ] {
        let rule = resources("", list.clone());
        assert_eq!(hits(rule.clone(), Method::GET, "/api/v1/namespaces/a/pods/web"), pod, "{list}");
        assert_eq!(hits(rule, Method::GET, LOG), log, "{list}");
    }
    assert!(!hits(resources("apps", json!(["*"])), Method::GET, LOG));
    let named = json!({ "resources": [{ "group": "", "resources": ["pods"], "resourceNames": ["web"] }] });
    assert!(hits(named.clone(), Method::GET, "/api/v1/namespaces/a/pods/web"));
    assert!(!hits(named, Method::GET, "/api/v1/namespaces/a/pods/db"));
    assert!(hits(json!({ "namespaces": ["a"] }), Method::GET, LOG));
    assert!(!hits(json!({ "namespaces": [""] }), Method::GET, LOG));
    assert!(hits(json!({ "namespaces": [""] }), Method::GET, "/api/v1/nodes"));
    assert!(!hits(json!({ "namespaces": ["a"] }), Method::GET, "/version"));
}

#[test]
fn other_urls_are_paths() {
    let urls = |url: &str| json!({ "nonResourceURLs": [url] });
    assert!(hits(urls("/healthz*"), Method::GET, "/healthz/etcd"));
    assert!(hits(urls("*"), Method::GET, "/version") && hits(urls("/version"), Method::GET, "/version"));
    assert!(!hits(urls("/version"), Method::GET, "/version/x"));
    assert!(!hits(urls("*"), Method::GET, LOG), "a resource is no other URL");
    assert!(hits(json!({}), Method::GET, "/version"), "a rule without both is about everything");
}

#[test]
fn secrets_are_never_above_metadata() {
    let all = policy(json!({ "rules": [{ "level": "RequestResponse" }] }));
    for uri in [
        "/api/v1/namespaces/a/secrets",
        "/api/v1/namespaces/a/configmaps/c",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "/api/v1/namespaces/a/serviceaccounts/s/token",
    ] {
        assert_eq!(level(&all, Method::POST, uri), Level::Metadata, "{uri}");
    }
    assert_eq!(level(&all, Method::POST, PODS), Level::RequestResponse);
    let none = policy(json!({ "rules": [{ "level": "None" }] }));
    assert_eq!(level(&none, Method::POST, "/api/v1/namespaces/a/secrets"), Level::None);
}

#[test]
fn stages_and_managed_fields_are_those_of_the_policy_and_of_the_rule() {
    let policy = policy(json!({
        "omitStages": ["RequestReceived"], "omitManagedFields": true,
        "rules": [
            { "level": "Metadata", "verbs": ["get"], "omitStages": ["ResponseStarted"], "omitManagedFields": false },
            { "level": "Metadata" },
        ],
    }));
    let of = |method| policy.decide(&info(&method, LOG), "ann", &[]);
    let (get, put) = (of(Method::GET), of(Method::PUT));
    assert!(get.omits(Stage::RequestReceived) && get.omits(Stage::ResponseStarted) && !get.omit_managed_fields);
    assert!(put.omits(Stage::RequestReceived) && !put.omits(Stage::ResponseStarted) && put.omit_managed_fields);
    assert!(!put.omits(Stage::ResponseComplete));
}

#[test]
fn the_shipped_policy_records_what_people_change_and_sessions() {
    let shipped = AuditPolicy::shipped();
    // The documentation shows the same.
    let text = include_str!("../../../../docs/audit.md");
    let shown = text.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a policy");
    let shown: Value = serde_yaml::from_str(shown).expect("YAML");
    assert_eq!(AuditPolicy::new(&shown).expect("a policy"), shipped);
    for (method, uri, expected) in [
        (Method::POST, PODS, Level::Metadata),
        (Method::DELETE, PODS, Level::Metadata),
        (Method::PATCH, "/apis/apps/v1/namespaces/a/deployments/d", Level::Metadata),
        (Method::GET, "/api/v1/namespaces/a/pods/web/exec", Level::Metadata),
        (Method::GET, PODS, Level::None),
        (Method::GET, "/api/v1/pods?watch=1", Level::None),
        (Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/a/leases/l", Level::None),
        (Method::POST, "/api/v1/namespaces/a/events", Level::None),
        (Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", Level::None),
        (Method::GET, "/version", Level::None),
    ] {
        assert_eq!(level(&shipped, method.clone(), uri), expected, "{method} {uri}");
    }
    let by = |groups: &[&str], method, uri| {
        let groups: Vec<String> = groups.iter().map(|g| (*g).to_owned()).collect();
        shipped.decide(&info(&method, uri), "somebody", &groups).level
    };
    let exec = "/api/v1/namespaces/a/pods/web/exec";
    for programs in ["system:masters", "system:serviceaccounts", "system:nodes"] {
        assert_eq!(by(&[programs, "system:authenticated"], Method::POST, PODS), Level::None, "{programs}");
        assert_eq!(by(&[programs], Method::POST, exec), Level::Metadata, "{programs}");
    }
    assert_eq!(by(&["vctl:user", "system:masters"], Method::POST, PODS), Level::Metadata, "by the console");
}

#[test]
fn what_is_wrong_is_told() {
    let wrong = |document: Value| AuditPolicy::new(&document).expect_err("refused").to_string();
    let of = |rules: Value| wrong(json!({ "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules }));
    assert!(wrong(json!({ "apiVersion": "v1", "kind": "ConfigMap" })).contains("must be audit.k8s.io/v1"));
    assert!(of(json!([])).contains("at least one"));
    assert!(of(json!([{ "level": "All" }])).contains("unknown variant `All`"));
    assert!(of(json!([{ "level": "None", "resource": [] }])).contains("unknown field `resource`"));
    assert!(
        of(json!([{ "level": "None", "resources": [{ "group": "" }], "nonResourceURLs": ["/x"] }])).contains("at once")
    );
    assert!(of(json!([{ "level": "None", "nonResourceURLs": ["x"] }])).contains("begin with /"));
    assert!(of(json!([{ "level": "None", "nonResourceURLs": ["/a*b"] }])).contains("at its end only"));
    assert!(of(json!([{ "level": "None", "resources": [{ "group": "apps/v1" }] }])).contains("no API group"));
    assert!(
        of(json!([{ "level": "None", "resources": [{ "group": "", "resourceNames": ["a"] }] }]))
            .contains("need resources")
    );
}
