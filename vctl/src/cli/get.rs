//! `vctl get`.

use clap::Args;
use clap_complete::ArgValueCandidates;
use jiff::Timestamp;
use vctl_api::rest::{Environment, Job, Phase, UsageSeries};

use super::{
    Client, Global,
    client::segment,
    completion,
    error::CliError,
    output::{Format, age, show},
    top,
};

/// Arguments of `vctl get`.
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Name of the environment
    #[arg(add = ArgValueCandidates::new(completion::environments))]
    name: String,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Get {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        let environment: Environment = client.get(&format!("environments/{}", segment(&self.name))).await?;
        let job: Option<Job> = match (&environment.job, environment.phase) {
            (Some(job), phase) if phase != Phase::Ready && self.output.for_people() => {
                Some(client.get(&format!("jobs/{}", segment(job))).await?)
            }
            _ => None,
        };
        // The last minute that is over may not be there yet.
        let usage = match self.output {
            Format::Table | Format::Wide => {
                let path = format!("environments/{}/usage?since=3m", segment(&self.name));
                client.get::<UsageSeries>(&path).await?.points.last().map(top::line).unwrap_or_default()
            }
            _ => String::new(),
        };
        show(self.output, &environment, || render(&environment, job.as_ref(), &usage, Timestamp::now()))
    }
}

/// An environment for people, with the steps of its job.
pub(super) fn render(e: &Environment, job: Option<&Job>, usage: &str, now: Timestamp) -> String {
    let mut lines = vec![
        ("Name", e.name.to_string()),
        ("Phase", format!("{:?}", e.phase)),
        ("Message", e.message.clone()),
        ("Template", template(e)),
        ("Pods", format!("{} of {} ready", e.pods.ready, e.pods.total)),
        ("Usage", usage.to_owned()),
        ("Server", e.server.clone()),
        ("Kubernetes", e.kubernetes_version.clone()),
        ("Owner", e.owner.clone()),
        ("Created", format!("{} ago", age(e.created_at, now))),
        ("Asleep", e.lifecycle.asleep_since.map(|at| format!("for {}", age(at, now))).unwrap_or_default()),
        ("Sleeps", e.lifecycle.sleeps_at.map(|at| coming(at, now)).unwrap_or_default()),
        ("Wakes", e.lifecycle.wakes_at.map(|at| coming(at, now)).unwrap_or_default()),
        ("Expires", e.lifecycle.expires_at.map(|at| coming(at, now)).unwrap_or_default()),
    ];
    for (name, value) in &e.parameters {
        lines
            .push(("Parameter", format!("{name}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))));
    }
    let mut text = String::new();
    for (name, value) in lines.iter().filter(|(_, value)| !value.is_empty()) {
        text.push_str(&format!("{:<12}{value}\n", format!("{name}:")));
    }
    for step in job.iter().flat_map(|job| &job.steps) {
        text.push_str(&format!(
            "  {:<10}{:<24}{}\n",
            format!("{:?}", step.state).to_lowercase(),
            step.name,
            step.message
        ));
    }
    text
}

/// `in 3h5m (2026-01-01T20:00:00Z)`.
fn coming(at: Timestamp, now: Timestamp) -> String {
    let second = Timestamp::from_second(at.as_second()).unwrap_or(at);
    format!("in {} ({second})", age(now, at))
}

/// `team-x 1.0.0 (1.1.0 is newer: vctl upgrade NAME --dry-run)`.
fn template(e: &Environment) -> String {
    let newer = e.newer_version.as_ref().map(|v| format!(" ({v} is newer: vctl upgrade {} --dry-run)", e.name));
    format!("{} {}{}", e.template, e.template_version, newer.unwrap_or_default())
}
