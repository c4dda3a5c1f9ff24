//! What is done to the informers while they run.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use vctl_tests::wait;

use crate::{
    program::Program,
    record::{self, Journal},
    soak::Soak,
    truth::Resource,
};

/// How long informers may take to catch up, on a machine that is busy with other things.
pub(crate) const CATCH_UP: Duration = Duration::from_mins(3);

/// One disturbance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Their connections break, history is compacted past what they know: they must list again.
    CutAndCompact,
    /// History is compacted while they watch: they must not notice.
    Compact,
    /// Their connections break: they must go on where they were.
    Cut,
    /// kill -9 of the server, and a start.
    Kill,
}

/// Faults one after the other, the one kill in the middle.
fn faults(length: Duration) -> Vec<Fault> {
    let count = usize::try_from(length.as_secs() / 15).unwrap_or_default().max(4);
    let turn = [Fault::CutAndCompact, Fault::Compact, Fault::Cut];
    let mut all: Vec<Fault> = (0..count).map(|number| turn[number % turn.len()]).collect();
    // Not in place of the first, which every informer must have seen.
    all[count / 2] = Fault::Kill;
    all
}

impl Soak<'_> {
    /// One fault after the other, evenly over the length.
    pub(crate) fn disturb(&mut self, length: Duration, check: impl Fn() -> Result<()>) -> Result<()> {
        wait::until("every informer has listed", CATCH_UP, || {
            let late: Vec<String> =
                self.journals().into_iter().filter(|j| j.records().is_empty()).map(|j| j.name).collect();
            if late.is_empty() { Ok(()) } else { Err(format!("not {late:?}")) }
        })?;
        let faults = faults(length);
        let begun = Instant::now();
        let step = length / u32::try_from(faults.len() + 1)?;
        for (number, fault) in (1_u32..).zip(faults) {
            self.until(begun + step * number, &check)?;
            let from = record::now();
            self.perform(fault).with_context(|| format!("{fault:?}"))?;
            self.disturbed.push((from, record::now()));
        }
        self.until(begun + length, &check)
    }

    /// Looks after everything until a time.
    fn until(&mut self, time: Instant, check: &impl Fn() -> Result<()>) -> Result<()> {
        loop {
            check()?;
            self.load.check()?;
            self.programs.iter_mut().try_for_each(Program::check)?;
            let left = time.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(Duration::from_millis(200)));
        }
    }

    fn perform(&mut self, fault: Fault) -> Result<()> {
        match fault {
            Fault::CutAndCompact => {
                let before: Vec<usize> = self.journals().iter().map(Journal::expired).collect();
                self.way.cut();
                self.written(100)?;
                self.compact()?;
                self.way.mend();
                let journals = self.journals();
                wait::until("every informer that was cut is told 410", CATCH_UP, || {
                    let late = journals.iter().zip(&before).filter(|(j, before)| j.expired() == **before);
                    let late: Vec<&str> = late.map(|(j, _)| j.name.as_str()).filter(|n| !n.contains("uncut")).collect();
                    if late.is_empty() { Ok(()) } else { Err(format!("not {late:?}")) }
                })
            }
            Fault::Compact => self.compact(),
            Fault::Cut => {
                self.way.cut();
                let done = self.written(50);
                self.way.mend();
                done
            }
            Fault::Kill => {
                self.outage.begins();
                let back = self.platform.kill_server().and_then(|()| self.platform.start_server());
                self.outage.ends();
                back
            }
        }
    }

    fn compact(&self) -> Result<()> {
        self.platform.vctl(&["compact", "soak"])?.ok().map(drop)
    }

    /// Waits until so many more objects of each resource were written.
    fn written(&self, more: u64) -> Result<()> {
        let before = Resource::ALL.map(|r| self.load.acknowledged(r));
        wait::until("writes go on", CATCH_UP, || {
            let now = Resource::ALL.map(|r| self.load.acknowledged(r));
            let enough = before.iter().zip(&now).all(|(before, now)| now - before >= more);
            if enough { Ok(()) } else { Err(format!("{before:?}, {now:?}")) }
        })
    }
}
