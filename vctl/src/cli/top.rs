//! `vctl top`.

use clap::Args;
use clap_complete::ArgValueCandidates;
use vctl_api::rest::{CurrentUsage, Page, Period, UsagePoint, UsageSeries};

use super::{
    Client, Global,
    client::segment,
    completion,
    error::CliError,
    output::{Format, bytes, show, table},
};

/// Arguments of `vctl top`.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Environment; without one, the last minute of all of them
    #[arg(add = ArgValueCandidates::new(completion::environments))]
    name: Option<String>,
    /// Begin so long ago, at most 24h
    #[arg(long, value_name = "TIME", default_value = "1h", requires = "name")]
    since: Period,
    /// Length of a step: whole minutes
    #[arg(long, value_name = "TIME", default_value = "5m", requires = "name")]
    step: Period,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Top {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        let Some(name) = self.name else {
            let mut page: Page<CurrentUsage> = client.get("usage").await?;
            page.items.sort_by_key(|one| std::cmp::Reverse(one.point.cpu_nano_cores));
            return show(self.output, &page.items, || all(&page.items));
        };
        let path = format!("environments/{}/usage?since={}&step={}", segment(&name), self.since, self.step);
        let series: UsageSeries = client.get(&path).await?;
        show(self.output, &series, || steps(&series))
    }
}

fn all(items: &[CurrentUsage]) -> String {
    if items.is_empty() {
        return "no environment used anything in the last minute that is over\n".to_owned();
    }
    let row = |one: &CurrentUsage| {
        let [cpu, memory, requests] = cells(&one.point);
        [one.environment.clone(), cpu, memory, requests]
    };
    table(["NAME", "CPU", "MEMORY", "REQUESTS/MIN"], &items.iter().map(row).collect::<Vec<_>>())
}

fn steps(series: &UsageSeries) -> String {
    if series.points.is_empty() {
        return format!("{} used nothing since {}, as far as a minute is over\n", series.environment, series.since);
    }
    let row = |point: &UsagePoint| {
        let [cpu, memory, requests] = cells(point);
        [point.at.to_string(), cpu, memory, requests]
    };
    table(["FROM", "CPU", "MEMORY", "REQUESTS"], &series.points.iter().map(row).collect::<Vec<_>>())
}

fn cells(point: &UsagePoint) -> [String; 3] {
    [cores(point.cpu_nano_cores), bytes(point.memory_bytes), point.requests.to_string()]
}

/// One minute in one line.
pub(super) fn line(point: &UsagePoint) -> String {
    let [cpu, memory, requests] = cells(point);
    format!("{cpu} cpu, {memory} memory, {requests} requests/min")
}

/// Thousandths of a processor, as kubectl prints them; what is less than one has a fraction.
fn cores(nano: u64) -> String {
    match nano {
        1..1_000_000 => format!("{:.2}m", nano as f64 / 1e6),
        _ => format!("{}m", nano.div_ceil(1_000_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_in_one_line() {
        let point = |cpu_nano_cores| UsagePoint {
            at: jiff::Timestamp::UNIX_EPOCH,
            cpu_nano_cores,
            memory_bytes: 128 << 20,
            requests: 12,
        };
        assert_eq!(line(&point(250_000_000)), "250m cpu, 128.0 MiB memory, 12 requests/min");
        assert_eq!(line(&point(0)), "0m cpu, 128.0 MiB memory, 12 requests/min");
        assert_eq!(line(&point(120_000)), "0.12m cpu, 128.0 MiB memory, 12 requests/min");
        let shown = all(&[CurrentUsage { environment: "dev".to_owned(), point: point(2_000_000_000) }]);
        assert_eq!(shown, "NAME   CPU     MEMORY      REQUESTS/MIN\ndev    2000m   128.0 MiB   12\n");
    }
}
