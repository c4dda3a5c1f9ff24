//! Taking samples and keeping them.

use std::collections::BTreeMap;

use vctl_store::{Expect, Write};

use super::{DayDoc, KEPT, Minute, MinuteDoc, PAGE, ROUND, Recent, Sample, State, Usage, day, minute};
use crate::{
    documents::{put, remove},
    error::Error,
    ports::Consumption,
};

/// Environments in one document of a minute.
const PART: usize = 2000;
/// Documents of environments that are written together.
const BATCH: usize = 50;
/// Documents that are looked at by one search for old ones, and minutes between two searches.
const SWEEP: usize = 100;
const SWEEP_EVERY: Minute = 10;

impl Usage {
    /// What is to be done when a minute is over: its samples are taken, and some environments have their turn. Nothing when none is over.
    pub(crate) async fn tick(&self) -> Result<(), Error> {
        let now = minute(self.clock.now());
        if now == self.lock().now {
            return Ok(());
        }
        self.load(now).await?;
        let used = self.planes.consumption().await?;
        let samples = self.lock().take(now, used);
        // What is in memory is kept in an hour at the latest, also when this fails.
        let noted = self.note(now.saturating_sub(1), samples).await;
        self.fold(now).await?;
        self.forget_minutes(now).await?;
        if now.is_multiple_of(SWEEP_EVERY) {
            self.sweep(now).await?;
        }
        noted
    }

    /// Reads what an earlier process has left; once.
    async fn load(&self, now: Minute) -> Result<(), Error> {
        if self.lock().loaded {
            return Ok(());
        }
        let (minutes, _) = self.documents.list::<MinuteDoc>().await?;
        let mut state = self.lock();
        for doc in minutes.into_iter().map(|stored| stored.value) {
            if doc.minute + KEPT >= now {
                for (name, (cpu, pages, requests)) in doc.samples {
                    let sample = Sample { minute: doc.minute, cpu, pages, requests };
                    state.recent.entry(name).or_default().samples.push(sample);
                }
            }
            state.minutes.insert(doc.name);
        }
        state.loaded = true;
        Ok(())
    }

    /// Writes the samples of a minute.
    async fn note(&self, minute: Minute, samples: Vec<(String, Sample)>) -> Result<(), Error> {
        let mut samples = samples.into_iter().peekable();
        let mut part = 0;
        while samples.peek().is_some() {
            let some = samples.by_ref().take(PART).map(|(name, s)| (name, (s.cpu, s.pages, s.requests)));
            let doc = MinuteDoc { name: format!("{minute:010}-{part:03}"), minute, samples: some.collect() };
            self.documents.transact(vec![put(&doc, Expect::Any)?]).await?;
            self.lock().minutes.insert(doc.name);
            part += 1;
        }
        Ok(())
    }

    /// Those whose turn it is get their samples in a document of their own.
    async fn fold(&self, now: Minute) -> Result<(), Error> {
        let turn: BTreeMap<String, Vec<Sample>> = {
            let state = self.lock();
            let due = state.recent.iter().filter(|(name, of)| turn(name) == now % ROUND && of.waiting().is_some());
            due.map(|(name, of)| (name.clone(), of.samples.clone())).collect()
        };
        let mut turn = turn.into_iter().peekable();
        while turn.peek().is_some() {
            let mut writes: Vec<Write> = Vec::new();
            let mut folded: Vec<(String, Minute)> = Vec::new();
            for (environment, mut recent) in turn.by_ref().take(BATCH) {
                // One that cannot be read would stop all others.
                let mut samples = self.of_document(&environment).await.unwrap_or_else(|error| {
                    tracing::error!(environment, %error, "its usage begins anew");
                    Vec::new()
                });
                day::merge(&mut samples, &mut recent);
                samples.retain(|s| s.minute + KEPT >= now);
                let Some(last) = samples.last().map(|s| s.minute) else { continue };
                let samples = day::to_text(&samples);
                folded.push((environment.clone(), last));
                writes.push(put(&DayDoc { environment, last, samples }, Expect::Any)?);
            }
            self.documents.transact(writes).await?;
            let mut state = self.lock();
            for (environment, last) in folded {
                if let Some(recent) = state.recent.get_mut(&environment) {
                    recent.folded = last;
                    // The newest stays: it says what the environment uses now.
                    recent.samples.retain(|s| s.minute >= last);
                }
            }
        }
        let idle = |of: &Recent| of.waiting().is_none() && of.samples.last().is_none_or(|s| s.minute + 1 < now);
        self.lock().recent.retain(|_, of| !idle(of));
        Ok(())
    }

    /// Removes minutes' documents whose samples are all in documents of their environments.
    async fn forget_minutes(&self, now: Minute) -> Result<(), Error> {
        let old: Vec<String> = {
            let state = self.lock();
            let waiting = state.recent.values().filter_map(Recent::waiting).min().unwrap_or(now);
            let end = format!("{:010}", waiting.min(now.saturating_sub(ROUND)));
            state.minutes.range(..end).cloned().collect()
        };
        if old.is_empty() {
            return Ok(());
        }
        self.documents.transact(old.iter().map(|name| remove::<MinuteDoc>(name, Expect::Any)).collect()).await?;
        let mut state = self.lock();
        state.minutes.retain(|name| !old.contains(name));
        Ok(())
    }

    /// Looks for documents of environments that have used nothing for a day, some at a time.
    async fn sweep(&self, now: Minute) -> Result<(), Error> {
        let after = self.lock().swept.take();
        let (docs, _, more) = self.documents.page::<DayDoc>(after.as_deref(), SWEEP).await?;
        let next = docs.last().filter(|_| more).map(|doc| doc.value.environment.clone());
        let old = docs.into_iter().filter(|doc| doc.value.last + KEPT < now);
        let old: Vec<Write> =
            old.map(|doc| remove::<DayDoc>(&doc.value.environment, Expect::Revision(doc.revision))).collect();
        if !old.is_empty() {
            self.documents.transact(old).await?;
        }
        self.lock().swept = next;
        Ok(())
    }
}

impl State {
    /// Makes samples of what is used now, and remembers them.
    fn take(&mut self, now: Minute, used: Vec<Consumption>) -> Vec<(String, Sample)> {
        self.now = now;
        let before = std::mem::take(&mut self.requests);
        let mut samples = Vec::new();
        for one in used {
            let known = before.get(&one.environment).copied().unwrap_or_default();
            let requests = if one.requests >= known { one.requests - known } else { one.requests };
            self.requests.insert(one.environment.clone(), one.requests);
            let sample = Sample {
                minute: now.saturating_sub(1),
                cpu: u32::try_from(one.cpu_nano_cores.div_ceil(1000)).unwrap_or(u32::MAX),
                pages: u32::try_from(one.memory_bytes.div_ceil(PAGE)).unwrap_or(u32::MAX),
                requests: u32::try_from(requests).unwrap_or(u32::MAX),
            };
            if sample.cpu > 0 || sample.pages > 0 || sample.requests > 0 {
                self.recent.entry(one.environment.clone()).or_default().samples.push(sample);
                samples.push((one.environment, sample));
            }
        }
        samples
    }
}

/// The minute of an hour in which an environment's samples are put into its document.
fn turn(environment: &str) -> Minute {
    environment.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into())) % ROUND
}
