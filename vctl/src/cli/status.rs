//! `vctl status`.

use clap::Args;
use jiff::Timestamp;
use vctl_api::rest::{LoginLink, ServerStatus, Worker};

use super::{
    Client, Global,
    error::CliError,
    output::{Format, age, bytes, show, table},
};

/// Arguments of `vctl status`.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// How to print it; only the table has a sign-in link
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Status {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        let status: ServerStatus = client.get("status").await?;
        if !self.output.for_people() {
            return show(self.output, &status, String::new);
        }
        let link: LoginLink = client.post("login-links", &serde_json::Value::Null).await?;
        show(self.output, &status, || render(&status, client.url(), &link, Timestamp::now()))
    }
}

fn render(s: &ServerStatus, url: &str, link: &LoginLink, now: Timestamp) -> String {
    let mut text = format!("Server:       {url} (vctl {}, pid {}, up {})\n", s.version, s.pid, age(s.started_at, now));
    if let Some(resident) = s.resident_bytes {
        text.push_str(&format!("Memory:       {}\n", bytes(resident)));
    }
    text.push_str(&format!("Environments: {}\n", s.environments));
    text.push_str(&format!("Portal:       {}\n              (works once, within ten minutes)\n", link.url));
    if s.workers.is_empty() {
        text.push_str("Workers:      none: pods stay pending\n");
        return text;
    }
    text.push('\n');
    text.push_str(&workers(&s.workers, now));
    text
}

/// Workers as a table.
pub(super) fn workers(all: &[Worker], now: Timestamp) -> String {
    let row = |w: &Worker| {
        let seen =
            w.last_seen.map_or_else(|| "never seen".to_owned(), |at| format!("not connected for {}", age(at, now)));
        [
            w.name.clone(),
            w.kind.clone(),
            if w.connected { "connected".to_owned() } else { seen },
            w.pods.to_string(),
            format!("{:.1}", w.cpu_millis as f64 / 1000.0),
            bytes(w.memory_bytes.max(0) as u64),
            w.runtime.clone(),
        ]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    table(["WORKER", "KIND", "AGENT", "PODS", "CPUS", "MEMORY", "RUNTIME"], &rows)
}
