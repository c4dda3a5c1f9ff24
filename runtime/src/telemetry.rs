//! Logs and traces of the process.
//!
//! Logs are one line per event on standard error (the supervisor or `vctl up`'s caller keeps them), with the spans they are in. Traces are
//! OpenTelemetry's: the same spans, sent by OTLP over gRPC where somebody has given an endpoint, else not even made: those of hot paths
//! are of level DEBUG, which costs a comparison when neither logs nor traces want it. Events are never part of a trace, and fields of spans
//! never hold what a client has sent but names: no secret can get into one.

mod traces;

use tracing_subscriber::{EnvFilter, Layer, Registry, layer::SubscriberExt as _, util::SubscriberInitExt as _};

pub use traces::{Traces, accept, continue_from, is_on, is_traced, traceparent};

/// How logs look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Where traces go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracesConfig {
    /// Address of a collector that takes OTLP over gRPC, such as `http://127.0.0.1:4317`.
    pub endpoint: String,
    /// `service.name` of what is sent.
    pub service: &'static str,
    /// `service.version`.
    pub version: &'static str,
    /// `service.instance.id`: name of a worker, or empty.
    pub instance: String,
}

/// Installs the process-wide subscriber. `filter` is of logs, in `tracing`'s directive syntax (`info,vctl_store=debug`). To be called inside of a
/// runtime; what is returned is to be kept, and closed at the end.
///
/// # Errors
/// A filter that does not parse, an endpoint that is no address, or a subscriber that is already installed.
pub fn init(filter: &str, format: LogFormat, traces: Option<&TracesConfig>) -> Result<Traces, String> {
    // The resolver of a worker says every question of every pod at level info: only where the filter names it.
    let filter = EnvFilter::try_new(format!("hickory_server=warn,{filter}"))
        .map_err(|e| format!("log filter {filter:?} is not valid: {e}"))?;
    let lines = tracing_subscriber::fmt::layer::<Registry>().with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Text => lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    let failed = |e| format!("cannot install the log subscriber: {e}");
    let Some(config) = traces else {
        // One filter for all: what it does not want is not even looked at.
        tracing_subscriber::registry().with(lines).with(filter).try_init().map_err(failed)?;
        return Ok(Traces::none());
    };
    let (layer, traces) = traces::start(config)?;
    tracing_subscriber::registry().with(vec![lines.with_filter(filter).boxed(), layer]).try_init().map_err(failed)?;
    Ok(traces)
}
