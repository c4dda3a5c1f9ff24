//! What a quota limits, each by itself.

use vctl_api::rest::{LimitUnit, Quota};

use super::counted::Counted;
use crate::{error::Error, size};

/// Something that a quota limits.
pub(super) struct Line {
    pub(super) what: String,
    pub(super) unit: LimitUnit,
    pub(super) limit: u64,
    pub(super) used: u64,
    pub(super) added: u64,
}

impl Line {
    pub(super) fn shown(&self, amount: u64) -> String {
        match self.unit {
            LimitUnit::Count => amount.to_string(),
            LimitUnit::Millicores => size::millis(amount),
            LimitUnit::Bytes => size::bytes(amount),
        }
    }
}

/// Everything that a quota limits.
pub(super) fn lines(quota: &Quota, used: &Counted, added: &Counted) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut line = |what: &str, unit, limit: Option<u64>, used: u64, added: u64| {
        lines.extend(limit.map(|limit| Line { what: what.to_owned(), unit, limit, used, added }));
    };
    // They were read when the quota was set.
    let millis = |text: &Option<String>| text.as_deref().and_then(size::parse_millis);
    let bytes = |text: &Option<String>| text.as_deref().and_then(size::parse_bytes);
    line("environments", LimitUnit::Count, quota.environments.map(u64::from), used.environments, added.environments);
    line("awake", LimitUnit::Count, quota.awake.map(u64::from), used.awake, added.awake);
    line("cpu", LimitUnit::Millicores, millis(&quota.cpu), used.size.cpu, added.size.cpu);
    line("memory", LimitUnit::Bytes, bytes(&quota.memory), used.size.memory, added.size.memory);
    line("storage", LimitUnit::Bytes, bytes(&quota.storage), used.size.storage, added.size.storage);
    for (name, limit) in &quota.templates {
        let of = |counted: &Counted| counted.templates.get(name).copied().unwrap_or_default();
        let what = format!("template {name}");
        line(&what, LimitUnit::Count, Some(u64::from(*limit)), of(used), of(added));
    }
    lines
}

/// A quota that makes sense.
///
/// # Errors
/// [`Error::Invalid`] for an amount that is no quantity.
pub(crate) fn check(quota: &Quota) -> Result<(), Error> {
    let wrong = [("cpu", &quota.cpu), ("memory", &quota.memory), ("storage", &quota.storage)].into_iter().find(
        |(name, text)| {
            let read = if *name == "cpu" { size::parse_millis } else { size::parse_bytes };
            text.as_deref().is_some_and(|text| read(text).is_none())
        },
    );
    match wrong {
        Some((name, text)) => Err(Error::invalid(
            "invalid-quota",
            format!(
                "{name}: {:?} is no quantity: write it as Kubernetes does, such as 500m, 4 or 16Gi",
                text.as_deref().unwrap_or_default()
            ),
        )),
        None => Ok(()),
    }
}

/// Upstream's sentence about a ResourceQuota that is exceeded.
pub(super) fn upstream(name: &str, exceeded: &[Line]) -> String {
    let all = |amount: fn(&Line) -> u64| {
        exceeded.iter().map(|l| format!("{}={}", l.what, l.shown(amount(l)))).collect::<Vec<_>>().join(",")
    };
    let (requested, used, limited) = (all(|l| l.added), all(|l| l.used), all(|l| l.limit));
    format!("exceeded quota: {name}, requested: {requested}, used: {used}, limited: {limited}")
}

/// Whether a quota limits what is requested.
pub(super) fn limits_amounts(quota: &Quota) -> bool {
    quota.cpu.is_some() || quota.memory.is_some() || quota.storage.is_some()
}
