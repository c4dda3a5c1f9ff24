//! Answers to lists: written piece by piece, from what is stored where that can be shown as it is.

use std::io::{self, Write};

use axum::body::Body;
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::stream;
use http::{HeaderValue, Response, StatusCode, header};
use jiff::Timestamp;
use serde_json::{Value, json};
use vctl_machinery::{catalog::Descriptor, status::ApiError, table};
use vctl_store::{Entry, Revision};

use super::{
    Context,
    negotiate::{Accept, Encoding, Form},
    respond, show,
};
use crate::{
    document::{self, Layout, Stored},
    objects::{
        Call, Target,
        list::{Page, StoredPage, breathe},
    },
};

/// Bytes that are written before the connection takes them.
const PIECE: usize = 64 << 10;
/// Pieces that are written before others get their turn on the thread.
const PIECES_AT_ONCE: usize = 4;

/// How the rows of a table are made.
pub(crate) struct Rows {
    descriptor: std::sync::Arc<Descriptor>,
    include: String,
    version: String,
}

impl Rows {
    pub(crate) fn new(descriptor: &std::sync::Arc<Descriptor>, accept: &Accept, include: &str) -> Self {
        Self { descriptor: descriptor.clone(), include: include.to_owned(), version: accept.version.clone() }
    }

    /// What rows show of their objects, as the request says it.
    pub(crate) fn include(&self) -> &str {
        &self.include
    }

    /// Appends the row of a document that can be shown as it is stored. False when it does not parse.
    pub(crate) fn write_stored(
        &self,
        stored: Stored<'_>,
        value: &[u8],
        revision: Revision,
        now: Timestamp,
        out: &mut Vec<u8>,
    ) -> bool {
        let Ok(object) = document::parse_light(value) else { return false };
        out.extend_from_slice(b"{\"cells\":");
        if serde_json::to_writer(&mut *out, &table::cells(&self.descriptor, &object, now)).is_err() {
            return false;
        }
        let shown = match self.include.as_str() {
            "None" => true,
            "Object" => {
                out.extend_from_slice(b",\"object\":");
                stored.object(revision, out);
                true
            }
            _ => {
                out.extend_from_slice(b",\"object\":");
                stored.partial(&self.version, revision, out)
            }
        };
        out.push(b'}');
        shown
    }
}

/// One item of the answer.
enum Item {
    /// To be shown as it is stored.
    Stored(Entry),
    /// As it is sent.
    Made(Vec<u8>),
}

/// The answer while it is written.
struct Answer {
    layout: Option<Layout>,
    rows: Rows,
    accept: Accept,
    now: Timestamp,
    head: Vec<u8>,
    items: std::vec::IntoIter<Item>,
    tail: &'static [u8],
    first: bool,
}

/// Answers with a page.
pub(crate) async fn page(
    context: &Context,
    target: &Target,
    accept: &Accept,
    call: &Call,
    page: StoredPage,
) -> Result<Response<Body>, ApiError> {
    let warnings = call.take_warnings();
    let descriptor = &target.descriptor;
    if accept.encoding != Encoding::Json || accept.pretty {
        let mut items = Vec::with_capacity(page.items.len());
        for (n, found) in page.items.into_iter().enumerate() {
            breathe(n).await;
            items.push(call.found(descriptor, found)?);
        }
        let page = Page { items, revision: page.revision, next: page.next, remaining: page.remaining };
        let value = show::list(context, target, accept, page);
        return respond::object(StatusCode::OK, &value, accept, &context.headers, &warnings);
    }
    let now = context.plane.now();
    let include = context.query.get("includeObject");
    let layout = Layout::of(descriptor);
    let (head, tail) = ends(descriptor, accept, &page)?;
    let mut items = Vec::with_capacity(page.items.len());
    for (n, found) in page.items.into_iter().enumerate() {
        let as_stored = layout.as_ref().is_some_and(|l| l.read(&found.entry.value).is_some());
        items.push(if as_stored {
            Item::Stored(found.entry)
        } else {
            breathe(n).await;
            let object = show::item(descriptor, accept, include, call.found(descriptor, found)?, now);
            Item::Made(serde_json::to_vec(&object).map_err(ApiError::internal)?)
        });
    }
    let rows = Rows::new(descriptor, accept, include);
    let items = items.into_iter();
    let mut answer = Answer { layout, rows, accept: accept.clone(), now, head, items, tail, first: true };
    let mut beginning = Vec::with_capacity(PIECE + (PIECE >> 2));
    let done = answer.fill(respond::COMPRESS_ABOVE, &mut beginning)?;
    let media_type = format!("application/json{}", accept.parameters());
    let mut response = if done {
        respond::bytes(StatusCode::OK, &media_type, beginning)
    } else {
        let gzip = respond::accepts_gzip(&context.headers);
        let mut response = respond::bytes(StatusCode::OK, &media_type, Vec::new());
        if gzip {
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        *response.body_mut() = stream(answer, beginning, gzip);
        response
    };
    respond::warn(&mut response, &warnings);
    Ok(response)
}

/// What goes before and after the items.
fn ends(descriptor: &Descriptor, accept: &Accept, page: &StoredPage) -> Result<(Vec<u8>, &'static [u8]), ApiError> {
    let (kind, api_version, field) = match accept.form {
        Form::Object => (descriptor.list_kind.as_str(), descriptor.api_version(), "items"),
        Form::Metadata => ("PartialObjectMetadataList", format!("meta.k8s.io/{}", accept.version), "items"),
        Form::Table => ("Table", format!("meta.k8s.io/{}", accept.version), "rows"),
    };
    let mut metadata = json!({ "resourceVersion": page.revision.to_string() });
    if let Some(next) = &page.next {
        metadata["continue"] = next.as_str().into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    let mut head = Vec::new();
    let columns = if accept.form == Form::Table {
        format!("\"columnDefinitions\":{},", table::columns(descriptor))
    } else {
        String::new()
    };
    write!(
        head,
        "{{\"kind\":{},\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},{columns}\"{field}\":[",
        Value::from(kind)
    )
    .map_err(ApiError::internal)?;
    Ok((head, b"]}\n"))
}

impl Answer {
    /// Appends items until there are so many bytes. True when it was all.
    fn fill(&mut self, until: usize, out: &mut Vec<u8>) -> Result<bool, ApiError> {
        out.append(&mut self.head);
        while out.len() < until {
            let Some(item) = self.items.next() else {
                out.extend_from_slice(self.tail);
                return Ok(true);
            };
            if !std::mem::take(&mut self.first) {
                out.push(b',');
            }
            let entry = match item {
                Item::Made(bytes) => {
                    out.extend_from_slice(&bytes);
                    continue;
                }
                Item::Stored(entry) => entry,
            };
            let Some(stored) = self.layout.as_ref().and_then(|l| l.read(&entry.value)) else { continue };
            let shown = match self.accept.form {
                Form::Object => {
                    stored.item(entry.revision, out);
                    true
                }
                Form::Metadata => stored.partial(&self.accept.version, entry.revision, out),
                Form::Table => self.rows.write_stored(stored, &entry.value, entry.revision, self.now, out),
            };
            if !shown {
                return Err(ApiError::internal(format!("the stored document of {:?} does not parse", entry.key)));
            }
        }
        Ok(false)
    }
}

/// The rest of a long answer, as the connection takes it.
fn stream(answer: Answer, beginning: Vec<u8>, gzip: bool) -> Body {
    let encoder = gzip.then(|| GzEncoder::new(Vec::with_capacity(PIECE), Compression::fast()));
    let state = Some((answer, Some(beginning), encoder, 0_usize));
    Body::from_stream(stream::unfold(state, |state| async move {
        let (mut answer, mut beginning, mut encoder, mut pieces) = state?;
        loop {
            pieces += 1;
            if pieces.is_multiple_of(PIECES_AT_ONCE) {
                tokio::task::yield_now().await;
            }
            let (piece, done) = match beginning.take() {
                Some(piece) => (piece, false),
                None => {
                    let mut piece = Vec::with_capacity(PIECE + (PIECE >> 2));
                    match answer.fill(PIECE, &mut piece) {
                        Ok(done) => (piece, done),
                        // The status has been sent: to break off is all that is left.
                        Err(e) => return Some((Err(io::Error::other(e.message)), None)),
                    }
                }
            };
            let piece = match encoder.take() {
                None => Ok(piece),
                Some(encoder) if done => finish(encoder, &piece),
                Some(mut compressing) => compressing.write_all(&piece).map(|()| {
                    let ready = std::mem::take(compressing.get_mut());
                    encoder = Some(compressing);
                    ready
                }),
            };
            return match piece {
                Ok(piece) if done => Some((Ok(Bytes::from(piece)), None)),
                // The compressor keeps it back.
                Ok(piece) if piece.is_empty() => continue,
                Ok(piece) => Some((Ok(piece.into()), Some((answer, None, encoder, pieces)))),
                Err(e) => Some((Err(e), None)),
            };
        }
    }))
}

fn finish(mut encoder: GzEncoder<Vec<u8>>, last: &[u8]) -> io::Result<Vec<u8>> {
    encoder.write_all(last)?;
    encoder.finish()
}
