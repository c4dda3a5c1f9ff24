//! Samples of an environment as bytes: of each field the difference to the sample before, as numbers of variable length. A steady environment
//! takes about six bytes in a minute.

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};

use super::Sample;

/// The form; a later one has another number.
const FORM: u8 = 1;

/// As a text.
pub(super) fn to_text(samples: &[Sample]) -> String {
    STANDARD_NO_PAD.encode(encode(samples))
}

/// From a text; none when it is not one of [`to_text`].
pub(super) fn from_text(text: &str) -> Option<Vec<Sample>> {
    decode(&STANDARD_NO_PAD.decode(text).ok()?)
}

/// Puts later samples behind earlier ones. Of the same minute the later one counts.
pub(super) fn merge(samples: &mut Vec<Sample>, more: &mut Vec<Sample>) {
    samples.append(more);
    samples.sort_by_key(|s| s.minute);
    samples.dedup_by(|later, first| {
        let same = later.minute == first.minute;
        if same {
            *first = *later;
        }
        same
    });
}

fn encode(samples: &[Sample]) -> Vec<u8> {
    let mut bytes = vec![FORM];
    let mut before = Sample { minute: 0, cpu: 0, pages: 0, requests: 0 };
    for sample in samples {
        for (now, then) in fields(sample).into_iter().zip(fields(&before)) {
            number(&mut bytes, zigzag(i64::from(now) - i64::from(then)));
        }
        before = *sample;
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<Vec<Sample>> {
    let (&FORM, mut rest) = bytes.split_first()? else { return None };
    let mut samples: Vec<Sample> = Vec::new();
    let mut before = [0_i64; 4];
    while !rest.is_empty() {
        for field in &mut before {
            *field = field.checked_add(unzigzag(take(&mut rest)?))?;
        }
        let [minute, cpu, pages, requests] = before.map(|field| u32::try_from(field).ok());
        samples.push(Sample { minute: minute?, cpu: cpu?, pages: pages?, requests: requests? });
    }
    Some(samples)
}

fn fields(sample: &Sample) -> [u32; 4] {
    [sample.minute, sample.cpu, sample.pages, sample.requests]
}

/// Small numbers of either sign become small numbers.
fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

fn unzigzag(n: u64) -> i64 {
    (n >> 1) as i64 ^ -((n & 1) as i64)
}

/// Seven bits in each byte, the lowest first; the eighth says that more follow.
fn number(bytes: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        bytes.push(n as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        n |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(n);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_come_back_and_are_small() {
        let sample =
            |i: u32| Sample { minute: 29_000_000 + i, cpu: 250_000 + i % 7 * 100, pages: 32_768, requests: i % 3 };
        let mut all: Vec<Sample> = (0..1440).map(sample).collect();
        all.push(Sample { minute: 29_100_000, cpu: u32::MAX, pages: 0, requests: u32::MAX });
        let text = to_text(&all);
        assert_eq!(from_text(&text), Some(all));
        assert!(text.len() < 1440 * 8, "{}", text.len());
        assert_eq!(from_text(&to_text(&[])), Some(Vec::new()));
    }

    #[test]
    fn what_is_no_series_is_none() {
        for wrong in ["", "?", "AA", "Aoo", "AYCAgIA"] {
            assert_eq!(from_text(wrong), None, "{wrong}");
        }
    }
}
