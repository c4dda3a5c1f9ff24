//! Sleep and expiry of environments.

use std::{fmt, str::FromStr};

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A length of time as people write it: `90s`, `30m`, `8h`, `7d`, `1h30m`. Whole seconds, at least one, at most ten years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = PATTERN, "examples" = ["8h"]))]
pub struct Period(u32);

/// What is always a [`Period`], and every one as it is printed. Sums that go over ten years are beyond patterns: what is read is more.
const PATTERN: &str = "^(([1-9][0-9]{0,2}|[12][0-9]{3}|3[0-5][0-9]{2}|36[0-4][0-9])[smhd](([01]?[0-9]|2[0-3])h)?([0-5]?[0-9]m)?\
                       ([0-5]?[0-9]s)?|3650d|[1-9][0-9]{0,7}s)$";

/// A text that is no [`Period`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a length of time: write a number with s, m, h or d, such as 30m, 8h, 7d or 1h30m, at most 3650d")]
pub struct InvalidPeriod(String);

impl Period {
    const LONGEST: u32 = 3650 * 86_400;

    /// None for no time at all and for more than ten years.
    pub fn from_seconds(seconds: u64) -> Option<Self> {
        u32::try_from(seconds).ok().filter(|s| (1..=Self::LONGEST).contains(s)).map(Self)
    }

    /// Its seconds.
    pub fn seconds(self) -> u64 {
        self.0.into()
    }

    /// The same as a duration.
    pub fn duration(self) -> SignedDuration {
        SignedDuration::from_secs(self.0.into())
    }

    /// That much later; the end of time at most.
    pub fn after(self, at: Timestamp) -> Timestamp {
        at.checked_add(self.duration()).unwrap_or(Timestamp::MAX)
    }

    /// That much earlier; the beginning of time at least.
    pub fn before(self, at: Timestamp) -> Timestamp {
        at.checked_sub(self.duration()).unwrap_or(Timestamp::MIN)
    }
}

impl FromStr for Period {
    type Err = InvalidPeriod;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || InvalidPeriod(text.to_owned());
        let mut rest = text;
        let mut total = 0_u64;
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
            let (number, tail) = rest.split_at(end);
            let number: u64 = number.parse().map_err(|_| wrong())?;
            let unit = match tail.as_bytes().first() {
                Some(b's') => 1,
                Some(b'm') => 60,
                Some(b'h') => 3600,
                Some(b'd') => 86_400,
                _ => return Err(wrong()),
            };
            total = number.checked_mul(unit).and_then(|n| total.checked_add(n)).ok_or_else(wrong)?;
            rest = &tail[1..];
        }
        Self::from_seconds(total).ok_or_else(wrong)
    }
}

impl TryFrom<String> for Period {
    type Error = InvalidPeriod;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Period> for String {
    fn from(period: Period) -> Self {
        period.to_string()
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        for (unit, name) in [(86_400, 'd'), (3600, 'h'), (60, 'm'), (1, 's')] {
            if rest >= unit {
                write!(f, "{}{name}", rest / unit)?;
                rest %= unit;
            }
        }
        Ok(())
    }
}

/// When an environment sleeps by itself. Every part is optional.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SleepPolicy {
    /// After so much time without a request to its API. Requests of its own pods, controllers and workers do not count, nor do
    /// health checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_inactivity: Option<Period>,
    /// At these times: a cron expression, such as `0 20 * * mon-fri`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Wakes at these times: a cron expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_schedule: Option<String>,
    /// Time zone of both schedules by its IANA name, such as `Europe/Berlin`; UTC unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}

/// When an environment is deleted by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExpiryPolicy {
    /// So long after it was asked for, unless it is extended.
    pub after: Period,
    /// It warns so long before; a day, or a tenth of `after` when that is less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warn_before: Option<Period>,
    /// An extension may reach so far from the moment it is asked for; as far as `after` unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<Period>,
}

/// What happens to an environment at which time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// When it sleeps by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sleep: Option<SleepPolicy>,
    /// When it sleeps next, if nobody uses it until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sleeps_at: Option<Timestamp>,
    /// When it wakes next by its schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wakes_at: Option<Timestamp>,
    /// Since when it sleeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asleep_since: Option<Timestamp>,
    /// The last request of somebody to its API since the server was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_request_at: Option<Timestamp>,
    /// When it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Since when it warns of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry_warned_at: Option<Timestamp>,
}

/// Body of `POST /api/v1/environments/NAME/extend`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("examples" = [{"period": "8h"}]))]
pub struct Extend {
    /// The environment expires so long from now.
    pub period: Period,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_read_and_written() {
        for (text, seconds) in [("90s", 90), ("30m", 1800), ("24h", 86_400), ("7d", 604_800), ("1h30m", 5400)] {
            assert_eq!(text.parse::<Period>().map(Period::seconds), Ok(seconds), "{text}");
        }
        let shown = |seconds| Period::from_seconds(seconds).map(|p| p.to_string());
        assert_eq!(shown(90).as_deref(), Some("1m30s"));
        assert_eq!(shown(604_800).as_deref(), Some("7d"));
        for text in ["", "h", "10", "-1h", "1.5h", "1w", "0s", "9999d", "99999999999999999999d", "1µ"] {
            assert!(text.parse::<Period>().is_err(), "{text}");
        }
    }
}
