use base64::{Engine, engine::general_purpose::STANDARD};

use super::*;
use crate::controllers::Controllers;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn request(name: &str, user: &str, group: Option<&str>, signer: &str) -> Value {
    let (pem, _) = vctl_runtime::pki::request(user, group).unwrap();
    json!({ "metadata": { "name": name }, "spec": {
        "request": STANDARD.encode(pem), "signerName": signer, "usages": ["client auth"], "expirationSeconds": 3600 } })
}

async fn approve(f: &Fixture, headers: &[(&str, &str)], name: &str) -> (StatusCode, Value) {
    let mut live = f.ok("GET", &format!("{REQUESTS}/{name}"), Value::Null).await;
    live["status"]["conditions"] =
        json!([{ "type": "Approved", "status": "True", "reason": "Test", "message": "yes" }]);
    f.send_as(&f.admin, headers, "PUT", &format!("{REQUESTS}/{name}/approval"), live).await
}

async fn until(f: &Fixture, name: &str, done: impl Fn(&Value) -> bool) -> Value {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let object = f.ok("GET", &format!("{REQUESTS}/{name}"), Value::Null).await;
        if done(&object) {
            return object;
        }
        assert!(tokio::time::Instant::now() < deadline, "{object}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn an_approved_request_becomes_a_certificate_that_the_cluster_knows() {
    let f = Fixture::new().await;
    let tasks = Tasks::new();
    let controllers = Controllers::new(f.store.clone(), Arc::new(f.planes.clone()), f.clock.clone(), tasks.clone());
    controllers.run();
    let signer = "kubernetes.io/kube-apiserver-client";
    f.ok("POST", REQUESTS, request("jane", "jane", Some("developers"), signer)).await;
    let (status, approved) = approve(&f, &[], "jane").await;
    assert_eq!(status, StatusCode::OK, "{approved}");
    assert_eq!(approved["status"]["conditions"][0]["lastUpdateTime"], "2026-01-02T03:04:05Z");
    let signed = until(&f, "jane", |r| r["status"]["certificate"].is_string()).await;
    let pem = STANDARD.decode(signed["status"]["certificate"].as_str().unwrap()).unwrap();
    let jane =
        Peer { certificates: Arc::new(chain_from_pem(&String::from_utf8(pem).unwrap()).unwrap()), ..f.admin.clone() };
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let (_, me) =
        f.send_as(&jane, &[], "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review.clone()).await;
    assert_eq!(me["status"]["userInfo"]["username"], "jane");
    assert_eq!(me["status"]["userInfo"]["groups"], json!(["developers", "system:authenticated"]));
    // It ends when it was asked to.
    f.clock.advance(3601);
    let status = f.send_as(&jane, &[], "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review).await.0;
    assert_eq!(status, StatusCode::UNAUTHORIZED);

    let mut wrong = request("wrong", "system:node:a", None, "kubernetes.io/kubelet-serving");
    wrong["spec"]["usages"] = json!(["server auth"]);
    f.ok("POST", REQUESTS, wrong).await;
    approve(&f, &[], "wrong").await;
    let failed = until(&f, "wrong", |r| r["status"]["conditions"].as_array().is_some_and(|c| c.len() == 2)).await;
    assert_eq!(failed["status"]["conditions"][1]["reason"], "SignerValidationFailure");
    tasks.stop();
}

#[tokio::test]
async fn approving_takes_the_right_to_approve_for_the_signer() {
    let f = Fixture::new().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({ "metadata": { "name": "approver" }, "rules": [
        { "apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/approval"], "verbs": ["update"] },
        { "apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": ["example.com/*"], "verbs": ["approve"] },
    ] });
    f.ok("POST", &format!("{rbac}/clusterroles"), role).await;
    let binding = json!({ "metadata": { "name": "approver" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "approver" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob" }] });
    f.ok("POST", &format!("{rbac}/clusterrolebindings"), binding).await;
    let bob = [("impersonate-user", "bob")];
    f.ok("POST", REQUESTS, request("theirs", "x", None, "example.com/a")).await;
    assert_eq!(approve(&f, &bob, "theirs").await.0, StatusCode::OK);
    f.ok("POST", REQUESTS, request("ours", "x", None, "kubernetes.io/kube-apiserver-client")).await;
    let (status, refused) = approve(&f, &bob, "ours").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(
        refused["message"],
        "certificatesigningrequests.certificates.k8s.io \"ours\" is forbidden: user not permitted to approve requests with signerName \"kubernetes.io/kube-apiserver-client\""
    );
    let masters = request("m", "x", Some("system:masters"), "kubernetes.io/kube-apiserver-client");
    let (status, refused) = f.send("POST", REQUESTS, masters).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{refused}");
    let broken = json!({ "metadata": { "name": "b" }, "spec": { "request": "bm8=", "signerName": "x", "usages": ["fishing"], "expirationSeconds": 1 } });
    let (status, refused) = f.send("POST", REQUESTS, broken).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let fields: Vec<&str> =
        refused["details"]["causes"].as_array().unwrap().iter().map(|c| c["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["spec.request", "spec.usages[0]", "spec.signerName", "spec.expirationSeconds"]);
}
