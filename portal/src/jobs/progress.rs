//! What becomes of a job's document as the job goes on: nothing is written here.

use jiff::Timestamp;
use vctl_api::rest::{JobState, LogLine};

use crate::documents::JobDoc;

/// Lines of log that are kept.
const LOG_LINES: usize = 200;

/// A step begins, or goes on.
pub(super) fn start(doc: &mut JobDoc, now: Timestamp, step: usize) {
    if let Some(step) = doc.steps.get_mut(step) {
        step.state = JobState::Running;
        step.started_at.get_or_insert(now);
        step.message.clear();
    }
}

/// The news of a step.
pub(super) fn log(doc: &mut JobDoc, at: Timestamp, step: usize, message: &str) {
    let Some(step) = doc.steps.get_mut(step) else { return };
    message.clone_into(&mut step.message);
    doc.log.push(LogLine { at, step: step.name.clone(), message: message.to_owned() });
    let surplus = doc.log.len().saturating_sub(LOG_LINES);
    doc.log.drain(..surplus);
}

/// A step is done, and the next one begins.
pub(super) fn done(doc: &mut JobDoc, now: Timestamp, step: usize, message: &str) {
    log(doc, now, step, message);
    if let Some(step) = doc.steps.get_mut(step) {
        step.state = JobState::Succeeded;
        step.finished_at = Some(now);
    }
    if doc.steps.get(step + 1).is_some_and(|next| next.state != JobState::Succeeded) {
        start(doc, now, step + 1);
    }
}

/// The job is given back, to be tried again at `at`.
pub(super) fn give_back(doc: &mut JobDoc, now: Timestamp, at: Timestamp, why: &str) {
    let running = doc.steps.iter().position(|s| s.state == JobState::Running).unwrap_or(0);
    let seconds = at.duration_since(now).as_secs().max(1);
    log(doc, now, running, &format!("{why}; trying again in {seconds} s"));
    if let Some(step) = doc.steps.get_mut(running) {
        step.state = JobState::Pending;
    }
    doc.state = JobState::Pending;
    doc.failures += 1;
    doc.not_before = Some(at);
    doc.lease = None;
}

/// The job has ended, and with it the steps that it was at; those to come never will be.
pub(super) fn close(doc: &mut JobDoc, now: Timestamp, state: JobState, error: &str) {
    for step in &mut doc.steps {
        if step.state == JobState::Running {
            step.state = state;
            step.finished_at = Some(now);
            if state == JobState::Failed {
                error.clone_into(&mut step.message);
            }
        } else if step.state == JobState::Pending && state != JobState::Succeeded {
            step.state = JobState::Cancelled;
        }
    }
    doc.state = state;
    doc.finished_at = Some(now);
    doc.lease = None;
    error.clone_into(&mut doc.error);
}
