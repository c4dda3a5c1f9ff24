//! Structured logs. One line per event, to standard error (the supervisor or `vctl up`'s caller keeps them).

use tracing_subscriber::EnvFilter;

/// How logs look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Installs the process-wide subscriber. `filter` is in `tracing`'s directive syntax (`info,vctl_store=debug`).
///
/// # Errors
/// A filter that does not parse, or a subscriber that is already installed.
pub fn init(filter: &str, format: LogFormat) -> Result<(), String> {
    // The resolver of a worker says every question of every pod at level info: only where the filter names it.
    let filter = EnvFilter::try_new(format!("hickory_server=warn,{filter}"))
        .map_err(|e| format!("log filter {filter:?} is not valid: {e}"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
        LogFormat::Json => builder.json().try_init(),
    }
    .map_err(|e| format!("cannot install the log subscriber: {e}"))
}
