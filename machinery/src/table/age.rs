//! Ages as people read them: two units at most, fewer the longer ago (apimachinery `pkg/util/duration`).

use jiff::Timestamp;
use serde_json::Value;

/// Age of an object by its creationTimestamp.
pub(super) fn of(object: &Value, now: Timestamp) -> Value {
    since(object.pointer("/metadata/creationTimestamp"), now).into()
}

/// How long ago a time was; `<unknown>` for none.
pub fn since(time: Option<&Value>, now: Timestamp) -> String {
    match time.and_then(Value::as_str).and_then(|t| t.parse::<Timestamp>().ok()) {
        Some(time) => human(now.as_second() - time.as_second()),
        None => super::UNKNOWN.to_owned(),
    }
}

/// A duration in seconds: `119s`, `2m3s`, `59m`, `5h30m`, `5d3h`, `2y5d`.
pub fn human(seconds: i64) -> String {
    let two = |large: i64, unit: char, small: i64, of: char| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{of}") }
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => two(days, 'd', hours % 24, 'h'),
        _ if days < 730 => format!("{days}d"),
        _ if days < 2920 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn fewer_units_the_longer_ago() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 3600;
        const DAY: i64 = 24 * HOUR;
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (123, "2m3s"),
            (10 * MINUTE + 5, "10m"),
            (179 * MINUTE, "179m"),
            (3 * HOUR, "3h"),
            (5 * HOUR + 30 * MINUTE, "5h30m"),
            (8 * HOUR + 30 * MINUTE, "8h"),
            (47 * HOUR, "47h"),
            (2 * DAY, "2d"),
            (5 * DAY + 3 * HOUR, "5d3h"),
            (8 * DAY + 3 * HOUR, "8d"),
            (729 * DAY, "729d"),
            (735 * DAY, "2y5d"),
            (3000 * DAY, "8y"),
        ] {
            assert_eq!(human(seconds), text, "{seconds}");
        }
    }
}
