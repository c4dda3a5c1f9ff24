//! What a process uses, from /proc.

use std::time::Duration;

use anyhow::{Context, Result};

/// Clock ticks per second in /proc, the same on every Linux.
const TICKS: u64 = 100;

/// Resident set in bytes.
pub(crate) fn resident(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).context("VmRSS")?;
    let kib: u64 = line.split_whitespace().nth(1).context("a number")?.parse()?;
    Ok(kib * 1024)
}

/// CPU time used so far, in user and system mode.
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // After the name in parentheses: state is field 3, utime and stime are 14 and 15 (proc_pid_stat(5)).
    let rest = stat.rsplit_once(')').context("a name in parentheses")?.1;
    let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_millis(ticks * 1000 / TICKS))
}
