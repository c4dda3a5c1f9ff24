//! What environments use: one sample of each in every minute, for a day, across restarts.
//!
//! A minute is one document with the samples of all environments that used something in it ([`MinuteDoc`]), so that a minute is one write, and
//! costs nothing when nobody uses anything. Once in an hour the samples of an environment go into a document of its own ([`DayDoc`]), in
//! [`day`]'s compact form; environments have different minutes for that. A minute's document is removed when all have had their turn. In
//! memory there are the samples of the last hour, 16 bytes each. A stop of the server loses the minute that it falls into.
//!
//! Documents are found by the name of an environment: of what one of the same name used before it, its time of creation leaves nothing.

pub(crate) mod day;
mod keep;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vctl_api::rest::{CurrentUsage, UsagePoint, UsageSeries};
use vctl_runtime::{clock::Clock, tasks::Tasks};

use crate::{
    access::policy::Permit,
    documents::{Document, Documents, EnvironmentDoc},
    environments::Environments,
    error::Error,
    ports::ControlPlanes,
};

/// Minutes since 1970.
pub(crate) type Minute = u32;

/// How long samples are kept, in minutes.
pub(crate) const KEPT: Minute = 24 * 60;
/// Minutes in which every environment's samples go into its own document once.
const ROUND: Minute = 60;

/// What an environment used in a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) minute: Minute,
    /// Processors, in millionths.
    pub(crate) cpu: u32,
    /// Memory in pages of 4 KiB.
    pub(crate) pages: u32,
    pub(crate) requests: u32,
}

const PAGE: u64 = 4096;

/// The samples of one minute: by environment, processors, pages and requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MinuteDoc {
    /// The minute with leading zeros, and the number of this part of it.
    name: String,
    minute: Minute,
    samples: BTreeMap<String, (u32, u32, u32)>,
}

impl Document for MinuteDoc {
    const RESOURCE: &'static str = "usageminutes.vctl.dev";
    fn name(&self) -> &str {
        &self.name
    }
}

/// The samples of an environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DayDoc {
    environment: String,
    /// Minute of the last one.
    last: Minute,
    /// [`day::encode`], in base64.
    samples: String,
}

impl Document for DayDoc {
    const RESOURCE: &'static str = "usagedays.vctl.dev";
    fn name(&self) -> &str {
        &self.environment
    }
}

/// The samples. Cheap to clone; clones share everything.
#[derive(Clone)]
pub(crate) struct Usage {
    documents: Documents,
    planes: Arc<dyn ControlPlanes>,
    clock: Clock,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// What was kept in minutes' documents before this process has been read.
    loaded: bool,
    /// Minutes up to this one are over.
    now: Minute,
    /// By environment.
    recent: HashMap<String, Recent>,
    /// Names of the minutes' documents there are.
    minutes: BTreeSet<String>,
    /// Requests of each environment up to now.
    requests: HashMap<String, u64>,
    /// Where the search for documents of environments that use nothing any more goes on.
    swept: Option<String>,
}

/// The newest samples of an environment.
#[derive(Debug, Default)]
struct Recent {
    /// By time: those that are in no [`DayDoc`] yet, and the last one.
    samples: Vec<Sample>,
    /// Up to this minute they are in its [`DayDoc`].
    folded: Minute,
}

impl Recent {
    /// The first minute that is in no [`DayDoc`].
    fn waiting(&self) -> Option<Minute> {
        self.samples.iter().map(|s| s.minute).find(|m| *m > self.folded)
    }
}

fn minute(at: Timestamp) -> Minute {
    Minute::try_from(at.as_second().div_euclid(60)).unwrap_or_default()
}

fn time(minute: Minute) -> Timestamp {
    Timestamp::from_second(i64::from(minute) * 60).unwrap_or_default()
}

impl Usage {
    pub(crate) fn new(documents: Documents, planes: Arc<dyn ControlPlanes>, clock: Clock) -> Self {
        Self { documents, planes, clock, state: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a sample whenever a minute is over.
    pub(crate) fn start(&self, tasks: &Tasks) {
        let this = self.clone();
        tasks.spawn_until_stopped("usage samples", async move {
            loop {
                let into = this.clock.now().as_millisecond().rem_euclid(60_000);
                tokio::time::sleep(Duration::from_millis(u64::try_from(60_000 - into).unwrap_or(60_000))).await;
                if let Err(error) = this.tick().await {
                    tracing::warn!(%error, "what environments use cannot be kept; trying again in a minute");
                }
            }
        });
    }

    /// What an environment used from a moment on, in steps of so many minutes. Whole steps only: the first one may begin before it.
    pub(crate) async fn series(
        &self,
        environment: &EnvironmentDoc,
        since: Timestamp,
        until: Timestamp,
        step: Minute,
    ) -> Result<UsageSeries, Error> {
        let name = environment.name.as_str();
        let step = step.max(1);
        let now = self.clock.now();
        let until = minute(until.min(now).checked_add(jiff::SignedDuration::from_secs(59)).unwrap_or(now));
        let oldest = (minute(now) + 1).saturating_sub(KEPT);
        let since = minute(since).clamp(oldest.min(until), until);
        let since = since - since % step;
        // Those in memory first: they may go into the document at any moment, but never out of it.
        let mut recent = self.lock().recent.get(name).map(|r| r.samples.clone()).unwrap_or_default();
        let mut samples = self.of_document(name).await?;
        day::merge(&mut samples, &mut recent);
        let born = minute(environment.created_at);
        samples.retain(|s| s.minute >= since.max(born).max(oldest) && s.minute < until);
        Ok(UsageSeries {
            environment: name.to_owned(),
            since: time(since),
            until: time(until.next_multiple_of(step)),
            step_seconds: u64::from(step) * 60,
            points: points(&samples, step),
        })
    }

    /// The last minute of each environment that somebody may see; those that used nothing in it are left out.
    pub(crate) async fn current(
        &self,
        permit: &Permit,
        environments: &Environments,
    ) -> Result<Vec<CurrentUsage>, Error> {
        let mut seen = environments.seen_by_name(permit).await?;
        let state = self.lock();
        let last = |name: &str, born: Timestamp| {
            let newest = state.recent.get(name)?.samples.last()?;
            let counts = newest.minute + 1 >= state.now && newest.minute >= minute(born);
            counts.then(|| points(&[*newest], 1).pop()).flatten()
        };
        seen.retain(|name, _| state.recent.contains_key(name));
        let of = |(name, doc): (String, EnvironmentDoc)| {
            last(&name, doc.created_at).map(|point| CurrentUsage { environment: name, point })
        };
        Ok(seen.into_iter().filter_map(of).collect())
    }

    async fn of_document(&self, name: &str) -> Result<Vec<Sample>, Error> {
        match self.documents.get::<DayDoc>(name).await? {
            Some(stored) => stored.value.samples(),
            None => Ok(Vec::new()),
        }
    }
}

impl DayDoc {
    fn samples(&self) -> Result<Vec<Sample>, Error> {
        let broken = || Error::Internal(format!("the usage of environment {:?} cannot be read", self.environment));
        day::from_text(&self.samples).ok_or_else(broken)
    }
}

/// Samples by time, put together by steps: the mean of processors, the most of memory, all requests.
fn points(samples: &[Sample], step: Minute) -> Vec<UsagePoint> {
    let of_step = |samples: &[Sample]| {
        let first = samples.first()?;
        let cpu: u64 = samples.iter().map(|s| u64::from(s.cpu)).sum();
        let pages = samples.iter().map(|s| u64::from(s.pages)).max().unwrap_or_default();
        Some(UsagePoint {
            at: time(first.minute - first.minute % step),
            cpu_nano_cores: cpu * 1000 / samples.len() as u64,
            memory_bytes: pages * PAGE,
            requests: samples.iter().map(|s| u64::from(s.requests)).sum(),
        })
    };
    samples.chunk_by(|a, b| a.minute / step == b.minute / step).filter_map(of_step).collect()
}
