//! Measurements of the process in Prometheus' text form. Counting is an addition to an atomic number: no lock, no allocation, no text.
//! Text is made when somebody asks.
//!
//! There is no registry: whoever counts has its numbers as fields, and writes them into an [`Exposition`] when told.
//! Source of the form: Prometheus' exposition format 0.0.4.

mod process;

use std::{
    fmt::{Display, Write as _},
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::Duration,
};

pub use process::process;

/// Media type of an [`Exposition`].
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// How many there were.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Changes it.
    pub fn add(&self, change: i64) {
        self.0.fetch_add(change, Ordering::Relaxed);
    }

    /// What it is.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long things took: how many took at most so long, for each bound. The numbers of a reading may differ by what is being counted
/// at the same time.
#[derive(Debug)]
pub struct Histogram {
    /// Seconds, growing.
    bounds: &'static [f64],
    /// One for each bound and one for what took longer.
    counts: Box<[AtomicU64]>,
    sum_nanos: AtomicU64,
}

impl Histogram {
    /// With upper bounds in seconds, which must grow.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(), sum_nanos: AtomicU64::new(0) }
    }

    /// Counts one that took so long.
    pub fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = self.bounds.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_nanos.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|c| c.load(Ordering::Relaxed)).sum()
    }
}

/// What a family of samples is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A [`Histogram`].
    Histogram,
}

/// The text that Prometheus reads. Samples follow the head of their family.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Begins a family.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.write(format_args!(
            "# HELP {name} {}\n# TYPE {name} {kind}\n",
            help.replace('\\', "\\\\").replace('\n', "\\n")
        ));
    }

    /// One sample.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        self.labels(labels.iter().copied());
        self.write(format_args!(" {value}\n"));
    }

    /// The samples of a histogram.
    pub fn histogram(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Histogram) {
        let mut below = 0;
        let bounds = histogram.bounds.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&histogram.counts) {
            below += count.load(Ordering::Relaxed);
            self.write(format_args!("{name}_bucket"));
            self.labels(labels.iter().copied().chain([("le", &*bound)]));
            self.write(format_args!(" {below}\n"));
        }
        let seconds = Duration::from_nanos(histogram.sum_nanos.load(Ordering::Relaxed)).as_secs_f64();
        self.sample(&format!("{name}_sum"), labels, seconds);
        self.sample(&format!("{name}_count"), labels, below);
    }

    /// All of it.
    pub fn into_text(self) -> String {
        self.0
    }

    fn labels<'a>(&mut self, labels: impl Iterator<Item = (&'a str, &'a str)>) {
        let mut before = '{';
        for (name, value) in labels {
            self.0.push(before);
            self.0.push_str(name);
            self.0.push_str("=\"");
            for c in value.chars() {
                match c {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    c => self.0.push(c),
                }
            }
            self.0.push('"');
            before = ',';
        }
        if before == ',' {
            self.0.push('}');
        }
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // A String takes everything.
        let _ = self.0.write_fmt(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_written_as_prometheus_reads_them() {
        let mut text = Exposition::default();
        text.family("requests_total", Kind::Counter, "How many.\nAll.");
        let counter = Counter::default();
        counter.add(2);
        counter.add_one();
        text.sample("requests_total", &[("path", "a\"b\\c\n")], counter.get());
        text.family("open", Kind::Gauge, "Open ones.");
        let gauge = Gauge::default();
        gauge.add(3);
        gauge.add(-1);
        text.sample("open", &[], gauge.get());
        let expected = "# HELP requests_total How many.\\nAll.\n# TYPE requests_total counter\n\
                        requests_total{path=\"a\\\"b\\\\c\\n\"} 3\n# HELP open Open ones.\n# TYPE open gauge\nopen 2\n";
        assert_eq!(text.into_text(), expected);
    }

    #[test]
    fn buckets_count_what_took_at_most_so_long() {
        let histogram = Histogram::new(&[0.005, 1.0]);
        for millis in [1, 5, 6, 1000, 2500] {
            histogram.observe(Duration::from_millis(millis));
        }
        let mut text = Exposition::default();
        text.histogram("took_seconds", &[("verb", "GET")], &histogram);
        assert_eq!(
            text.into_text(),
            "took_seconds_bucket{verb=\"GET\",le=\"0.005\"} 2\ntook_seconds_bucket{verb=\"GET\",le=\"1\"} 4\n\
             took_seconds_bucket{verb=\"GET\",le=\"+Inf\"} 5\ntook_seconds_sum{verb=\"GET\"} 3.512\n\
             took_seconds_count{verb=\"GET\"} 5\n"
        );
        assert_eq!(histogram.count(), 5);
    }
}
