//! What is on pages: descriptions, YAML, logs.

use std::time::Duration;

use futures::{AsyncBufReadExt as _, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, LogParams};
use serde::Serialize;
use serde_json::Value;
use vctl_api::rest::{AuditEntry, Environment, Job, JobState, LogLine, Page, Worker};
use vctl_tui::model::{Data, Document, Object, Subject};

use super::{
    cluster::{connect, failed},
    describe,
    feed::{GATHER, News, RETRY},
};
use crate::cli::{Client, Global, client::segment, error::CliError, get, jobs};

/// Lines of logs from before they are looked at.
const TAIL: i64 = 2_000;
/// Lines that are sent at once.
const LINES: usize = 500;

/// Brings a page, and for logs all that comes later.
pub(super) async fn bring(global: Global, page: u64, document: Document, news: News) {
    let done = match document {
        Document::Logs { pod, container, previous } => logs(&global, page, &pod, container, previous, &news).await,
        Document::JobLog(id) => job_log(&global, page, &id, &news).await,
        Document::Describe(subject) => text(&news, page, described(&global, &subject).await).await,
        Document::Yaml(subject) => text(&news, page, yaml(&global, &subject).await).await,
    };
    let why = done.err().map(|e| e.to_string());
    // The dashboard may be about to end.
    let _ = news.send(Data::Ended { page, why }).await;
}

async fn text(news: &News, page: u64, text: Result<String, CliError>) -> Result<(), CliError> {
    let text = text?;
    let _ = news.send(Data::Text { page, text }).await;
    Ok(())
}

fn to_yaml(value: &impl Serialize) -> Result<String, CliError> {
    serde_yaml::to_string(value).map_err(failed)
}

async fn worker(client: &Client, name: &str) -> Result<Worker, CliError> {
    let page: Page<Worker> = client.get("workers").await?;
    let found = page.items.into_iter().find(|worker| worker.name == name);
    found.ok_or_else(|| CliError::Failed(format!("there is no worker {name} any more")))
}

async fn entry(client: &Client, key: &str) -> Result<AuditEntry, CliError> {
    let page: Page<AuditEntry> = client.get("audit?limit=500").await?;
    let found = page.items.into_iter().find(|entry| entry.key == key);
    found.ok_or_else(|| CliError::Failed("it is not among the newest any more: see `vctl audit list`".to_owned()))
}

async fn described(global: &Global, subject: &Subject) -> Result<String, CliError> {
    let client = || Client::open(global);
    match subject {
        Subject::Environment(name) => {
            let client = client()?;
            let environment: Environment = client.get(&format!("environments/{}", segment(name))).await?;
            let job: Option<Job> = match &environment.job {
                Some(job) => client.get(&format!("jobs/{}", segment(job))).await.ok(),
                None => None,
            };
            Ok(get::render(&environment, job.as_ref(), "", Timestamp::now()))
        }
        Subject::Job(id) => {
            let job: Job = client()?.get(&format!("jobs/{}", segment(id))).await?;
            Ok(jobs::render(&job, Timestamp::now()))
        }
        Subject::Worker(name) => {
            let worker = serde_json::to_value(worker(&client()?, name).await?).map_err(failed)?;
            Ok(describe::fields(&worker))
        }
        Subject::Audit(key) => {
            let entry = serde_json::to_value(entry(&client()?, key).await?).map_err(failed)?;
            Ok(describe::fields(&entry))
        }
        Subject::Object(object) => {
            let cluster = connect(global, &object.environment).await?;
            let live = cluster.get(object).await?;
            let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
            let path = if object.namespace.is_empty() {
                "/api/v1/events".to_owned()
            } else {
                format!("/api/v1/namespaces/{}/events", object.namespace)
            };
            let path = format!("{path}?fieldSelector=involvedObject.uid%3D{uid}");
            let events = cluster.get_as(&path, "application/json").await?;
            Ok(describe::object(&live, &events, Timestamp::now()))
        }
    }
}

async fn yaml(global: &Global, subject: &Subject) -> Result<String, CliError> {
    let client = || Client::open(global);
    let value: Value = match subject {
        Subject::Environment(name) => client()?.get(&format!("environments/{}", segment(name))).await?,
        Subject::Job(id) => client()?.get(&format!("jobs/{}", segment(id))).await?,
        Subject::Worker(name) => serde_json::to_value(worker(&client()?, name).await?).map_err(failed)?,
        Subject::Audit(key) => serde_json::to_value(entry(&client()?, key).await?).map_err(failed)?,
        Subject::Object(object) => {
            let mut live = connect(global, &object.environment).await?.get(object).await?;
            if let Some(metadata) = live["metadata"].as_object_mut() {
                metadata.remove("managedFields");
            }
            live
        }
    };
    to_yaml(&value)
}

/// What a container writes. When the connection breaks it goes on after the last second that was seen.
async fn logs(
    global: &Global,
    page: u64,
    pod: &Object,
    container: String,
    previous: bool,
    news: &News,
) -> Result<(), CliError> {
    let first = pod.containers.first().cloned();
    let container = if container.is_empty() { first } else { Some(container) };
    let mut since: Option<Timestamp> = None;
    loop {
        let begun = Timestamp::now();
        let parameters = LogParams {
            container: container.clone(),
            follow: !previous,
            previous,
            tail_lines: since.is_none().then_some(TAIL),
            since_time: since,
            ..LogParams::default()
        };
        let streamed = async {
            let cluster = connect(global, &pod.environment).await?;
            let api: Api<Pod> = Api::namespaced(cluster.client.clone(), &pod.namespace);
            match api.log_stream(&pod.name, &parameters).await {
                Ok(stream) => Ok(Ok(stream)),
                Err(kube::Error::Api(status)) => Ok(Err(CliError::Failed(status.message))),
                Err(e) => Err(failed(e)),
            }
        };
        match streamed.await {
            // What the server refuses it refuses again.
            Ok(Err(refused)) => return Err(refused),
            Ok(Ok(stream)) => {
                if pump(stream.lines(), page, news).await? {
                    return Ok(());
                }
            }
            Err(e) if since.is_none() => return Err(e),
            Err(_) => {}
        }
        since = Some(begun);
        tokio::time::sleep(RETRY).await;
    }
}

/// Sends lines as they come, many at once. True when they have ended, false when the connection broke.
async fn pump(
    lines: impl futures::Stream<Item = std::io::Result<String>>,
    page: u64,
    news: &News,
) -> Result<bool, CliError> {
    let mut lines = std::pin::pin!(lines);
    let mut gathered: Vec<String> = Vec::new();
    loop {
        let wait = if gathered.is_empty() { Duration::MAX } else { GATHER };
        let next = tokio::time::timeout(wait, lines.next()).await;
        let ended = match next {
            Ok(Some(Ok(line))) => {
                gathered.push(line);
                None
            }
            Ok(Some(Err(_))) => Some(false),
            Ok(None) => Some(true),
            Err(_) => {
                flush(&mut gathered, page, news).await?;
                None
            }
        };
        if gathered.len() >= LINES || ended.is_some() {
            flush(&mut gathered, page, news).await?;
        }
        if let Some(whole) = ended {
            return Ok(whole);
        }
    }
}

async fn flush(gathered: &mut Vec<String>, page: u64, news: &News) -> Result<(), CliError> {
    if gathered.is_empty() {
        return Ok(());
    }
    let lines = std::mem::take(gathered);
    news.send(Data::Lines { page, lines }).await.map_err(|_| CliError::Failed("the dashboard has ended".to_owned()))
}

/// What a job says, until it ends.
async fn job_log(global: &Global, page: u64, id: &str, news: &News) -> Result<(), CliError> {
    let client = Client::open(global)?;
    let path = format!("jobs/{}", segment(id));
    let mut job: Job = client.get(&path).await?;
    let mut last: Option<LogLine> = None;
    loop {
        let known = last.as_ref().and_then(|last| job.log.iter().rposition(|line| line == last));
        let fresh = &job.log[known.map_or(0, |at| at + 1)..];
        let mut lines: Vec<String> = fresh.iter().map(|line| jobs::line(line).trim_end().to_owned()).collect();
        flush(&mut lines, page, news).await?;
        last = job.log.last().cloned().or(last);
        match job.state {
            JobState::Failed => return Err(CliError::Failed(job.error)),
            JobState::Cancelled => return Err(CliError::Failed("the job was cancelled".to_owned())),
            JobState::Succeeded => return Ok(()),
            JobState::Pending | JobState::Running => {}
        }
        job = client.get(&format!("{path}?changedAfter={}", job.revision)).await?;
    }
}
