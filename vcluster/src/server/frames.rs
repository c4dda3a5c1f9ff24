//! Frames of a watch: what is sent of one event.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use vctl_machinery::{protobuf, status::ApiError, table};
use vctl_store::{Event, Revision};

use super::{
    listing::Rows,
    negotiate::{Accept, Encoding, Form, NOT_ACCEPTABLE},
    show,
};
use crate::{
    document::set_meta,
    objects::{
        list::Found,
        watch::{Lens, WatchItem},
    },
};

/// Makes the frames of one watch. Those of changes are shared with all watches that show them in the same way.
pub(crate) struct Frames {
    accept: Accept,
    rows: Rows,
    /// The name of this way of showing objects, and of that of the first frame where it differs.
    view: Arc<str>,
    first_view: Arc<str>,
    first: bool,
    /// An event could not be shown: after the error that says so there is nothing more.
    failed: bool,
}

impl Frames {
    pub(crate) fn new(lens: &Lens, accept: Accept, include: &str) -> Self {
        let Accept { encoding, form, version, .. } = &accept;
        let view = format!("{} {encoding:?} {form:?} {version} {include}", lens.reading);
        let views = &lens.call.plane.shared.views;
        Self {
            rows: Rows::new(&lens.target.descriptor, &accept, include),
            first_view: views.named(&format!("{view} first")),
            view: views.named(&view),
            first: true,
            failed: false,
            accept,
        }
    }

    /// The frame of an event; an error is one as well.
    pub(crate) async fn frame(&mut self, lens: &Lens, item: &WatchItem) -> Bytes {
        let frame = match item {
            WatchItem::Initial(found) => self.initial(lens, found).await,
            WatchItem::Change(kind, event) => self.change(lens, kind, event).await,
            WatchItem::Bookmark { revision, ends_state } => self.bookmark(lens, *revision, *ends_state),
            WatchItem::Error(e) => return self.error(e),
        };
        match frame {
            Ok(frame) => {
                self.first = false;
                if !matches!(item, WatchItem::Bookmark { .. }) {
                    lens.call.plane.shared.views.counters.sent();
                }
                frame
            }
            Err(e) => {
                self.failed = true;
                self.error(&e)
            }
        }
    }

    /// Whether an event could not be shown.
    pub(crate) fn failed(&self) -> bool {
        self.failed
    }

    async fn initial(&self, lens: &Lens, found: &Found) -> Result<Bytes, ApiError> {
        let entry = &found.entry;
        let mut out = Vec::with_capacity(entry.value.len() + 128);
        if !self.stored(lens, "ADDED", &entry.value, entry.revision, self.first, &mut out) {
            let object = match &found.object {
                Some(object) => object.clone(),
                None => lens.call.read(&lens.target.descriptor, entry).await?,
            };
            out = self.encode(lens, "ADDED", object, self.first)?;
        }
        Ok(out.into())
    }

    async fn change(&self, lens: &Lens, kind: &'static str, event: &Event) -> Result<Bytes, ApiError> {
        let first = self.first && self.accept.form == Form::Table;
        let view = if first { &self.first_view } else { &self.view };
        let call = &lens.call;
        let (value, revision) = match (kind, &event.value, &event.previous) {
            ("DELETED", _, Some((revision, value))) => (value, *revision),
            (_, Some(value), _) => (value, event.revision),
            _ => return Err(ApiError::internal("a change without a document")),
        };
        let encode = async || {
            let mut out = Vec::with_capacity(value.len() + 128);
            if self.stored(lens, kind, value, event.revision, first, &mut out) {
                return Ok(out);
            }
            let mut object = call.read_document(&lens.target.descriptor, &event.key, value, revision).await?;
            set_meta(&mut object, "resourceVersion", Some(event.revision.to_string().into()));
            self.encode(lens, kind, object, first)
        };
        call.plane.shared.views.frame((call.plane.tenant, event.revision), view, kind, encode).await
    }

    /// Appends the frame of a document that can be shown as it is stored; false when it cannot.
    fn stored(
        &self,
        lens: &Lens,
        kind: &str,
        value: &Bytes,
        revision: Revision,
        first: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        if self.accept.encoding != Encoding::Json {
            return false;
        }
        let Some(stored) = lens.layout.as_ref().and_then(|l| l.read(value)) else { return false };
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        let shown = match self.accept.form {
            Form::Object => {
                stored.object(revision, out);
                true
            }
            Form::Metadata => stored.partial(&self.accept.version, revision, out),
            Form::Table => {
                self.table_head(lens, revision, first, out);
                let row = self.rows.write_stored(stored, value, revision, lens.call.plane.now(), out);
                out.extend_from_slice(b"]}");
                row
            }
        };
        if shown {
            out.extend_from_slice(b"}\n");
        } else {
            out.clear();
        }
        shown
    }

    /// Appends a table up to its rows. Only the first one of a watch has columns.
    fn table_head(&self, lens: &Lens, revision: Revision, first: bool, out: &mut Vec<u8>) {
        let columns = if first { table::columns(&lens.target.descriptor) } else { Value::Null };
        let head = format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/{}\",\"metadata\":{{\"resourceVersion\":\"{revision}\"}},\
             \"columnDefinitions\":{columns},\"rows\":[",
            self.accept.version
        );
        out.extend_from_slice(head.as_bytes());
    }

    fn encode(&self, lens: &Lens, kind: &str, object: Value, first: bool) -> Result<Vec<u8>, ApiError> {
        let now = lens.call.plane.now();
        let shown = match self.accept.form {
            Form::Object => object,
            Form::Metadata => show::partial(&object, &self.accept.version),
            Form::Table => {
                let descriptor = &lens.target.descriptor;
                let revision = crate::document::resource_version(&object);
                let mut table = show::new_table(descriptor, &self.accept, revision);
                if !first {
                    table["columnDefinitions"] = Value::Null;
                }
                table["rows"] = if kind == "BOOKMARK" {
                    // Clients read the version, and the annotation that ends the initial events, from the row.
                    json!([{ "cells": [], "object": show::partial(&object, &self.accept.version) }])
                } else {
                    json!([show::row(descriptor, &object, self.rows.include(), &self.accept.version, now)])
                };
                table
            }
        };
        self.envelope(kind, &shown)
    }

    fn envelope(&self, kind: &str, object: &Value) -> Result<Vec<u8>, ApiError> {
        if self.accept.encoding == Encoding::Protobuf {
            return protobuf::watch_frame(kind, object).ok_or_else(|| ApiError::not_acceptable(NOT_ACCEPTABLE));
        }
        let mut line = serde_json::to_vec(&json!({ "type": kind, "object": object })).map_err(ApiError::internal)?;
        line.push(b'\n');
        Ok(line)
    }

    fn bookmark(&self, lens: &Lens, revision: Revision, ends_state: bool) -> Result<Bytes, ApiError> {
        let descriptor = &lens.target.descriptor;
        let mut object = json!({
            "apiVersion": descriptor.api_version(), "kind": descriptor.kind,
            "metadata": { "resourceVersion": revision.to_string(), "creationTimestamp": null },
        });
        if ends_state {
            object["metadata"]["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        self.encode(lens, "BOOKMARK", object, self.first).map(Bytes::from)
    }

    fn error(&self, e: &ApiError) -> Bytes {
        // A Status has every form.
        self.envelope("ERROR", &e.status()).unwrap_or_default().into()
    }
}
