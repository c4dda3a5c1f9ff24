//! Watch requests: one JSON document per event.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt;
use http::{Response, StatusCode};
use rand::Rng;
use serde_json::{Value, json};
use vctl_machinery::status::ApiError;

use super::{
    Context,
    negotiate::{self, Accept, Form},
    objects, respond, show,
};
use crate::{
    document::resource_version,
    objects::{
        Target,
        watch::{WatchItem, WatchQuery, open},
    },
};

/// Without `timeoutSeconds` a watch lives for half an hour to an hour, so that not all of them end at once.
const LIFETIME: std::ops::Range<u64> = 1800..3600;

fn query(context: &Context, target: &Target) -> Result<WatchQuery, ApiError> {
    let q = &context.query;
    let initial = q.flag("sendInitialEvents") && q.has("sendInitialEvents");
    objects::refuse_options(q, true)?;
    if initial && !q.flag("allowWatchBookmarks") {
        return Err(objects::list_error(
            "allowWatchBookmarks",
            "FieldValueForbidden",
            "Forbidden: sendInitialEvents requires allowWatchBookmarks to be set".into(),
        ));
    }
    let from = match q.get("resourceVersion") {
        "" | "0" => None,
        text => Some(text.parse::<u64>().map_err(|_| {
            objects::list_error(
                "resourceVersion",
                "FieldValueInvalid",
                format!("Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"),
            )
        })?),
    };
    let seconds = match q.get("timeoutSeconds").parse::<u64>() {
        Ok(seconds) if seconds > 0 => seconds,
        _ => rand::rng().random_range(LIFETIME),
    };
    Ok(WatchQuery {
        selection: objects::selection(context, &target.descriptor)?,
        from,
        initial,
        bookmarks: q.flag("allowWatchBookmarks"),
        timeout: Duration::from_secs(seconds),
    })
}

/// Opens the watch and streams it.
pub(crate) async fn serve(context: &Context, target: Target) -> Result<Response<Body>, ApiError> {
    let accept = negotiate::accept(&context.headers, &context.query)?;
    if accept.encoding != negotiate::Encoding::Json {
        return Err(ApiError::not_acceptable(
            "only the following media types are accepted: application/json;stream=watch",
        ));
    }
    let query = query(context, &target)?;
    let call = Arc::new(context.call()?);
    let events = open(call, target.clone(), query).await?;
    let include = context.query.get("includeObject").to_owned();
    let plane = context.plane.clone();
    let mut first = true;
    let form = accept.clone();
    let frames = events.map(move |item| {
        let frame = match item {
            WatchItem::Event(kind, object) => {
                plane.touch();
                let shown = shown_as(&target, &form, &include, object, kind, first, plane.now());
                first = false;
                json!({ "type": kind, "object": shown })
            }
            WatchItem::Error(e) => json!({ "type": "ERROR", "object": e.status() }),
        };
        let mut line = frame.to_string();
        line.push('\n');
        Ok::<_, Infallible>(Bytes::from(line))
    });
    let mut response = respond::bytes(StatusCode::OK, &format!("application/json{}", accept.parameters()), Vec::new());
    *response.body_mut() = Body::from_stream(frames);
    Ok(response)
}

fn shown_as(
    target: &Target,
    accept: &Accept,
    include: &str,
    object: Value,
    kind: &str,
    first: bool,
    now: jiff::Timestamp,
) -> Value {
    match accept.form {
        Form::Object => object,
        Form::Metadata => show::partial(&object, &accept.version),
        Form::Table => {
            let descriptor = &target.descriptor;
            let mut table = show::new_table(descriptor, accept, resource_version(&object));
            if !first {
                table["columnDefinitions"] = Value::Null;
            }
            if kind == "BOOKMARK" {
                // Clients read the version, and the annotation that ends the initial events, from the row.
                table["rows"] = json!([{ "cells": [], "object": show::partial(&object, &accept.version) }]);
            } else {
                table["rows"] = json!([show::row(descriptor, &object, include, &accept.version, now)]);
            }
            table
        }
    }
}
