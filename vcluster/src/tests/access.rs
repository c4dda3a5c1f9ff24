use super::*;
use crate::User;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn nobody() -> Peer {
    Peer::default()
}

async fn token(f: &Fixture, account: &str, spec: Value) -> String {
    let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec });
    let answer = f.ok("POST", &format!("/api/v1/namespaces/default/serviceaccounts/{account}/token"), request).await;
    answer["status"]["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn nobody_sees_only_what_is_public() {
    let f = Fixture::new().await;
    for uri in ["/version", "/healthz", "/livez", "/readyz"] {
        assert_eq!(f.send_as(&nobody(), &[], "GET", uri, Value::Null).await.0, StatusCode::OK, "{uri}");
    }
    for uri in ["/", "/api", "/apis", "/openapi/v2", "/openid/v1/jwks", "/metrics", "/nonsense"] {
        let (status, answer) = f.send_as(&nobody(), &[], "GET", uri, Value::Null).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{uri}");
        assert_eq!(answer["message"], format!("forbidden: User \"system:anonymous\" cannot get path \"{uri}\""));
    }
    for row in crate::plane::builtin(vctl_machinery::version::MinorVersion::DEFAULT).rows() {
        let group = if row.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", row.group) };
        let place = if row.namespaced { "/namespaces/default" } else { "" };
        let uri = format!("{group}/{}{place}/{}", row.version, row.plural);
        for method in ["GET", "POST", "DELETE"] {
            let status = f.send_as(&nobody(), &[], method, &uri, Value::Null).await.0;
            assert_eq!(status, StatusCode::FORBIDDEN, "{method} {uri}");
        }
    }
}

#[tokio::test]
async fn another_clusters_credentials_are_refused() {
    let f = Fixture::new().await;
    let other = EnvironmentName::new("other").unwrap();
    f.planes.create(&other, Vec::new()).await.unwrap();
    let stranger = peer(&f.planes, &other).await;
    let (status, answer) = f.send_as(&stranger, &[], "GET", MAPS, Value::Null).await;
    assert_eq!((status, &answer["reason"]), (StatusCode::UNAUTHORIZED, &json!("Unauthorized")));
    let header = format!("Bearer {}", token(&f, "default", json!({})).await);
    let request = Request::get("/api/v1/namespaces").header("authorization", header).body(Body::empty()).unwrap();
    assert_eq!(f.planes.handle("other", request, nobody()).await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(
        f.send_as(&nobody(), &[("authorization", "Bearer nonsense")], "GET", MAPS, Value::Null).await.0,
        StatusCode::UNAUTHORIZED
    );
}

#[tokio::test]
async fn an_expired_certificate_or_token_is_refused() {
    let f = Fixture::new().await;
    let header = format!("Bearer {}", token(&f, "default", json!({ "expirationSeconds": 600 })).await);
    let whoami = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let ask = async || {
        f.send_as(
            &nobody(),
            &[("authorization", &header)],
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            whoami.clone(),
        )
        .await
    };
    let (status, answer) = ask().await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    assert_eq!(answer["status"]["userInfo"]["username"], "system:serviceaccount:default:default");
    assert_eq!(
        answer["status"]["userInfo"]["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    f.clock.advance(601);
    assert_eq!(ask().await.0, StatusCode::UNAUTHORIZED);
    f.ok("GET", MAPS, Value::Null).await;
    f.clock.advance(366 * 86_400);
    assert_eq!(f.send("GET", MAPS, Value::Null).await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_token_ends_with_its_pod_and_its_account() {
    let f = Fixture::new().await;
    f.ok("POST", "/api/v1/namespaces/default/serviceaccounts", json!({ "metadata": { "name": "app" } })).await;
    let mut body = pod("p");
    body["spec"]["serviceAccountName"] = "app".into();
    f.ok("POST", "/api/v1/namespaces/default/pods", body).await;
    let reference = json!({ "boundObjectRef": { "kind": "Pod", "apiVersion": "v1", "name": "p" } });
    let (bound, free) = (token(&f, "app", reference).await, token(&f, "app", json!({})).await);
    let known = async |token: &str| {
        let header = format!("Bearer {token}");
        f.send_as(&nobody(), &[("authorization", &header)], "GET", "/api", Value::Null).await.0
    };
    assert_eq!((known(&bound).await, known(&free).await), (StatusCode::OK, StatusCode::OK));
    f.ok("DELETE", "/api/v1/namespaces/default/pods/p", Value::Null).await;
    assert_eq!((known(&bound).await, known(&free).await), (StatusCode::UNAUTHORIZED, StatusCode::OK));
    f.ok("DELETE", "/api/v1/namespaces/default/serviceaccounts/app", Value::Null).await;
    assert_eq!(known(&free).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn token_reviews_tell_audiences() {
    let f = Fixture::new().await;
    let vault = token(&f, "default", json!({ "audiences": ["vault"] })).await;
    let review = async |spec: Value| {
        let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec });
        f.ok("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body).await["status"].clone()
    };
    assert_eq!(review(json!({ "token": vault, "audiences": ["vault", "x"] })).await["audiences"], json!(["vault"]));
    assert_ne!(review(json!({ "token": vault })).await["authenticated"], true);
    let keys = f.ok("GET", "/openid/v1/jwks", Value::Null).await;
    assert_eq!((&keys["keys"][0]["kty"], &keys["keys"][0]["alg"]), (&json!("EC"), &json!("ES256")));
}

const AS_JANE: (&str, &str) = ("impersonate-user", "jane");

async fn bind_jane(f: &Fixture, role: &str) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": format!("jane-{role}") },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane" }],
    });
    f.ok("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding).await;
}

#[tokio::test]
async fn rights_come_and_go_with_bindings() {
    let f = Fixture::new().await;
    let ask = async |method: &str, uri: &str, body: Value| f.send_as(&f.admin, &[AS_JANE], method, uri, body).await;
    let (status, answer) = ask("GET", MAPS, Value::Null).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(
        answer["message"],
        "configmaps is forbidden: User \"jane\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    assert_eq!(answer["details"], json!({ "kind": "configmaps" }));
    bind_jane(&f, "view").await;
    assert_eq!(ask("GET", MAPS, Value::Null).await.0, StatusCode::OK);
    assert_eq!(ask("GET", "/api/v1/namespaces/default/secrets", Value::Null).await.0, StatusCode::FORBIDDEN);
    assert_eq!(ask("POST", MAPS, config_map("x", "1")).await.0, StatusCode::FORBIDDEN);
    assert_eq!(ask("GET", "/api/v1/namespaces/kube-system/configmaps", Value::Null).await.0, StatusCode::FORBIDDEN);
    let (_, answer) = ask("GET", "/api/v1/nodes/n", Value::Null).await;
    assert_eq!(
        answer["message"],
        "nodes \"n\" is forbidden: User \"jane\" cannot get resource \"nodes\" in API group \"\" at the cluster scope"
    );
    f.ok("DELETE", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings/jane-view", Value::Null).await;
    assert_eq!(ask("GET", MAPS, Value::Null).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn nobody_grants_what_they_do_not_have() {
    let f = Fixture::new().await;
    bind_jane(&f, "admin").await;
    let role = |resource: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": resource },
            "rules": [{ "apiGroups": [""], "resources": [resource], "verbs": ["get"] }],
        })
    };
    let uri = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    assert_eq!(f.send_as(&f.admin, &[AS_JANE], "POST", uri, role("configmaps")).await.0, StatusCode::CREATED);
    let (status, answer) = f.send_as(&f.admin, &[AS_JANE], "POST", uri, role("nodes")).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(
        answer["message"],
        "roles.rbac.authorization.k8s.io \"nodes\" is forbidden: user \"jane\" (groups=[\"system:authenticated\"]) is attempting to grant \
         RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\"]}"
    );
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "more" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane" }],
    });
    let uri = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    assert_eq!(f.send_as(&f.admin, &[AS_JANE], "POST", uri, binding).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn impersonation_takes_the_right_to() {
    let f = Fixture::new().await;
    let header = format!("Bearer {}", token(&f, "default", json!({})).await);
    let headers = [
        ("authorization", header.as_str()),
        ("impersonate-user", "kubernetes-admin"),
        ("impersonate-group", "system:masters"),
    ];
    let (status, answer) = f.send_as(&nobody(), &headers, "GET", MAPS, Value::Null).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(
        answer["message"],
        "users \"kubernetes-admin\" is forbidden: User \"system:serviceaccount:default:default\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
    );
}

#[tokio::test]
async fn access_reviews_answer() {
    let f = Fixture::new().await;
    bind_jane(&f, "view").await;
    let review = async |resource: &str| {
        let body = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": { "resourceAttributes": { "verb": "list", "resource": resource, "namespace": "default" } } });
        let (status, answer) = f
            .send_as(&f.admin, &[AS_JANE], "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
            .await;
        assert_eq!(status, StatusCode::CREATED);
        answer["status"].clone()
    };
    assert_eq!(review("secrets").await, json!({ "allowed": false }));
    assert_eq!(
        review("pods").await,
        json!({ "allowed": true, "reason": "RBAC: allowed by RoleBinding \"jane-view/default\" of ClusterRole \"view\" to User \"jane\"" })
    );
    let body = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": { "namespace": "default" } });
    let (_, rules) =
        f.send_as(&f.admin, &[AS_JANE], "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body).await;
    assert!(rules["status"]["resourceRules"].as_array().unwrap().len() > 3);
}

#[tokio::test]
async fn an_outside_user_is_authorized_inside_too() {
    let f = Fixture::new().await;
    let name = EnvironmentName::new(NAME).unwrap();
    let jane = f.planes.client(&name, User::new("jane", []));
    assert_eq!(jane.get("configmaps", "default", "kube-root-ca.crt").await.unwrap_err().code, 403);
    let internal = f.planes.client(&name, User::internal("system:serviceaccount:kube-system:x"));
    internal.get("configmaps", "default", "kube-root-ca.crt").await.unwrap();
    assert_eq!(internal.get("pki.vctl.dev", "", "keys").await.unwrap_err().code, 404);
}

#[tokio::test]
async fn a_user_to_act_for_who_cannot_be_read_is_not_nobody() {
    let f = Fixture::new().await;
    let ask = async |name: &str, value: &[u8]| {
        let value = http::HeaderValue::from_bytes(value).unwrap();
        let mut request = Request::get("/api/v1/secrets").body(Body::empty()).unwrap();
        request.headers_mut().insert("impersonate-user", "anna".parse().unwrap());
        request.headers_mut().insert(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
        f.planes.handle(NAME, request, f.admin.clone()).await.status()
    };
    assert_eq!(ask("impersonate-user", "j\u{f6}rg".as_bytes()).await, StatusCode::FORBIDDEN);
    assert_eq!(ask("impersonate-user", b"j\xf6rg").await, StatusCode::BAD_REQUEST);
    assert_eq!(ask("impersonate-group", b"\xf6").await, StatusCode::BAD_REQUEST);
    assert_eq!(ask("impersonate-uid", b"\xf6").await, StatusCode::BAD_REQUEST);
    assert_eq!(ask("impersonate-extra-a", b"\xf6").await, StatusCode::BAD_REQUEST);
}
