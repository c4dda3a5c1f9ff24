//! REST documents as rows.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use vctl_api::rest::{AuditEntry, Environment, Job, JobState, Phase, Worker};

use crate::model::{Cell, Column, Row, Subject, Tone};

fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

/// A word of the REST API.
fn word(value: impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Columns of environments.
pub fn environment_columns() -> Vec<Column> {
    let mut columns = vec![Column::new("NAME"), Column::telling("PHASE"), Column::new("PODS"), Column::new("TEMPLATE")];
    columns.extend([Column::wide("PROJECT"), Column::wide("OWNER"), Column::wide("KUBERNETES")]);
    columns.extend([Column::new("AGE"), Column::new("MESSAGE")]);
    columns
}

/// An environment. Selectors see its project, template, phase, kind and owner as labels.
pub fn environment(e: &Environment) -> Row {
    let tone = match e.phase {
        Phase::Ready if e.pods.ready == e.pods.total => Tone::Good,
        Phase::Ready | Phase::Creating | Phase::Deleting | Phase::Waking | Phase::Updating => Tone::Busy,
        Phase::Sleeping => Tone::Plain,
        Phase::Failed => Tone::Bad,
    };
    let newer = e.newer_version.as_ref().map(|v| format!(" ({v} is newer)")).unwrap_or_default();
    let cells = vec![
        text(e.name.to_string()),
        text(format!("{:?}", e.phase)),
        text(format!("{}/{}", e.pods.ready, e.pods.total)),
        text(format!("{} {}{newer}", e.template, e.template_version)),
        text(&e.project),
        text(&e.owner),
        text(&e.kubernetes_version),
        Cell::Age(Some(e.created_at)),
        text(first_line(&e.message)),
    ];
    let labels = json!({"project": e.project, "template": e.template, "phase": format!("{:?}", e.phase), "kind": word(e.kind), "owner": e.owner});
    Row::new(Subject::Environment(e.name.to_string()), cells, tone, labels)
}

/// Columns of workers.
pub fn worker_columns() -> Vec<Column> {
    let titles = ["NAME", "KIND", "AGENT", "PODS", "CPUS", "MEMORY", "RUNTIME"];
    titles.into_iter().map(|t| if t == "AGENT" { Column::telling(t) } else { Column::new(t) }).collect()
}

/// A worker.
pub fn worker(w: &Worker) -> Row {
    let (agent, tone) = if w.connected { ("connected", Tone::Good) } else { ("not connected", Tone::Bad) };
    let cells = vec![
        text(&w.name),
        text(&w.kind),
        text(agent),
        text(w.pods.to_string()),
        text(format!("{:.1}", w.cpu_millis as f64 / 1000.0)),
        text(format!("{:.1} GiB", w.memory_bytes as f64 / f64::from(1 << 30))),
        text(&w.runtime),
    ];
    Row::new(Subject::Worker(w.name.clone()), cells, tone, json!({"kind": w.kind}))
}

/// Columns of jobs.
pub fn job_columns() -> Vec<Column> {
    let mut columns = vec![Column::new("ENVIRONMENT"), Column::new("OPERATION"), Column::telling("STATE")];
    columns.extend([Column::new("AGE"), Column::wide("ID"), Column::new("MESSAGE")]);
    columns
}

/// A job: what it is at, or why it has failed.
pub fn job(job: &Job) -> Row {
    let ended = |state| matches!(state, JobState::Succeeded | JobState::Failed | JobState::Cancelled);
    let tone = match job.state {
        JobState::Succeeded => Tone::Good,
        JobState::Failed => Tone::Bad,
        JobState::Cancelled => Tone::Plain,
        JobState::Pending | JobState::Running => Tone::Busy,
    };
    let news = if job.error.is_empty() {
        job.steps.iter().find(|s| !ended(s.state)).map(|s| format!("{} {}", s.name, s.message)).unwrap_or_default()
    } else {
        job.error.clone()
    };
    let cells = vec![
        text(job.environment.to_string()),
        text(word(job.operation)),
        text(word(job.state)),
        Cell::Age(Some(job.created_at)),
        text(&job.id),
        text(first_line(news.trim())),
    ];
    let labels =
        json!({"environment": job.environment.to_string(), "operation": word(job.operation), "state": word(job.state)});
    Row::new(Subject::Job(job.id.clone()), cells, tone, labels)
}

/// Columns of the audit trail.
pub fn audit_columns() -> Vec<Column> {
    let mut columns = vec![Column::new("AGE"), Column::new("ACTOR"), Column::new("ACTION"), Column::new("SUBJECT")];
    columns.extend([Column::new("PROJECT"), Column::new("SOURCE"), Column::wide("REQUEST")]);
    columns
}

/// An entry of the audit trail.
pub fn audit(e: &AuditEntry) -> Row {
    let who = if e.on_behalf_of.is_empty() { e.actor.clone() } else { format!("{} for {}", e.actor, e.on_behalf_of) };
    let at: Option<Timestamp> = Some(e.at);
    let cells = vec![
        Cell::Age(at),
        text(who),
        text(&e.action),
        text(&e.subject),
        text(&e.project),
        text(&e.source),
        text(&e.request_id),
    ];
    Row::new(
        Subject::Audit(e.key.clone()),
        cells,
        Tone::Plain,
        json!({"actor": e.actor, "action": e.action, "project": e.project}),
    )
}

/// How an object of Kubernetes is doing, by what its table says: its status, type of event, or how many are ready.
pub fn tone(title: &str, cell: &str) -> Tone {
    match title {
        "STATUS" | "PHASE" => match cell {
            "Running" | "Active" | "Bound" | "Ready" | "True" | "Available" | "Complete" | "deployed" => Tone::Good,
            "Completed" | "Succeeded" | "Released" | "Suspended" => Tone::Plain,
            "Failed" | "Error" | "OOMKilled" | "Evicted" | "Lost" | "NotReady" | "Unknown" => Tone::Bad,
            other if other.contains("BackOff") || other.contains("Err") || other.starts_with("ExitCode") => Tone::Bad,
            _ => Tone::Busy,
        },
        "TYPE" if cell == "Warning" => Tone::Bad,
        "READY" | "COMPLETIONS" => match cell.split_once('/') {
            Some((ready, all)) if ready == all => Tone::Good,
            Some(_) => Tone::Busy,
            None => Tone::Plain,
        },
        _ => Tone::Plain,
    }
}

/// The labels of an object; null when it has none.
pub fn labels(metadata: &Value) -> Value {
    metadata.get("labels").cloned().unwrap_or_default()
}
