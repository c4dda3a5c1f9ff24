//! Who may hand on rights, and what somebody is told of their own.

use super::*;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

async fn grant(f: &Fixture, name: &str, rules: Value, user: &str) {
    let group = "rbac.authorization.k8s.io";
    let role = json!({ "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": { "name": name }, "rules": rules });
    f.ok("POST", &format!("{RBAC}/clusterroles"), role).await;
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": { "name": name },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": name },
        "subjects": [{ "apiGroup": group, "kind": "User", "name": user }],
    });
    f.ok("POST", &format!("{RBAC}/clusterrolebindings"), binding).await;
}

fn rule(verbs: &[&str], resources: &[&str]) -> Value {
    json!({ "apiGroups": ["rbac.authorization.k8s.io"], "resources": resources, "verbs": verbs })
}

#[tokio::test]
async fn the_verbs_bind_and_escalate_let_rights_be_handed_on() {
    let f = Fixture::new().await;
    let all = ["roles", "rolebindings"];
    grant(&f, "author", json!([rule(&["create", "get", "patch"], &all)]), "ann").await;
    grant(&f, "author-escalating", json!([rule(&["create", "escalate"], &["roles"])]), "eve").await;
    let mut bind_view = rule(&["bind"], &["clusterroles"]);
    bind_view["resourceNames"] = json!(["view"]);
    grant(&f, "author-binding", json!([rule(&["create"], &["rolebindings"]), bind_view]), "bea").await;

    let ask = async |user: &str, uri: &str, body: Value| {
        f.send_as(&f.admin, &[("impersonate-user", user)], "POST", &format!("{RBAC}/namespaces/default/{uri}"), body)
            .await
    };
    let role = |name: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": name },
            "rules": [{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }],
        })
    };
    let (status, answer) = ask("ann", "roles", role("a")).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("attempting to grant RBAC permissions not currently held"), "{message}");
    assert_eq!(ask("eve", "roles", role("e")).await.0, StatusCode::CREATED);

    let binding = |name: &str, role: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "zoe" }],
        })
    };
    assert_eq!(ask("ann", "rolebindings", binding("a", "view")).await.0, StatusCode::FORBIDDEN);
    assert_eq!(ask("bea", "rolebindings", binding("b", "view")).await.0, StatusCode::CREATED);
    assert_eq!(
        ask("bea", "rolebindings", binding("c", "edit")).await.0,
        StatusCode::FORBIDDEN,
        "that one by name only"
    );
    // A patch is an update: rights do not come in by it either.
    f.ok(
        "POST",
        &format!("{RBAC}/namespaces/default/roles"),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "empty" }, "rules": [],
        }),
    )
    .await;
    let headers = [("impersonate-user", "ann"), ("content-type", "application/merge-patch+json")];
    let uri = format!("{RBAC}/namespaces/default/roles/empty");
    let patch = json!({ "rules": role("x")["rules"] });
    assert_eq!(f.send_as(&f.admin, &headers, "PATCH", &uri, patch).await.0, StatusCode::FORBIDDEN);
}

/// All bindings count, by name and by group, of the namespace and of the cluster, and nothing of other namespaces.
#[tokio::test]
async fn a_rules_review_is_complete() {
    let f = Fixture::new().await;
    grant(
        &f,
        "cluster-wide",
        json!([
            { "apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"], "resourceNames": ["n"] },
            { "nonResourceURLs": ["/metrics"], "verbs": ["get"] },
        ]),
        "ann",
    )
    .await;
    for (namespace, resource, subject) in [
        ("default", "secrets", json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "team" })),
        (
            "kube-system",
            "configmaps",
            json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann" }),
        ),
    ] {
        let uri = format!("{RBAC}/namespaces/{namespace}");
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "r" },
            "rules": [{ "apiGroups": [""], "resources": [resource], "verbs": ["watch"] }],
        });
        f.ok("POST", &format!("{uri}/roles"), role).await;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "r" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" }, "subjects": [subject],
        });
        f.ok("POST", &format!("{uri}/rolebindings"), binding).await;
    }
    let headers = [("impersonate-user", "ann"), ("impersonate-group", "team")];
    let uri = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let review = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": { "namespace": "default" } });
    let (status, answer) = f.send_as(&f.admin, &headers, "POST", uri, review).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    let (told, urls) = (&answer["status"]["resourceRules"], &answer["status"]["nonResourceRules"]);
    let has = |wanted: Value| told.as_array().unwrap().contains(&wanted);
    assert!(
        has(json!({ "apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"], "resourceNames": ["n"] })),
        "{told}"
    );
    assert!(has(json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": ["watch"] })), "{told}");
    assert!(!told.to_string().contains("configmaps"), "{told}");
    assert!(told.to_string().contains("selfsubjectreviews"), "what everyone has: {told}");
    assert!(urls.as_array().unwrap().contains(&json!({ "nonResourceURLs": ["/metrics"], "verbs": ["get"] })), "{urls}");
    assert!(urls.to_string().contains("/healthz"), "{urls}");
    assert_eq!(answer["status"]["incomplete"], false);
}
