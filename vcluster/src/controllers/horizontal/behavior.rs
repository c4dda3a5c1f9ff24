//! What becomes of a proposal: limits, speed, and the memory of earlier ones; pure.
//! Source of rules: `normalizeDesiredReplicas` and what it calls in `pkg/controller/podautoscaler/horizontal.go`.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::controllers::object::{int, list, text};

/// For how long the highest recommendation holds, unless `scaleDown.stabilizationWindowSeconds` says.
const DOWNSCALE_WINDOW: i64 = 300;
/// Without behavior: at most twice as many replicas at a time, but four are always allowed.
const UP_FACTOR: i64 = 2;
const UP_MINIMUM: i64 = 4;

/// What is remembered of one autoscaler; lost when the process ends, as upstream.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::controllers) struct History {
    recommendations: Vec<(i64, Timestamp)>,
    /// Changes of the number of replicas: up is positive.
    changes: Vec<(i64, Timestamp)>,
    /// Selector of the target's pods, by which autoscalers of the same pods are found.
    pub(in crate::controllers) selector: String,
}

/// Numbers that a proposal is held against.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) current: i64,
    pub(super) min: i64,
    pub(super) max: i64,
}

/// The number in the end, with reason and message of the conditions AbleToScale and ScalingLimited.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) replicas: i64,
    pub(super) able: (&'static str, &'static str),
    pub(super) limited: bool,
    pub(super) limit: (&'static str, &'static str),
}

const READY: (&str, &str) = ("ReadyForNewScale", "recommended size matches current size");
const DOWN_STABILIZED: (&str, &str) = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const UP_STABILIZED: (&str, &str) = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const WITHIN: (&str, &str) = ("DesiredWithinRange", "the desired count is within the acceptable range");
const TOO_MANY: (&str, &str) = ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: (&str, &str) = ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const UP_LIMIT: (&str, &str) =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const DOWN_LIMIT: (&str, &str) =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");

fn before(now: Timestamp, seconds: i64) -> Timestamp {
    now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN)
}

impl History {
    /// The number of replicas when the autoscaler was first seen is its first recommendation.
    pub(super) fn begin(&mut self, replicas: i64, now: Timestamp) {
        if self.recommendations.is_empty() {
            self.recommendations.push((replicas, now));
        }
    }

    /// Remembers that the number of replicas was changed. Only policies need to know.
    pub(super) fn changed(&mut self, behavior: &Value, from: i64, to: i64, now: Timestamp) {
        if behavior.is_object() {
            let periods = |of: &str| list(behavior, of).iter().filter_map(|p| int(p, "/periodSeconds")).max();
            let longest = periods("/scaleUp/policies").max(periods("/scaleDown/policies")).unwrap_or_default();
            let cutoff = before(now, longest);
            self.changes.retain(|(_, at)| *at >= cutoff);
            self.changes.push((to - from, now));
        }
    }

    /// Brings a proposal within what is allowed.
    pub(super) fn normalize(&mut self, behavior: &Value, bounds: Bounds, proposed: i64, now: Timestamp) -> Verdict {
        let (stable, able, allowed) = if behavior.is_object() {
            let (stable, able) = self.stabilize_both(behavior, bounds.current, proposed, now);
            (stable, able, self.limit_rate(behavior, bounds, stable, now))
        } else {
            let stable = self.stabilize(proposed, now);
            (stable, DOWN_STABILIZED, limit(bounds, stable))
        };
        let (replicas, limit) = allowed;
        Verdict { replicas, able: if stable == proposed { READY } else { able }, limited: replicas != stable, limit }
    }

    /// The highest recommendation of the last minutes.
    fn stabilize(&mut self, proposed: i64, now: Timestamp) -> i64 {
        let cutoff = before(now, DOWNSCALE_WINDOW);
        self.recommendations.retain(|(_, at)| *at >= cutoff);
        let highest = self.recommendations.iter().map(|(n, _)| *n).max().unwrap_or(proposed).max(proposed);
        self.recommendations.push((proposed, now));
        highest
    }

    /// Within the lowest and the highest of recent recommendations, each over the window of its direction.
    fn stabilize_both(
        &mut self,
        behavior: &Value,
        current: i64,
        proposed: i64,
        now: Timestamp,
    ) -> (i64, (&'static str, &'static str)) {
        let window = |of: &str, default| before(now, int(behavior, of).unwrap_or(default));
        let up = window("/scaleUp/stabilizationWindowSeconds", 0);
        let down = window("/scaleDown/stabilizationWindowSeconds", DOWNSCALE_WINDOW);
        let since =
            |cutoff: Timestamp| self.recommendations.iter().filter(move |(_, at)| *at > cutoff).map(|(n, _)| *n);
        let lowest = since(up).min().map_or(proposed, |n| n.min(proposed));
        let highest = since(down).max().map_or(proposed, |n| n.max(proposed));
        let stable = current.max(lowest).min(highest);
        self.recommendations.retain(|(_, at)| *at >= up || *at >= down);
        self.recommendations.push((proposed, now));
        (stable, if proposed >= current { UP_STABILIZED } else { DOWN_STABILIZED })
    }

    /// Replicas at the beginning of a policy's period.
    fn at_start(&self, current: i64, policy: &Value, now: Timestamp) -> i64 {
        let cutoff = before(now, int(policy, "/periodSeconds").unwrap_or_default());
        current - self.changes.iter().filter(|(_, at)| *at > cutoff).map(|(change, _)| change).sum::<i64>()
    }

    fn limit_rate(
        &self,
        behavior: &Value,
        bounds: Bounds,
        stable: i64,
        now: Timestamp,
    ) -> (i64, (&'static str, &'static str)) {
        let Bounds { current, min, max } = bounds;
        if stable > current {
            let fastest = self.up_limit(&behavior["scaleUp"], current, now).max(current);
            let (most, why) = if max > fastest { (fastest, UP_LIMIT) } else { (max, TOO_MANY) };
            if stable > most {
                return (most, why);
            }
        } else if stable < current {
            let fastest = self.down_limit(&behavior["scaleDown"], current, now).min(current);
            let (least, why) = if min < fastest { (fastest, DOWN_LIMIT) } else { (min, TOO_FEW) };
            if stable < least {
                return (least, why);
            }
        }
        (stable, WITHIN)
    }

    fn up_limit(&self, rules: &Value, current: i64, now: Timestamp) -> i64 {
        let allowed = list(rules, "/policies").iter().map(|policy| {
            let (start, value) = (self.at_start(current, policy, now), int(policy, "/value").unwrap_or_default());
            match text(policy, "/type") {
                "Pods" => start + value,
                // Rounded up: else a small number would never grow.
                _ => (start as f64 * (1.0 + value as f64 / 100.0)).ceil() as i64,
            }
        });
        match text(rules, "/selectPolicy") {
            "Disabled" => current,
            "Min" => allowed.min().unwrap_or(i64::MAX),
            _ => allowed.max().unwrap_or(i64::MIN),
        }
    }

    fn down_limit(&self, rules: &Value, current: i64, now: Timestamp) -> i64 {
        let allowed = list(rules, "/policies").iter().map(|policy| {
            let (start, value) = (self.at_start(current, policy, now), int(policy, "/value").unwrap_or_default());
            match text(policy, "/type") {
                "Pods" => start - value,
                _ => (start as f64 * (1.0 - value as f64 / 100.0)) as i64,
            }
        });
        match text(rules, "/selectPolicy") {
            "Disabled" => current,
            // The smallest change leaves the most replicas.
            "Min" => allowed.max().unwrap_or(i64::MIN),
            _ => allowed.min().unwrap_or(i64::MAX),
        }
    }
}

/// Without behavior.
fn limit(bounds: Bounds, stable: i64) -> (i64, (&'static str, &'static str)) {
    let fastest = (UP_FACTOR * bounds.current).max(UP_MINIMUM);
    let (most, why) = if bounds.max > fastest { (fastest, UP_LIMIT) } else { (bounds.max, TOO_MANY) };
    if stable < bounds.min {
        (bounds.min, TOO_FEW)
    } else if stable > most {
        (most, why)
    } else {
        (stable, WITHIN)
    }
}

#[cfg(test)]
mod tests;
