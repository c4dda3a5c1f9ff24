//! Objects in the form negotiated: themselves, tables, or metadata only.

use std::borrow::Cow;

use axum::body::Body;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use vctl_machinery::{catalog::Descriptor, status::ApiError, table};
use vctl_store::Revision;

use super::{
    Context,
    negotiate::{Accept, Encoding, Form},
    respond,
};
use crate::{
    document::{Layout, resource_version},
    objects::{Call, Target, list::Page},
    subresource,
};

/// Whether the client wants the whole object as JSON, so that it may do to show it as it is stored.
pub(crate) fn is_whole(target: &Target, accept: &Accept) -> bool {
    accept.form == Form::Object
        && accept.encoding == Encoding::Json
        && !accept.pretty
        && matches!(&*target.subresource, "" | "status")
}

/// Answers with a stored document, without parsing it; none where it has to be parsed.
pub(crate) fn stored(
    context: &Context,
    target: &Target,
    status: StatusCode,
    document: &[u8],
    revision: Revision,
    call: &Call,
) -> Option<Response<Body>> {
    // Room for the version and its field.
    const VERSION: usize = 48;
    if document.len() > respond::COMPRESS_ABOVE && respond::accepts_gzip(&context.headers) {
        return None;
    }
    let layout = Layout::of(&target.descriptor)?;
    let mut body = Vec::with_capacity(document.len() + VERSION);
    layout.read(document)?.object(revision, &mut body);
    body.push(b'\n');
    let mut response = respond::bytes(status, "application/json", body);
    respond::warn(&mut response, &call.take_warnings());
    Some(response)
}

/// Answers with one object, in the form negotiated.
pub(crate) fn one(
    context: &Context,
    target: &Target,
    accept: &Accept,
    status: StatusCode,
    object: &Value,
    call: &Call,
) -> Result<Response<Body>, ApiError> {
    let shown = match &*target.subresource {
        "scale" => Cow::Owned(subresource::show(target, object)?),
        _ => Cow::Borrowed(object),
    };
    let now = context.plane.now();
    let value = match accept.form {
        Form::Object => shown,
        Form::Metadata => Cow::Owned(partial(&shown, &accept.version)),
        Form::Table => {
            let include = context.query.get("includeObject");
            let mut table = new_table(&target.descriptor, accept, resource_version(object));
            table["rows"] = json!([row(&target.descriptor, object, include, &accept.version, now)]);
            Cow::Owned(table)
        }
    };
    respond::object(status, &value, accept, &context.headers, &call.take_warnings())
}

/// An empty table of a kind, with its columns.
pub(crate) fn new_table(descriptor: &Descriptor, accept: &Accept, revision: &str) -> Value {
    json!({
        "kind": "Table", "apiVersion": format!("meta.k8s.io/{}", accept.version), "metadata": { "resourceVersion": revision },
        "columnDefinitions": table::columns(descriptor), "rows": [],
    })
}

/// One row of a table.
pub(crate) fn row(
    descriptor: &Descriptor,
    object: &Value,
    include: &str,
    version: &str,
    now: jiff::Timestamp,
) -> Value {
    let mut row = json!({ "cells": table::cells(descriptor, object, now) });
    match include {
        "None" => {}
        "Object" => row["object"] = object.clone(),
        _ => row["object"] = partial(object, version),
    }
    row
}

/// Only the metadata of an object.
pub(crate) fn partial(object: &Value, version: &str) -> Value {
    json!({ "kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": object["metadata"] })
}

/// A page as the list that the client wants.
pub(crate) fn list(context: &Context, target: &Target, accept: &Accept, page: Page) -> Value {
    let descriptor = &target.descriptor;
    let mut metadata = json!({ "resourceVersion": page.revision.to_string() });
    if let Some(next) = page.next {
        metadata["continue"] = next.into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    let now = context.plane.now();
    let include = context.query.get("includeObject");
    let items: Value = page.items.into_iter().map(|object| item(descriptor, accept, include, object, now)).collect();
    match accept.form {
        Form::Object => {
            json!({ "kind": descriptor.list_kind, "apiVersion": descriptor.api_version(), "metadata": metadata, "items": items })
        }
        Form::Metadata => json!({
            "kind": "PartialObjectMetadataList", "apiVersion": format!("meta.k8s.io/{}", accept.version),
            "metadata": metadata, "items": items,
        }),
        Form::Table => {
            let mut table = new_table(descriptor, accept, "");
            table["metadata"] = metadata;
            table["rows"] = items;
            table
        }
    }
}

/// An object as an item of a list.
pub(crate) fn item(
    descriptor: &Descriptor,
    accept: &Accept,
    include: &str,
    mut object: Value,
    now: jiff::Timestamp,
) -> Value {
    match accept.form {
        Form::Object => {
            // Items of a typed list do not repeat their type; those of custom resources do.
            if !descriptor.custom
                && let Some(map) = object.as_object_mut()
            {
                map.remove("apiVersion");
                map.remove("kind");
            }
            object
        }
        Form::Metadata => partial(&object, &accept.version),
        Form::Table => row(descriptor, &object, include, &accept.version, now),
    }
}
