//! Traces: spans that go to a collector, and their way from process to process (W3C Trace Context).

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use http::HeaderMap;
use opentelemetry::{
    Context, KeyValue,
    trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _},
};
use opentelemetry_otlp::{WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing::{Level, Span, level_filters::LevelFilter};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{Layer, Registry, filter::filter_fn};

use super::TracesConfig;

/// Header of W3C Trace Context.
const TRACEPARENT: &str = "traceparent";
/// How long a collector gets for a batch, and the end of the process for the last one.
const EXPORT_LIMIT: Duration = Duration::from_secs(5);

/// Whether there is a collector: else nobody looks at headers or makes them.
static ON: AtomicBool = AtomicBool::new(false);

/// What sends traces; nothing when there is no collector.
#[must_use = "the last spans are sent when it is closed"]
#[derive(Debug)]
pub struct Traces(Option<SdkTracerProvider>);

type Layered = Box<dyn Layer<Registry> + Send + Sync>;

/// The layer that makes spans, and what sends them. A collector that is away costs spans, which are dropped when too many wait, and a warning.
pub(super) fn start(config: &TracesConfig) -> Result<(Layered, Traces), String> {
    let wrong = |e: String| format!("traces cannot be sent to {:?}: {e}", config.endpoint);
    let endpoint: http::Uri = config.endpoint.parse().map_err(|e| wrong(format!("{e}")))?;
    if endpoint.authority().is_none() {
        return Err(wrong("write an address such as http://127.0.0.1:4317 (OTLP over gRPC)".to_owned()));
    }
    let mut exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_tonic()
        .with_endpoint(&config.endpoint)
        .with_timeout(EXPORT_LIMIT);
    if endpoint.scheme_str() == Some("https") {
        exporter = exporter
            .with_tls_config(opentelemetry_otlp::tonic_types::transport::ClientTlsConfig::new().with_native_roots());
    }
    let exporter = exporter.build().map_err(|e| wrong(e.to_string()))?;
    let mut attributes = vec![KeyValue::new("service.version", config.version)];
    if !config.instance.is_empty() {
        attributes.push(KeyValue::new("service.instance.id", config.instance.clone()));
    }
    let resource = Resource::builder().with_service_name(config.service).with_attributes(attributes).build();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
    // Spans of our own only, and no events: what is logged may name more than a trace should.
    let ours = filter_fn(|of| of.is_span() && of.target().starts_with("vctl") && *of.level() <= Level::DEBUG)
        .with_max_level_hint(LevelFilter::DEBUG);
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("vctl"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_filter(ours)
        .boxed();
    ON.store(true, Ordering::Relaxed);
    Ok((layer, Traces(Some(provider))))
}

impl Traces {
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Sends what is left, for a few seconds at most.
    pub async fn close(self) {
        let Some(provider) = self.0 else { return };
        let closed = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(EXPORT_LIMIT)).await;
        if let Ok(Err(error)) = closed {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}

/// Whether traces are sent.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Whether what is done now is part of something that is traced: only then spans of what is hot are worth being made. Without traces it is one
/// comparison.
pub fn is_traced() -> bool {
    is_on() && !Span::current().is_none()
}

/// The current span as a `traceparent`, for whoever goes on with its trace; none without traces.
pub fn traceparent() -> Option<String> {
    if !ON.load(Ordering::Relaxed) {
        return None;
    }
    let context = Span::current().context();
    let span = context.span();
    let of = span.span_context();
    of.is_valid().then(|| format!("00-{}-{}-{:02x}", of.trace_id(), of.span_id(), of.trace_flags().to_u8()))
}

/// Makes a span that has not been entered part of the trace that a `traceparent` names; one that makes no sense is ignored.
pub fn continue_from(span: &Span, traceparent: &str) {
    if !ON.load(Ordering::Relaxed) || span.is_disabled() {
        return;
    }
    if let Some(parent) = parse(traceparent) {
        // Fails for a span that is not sent: then there is nothing to be part of anything.
        let _ = span.set_parent(Context::new().with_remote_span_context(parent));
    }
}

/// The same with the header of a request, for a span that is in no other.
pub fn accept(span: &Span, headers: &HeaderMap) {
    if ON.load(Ordering::Relaxed)
        && Span::current().is_none()
        && let Some(header) = headers.get(TRACEPARENT).and_then(|v| v.to_str().ok())
    {
        continue_from(span, header);
    }
}

/// <https://www.w3.org/TR/trace-context/#traceparent-header>: of later versions, what is known of this one counts.
fn parse(header: &str) -> Option<SpanContext> {
    let mut parts = header.trim().split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |text: &str, length| text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if !hex(version, 2) || version == "ff" || !hex(trace, 32) || !hex(span, 16) || !hex(flags, 2) {
        return None;
    }
    if version == "00" && parts.next().is_some() {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()? & 1);
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let context = SpanContext::new(trace, span, flags, true, TraceState::default());
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_as_w3c_says() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = parse(good).expect("one");
        assert_eq!(context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert!(context.is_sampled() && context.is_remote());
        assert!(parse("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-later").is_some());
        for wrong in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        ] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
