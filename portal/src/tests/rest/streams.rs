//! Streams of changes: they end with their credential, and nobody has too many.

use std::time::Duration;

use axum::body::Body;
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::json;
use vctl_store::Expect;

use crate::{
    auth::digest,
    documents::{SessionDoc, put},
    http::STREAMS_LIMIT,
    testing::{SignedIn, World, as_somebody},
};

async fn open(world: &World, who: &SignedIn) -> Response<Body> {
    world.send(as_somebody(Some(who), "GET", "/api/v1/events", None)).await
}

/// Reads on until a text comes; none when the stream has ended before.
async fn read_until(stream: &mut Body, text: &str) -> Option<()> {
    let read = async {
        loop {
            let frame = stream.frame().await?.expect("a frame");
            if String::from_utf8_lossy(frame.data_ref().expect("data")).contains(text) {
                return Some(());
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), read).await.expect("it neither ends nor says it")
}

async fn world() -> World {
    let world = World::new();
    let members = ["ann", "ben"].map(|name| json!({"kind": "user", "name": name, "role": "viewer"}));
    let (status, _) = world.call("PUT", "/api/v1/projects/default", Some(json!({ "members": members }))).await;
    assert_eq!(status, StatusCode::OK);
    world
}

#[tokio::test]
async fn a_stream_in_which_nothing_happens_ends_with_its_session() {
    let world = world().await;
    let (ann, ben) = (world.sign_in("ann", &[]).await, world.sign_in("ben", &[]).await);
    let (mut anns, mut bens) = (open(&world, &ann).await.into_body(), open(&world, &ben).await.into_body());
    world.create("one", "blank").await;
    assert!(read_until(&mut anns, "\"one\"").await.is_some() && read_until(&mut bens, "\"one\"").await.is_some());
    let auth = &world.portal.inner().auth;
    let identity = auth.session("cookie-of-ann").await.expect("signed in");
    auth.sign_out(&identity, "r").await.expect("signed out");
    assert!(read_until(&mut anns, "\"none\"").await.is_none(), "signed out");
    world.create("two", "blank").await;
    assert!(read_until(&mut bens, "\"two\"").await.is_some(), "somebody else's goes on");
    let (status, _) = world.call("PATCH", "/api/v1/users/ben", Some(json!({"disabled": true}))).await;
    assert_eq!(status, StatusCode::OK);
    assert!(read_until(&mut bens, "\"none\"").await.is_none(), "disabled");
}

#[tokio::test]
async fn a_stream_that_goes_on_is_no_use_of_its_session() {
    let world = world().await;
    let ann = world.sign_in("ann", &[]).await;
    let mut stream = open(&world, &ann).await.into_body();
    let documents = &world.portal.inner().environments.documents;
    let session = async || {
        let stored = documents.get::<SessionDoc>(&digest("cookie-of-ann")).await.expect("read");
        stored.expect("a session").value
    };
    let seen_at = world.clock.now() - jiff::SignedDuration::from_hours(1);
    let idle = SessionDoc { seen_at, ..session().await };
    documents.transact(vec![put(&idle, Expect::Any).expect("a document")]).await.expect("written");
    // Before it tells of a change it looks whose session it is.
    world.create("one", "blank").await;
    assert!(read_until(&mut stream, "\"one\"").await.is_some());
    assert_eq!(session().await.seen_at, seen_at);
    assert_eq!(world.call_as(Some(&ann), "GET", "/api/v1/session", None).await.0, StatusCode::OK);
    assert!(session().await.seen_at > seen_at, "a request is");
}

#[tokio::test]
async fn nobody_has_too_many_streams_open() {
    let world = World::new();
    let (ann, ben) = (world.sign_in("ann", &[]).await, world.sign_in("ben", &[]).await);
    let mut streams = Vec::new();
    for _ in 0..STREAMS_LIMIT {
        let stream = open(&world, &ann).await;
        assert_eq!(stream.status(), StatusCode::OK);
        streams.push(stream);
    }
    let (status, problem) = world.call_as(Some(&ann), "GET", "/api/v1/events", None).await;
    assert_eq!((status, &problem["type"]), (StatusCode::TOO_MANY_REQUESTS, &json!("too-many-requests")));
    assert_eq!(open(&world, &ben).await.status(), StatusCode::OK, "that is nobody else's");
    streams.pop();
    assert_eq!(open(&world, &ann).await.status(), StatusCode::OK, "one was closed");
    // Also one of which something was read.
    let mut stream = streams.pop().expect("a stream").into_body();
    stream.frame().await.expect("where it begins").expect("a frame");
    assert_eq!(open(&world, &ann).await.status(), StatusCode::OK);
    drop(stream);
    drop(streams);
    assert!(world.portal.inner().streams.is_empty(), "nothing is left of them");
}
