//! Parts of moments and durations.

use jiff::{
    Timestamp,
    tz::{Offset, TimeZone},
};

use super::operators::moment;
use crate::cel::value::Value;

pub(in crate::cel) fn call(function: &str, member: bool, values: &[Value]) -> Option<Result<Value, String>> {
    Some(match (function, values) {
        ("duration" | "timestamp", [value]) if !member => moment(function, value),
        (_, [Value::Timestamp(at)]) if member => part(function, *at, &TimeZone::UTC)?,
        (_, [Value::Timestamp(at), Value::String(zone)]) if member => match parse_zone(zone) {
            Some(zone) => part(function, *at, &zone)?,
            None => Err(format!("unknown time zone {zone}")),
        },
        ("getHours", [Value::Duration(nanos)]) => Ok(Value::Int(nanos / 3_600_000_000_000)),
        ("getMinutes", [Value::Duration(nanos)]) => Ok(Value::Int(nanos / 60_000_000_000)),
        ("getSeconds", [Value::Duration(nanos)]) => Ok(Value::Int(nanos / 1_000_000_000)),
        ("getMilliseconds", [Value::Duration(nanos)]) => Ok(Value::Int(nanos / 1_000_000)),
        _ => return None,
    })
}

/// `Europe/Berlin` or `+02:00`.
fn parse_zone(text: &str) -> Option<TimeZone> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        b'0'..=b'9' => (1, text),
        _ if matches!(text, "UTC" | "GMT") => return Some(TimeZone::UTC),
        _ => return TimeZone::get(text).ok(),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let seconds = sign * (hours.parse::<i32>().ok()? * 3600 + minutes.parse::<i32>().ok()? * 60);
    Offset::from_seconds(seconds).ok().map(TimeZone::fixed)
}

fn part(function: &str, at: Timestamp, zone: &TimeZone) -> Option<Result<Value, String>> {
    let at = at.to_zoned(zone.clone());
    let n = match function {
        "getFullYear" => i64::from(at.year()),
        "getMonth" => i64::from(at.month()) - 1,
        "getDayOfYear" => i64::from(at.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(at.day()) - 1,
        "getDate" => i64::from(at.day()),
        "getDayOfWeek" => i64::from(at.weekday().to_sunday_zero_offset()),
        "getHours" => i64::from(at.hour()),
        "getMinutes" => i64::from(at.minute()),
        "getSeconds" => i64::from(at.second()),
        "getMilliseconds" => i64::from(at.millisecond()),
        _ => return None,
    };
    Some(Ok(Value::Int(n)))
}
