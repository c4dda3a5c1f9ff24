//! What the process uses, as Prometheus' client libraries say it. Read from `/proc`; elsewhere than on Linux there is nothing.

use std::fs;

use super::{Exposition, Kind};

/// Clock ticks a second in `/proc`: the same on all Linux that there is.
const TICKS: f64 = 100.0;
const PAGE: u64 = 4096;

/// Writes the families `process_*`, as far as they can be read.
pub fn process(text: &mut Exposition) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some(stat) = Stat::parse(&stat) {
        text.family("process_cpu_seconds_total", Kind::Counter, "Total user and system CPU time spent in seconds.");
        text.sample("process_cpu_seconds_total", &[], stat.ticks as f64 / TICKS);
        text.family("process_resident_memory_bytes", Kind::Gauge, "Resident memory size in bytes.");
        text.sample("process_resident_memory_bytes", &[], stat.resident_pages * PAGE);
        text.family("process_virtual_memory_bytes", Kind::Gauge, "Virtual memory size in bytes.");
        text.sample("process_virtual_memory_bytes", &[], stat.virtual_bytes);
        let boot = fs::read_to_string("/proc/stat").unwrap_or_default();
        let boot = boot.lines().find_map(|l| l.strip_prefix("btime ")?.trim().parse::<f64>().ok());
        if let Some(boot) = boot {
            let help = "Start time of the process since unix epoch in seconds.";
            text.family("process_start_time_seconds", Kind::Gauge, help);
            text.sample("process_start_time_seconds", &[], boot + stat.started as f64 / TICKS);
        }
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        text.family("process_open_fds", Kind::Gauge, "Number of open file descriptors.");
        text.sample("process_open_fds", &[], open.count());
    }
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let most =
        limits.lines().find_map(|l| l.strip_prefix("Max open files")?.split_whitespace().next()?.parse::<u64>().ok());
    if let Some(most) = most {
        text.family("process_max_fds", Kind::Gauge, "Maximum number of open file descriptors.");
        text.sample("process_max_fds", &[], most);
    }
}

/// What counts of `/proc/self/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    ticks: u64,
    started: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name of the program may hold anything, also brackets.
        let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_whitespace().collect();
        // Numbers as in proc(5), which counts from one; two fields are gone.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            ticks: field(14)? + field(15)?,
            started: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_read_whatever_the_program_is_called() {
        let line = "7 (a) (b) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 9 0 4242 8192 3 18446744073709551615 1 1";
        let expected = Stat { ticks: 300, started: 4242, virtual_bytes: 8192, resident_pages: 3 };
        assert_eq!(Stat::parse(line), Some(expected));
        assert_eq!(Stat::parse("nonsense"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_can_be_read() {
        let mut text = Exposition::default();
        process(&mut text);
        let text = text.into_text();
        for name in
            ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds"]
        {
            assert!(text.lines().any(|l| l.starts_with(&format!("{name} "))), "{name} in\n{text}");
        }
    }
}
