//! The handlers of backups. What they send and take is a stream of `vctl_store::Backup`.

use std::convert::Infallible;

use axum::{
    Json,
    body::{Body, Bytes},
    extract::{Path, Query, State, rejection::QueryRejection},
    response::IntoResponse,
};
use futures::stream;
use http::header;
use schemars::JsonSchema;
use serde::Deserialize;
use vctl_api::rest::{Compacted, Environment, Reencrypted};
use vctl_store::{BackupEncoder, Tenant};

use super::{openapi::answers::File, requester::Requester};
use crate::{
    Portal,
    audit::{from_source, source},
    environments::Environments,
    error::Error,
};

/// Largest backup that is restored, in bytes: it is held in memory until it has been found whole.
pub(super) const BACKUP_LIMIT: usize = 1 << 30;

fn stream_of(body: Body) -> File {
    File(([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

pub(super) async fn snapshot(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
) -> Result<File, Error> {
    let parts = portal.inner().environments.snapshot(requester.caller(), &name).await?;
    let mut encoder = BackupEncoder::new();
    let mut pieces: Vec<Bytes> = parts.iter().flat_map(|part| encoder.tenant(part)).collect();
    pieces.push(encoder.finish());
    Ok(stream_of(Body::from_stream(stream::iter(pieces.into_iter().map(Ok::<_, Infallible>)))))
}

/// Query of a restoration.
#[derive(Deserialize, JsonSchema)]
pub(super) struct RestoreQuery {
    replace: Option<String>,
}

pub(super) async fn restore(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
    query: Result<Query<RestoreQuery>, QueryRejection>,
    body: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> Result<Json<Environment>, Error> {
    let Query(query) = query.map_err(|e| Error::BadRequest(e.body_text()))?;
    let body = body.map_err(|e| match e.status() {
        http::StatusCode::PAYLOAD_TOO_LARGE => Error::TooLarge { limit: BACKUP_LIMIT },
        _ => Error::BadRequest(format!("the backup did not arrive whole: {}", e.body_text())),
    })?;
    let replace = query.replace.is_some_and(|replace| replace != "false");
    // To its end, also when the client goes away meanwhile: an environment that is half restored would stay so.
    let (send, done) = tokio::sync::oneshot::channel();
    let environments = portal.inner().environments.clone();
    let restore = async move {
        let restored = environments.restore(requester.caller(), &name, &body, replace).await;
        // Nobody waits for it any more: the environment says what became of it.
        let _ = send.send(restored);
    };
    portal.inner().tasks.spawn("restoration", from_source(source(), restore));
    let gone = |_| Error::Internal("the restoration ended without an answer: see the server's log".to_owned());
    done.await.map_err(gone)?.map(Json)
}

/// A stream of everything, tenant by tenant; each of them is of one moment.
struct Whole {
    environments: Environments,
    left: std::vec::IntoIter<(Tenant, String)>,
    encoder: Option<BackupEncoder>,
}

impl Whole {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, Error> {
        while let Some(mut encoder) = self.encoder.take() {
            let Some((tenant, name)) = self.left.next() else { return Ok(Some((encoder.finish(), self))) };
            let Some(part) = self.environments.exported(tenant, name).await? else {
                self.encoder = Some(encoder);
                continue;
            };
            let pieces = encoder.tenant(&part).concat();
            self.encoder = Some(encoder);
            if !pieces.is_empty() {
                return Ok(Some((pieces.into(), self)));
            }
        }
        Ok(None)
    }
}

pub(super) async fn whole(State(portal): State<Portal>, requester: Requester) -> Result<File, Error> {
    let environments = portal.inner().environments.clone();
    let left = environments.begin_backup(requester.caller()).await?.into_iter();
    let whole = Whole { environments, left, encoder: Some(BackupEncoder::new()) };
    // A failure in the middle breaks the stream off: the reader finds it cut short.
    Ok(stream_of(Body::from_stream(stream::try_unfold(whole, Whole::next))))
}

pub(super) async fn compact(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
) -> Result<Json<Compacted>, Error> {
    let revision = portal.inner().environments.compact(requester.caller(), &name).await?;
    Ok(Json(Compacted { revision }))
}

pub(super) async fn reencrypt(State(portal): State<Portal>, requester: Requester) -> Result<Json<Reencrypted>, Error> {
    let values = portal.inner().environments.reencrypt(requester.caller()).await?;
    Ok(Json(Reencrypted { values }))
}
