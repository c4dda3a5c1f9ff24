//! Environments, workers, jobs and the audit trail: at every change, and now and then.

use std::time::{Duration, Instant};

use futures::StreamExt;
use tokio::sync::watch;
use vctl_api::rest::{AuditEntry, Environment, Job, Page, Worker};
use vctl_tui::{
    model::{Column, Data, Row, View},
    rows,
};

use super::feed::{GATHER, News, RETRY, Shown};
use crate::cli::{Client, Global, error::CliError};

/// Pod counts and workers change without an event: they are read so often, and not more than a twentieth of the time.
const REFRESH: Duration = Duration::from_secs(5);
const SHARE: u32 = 20;
/// Jobs and entries of the audit trail that are shown.
const RECENT: usize = 500;

/// Ends when nobody listens any more. Every attempt looks anew for the server: one that was started again may have another address.
pub(super) async fn follow(global: Global, mut shown: watch::Receiver<Shown>, news: News) {
    loop {
        let trouble = match watch(&global, &mut shown, &news).await {
            Ok(()) => return,
            Err(e) => format!("{e}; trying again"),
        };
        if news.send(Data::Trouble(trouble)).await.is_err() {
            return;
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn watch(global: &Global, shown: &mut watch::Receiver<Shown>, news: &News) -> Result<(), CliError> {
    let client = Client::open(global)?;
    let mut changes = client.stream("events").await?.bytes_stream();
    let mut connected = false;
    loop {
        let begun = Instant::now();
        let view = shown.borrow_and_update().view.clone();
        for table in read(&client, &view).await? {
            if news.send(table).await.is_err() {
                return Ok(());
            }
        }
        if !connected && news.send(Data::Connected).await.is_err() {
            return Ok(());
        }
        connected = true;
        let pause = tokio::time::sleep(REFRESH.max(begun.elapsed() * SHARE));
        tokio::select! {
            chunk = changes.next() => match chunk {
                // A comment keeps the connection alive; it is no news but does no harm.
                Some(Ok(_)) => tokio::time::sleep(GATHER).await,
                Some(Err(e)) => return Err(CliError::Failed(format!("the connection to the server broke ({e})"))),
                // The server stops, or the token that it was asked for with has ended: with another one it goes on.
                None => {
                    tokio::time::sleep(GATHER).await;
                    changes = client.stream("events").await?.bytes_stream();
                }
            },
            () = pause => {}
            // Another environment is no other view here, but is rare.
            changed = shown.changed() => if changed.is_err() { return Ok(()) },
        }
    }
}

/// Environments and workers always, the others when they are looked at.
async fn read(client: &Client, view: &View) -> Result<Vec<Data>, CliError> {
    let environments: Vec<Environment> = client.all("environments").await?;
    let workers: Page<Worker> = client.get("workers").await?;
    let table =
        |view: View, columns: Vec<Column>, rows: Vec<Row>| Data::Table { view, environment: None, columns, rows };
    let mut found = vec![
        table(View::Environments, rows::environment_columns(), environments.iter().map(rows::environment).collect()),
        table(View::Workers, rows::worker_columns(), workers.items.iter().map(rows::worker).collect()),
    ];
    if *view == View::Jobs {
        let jobs: Page<Job> = client.get(&format!("jobs?limit={RECENT}")).await?;
        found.push(table(View::Jobs, rows::job_columns(), jobs.items.iter().map(rows::job).collect()));
    }
    if *view == View::Audit {
        match client.get::<Page<AuditEntry>>(&format!("audit?limit={RECENT}")).await {
            Ok(page) => {
                found.push(table(View::Audit, rows::audit_columns(), page.items.iter().map(rows::audit).collect()));
            }
            // Not everybody may read it.
            Err(e @ CliError::Refused(_)) => {
                found.push(Data::Unreachable { view: View::Audit, environment: None, why: e.to_string() });
            }
            Err(e) => return Err(e),
        }
    }
    Ok(found)
}
