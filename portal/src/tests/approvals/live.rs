//! Requests for approval in the stream of changes.

use futures::{FutureExt as _, StreamExt as _};
use vctl_api::rest::{ApprovalState, Change};

use super::*;
use crate::{
    access::{decide::Subject, policy::Limit},
    environments::changes::Since,
};

#[tokio::test]
async fn who_may_see_a_request_is_told_of_it() {
    let place = Place::new().await;
    let members = json!([{"kind": "user", "name": "other", "role": "developer"}]);
    place.world.call("POST", "/api/v1/projects", Some(json!({"name": "theirs", "members": members}))).await;
    let stranger = place.world.sign_in("other", &[]).await;
    place.rule("large", json!({"largerThan": {"cpu": "4"}})).await;
    let inner = place.world.portal.inner();
    let follow = |user: &'static str| async move {
        let subject = Subject { user: user.to_owned(), ..Subject::default() };
        let permit = inner.access.permit(subject, Limit::NONE).await.expect("permit");
        let changes = inner.environments.changes(Since::Now, inner.access.clone(), permit).await.expect("changes");
        Box::pin(changes.1)
    };
    let (mut dev, mut lead, mut other) = (follow("dev").await, follow("lead").await, follow("other").await);
    let id = place.held("big").await;
    let (status, _) = place.step(&place.lead, &id, "deny", json!({"comment": "no"})).await;
    assert_eq!(status, S::OK);
    for stream in [&mut dev, &mut lead] {
        for state in [ApprovalState::Pending, ApprovalState::Denied] {
            let told = tokio::time::timeout(std::time::Duration::from_secs(5), stream.next()).await.expect("in time");
            assert_eq!(told.map(|(_, change)| change), Some(Change::Approval { id: id.clone(), state }));
        }
    }
    // A stranger is told of what is theirs, and of nothing else, also not later.
    let body = json!({"name": "own", "project": "theirs", "template": "blank"});
    assert_eq!(place.world.call_as(Some(&stranger), "POST", "/api/v1/environments", Some(body)).await.0, S::CREATED);
    let mut told = Vec::new();
    while !told.iter().any(|change| matches!(change, Change::Environment { .. })) {
        let next = tokio::time::timeout(std::time::Duration::from_secs(5), other.next()).await.expect("in time");
        told.extend(next.map(|(_, change)| change));
    }
    while let Some(Some((_, change))) = other.next().now_or_never() {
        told.push(change);
    }
    assert!(!told.iter().any(|change| matches!(change, Change::Approval { .. })), "{told:?}");
}
