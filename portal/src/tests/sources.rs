//! Whose a template is, where a template source and somebody publish at the same moment; and what the audit trail says of a source.

use http::StatusCode;
use serde_json::{Value, json};
use vctl_api::rest::PublishTemplate;

use crate::{environments::Caller, error::Error, templates::registry::Origin, testing::World};

const CALLER: Caller<'static> = Caller { actor: "ann", user: "ann", request_id: "test" };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_takes_no_name_that_somebody_publishes_at_the_same_moment() {
    let world = World::on_disk().await;
    let environments = &world.portal.inner().environments;
    let registry = &environments.registry;
    for i in 0..10 {
        let name = format!("app{i}");
        let files = |version: &str| {
            let head = format!("apiVersion: vctl.dev/v1\nkind: Template\nname: {name}\nversion: {version}\ntitle: T\n");
            vec![("template.yaml".to_owned(), head)]
        };
        let request = PublishTemplate { files: files("1.0.0").into_iter().collect(), channel: None };
        let by_hand = registry.publish(CALLER, request, environments.now());
        let origin = Origin { source: "git".to_owned(), commit: "0".repeat(40) };
        let of_source = registry.publish_of_source(CALLER, files("2.0.0"), "stable", (origin, &[]), environments.now());
        let (by_hand, of_source) = if i % 2 == 0 {
            tokio::join!(by_hand, of_source)
        } else {
            let (of_source, by_hand) = tokio::join!(of_source, by_hand);
            (by_hand, of_source)
        };
        by_hand.expect("somebody may publish another version of what a source has");
        let (_, trail) =
            world.call("GET", &format!("/api/v1/audit?action=template.publish&subject={name}"), None).await;
        let published = trail["items"].as_array().expect("items");
        match of_source {
            Ok(_) => {
                assert_eq!(published.len(), 2, "{trail}");
                assert_eq!(
                    published[1]["detail"]["origin"]["source"], "git",
                    "newest first, so it was the source's: {trail}"
                );
            }
            Err(Error::Conflict(why)) => {
                assert!(why.contains("ann has published it") && published.len() == 1, "{why}");
            }
            Err(e) => panic!("{e}"),
        }
    }
}

#[tokio::test]
async fn the_audit_trail_tells_one_bundle_of_authorities_from_another() {
    let world = World::new();
    let pem = rcgen::generate_simple_self_signed(vec!["git".to_owned()]).expect("certificate").cert.pem();
    let source = |bundle: &str| json!({"name": "own", "url": "https://git.example.com/own", "branches": {"main": "stable"}, "caBundle": bundle});
    for bundle in ["", &pem] {
        let (status, answer) = world.call("POST", "/api/v1/template-sources", Some(source(bundle))).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
    }
    let (_, trail) = world.call("GET", "/api/v1/audit?action=template-source.add", None).await;
    let told = |i: usize| &trail["items"][i]["detail"]["caBundle"];
    assert!(told(0).as_str().is_some_and(|t| t.starts_with("sha256:")) && *told(1) == Value::Null, "{trail}");
}
