//! Webhooks: what arrives is signed, comes once it can, and survives the end of the process.

use std::sync::{Arc, Mutex, PoisonError};

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::hmac;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use vctl_runtime::tasks::Tasks;

use crate::testing::World;

/// A receiver on loopback that answers with these statuses, the last one for ever; what it has received, heads and bodies.
async fn receiver(statuses: Vec<u16>, tasks: &Tasks) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let url = format!("http://{}/hook/secret-path", listener.local_addr().expect("address"));
    let received = Arc::new(Mutex::new(Vec::new()));
    let seen = received.clone();
    tasks.spawn_until_stopped("receiver", async move {
        let mut statuses = statuses.into_iter().peekable();
        loop {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            let (mut text, mut piece) = (Vec::new(), [0; 4096]);
            loop {
                let read = stream.read(&mut piece).await.unwrap_or(0);
                text.extend_from_slice(&piece[..read]);
                let all = String::from_utf8_lossy(&text).into_owned();
                let length = all
                    .to_lowercase()
                    .split("content-length: ")
                    .nth(1)
                    .and_then(|l| l.split("\r\n").next()?.parse::<usize>().ok());
                let body = all.split_once("\r\n\r\n").map(|(_, body)| body.len());
                if read == 0 || body.zip(length).is_some_and(|(body, length)| body >= length) {
                    break;
                }
            }
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(String::from_utf8_lossy(&text).into_owned());
            let status = statuses.next_if(|_| true).unwrap_or(200);
            let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (url, received)
}

fn count(received: &Mutex<Vec<String>>) -> usize {
    received.lock().unwrap_or_else(PoisonError::into_inner).len()
}

async fn delivered(world: &World) -> Value {
    world.until(None, "/api/v1/webhooks/chat", |webhook| webhook["deliveries"][0]["state"] == "Delivered").await
}

fn header<'a>(request: &'a str, name: &str) -> &'a str {
    let lines = request.lines().filter_map(|line| line.split_once(": "));
    lines.into_iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).unwrap_or_default()
}

#[tokio::test]
async fn what_is_told_is_signed_tried_again_and_survives_a_crash() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let world = World::on_disk().await;
    let outside = Tasks::new();
    let (url, received) = receiver(vec![500, 302], &outside).await;
    let (status, made) =
        world.call("PUT", "/api/v1/webhooks/chat", Some(json!({"url": url, "events": ["approval.*"]}))).await;
    let secret = made["secret"].as_str().expect("shown once").to_owned();
    assert!(status.is_success() && secret.starts_with("whsec_"), "{made}");
    let (_, shown) = world.call("GET", "/api/v1/webhooks/chat", None).await;
    assert_eq!(shown.get("secret"), None, "{shown}");
    let (_, trail) = world.call("GET", "/api/v1/audit", None).await;
    assert!(!trail.to_string().contains(&secret) && !trail.to_string().contains("secret-path"), "{trail}");

    // It is noted with what it tells; the process dies before anything was sent.
    let rule = json!({"templates": ["blank"]});
    assert!(world.call("PUT", "/api/v1/approval-rules/all", Some(rule)).await.0.is_success());
    let wish = json!({"name": "env", "template": "blank", "reason": "why not"});
    let (_, asked) = world.call("POST", "/api/v1/environments", Some(wish)).await;
    assert_eq!(count(&received), 0);
    let world = world.after_crash().await;
    world.portal.start();
    let webhook = delivered(&world).await;
    assert_eq!((webhook["deliveries"][0]["attempts"].as_u64(), count(&received)), (Some(3), 3), "{webhook}");

    let all = received.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let ids: std::collections::BTreeSet<&str> = all.iter().map(|r| header(r, "webhook-id")).collect();
    assert_eq!(ids.len(), 1, "the same in every try");
    for request in &all {
        let body = request.split_once("\r\n\r\n").expect("body").1;
        let signed = format!("{}.{}.{body}", header(request, "webhook-id"), header(request, "webhook-timestamp"));
        let key = STANDARD.decode(secret.trim_start_matches("whsec_")).expect("base64");
        let tag = STANDARD.decode(header(request, "webhook-signature").trim_start_matches("v1,")).expect("base64");
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        hmac::verify(&key, signed.as_bytes(), &tag).expect("signed");
        let body: Value = serde_json::from_str(body).expect("JSON");
        assert_eq!((&body["type"], &body["data"]["id"]), (&json!("approval.requested"), &asked["id"]));
        assert_eq!(body["data"]["reason"], "why not");
    }
    outside.stop();
}

#[tokio::test]
async fn only_what_is_sensible_can_be_set() {
    let world = World::new();
    for wrong in [
        json!({"url": "nonsense"}),
        json!({"url": "ftp://example.com/"}),
        json!({"url": "https://user:word@example.com/"}),
        json!({"url": "https://example.com/", "secret": "short"}),
        json!({"url": "https://example.com/", "events": ["nothing.ever"]}),
    ] {
        let (status, problem) = world.call("PUT", "/api/v1/webhooks/w", Some(wrong.clone())).await;
        assert_eq!((status.as_u16(), problem["type"].as_str()), (422, Some("invalid-webhook")), "{wrong}");
    }
    let ann = world.sign_in("ann", &[]).await;
    let (status, _) = world.call_as(Some(&ann), "GET", "/api/v1/webhooks", None).await;
    assert_eq!(status.as_u16(), 403);
    let (status, _) = world.call("PUT", "/api/v1/webhooks/w", Some(json!({"url": "https://example.com/"}))).await;
    assert!(status.is_success());
    let (status, _) = world.call("DELETE", "/api/v1/webhooks/w", None).await;
    assert_eq!(status.as_u16(), 204);
}
