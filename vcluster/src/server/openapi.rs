//! OpenAPI documents as they are sent: `/openapi/v2` and what the index at `/openapi/v3` names.
//!
//! A document is determined by the rows of the catalog that it describes, and named by a hash of them. It is built when somebody wants
//! it who does not have it, once however many ask for it at the same time, and kept for all clusters of the process: those of built-in
//! kinds for good (there are a few for each version of Kubernetes), those with custom ones as long as there is room.

use std::{
    collections::HashMap,
    io::{self, Read, Write},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::body::Body;
use bytes::{Buf, Bytes};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use futures::stream;
use http::{HeaderValue, Response, StatusCode, header};
use tokio::sync::OnceCell;
use vctl_machinery::{catalog::Catalog, openapi, status::ApiError};
use vctl_runtime::heavy;

use super::{Context, negotiate, respond};

/// Compressed bytes of documents with custom kinds.
const CAPACITY: usize = 32 << 20;
/// What a document takes besides its bytes.
const OVERHEAD: usize = 256;
/// Bytes that are decompressed at a time.
const PIECE: usize = 64 << 10;
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Form {
    V2,
    V2Protobuf,
    /// By the path in the index.
    V3(String),
}

impl Form {
    /// The answer's type has a dot where the request's has an @, as upstream's.
    fn media_type(&self) -> &'static str {
        match self {
            Self::V2Protobuf => "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
            Self::V2 | Self::V3(_) => "application/json",
        }
    }

    /// Hash of what determines the document, and whether custom kinds do; none where there is no document.
    fn origin(&self, catalog: &Catalog) -> Option<(String, bool)> {
        match self {
            Self::V2 => Some((openapi::v2_hash(catalog), catalog.rows().iter().any(|r| r.custom))),
            Self::V2Protobuf => Some((format!("{}P", Self::V2.origin(catalog)?.0), Self::V2.origin(catalog)?.1)),
            Self::V3(path) => {
                let (_, hash) = openapi::v3_index(catalog).iter().find(|(p, _)| p == path)?;
                Some((hash.clone(), openapi::v3_rows(catalog, path).any(|r| r.custom)))
            }
        }
    }

    fn build(&self, catalog: &Catalog) -> Option<Vec<u8>> {
        let document = match self {
            Self::V2 => openapi::v2(catalog),
            Self::V2Protobuf => return Some(openapi::v2_protobuf(catalog)),
            Self::V3(path) => openapi::v3(catalog, path)?,
        };
        let mut text = document.to_string().into_bytes();
        text.push(b'\n');
        Some(text)
    }
}

type Key = (Form, String);

struct Entry {
    /// Compressed; empty while it is built.
    document: Arc<OnceCell<Bytes>>,
    custom: bool,
    size: usize,
    used: u64,
}

#[derive(Default)]
struct Kept {
    entries: HashMap<Key, Entry>,
    /// Of those with custom kinds.
    size: usize,
    tick: u64,
}

/// The documents of all clusters.
#[derive(Default)]
pub(crate) struct Documents {
    kept: Mutex<Kept>,
    builds: AtomicU64,
}

impl Documents {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many have been built.
    #[cfg(test)]
    pub(crate) fn builds(&self) -> u64 {
        self.builds.load(Ordering::SeqCst)
    }

    /// The compressed document.
    async fn get(&self, key: Key, custom: bool, catalog: &Catalog) -> Result<Bytes, ApiError> {
        let document = self.lock().entry(&key, custom);
        if let Some(built) = document.get() {
            return Ok(built.clone());
        }
        // When the request that builds it goes away, the next one does.
        let build = || async {
            self.builds.fetch_add(1, Ordering::SeqCst);
            heavy::run(|| compress(&key.0.build(catalog).unwrap_or_default())).await.map_err(ApiError::internal)
        };
        let built = document.get_or_try_init(build).await?.clone();
        self.lock().filled(&key, &document, built.len());
        Ok(built)
    }
}

impl Kept {
    fn entry(&mut self, key: &Key, custom: bool) -> Arc<OnceCell<Bytes>> {
        self.tick += 1;
        if let Some(entry) = self.entries.get_mut(key) {
            entry.used = self.tick;
            return entry.document.clone();
        }
        let document = Arc::<OnceCell<Bytes>>::default();
        let entry = Entry { document: document.clone(), custom, size: OVERHEAD, used: self.tick };
        self.entries.insert(key.clone(), entry);
        if custom {
            self.size += OVERHEAD;
            self.shrink();
        }
        document
    }

    fn filled(&mut self, key: &Key, document: &Arc<OnceCell<Bytes>>, bytes: usize) {
        let same = |e: &&mut Entry| Arc::ptr_eq(&e.document, document) && e.size == OVERHEAD;
        if let Some(entry) = self.entries.get_mut(key).filter(same) {
            entry.size += bytes;
            if entry.custom {
                self.size += bytes;
                self.shrink();
            }
        }
    }

    /// Forgets what has not been used for longest.
    fn shrink(&mut self) {
        while self.size > CAPACITY
            && let Some(oldest) =
                self.entries.iter().filter(|(_, e)| e.custom).min_by_key(|(_, e)| e.used).map(|(key, _)| key.clone())
        {
            self.size -= self.entries.remove(&oldest).map_or(0, |gone| gone.size);
        }
    }
}

fn compress(plain: &[u8]) -> io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 8), Compression::default());
    encoder.write_all(plain)?;
    let mut compressed = encoder.finish()?;
    compressed.shrink_to_fit();
    Ok(compressed.into())
}

/// For clients that cannot read it compressed: piece by piece, as the connection takes them.
fn decompressed(document: Bytes) -> Body {
    Body::from_stream(stream::try_unfold(GzDecoder::new(document.reader()), |mut decoder| async move {
        let mut piece = Vec::with_capacity(PIECE);
        decoder.by_ref().take(PIECE as u64).read_to_end(&mut piece)?;
        Ok::<_, io::Error>((!piece.is_empty()).then(|| (Bytes::from(piece), decoder)))
    }))
}

/// `/openapi/v2`
pub(crate) async fn v2(context: &Context, catalog: &Catalog) -> Result<Option<Response<Body>>, ApiError> {
    let accepted = negotiate::clauses(&context.headers);
    let json = |c: &negotiate::Clause| matches!(&*c.media, "application/json" | "*/*" | "application/*");
    // kubectl before 1.29 takes nothing else.
    let form = if accepted.iter().any(|c| c.media == V2_PROTOBUF) {
        Form::V2Protobuf
    } else if accepted.is_empty() || accepted.iter().any(json) {
        Form::V2
    } else {
        return Err(ApiError::not_acceptable("only the following media types are accepted: application/json"));
    };
    answer(context, catalog, form).await
}

/// `/openapi/v3/PATH`; none for a path that the index does not have.
pub(crate) async fn v3(context: &Context, catalog: &Catalog, path: String) -> Result<Option<Response<Body>>, ApiError> {
    answer(context, catalog, Form::V3(path)).await
}

/// The document, or 304 when the client has it: that needs no document.
async fn answer(context: &Context, catalog: &Catalog, form: Form) -> Result<Option<Response<Body>>, ApiError> {
    let Some((hash, custom)) = form.origin(catalog) else { return Ok(None) };
    let etag = format!("\"{hash}\"");
    let media_type = form.media_type();
    let known = context.headers.get(header::IF_NONE_MATCH).and_then(|v| v.to_str().ok());
    let mut response = if known.is_some_and(|k| k.split(',').any(|k| k.trim() == etag)) {
        respond::bytes(StatusCode::NOT_MODIFIED, media_type, Vec::new())
    } else {
        let document = context.plane.shared.documents.get((form, hash), custom, catalog).await?;
        let mut response = respond::bytes(StatusCode::OK, media_type, Vec::new());
        if respond::accepts_gzip(&context.headers) {
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            *response.body_mut() = Body::from(document);
        } else {
            *response.body_mut() = decompressed(document);
        }
        response
    };
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&etag) {
        headers.insert(header::ETAG, value);
    }
    headers.insert(header::VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    Ok(Some(response))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_custom_kinds_is_bounded() {
        let mut kept = Kept::default();
        let fill = |kept: &mut Kept, name: &str, custom: bool, bytes: usize| {
            let key = (Form::V2, name.to_owned());
            let document = kept.entry(&key, custom);
            kept.filled(&key, &document, bytes);
            kept.filled(&key, &document, bytes);
        };
        fill(&mut kept, "builtin", false, CAPACITY);
        for n in 0..10 {
            fill(&mut kept, "used", true, CAPACITY / 4);
            fill(&mut kept, &n.to_string(), true, CAPACITY / 4);
        }
        let has = |name: &str| kept.entries.contains_key(&(Form::V2, name.to_owned()));
        assert!(has("builtin") && has("used") && has("9") && !has("0"));
        let sum: usize = kept.entries.values().filter(|e| e.custom).map(|e| e.size).sum();
        assert_eq!(kept.size, sum);
        assert!(sum <= CAPACITY);
    }
}
