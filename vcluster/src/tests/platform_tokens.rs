use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::config::{PlatformTokens, PlatformUser};

/// A platform with two users, one of whom can be removed.
#[derive(Default)]
struct Platform {
    removed: AtomicBool,
}

#[async_trait::async_trait]
impl PlatformTokens for Platform {
    fn recognises(&self, token: &str) -> bool {
        token.starts_with("vctl_env_")
    }

    async fn authenticate(&self, cluster: &str, token: &str) -> Result<PlatformUser, String> {
        if cluster != NAME || self.removed.load(Ordering::SeqCst) {
            return Err("no".to_owned());
        }
        let name = token.trim_start_matches("vctl_env_").to_owned();
        let admin = name == "alice";
        Ok(PlatformUser { uid: format!("corp:{name}"), name, admin })
    }
}

#[tokio::test]
async fn users_of_the_platform_have_the_rights_it_says_until_it_says_otherwise() {
    let platform = Arc::new(Platform::default());
    let tokens = platform.clone();
    let f = Fixture::with(no_streams(), |config| config.platform_tokens = Some(tokens)).await;
    let send = async |token: &str, method: &str, uri: &str, body: Value| {
        let header = format!("Bearer {token}");
        f.send_as(&Peer::default(), &[("authorization", &header)], method, uri, body).await
    };
    let map = || json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" } });
    let maps = "/api/v1/namespaces/default/configmaps";
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let me = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });

    let (status, answer) = send("vctl_env_alice", "POST", review, me).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    let user = &answer["status"]["userInfo"];
    assert_eq!((&user["username"], &user["uid"]), (&json!("alice"), &json!("corp:alice")));
    assert_eq!(user["groups"], json!(["vctl:user", "vctl:environment-admin", "system:authenticated"]));
    assert_eq!(send("vctl_env_alice", "POST", maps, map()).await.0, StatusCode::CREATED);
    assert_eq!(send("vctl_env_alice", "GET", "/api/v1/secrets", Value::Null).await.0, StatusCode::OK);

    assert_eq!(send("vctl_env_bob", "GET", maps, Value::Null).await.0, StatusCode::OK);
    let (status, answer) = send("vctl_env_bob", "POST", maps, map()).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{answer}");
    assert!(answer["message"].as_str().unwrap_or_default().contains("User \"bob\" cannot create"), "{answer}");
    assert_eq!(send("vctl_env_bob", "GET", "/api/v1/secrets", Value::Null).await.0, StatusCode::FORBIDDEN);

    // What the platform does not know is no token of the cluster either.
    assert_eq!(send("vctl_other", "GET", maps, Value::Null).await.0, StatusCode::UNAUTHORIZED);
    platform.removed.store(true, Ordering::SeqCst);
    assert_eq!(send("vctl_env_alice", "GET", maps, Value::Null).await.0, StatusCode::UNAUTHORIZED);
}
