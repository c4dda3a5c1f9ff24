//! `vctl jobs`.

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use jiff::Timestamp;
use vctl_api::rest::{Job, JobState, LogLine, Page};

use super::{
    Client, Global,
    client::segment,
    completion,
    error::CliError,
    output::{Format, age, print, show, table},
    progress,
};

/// Arguments of `vctl jobs`.
#[derive(Debug, Args)]
pub(crate) struct Jobs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List jobs, newest first
    List(List),
    /// Show one with its steps
    Get(Get),
    /// Print what a job has said, and with -f what it says until it ends
    Logs(Logs),
    /// Tell a job to stop; what it has done stays
    Cancel(One),
    /// Do again what a job was at that has failed or was cancelled
    Resume(One),
}

#[derive(Debug, Args)]
struct List {
    /// Of this environment only
    #[arg(long, short, value_name = "NAME", add = ArgValueCandidates::new(completion::environments))]
    environment: Option<String>,
    /// How many
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// How to print them
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug, Args)]
struct Get {
    /// Id of the job
    #[arg(add = ArgValueCandidates::new(completion::jobs))]
    id: String,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug, Args)]
struct Logs {
    /// Id of the job
    #[arg(add = ArgValueCandidates::new(completion::jobs))]
    id: String,
    /// Go on until it ends; fails when it does, or is cancelled
    #[arg(long, short)]
    follow: bool,
}

#[derive(Debug, Args)]
struct One {
    /// Id of the job
    #[arg(add = ArgValueCandidates::new(completion::jobs))]
    id: String,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Jobs {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        match self.command {
            Command::List(list) => {
                let environment = list.environment.map(|e| format!("&environment={}", segment(&e))).unwrap_or_default();
                let page: Page<Job> = client.get(&format!("jobs?limit={}{environment}", list.limit)).await?;
                show(list.output, &page.items, || rows(&page.items, Timestamp::now()))
            }
            Command::Get(get) => {
                let job: Job = client.get(&path(&get.id)).await?;
                show(get.output, &job, || render(&job, Timestamp::now()))
            }
            Command::Logs(logs) => logs.run(&client).await,
            Command::Cancel(one) => {
                let job: Job = client.post(&format!("{}/cancel", path(&one.id)), &serde_json::json!({})).await?;
                show(one.output, &job, || format!("job {} is told to stop\n", job.id))
            }
            Command::Resume(one) => {
                let job: Job = client.post(&format!("{}/resume", path(&one.id)), &serde_json::json!({})).await?;
                let job = progress::follow(&client, &job.id).await?;
                show(one.output, &job, || format!("job {} has done what {} was at\n", job.id, one.id))
            }
        }
    }
}

fn path(id: &str) -> String {
    format!("jobs/{}", segment(id))
}

fn ended(state: JobState) -> bool {
    matches!(state, JobState::Succeeded | JobState::Failed | JobState::Cancelled)
}

impl Logs {
    async fn run(self, client: &Client) -> Result<(), CliError> {
        let mut job: Job = client.get(&path(&self.id)).await?;
        let mut last: Option<LogLine> = None;
        loop {
            // Only the last lines of a long job are kept: what follows the one that was printed last is new.
            let known = last.as_ref().and_then(|last| job.log.iter().rposition(|line| line == last));
            let fresh = &job.log[known.map_or(0, |at| at + 1)..];
            print(&fresh.iter().map(line).collect::<String>())?;
            last = job.log.last().cloned().or(last);
            if ended(job.state) || !self.follow {
                break;
            }
            job = client.get(&format!("{}?changedAfter={}", path(&self.id), job.revision)).await?;
        }
        match job.state {
            JobState::Failed if self.follow => Err(CliError::Failed(job.error)),
            JobState::Cancelled if self.follow => Err(CliError::Failed(format!("job {} was cancelled", job.id))),
            _ => Ok(()),
        }
    }
}

/// A line of the log of a job.
pub(super) fn line(line: &LogLine) -> String {
    let at = Timestamp::from_second(line.at.as_second()).unwrap_or(line.at);
    format!("{at} {}: {}\n", line.step, line.message)
}

/// A word of the REST API.
fn word(value: impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

fn rows(jobs: &[Job], now: Timestamp) -> String {
    let row = |job: &Job| {
        let step = job.steps.iter().find(|s| !ended(s.state)).map(|s| s.name.clone());
        let news = if job.error.is_empty() {
            step.unwrap_or_default()
        } else {
            job.error.lines().next().unwrap_or_default().to_owned()
        };
        [
            job.id.clone(),
            job.environment.to_string(),
            word(job.operation),
            word(job.state),
            age(job.created_at, now),
            news,
        ]
    };
    table(["ID", "ENVIRONMENT", "OPERATION", "STATE", "AGE", "MESSAGE"], &jobs.iter().map(row).collect::<Vec<_>>())
}

/// A job for people, with its steps.
pub(super) fn render(job: &Job, now: Timestamp) -> String {
    let mut text = format!(
        "Job:         {}\nEnvironment: {}\nOperation:   {}\nState:       {} (started {} times)\nCreated:     {} ago\n",
        job.id,
        job.environment,
        word(job.operation),
        word(job.state),
        job.attempt,
        age(job.created_at, now)
    );
    if !job.error.is_empty() {
        text.push_str(&format!("Error:       {}\n", job.error));
    }
    for step in &job.steps {
        text.push_str(&format!("  {:<10} {:<24} {}\n", word(step.state), step.name, step.message));
    }
    text
}
