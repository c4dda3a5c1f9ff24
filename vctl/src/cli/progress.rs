//! A job's steps on standard error as they happen.

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use vctl_api::rest::{Job, JobState, Step};

use super::{
    client::{Client, segment},
    error::CliError,
    output::visible,
};

/// How often the time of the running step is drawn anew.
const TICK: Duration = Duration::from_millis(100);

/// Follows a job to its end, drawing its steps.
///
/// # Errors
/// [`CliError::Failed`] when the job fails, with its error.
pub(crate) async fn follow(client: &Client, id: &str) -> Result<Job, CliError> {
    let mut screen = Screen::new(io::stderr().is_terminal());
    let mut job: Job = client.get(&format!("jobs/{}", segment(id))).await?;
    loop {
        screen.draw(&job)?;
        if matches!(job.state, JobState::Succeeded | JobState::Failed | JobState::Cancelled) {
            screen.end()?;
            break;
        }
        let path = format!("jobs/{}?changedAfter={}", segment(id), job.revision);
        let mut next = std::pin::pin!(client.get::<Job>(&path));
        loop {
            tokio::select! {
                changed = &mut next => {
                    job = changed?;
                    break;
                }
                () = tokio::time::sleep(TICK), if screen.terminal => screen.draw(&job)?,
            }
        }
    }
    match job.state {
        JobState::Failed => Err(CliError::Failed(job.error)),
        JobState::Cancelled => Err(CliError::Failed(format!(
            "the job was cancelled: somebody has asked for something else, or for this to stop; see `vctl get {}`",
            job.environment.as_str()
        ))),
        _ => Ok(job),
    }
}

/// What has been drawn. On a terminal the last line is drawn over; elsewhere every step is one line, when it ends.
struct Screen {
    terminal: bool,
    /// Steps whose last line has been written.
    finished: usize,
    begun: Instant,
    /// Drawing over the current line.
    open: bool,
}

impl Screen {
    fn new(terminal: bool) -> Self {
        Self { terminal, finished: 0, begun: Instant::now(), open: false }
    }

    fn draw(&mut self, job: &Job) -> io::Result<()> {
        let mut text = String::new();
        while let Some(step) = job.steps.get(self.finished).filter(|s| ended(s.state)) {
            if step.started_at.is_some() {
                self.clear(&mut text);
                text.push_str(&format!(
                    "{} {:<24}{:>8}  {}\n",
                    mark(step.state),
                    step.name,
                    took(step),
                    first_line(&step.message)
                ));
            }
            self.finished += 1;
        }
        if self.terminal
            && let Some(step) = job.steps.get(self.finished).filter(|s| s.started_at.is_some())
        {
            self.clear(&mut text);
            let elapsed = format!("{:.1}s", self.begun.elapsed().as_secs_f64());
            let line = format!("… {:<24}{elapsed:>8}  {}", step.name, first_line(&step.message));
            text.push_str(&line.chars().take(columns()).collect::<String>());
            self.open = true;
        }
        write(&text)
    }

    fn end(&mut self) -> io::Result<()> {
        let mut text = String::new();
        self.clear(&mut text);
        write(&text)
    }

    fn clear(&mut self, text: &mut String) {
        if std::mem::take(&mut self.open) {
            text.push_str("\r\x1b[K");
        }
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut err = io::stderr().lock();
    err.write_all(text.as_bytes())?;
    err.flush()
}

fn columns() -> usize {
    vctl_tui::terminal_columns().map_or(80, usize::from)
}

fn ended(state: JobState) -> bool {
    matches!(state, JobState::Succeeded | JobState::Failed | JobState::Cancelled)
}

fn mark(state: JobState) -> &'static str {
    match state {
        JobState::Succeeded => "✓",
        JobState::Failed => "✗",
        _ => "-",
    }
}

/// Seconds a step took, by the server's clock.
fn took(step: &Step) -> String {
    match (step.started_at, step.finished_at) {
        (Some(start), Some(end)) => format!("{:.1}s", end.duration_since(start).as_secs_f64()),
        _ => String::new(),
    }
}

fn first_line(text: &str) -> Cow<'_, str> {
    visible(text.lines().next().unwrap_or_default())
}
