//! A collector of traces: what an OpenTelemetry collector takes, kept in memory.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, Result};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
};
use tokio::{net::TcpListener, sync::oneshot};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// A span as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// `service.name` of who sent it.
    pub service: String,
    /// Its trace, in hex.
    pub trace: String,
    /// Its id, in hex.
    pub id: String,
    /// Id of the span that it is a part of; empty for none.
    pub parent: String,
    /// Its name.
    pub name: String,
    /// Its attributes, as texts.
    pub attributes: BTreeMap<String, String>,
}

type Spans = Arc<Mutex<Vec<Span>>>;

/// A collector on loopback; it ends with this value.
pub struct Collector {
    address: SocketAddr,
    spans: Spans,
    _stop: oneshot::Sender<()>,
}

struct Service(Spans);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, b| text + &format!("{b:02x}"))
}

fn text(value: Option<Value>) -> String {
    match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

fn attributes(all: Vec<KeyValue>) -> BTreeMap<String, String> {
    all.into_iter().map(|one| (one.key, text(one.value.and_then(|v| v.value)))).collect()
}

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut spans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for of in request.into_inner().resource_spans {
            let resource = attributes(of.resource.map(|r| r.attributes).unwrap_or_default());
            let service = resource.get("service.name").cloned().unwrap_or_default();
            for span in of.scope_spans.into_iter().flat_map(|s| s.spans) {
                spans.push(Span {
                    service: service.clone(),
                    trace: hex(&span.trace_id),
                    id: hex(&span.span_id),
                    parent: hex(&span.parent_span_id),
                    name: span.name,
                    attributes: attributes(span.attributes),
                });
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Starts one, in a thread of its own.
    ///
    /// # Errors
    /// It cannot listen.
    pub fn start() -> Result<Self> {
        let spans = Spans::default();
        let (stop, stopped) = oneshot::channel::<()>();
        let (started, address) = std::sync::mpsc::channel();
        let service = TraceServiceServer::new(Service(spans.clone()));
        std::thread::spawn(move || -> Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await?;
                started.send(listener.local_addr()?)?;
                let server = tonic::transport::Server::builder().add_service(service);
                let end = async { drop(stopped.await) };
                Ok(server.serve_with_incoming_shutdown(TcpListenerStream::new(listener), end).await?)
            })
        });
        let address = address.recv().context("the collector does not start")?;
        Ok(Self { address, spans, _stop: stop })
    }

    /// What to give to `--otlp-endpoint`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What has come so far.
    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
