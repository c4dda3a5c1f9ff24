//! Figures from samples.

use std::time::Duration;

/// Measured durations.
#[derive(Debug, Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    /// Adds one.
    pub(crate) fn push(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds all of another.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The value that a share `q` (0..=1) of the samples does not exceed (nearest rank).
    pub(crate) fn quantile(&self, q: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        rank(&sorted, q)
    }

    /// Median, p95, largest, in milliseconds, for a report.
    pub(crate) fn report(&self) -> String {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let ms = |q| rank(&sorted, q).as_secs_f64() * 1e3;
        format!("median {:.1} ms, p95 {:.1} ms, max {:.1} ms (n={})", ms(0.5), ms(0.95), ms(1.0), self.0.len())
    }
}

fn rank(sorted: &[Duration], q: f64) -> Duration {
    let rank = ((sorted.len() as f64) * q).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// The median of figures.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

/// A row of figures for a report: the median, then all of them as they came.
pub(crate) fn row(figures: &[f64]) -> String {
    let all: Vec<String> = figures.iter().map(|f| format!("{f:.0}")).collect();
    format!("median {:.0} of [{}]", median(figures.to_vec()), all.join(", "))
}

/// Cores and memory of this machine.
pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| text.lines().next()?.split_whitespace().nth(1)?.parse::<u64>().ok())
        .unwrap_or_default();
    format!("{cores} cores, {} GiB", memory >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_rank() {
        let mut samples = Samples::default();
        for ms in [5, 1, 4, 2, 3] {
            samples.push(Duration::from_millis(ms));
        }
        assert_eq!(samples.quantile(0.5), Duration::from_millis(3));
        assert_eq!(samples.quantile(1.0), Duration::from_millis(5));
        assert_eq!(samples.quantile(0.01), Duration::from_millis(1));
    }
}
