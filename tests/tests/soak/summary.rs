//! What a soak prints.

use std::time::Duration;

use crate::{check::Findings, commands::Rounds};

/// After a disturbance, delivery is that of catching up for so long, in microseconds.
const CATCHING_UP: i64 = 5_000_000;

/// One informer.
#[derive(Debug)]
pub(crate) struct Line {
    name: String,
    findings: Findings,
    /// Median, 99th percentile and largest of the delivery while nothing was disturbed, in milliseconds.
    lag: Option<[f64; 3]>,
}

impl Line {
    pub(crate) fn new(name: &str, findings: &Findings, disturbed: &[(i64, i64)]) -> Self {
        let quiet =
            |at: i64| !disturbed.iter().any(|(from, until)| (from - 1_000_000..until + CATCHING_UP).contains(&at));
        let mut lags: Vec<i64> = findings.lags.iter().filter(|(at, _)| quiet(*at)).map(|(_, lag)| *lag).collect();
        lags.sort_unstable();
        let at = |share: usize| lags.get((lags.len() * share / 100).min(lags.len().saturating_sub(1)));
        let lag = match (at(50), at(99), lags.last()) {
            (Some(median), Some(p99), Some(most)) => Some([median, p99, most].map(|l| *l as f64 / 1000.0)),
            _ => None,
        };
        Self { name: name.to_owned(), findings: findings.clone(), lag }
    }
}

/// Prints all of it: a line of each informer that saw what it should, of so many.
#[expect(clippy::print_stdout, reason = "make soak shows it")]
pub(crate) fn print(
    lines: &[Line],
    informers: usize,
    writes: usize,
    unanswered: u64,
    took: Duration,
    objects: usize,
    commands: &[Rounds; 3],
) {
    let seconds = took.as_secs_f64();
    println!(
        "soak: {writes} writes in {seconds:.0} s ({:.0}/s), {unanswered} unanswered at the kill",
        writes as f64 / seconds
    );
    println!(
        "soak: {:<30} {:>8} {:>6} {:>8} {:>8} {:>9} {:>9} {:>9}",
        "informer", "events", "lists", "expired", "broken", "median ms", "p99 ms", "most ms"
    );
    for Line { name, findings, lag } in lines {
        let Findings { events, lists, expired, failed, .. } = findings;
        let [median, p99, most] = lag.map_or_else(Default::default, |lag| lag.map(|l| format!("{l:.1}")));
        println!("soak: {name:<30} {events:>8} {lists:>6} {expired:>8} {failed:>8} {median:>9} {p99:>9} {most:>9}");
    }
    for (name, rounds) in ["kubectl wait and rollout", "helm --wait", "kubectl apply --prune"].iter().zip(commands) {
        println!("soak: {name}: {} rounds, {} more done again because of the kill", rounds.done, rounds.again);
    }
    println!(
        "soak: every cache is the final list of {objects} objects; {} of {informers} informers: nothing missed, doubled or out of order",
        lines.len()
    );
}
