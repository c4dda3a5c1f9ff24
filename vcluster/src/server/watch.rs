//! Watch requests: one frame per event.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::stream;
use http::{Response, StatusCode};
use rand::Rng;
use vctl_machinery::status::ApiError;
use vctl_runtime::serve::MustRead;

use super::{Context, frames::Frames, negotiate, negotiate::Encoding, objects, respond};
use crate::objects::{
    Target,
    watch::{OpenedWatch, Start, WatchQuery, open},
};

/// Without `timeoutSeconds` a watch lives for half an hour to an hour, so that not all of them end at once.
const LIFETIME: std::ops::Range<u64> = 1800..3600;

fn query(context: &Context, target: &Target) -> Result<WatchQuery, ApiError> {
    let q = &context.query;
    objects::refuse_options(q, true)?;
    let version = match q.get("resourceVersion") {
        "" => 0,
        text => text.parse::<u64>().map_err(|_| {
            objects::list_error(
                "resourceVersion",
                "FieldValueInvalid",
                format!("Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"),
            )
        })?,
    };
    // A watch without a version begins with the state, as if it had asked for initial events (`SetListOptionsDefaults`).
    let initial = if q.has("sendInitialEvents") { q.flag("sendInitialEvents") } else { version == 0 };
    q.integer("limit")?;
    let seconds = match q.integer("timeoutSeconds")?.map(u64::try_from) {
        Some(Ok(seconds)) if seconds > 0 => seconds,
        _ => rand::rng().random_range(LIFETIME),
    };
    Ok(WatchQuery {
        selection: objects::selection(context, &target.descriptor)?,
        start: match version {
            version if initial => Start::State(version),
            0 => Start::Now,
            version => Start::After(version),
        },
        bookmarks: q.flag("allowWatchBookmarks"),
        timeout: Duration::from_secs(seconds),
    })
}

/// Opens the watch and streams it.
pub(crate) async fn serve(
    context: &Context,
    target: Target,
    must_read: Option<MustRead>,
) -> Result<Response<Body>, ApiError> {
    let accept = negotiate::accept(&context.headers, &context.query)?;
    let media_type = match accept.encoding {
        Encoding::Json => format!("application/json{}", accept.parameters()),
        // Custom resources have no protobuf form.
        Encoding::Protobuf if !target.descriptor.custom => {
            "application/vnd.kubernetes.protobuf;stream=watch".to_owned()
        }
        _ => {
            return Err(ApiError::not_acceptable(
                "only the following media types are accepted: application/json;stream=watch, \
                 application/vnd.kubernetes.protobuf;stream=watch",
            ));
        }
    };
    let query = query(context, &target)?;
    let call = Arc::new(context.call()?);
    let watch = open(call, target, query).await?;
    let frames = Frames::new(watch.lens(), accept, context.query.get("includeObject"));
    // Events are kept for this client.
    let reading = must_read.map(|must_read| must_read.require());
    let body = stream::unfold((watch, frames, reading), |(mut watch, mut frames, reading)| async move {
        let sent = batch(&mut watch, &mut frames).await?;
        Some((Ok::<_, Infallible>(sent), (watch, frames, reading)))
    });
    let mut response = respond::bytes(StatusCode::OK, &media_type, Vec::new());
    *response.body_mut() = Body::from_stream(body);
    Ok(response)
}

/// The frames of the next events in one piece: one write to the connection.
async fn batch(watch: &mut OpenedWatch, frames: &mut Frames) -> Option<Bytes> {
    if frames.failed() {
        return None;
    }
    let items = watch.next().await?;
    let lens = watch.lens();
    lens.call.plane.touch();
    if let [item] = items.as_slice() {
        return Some(frames.frame(lens, item).await);
    }
    let mut piece = BytesMut::new();
    for item in &items {
        piece.extend_from_slice(&frames.frame(lens, item).await);
        if frames.failed() {
            break;
        }
    }
    Some(piece.freeze())
}
