//! How many replicas measurements ask for; pure. Source of rules: `pkg/controller/podautoscaler/replica_calculator.go` and `metrics`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use vctl_machinery::quantity::thousandths;

use crate::controllers::{
    object::{condition, is_deleting, list, name, text, time},
    pod,
};

/// How long after its start a pod's use of processors counts only if the pod is ready and has been measured since.
const CPU_INITIALIZATION: SignedDuration = SignedDuration::from_mins(5);
/// A pod that turned unready so soon after its start has never been ready.
const INITIAL_READINESS: SignedDuration = SignedDuration::from_secs(30);

/// What one pod uses, in thousandths.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    pub(super) value: i64,
    pub(super) at: Timestamp,
    pub(super) window: SignedDuration,
}

/// Samples by name of pod.
pub(super) type Samples = BTreeMap<String, Sample>;

/// How far use may be from its target before anything changes, as parts of one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tolerance {
    pub(super) up: f64,
    pub(super) down: f64,
}

impl Tolerance {
    fn covers(self, ratio: f64) -> bool {
        (1.0 - self.down..=1.0 + self.up).contains(&ratio)
    }
}

/// What is compared.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    /// Percent of what the pods request.
    Utilization(i64),
    /// Thousandths for each pod.
    Average(i64),
}

/// What is known when replicas are calculated.
pub(super) struct Situation<'a> {
    pub(super) current: i64,
    pub(super) resource: &'a str,
    /// Only this container counts; empty for all.
    pub(super) container: &'a str,
    pub(super) pods: &'a [Value],
    pub(super) tolerance: Tolerance,
    pub(super) now: Timestamp,
}

/// The number that one metric asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) replicas: i64,
    /// Percent of what is requested, where that is the target.
    pub(super) utilization: Option<i64>,
    /// Mean of the pods that count, in thousandths.
    pub(super) average: i64,
}

/// What can be said of each pod.
#[derive(Debug, Default, PartialEq, Eq)]
struct Groups {
    ready: usize,
    unready: BTreeSet<String>,
    missing: BTreeSet<String>,
    ignored: BTreeSet<String>,
}

impl Situation<'_> {
    fn groups(&self, samples: &Samples) -> Groups {
        let mut groups = Groups::default();
        for pod in self.pods {
            let name = name(pod).to_owned();
            if is_deleting(pod) || pod::phase(pod) == "Failed" {
                groups.ignored.insert(name);
            } else if pod::phase(pod) == "Pending" {
                groups.unready.insert(name);
            } else {
                match samples.get(&name) {
                    None => drop(groups.missing.insert(name)),
                    Some(sample) if self.resource == "cpu" && self.is_unready(pod, sample) => {
                        groups.unready.insert(name);
                    }
                    Some(_) => groups.ready += 1,
                }
            }
        }
        groups
    }

    /// Whether what a pod uses of processors says nothing yet.
    fn is_unready(&self, pod: &Value, sample: &Sample) -> bool {
        let (Some(ready), Some(started)) = (condition(pod, "Ready"), time(pod, "/status/startTime")) else {
            return true;
        };
        let turned = time(ready, "/lastTransitionTime").unwrap_or(Timestamp::UNIX_EPOCH);
        let after = |at: Timestamp, span: SignedDuration| at.checked_add(span).unwrap_or(Timestamp::MAX);
        let is_false = text(ready, "/status") == "False";
        if after(started, CPU_INITIALIZATION) > self.now {
            is_false || sample.at < after(turned, sample.window)
        } else {
            is_false && after(started, INITIAL_READINESS) > turned
        }
    }

    /// What each pod requests, in thousandths; with utilization as target every container must say.
    fn requests(&self) -> Result<HashMap<String, i64>, String> {
        self.pods.iter().map(|pod| Ok((name(pod).to_owned(), self.request(pod)?))).collect()
    }

    fn request(&self, pod: &Value) -> Result<i64, String> {
        let of = |at: &Value| at["resources"]["requests"].get(self.resource).and_then(thousandths);
        if self.container.is_empty()
            && let Some(whole) = of(&pod["spec"])
        {
            return Ok(whole);
        }
        let sidecars = list(pod, "/spec/initContainers").iter().filter(|c| text(c, "/restartPolicy") == "Always");
        let mut sum = 0;
        for container in list(pod, "/spec/containers").iter().chain(sidecars) {
            let container_name = text(container, "/name");
            if !self.container.is_empty() && self.container != container_name {
                continue;
            }
            sum += of(container).ok_or_else(|| {
                format!("missing request for {} in container {container_name} of Pod {}", self.resource, name(pod))
            })?;
        }
        Ok(sum)
    }

    /// The number of replicas that bring use to its target.
    pub(super) fn propose(&self, target: Target, mut samples: Samples) -> Result<Proposal, String> {
        if self.pods.is_empty() {
            return Err("no pods returned by selector while calculating replica count".to_owned());
        }
        let groups = self.groups(&samples);
        samples.retain(|name, _| !groups.ignored.contains(name) && !groups.unready.contains(name));
        if samples.is_empty() {
            return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
        }
        let requests = match target {
            Target::Utilization(_) => self.requests()?,
            Target::Average(_) => HashMap::new(),
        };
        let values = samples.into_iter().map(|(name, sample)| (name, sample.value)).collect();
        let measured = Usage::of(target, &values, &requests)?;
        let replicas = self.replicas(target, &groups, values, &requests, measured.ratio)?;
        Ok(Proposal { replicas, utilization: measured.utilization, average: measured.average })
    }

    fn replicas(
        &self,
        target: Target,
        groups: &Groups,
        mut values: BTreeMap<String, i64>,
        requests: &HashMap<String, i64>,
        ratio: f64,
    ) -> Result<i64, String> {
        let counts_unready = !groups.unready.is_empty() && ratio > 1.0;
        if !counts_unready && groups.missing.is_empty() {
            let within = self.tolerance.covers(ratio);
            return Ok(if within { self.current } else { ceil(ratio * groups.ready as f64) });
        }
        // What is not known is taken to be what speaks against the change.
        for pod in &groups.missing {
            let value = match target {
                Target::Utilization(percent) if ratio < 1.0 => {
                    requests.get(pod).copied().unwrap_or_default() * percent.max(100) / 100
                }
                Target::Average(target) if ratio < 1.0 => target,
                Target::Utilization(_) if ratio <= 1.0 => continue,
                _ => 0,
            };
            values.insert(pod.clone(), value);
        }
        if counts_unready {
            values.extend(groups.unready.iter().map(|pod| (pod.clone(), 0)));
        }
        let again = Usage::of(target, &values, requests)?.ratio;
        if self.tolerance.covers(again) || (ratio < 1.0 && again > 1.0) || (ratio > 1.0 && again < 1.0) {
            return Ok(self.current);
        }
        let replicas = ceil(again * values.len() as f64);
        let turns = (again < 1.0 && replicas > self.current) || (again > 1.0 && replicas < self.current);
        Ok(if turns { self.current } else { replicas })
    }
}

/// What pods use together, compared with the target.
struct Usage {
    ratio: f64,
    utilization: Option<i64>,
    average: i64,
}

impl Usage {
    fn of(target: Target, values: &BTreeMap<String, i64>, requests: &HashMap<String, i64>) -> Result<Self, String> {
        match target {
            Target::Average(target) => {
                let average = values.values().sum::<i64>() / i64::try_from(values.len().max(1)).unwrap_or(i64::MAX);
                Ok(Self { ratio: average as f64 / target as f64, utilization: None, average })
            }
            Target::Utilization(target) => {
                let (mut used, mut requested, mut count) = (0_i64, 0_i64, 0_i64);
                for (pod, value) in values {
                    if let Some(request) = requests.get(pod) {
                        used += value;
                        requested += request;
                        count += 1;
                    }
                }
                if requested == 0 {
                    return Err("no metrics returned matched known pods".to_owned());
                }
                let utilization = used * 100 / requested;
                let ratio = utilization as f64 / target as f64;
                Ok(Self { ratio, utilization: Some(utilization), average: used / count })
            }
        }
    }
}

fn ceil(replicas: f64) -> i64 {
    replicas.ceil().min(f64::from(i32::MAX)) as i64
}

/// What `PodMetrics` say of a resource: of all containers together, or of one.
pub(super) fn samples(metrics: &[Value], resource: &str, container: &str) -> Result<Samples, String> {
    let mut samples = Samples::new();
    for metric in metrics {
        let containers = list(metric, "/containers");
        let used = |c: &Value| c["usage"].get(resource).and_then(thousandths);
        let value = if container.is_empty() {
            containers.iter().map(used).sum::<Option<i64>>().filter(|_| !containers.is_empty())
        } else {
            let found = containers.iter().find(|c| text(c, "/name") == container).ok_or_else(|| {
                let (namespace, pod) = (text(metric, "/metadata/namespace"), name(metric));
                format!(
                    "failed to get container metrics: container {container} not present in metrics for pod {namespace}/{pod}"
                )
            })?;
            used(found)
        };
        let at = time(metric, "/timestamp").unwrap_or(Timestamp::UNIX_EPOCH);
        let window = text(metric, "/window").parse().unwrap_or(SignedDuration::ZERO);
        if let Some(value) = value {
            samples.insert(name(metric).to_owned(), Sample { value, at, window });
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests;
