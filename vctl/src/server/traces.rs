//! Where traces go, as arguments say.

use clap::Args;
use vctl_runtime::telemetry::TracesConfig;

/// Where traces go.
#[derive(Debug, Args)]
pub(crate) struct TracesArgs {
    /// Collector that traces are sent to (OpenTelemetry, OTLP over gRPC), such as http://127.0.0.1:4317 [default: none are made]
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,
}

impl TracesArgs {
    pub(crate) fn config(&self, service: &'static str, instance: &str) -> Option<TracesConfig> {
        let endpoint = self.otlp_endpoint.clone().filter(|url| !url.is_empty())?;
        Some(TracesConfig { endpoint, service, version: env!("CARGO_PKG_VERSION"), instance: instance.to_owned() })
    }
}
