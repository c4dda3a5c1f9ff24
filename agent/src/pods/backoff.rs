//! How long to wait before a container is started again or an image pulled again: 10 s, doubled up to 5 minutes, as the kubelet does.

/// First delay.
const BASE_MS: i64 = 10_000;
/// Longest delay.
const CAP_MS: i64 = 300_000;
/// A container that ran this long starts afresh.
pub(crate) const RESET_MS: i64 = 600_000;

/// Delay before the next restart after `restarts` restarts in a row: none before the first.
pub(crate) fn restart_delay_ms(restarts: u32) -> i64 {
    match restarts {
        0 => 0,
        n => BASE_MS.checked_shl(n - 1).map_or(CAP_MS, |d| if d <= 0 { CAP_MS } else { d.min(CAP_MS) }),
    }
}

/// Delay before the next pull after `failures` failures in a row.
pub(crate) fn pull_delay_ms(failures: u32) -> i64 {
    restart_delay_ms(failures)
}

/// A delay as people read it: `10s`, `1m20s`, `5m0s`.
pub(crate) fn show(ms: i64) -> String {
    let seconds = ms / 1000;
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_restart_is_at_once_then_ten_seconds_doubled_up_to_five_minutes() {
        let delays: Vec<_> = (0..8).map(restart_delay_ms).collect();
        assert_eq!(delays, [0, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]);
        assert_eq!(restart_delay_ms(500), CAP_MS);
        assert_eq!((show(10_000), show(80_000), show(300_000)), ("10s".into(), "1m20s".into(), "5m0s".into()));
    }
}
