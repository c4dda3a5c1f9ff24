//! The values of `format` that upstream checks in custom resources: apiextensions-apiserver `pkg/apiserver/validation/formats.go` and
//! kube-openapi `pkg/validation/strfmt`. Others are ignored.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    sync::OnceLock,
};

use regex::Regex;

use super::schema::Type;
use crate::names;

/// The format, if it is one that is checked for this type.
pub(super) fn supported(kind: Option<Type>, format: &str) -> Option<&str> {
    let known = match kind {
        None | Some(Type::String) => {
            is_known(&format.replace('-', "")) || matches!(format, "k8s-short-name" | "k8s-long-name")
        }
        Some(Type::Integer) => matches!(format, "int32" | "int64"),
        Some(Type::Number) => matches!(format, "float" | "double"),
        Some(_) => false,
    };
    known.then_some(format)
}

fn is_known(format: &str) -> bool {
    matches!(
        format,
        "bsonobjectid"
            | "uri"
            | "email"
            | "hostname"
            | "ipv4"
            | "ipv6"
            | "cidr"
            | "mac"
            | "uuid"
            | "uuid3"
            | "uuid4"
            | "uuid5"
            | "isbn"
            | "isbn10"
            | "isbn13"
            | "creditcard"
            | "ssn"
            | "hexcolor"
            | "rgbcolor"
            | "byte"
            | "password"
            | "date"
            | "duration"
            | "datetime"
    )
}

struct Patterns {
    hostname: Regex,
    uuid: Regex,
    ssn: Regex,
    hex: Regex,
    rgb: Regex,
    card: Regex,
    base64: Regex,
    email: Regex,
    duration: Regex,
}

fn patterns() -> Option<&'static Patterns> {
    static PATTERNS: OnceLock<Option<Patterns>> = OnceLock::new();
    let make = || {
        let new = |pattern: &str| Regex::new(pattern).ok();
        Some(Patterns {
            hostname: new(
                r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$",
            )?,
            uuid: new(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?([0-9a-f])[0-9a-f]{3}-?([0-9a-f])[0-9a-f]{3}-?[0-9a-f]{12}$")?,
            ssn: new(r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$")?,
            hex: new(r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$")?,
            rgb: new(
                r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$",
            )?,
            card: new(
                r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})$",
            )?,
            base64: new(r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$")?,
            email: new(r"^(?:[^<>@\s]+|[^<>]*<[^<>@\s]+@[^<>@\s]+>)$|^[^<>@\s]+@[^<>@\s]+$")?,
            duration: new(r"([0-9]+)\s*([a-zA-Zµ]+)")?,
        })
    };
    PATTERNS.get_or_init(make).as_ref()
}

/// Whether a text is of the format. The format is one of [`supported`].
pub(crate) fn matches(format: &str, text: &str) -> bool {
    let Some(patterns) = patterns() else { return true };
    match format.replace('-', "").as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "uri" => is_request_uri(text),
        "email" => text.contains('@') && patterns.email.is_match(text),
        "hostname" => {
            text.len() <= 255 && patterns.hostname.is_match(text) && text.split('.').all(|label| label.len() <= 63)
        }
        "ipv4" => ipv4_sloppy(text).is_some() || (text.contains('.') && text.parse::<Ipv6Addr>().is_ok()),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => cidr(text),
        "mac" => mac(text),
        "uuid" => patterns.uuid.is_match(text),
        "uuid3" => uuid(patterns, text, "3", ""),
        "uuid4" => uuid(patterns, text, "4", "89ab"),
        "uuid5" => uuid(patterns, text, "5", "89ab"),
        "isbn" => isbn10(text) || isbn13(text),
        "isbn10" => isbn10(text),
        "isbn13" => isbn13(text),
        "creditcard" => credit_card(patterns, text),
        "ssn" => text.len() == 11 && patterns.ssn.is_match(text),
        "hexcolor" => patterns.hex.is_match(text),
        "rgbcolor" => patterns.rgb.is_match(text),
        "byte" => patterns.base64.is_match(text),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "duration" => parse_duration(text).is_some() || scala_duration(patterns, text),
        "datetime" => date_time(text),
        "k8sshortname" => names::dns_label_errors(text).is_empty(),
        "k8slongname" => names::dns_subdomain_errors(text).is_empty(),
        _ => true,
    }
}

/// An absolute URI, or an absolute path, without control characters and spaces: Go's `url.ParseRequestURI`.
pub(crate) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return false;
    }
    let escapes_are_right = |part: &str| {
        let bytes = part.as_bytes();
        bytes
            .iter()
            .enumerate()
            .filter(|(_, b)| **b == b'%')
            .all(|(i, _)| bytes.get(i + 1..i + 3).is_some_and(|h| h.iter().all(u8::is_ascii_hexdigit)))
    };
    let rest = text.split('?').next().unwrap_or_default();
    if rest.starts_with('/') {
        return escapes_are_right(rest);
    }
    let Some((scheme, after)) = rest.split_once(':') else { return rest == "*" };
    let scheme_is_right = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    if !scheme_is_right {
        return false;
    }
    let Some(after) = after.strip_prefix("//") else { return escapes_are_right(after) };
    let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host_is_right = match host.strip_prefix('[') {
        Some(v6) => v6.split_once(']').is_some_and(|(address, port)| {
            address.split('%').next().is_some_and(|a| a.parse::<Ipv6Addr>().is_ok())
                && (port.is_empty() || port.strip_prefix(':').is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit())))
        }),
        None => {
            let (name, port) = host.split_once(':').unwrap_or((host, ""));
            port.bytes().all(|b| b.is_ascii_digit())
                && !name.contains([' ', '<', '>', '"', '\\', '^', '`', '{', '|', '}'])
        }
    };
    host_is_right && escapes_are_right(path)
}

/// An IPv4 address; leading zeros are read as decimal, as upstream's `ParseIPSloppy` does.
fn ipv4_sloppy(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0_u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || part.len() > 3 || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse().ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

fn cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let max = if ipv4_sloppy(address).is_some() {
        32
    } else if address.parse::<Ipv6Addr>().is_ok() {
        128
    } else {
        return false;
    };
    !length.is_empty()
        && length.len() <= 3
        && length.bytes().all(|b| b.is_ascii_digit())
        && length.parse::<u8>().is_ok_and(|l| l <= max)
}

/// 6, 8 or 20 octets, by colons or dashes, or in groups of four digits by dots.
fn mac(text: &str) -> bool {
    let groups = |separator: char, digits: usize, counts: [usize; 3]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len())
            && parts.iter().all(|p| p.len() == digits && p.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    groups(':', 2, [6, 8, 20]) || groups('-', 2, [6, 8, 20]) || groups('.', 4, [3, 4, 10])
}

fn uuid(patterns: &Patterns, text: &str, version: &str, variants: &str) -> bool {
    patterns
        .uuid
        .captures(text)
        .is_some_and(|c| &c[1] == version && (variants.is_empty() || variants.contains(&c[2].to_ascii_lowercase())))
}

fn isbn10(text: &str) -> bool {
    let plain: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'-' | b' ')).collect();
    if plain.len() != 10 || !plain[..9].iter().all(u8::is_ascii_digit) {
        return false;
    }
    let last = match plain[9] {
        b'X' => 10,
        d if d.is_ascii_digit() => u32::from(d - b'0'),
        _ => return false,
    };
    let sum: u32 = plain[..9].iter().zip(1..).map(|(d, i)| i * u32::from(d - b'0')).sum::<u32>() + 10 * last;
    sum.is_multiple_of(11)
}

fn isbn13(text: &str) -> bool {
    let plain: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'-' | b' ')).collect();
    if plain.len() != 13 || !plain.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let sum: u32 = plain.iter().enumerate().map(|(i, d)| u32::from(d - b'0') * if i % 2 == 0 { 1 } else { 3 }).sum();
    sum.is_multiple_of(10)
}

fn credit_card(patterns: &Patterns, text: &str) -> bool {
    let plain: String = text.chars().filter(char::is_ascii_digit).collect();
    if !patterns.card.is_match(&plain) {
        return false;
    }
    let sum: u32 = plain
        .bytes()
        .rev()
        .enumerate()
        .map(|(i, d)| {
            let digit = u32::from(d - b'0') * if i % 2 == 0 { 1 } else { 2 };
            if digit > 9 { digit - 9 } else { digit }
        })
        .sum();
    sum.is_multiple_of(10)
}

/// Go's `time.ParseDuration`, in nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let units = [
            ("ns", 1),
            ("us", 1_000),
            ("µs", 1_000),
            ("μs", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
            ("m", 60_000_000_000),
            ("h", 3_600_000_000_000_i128),
        ];
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        let scale = units.iter().find(|(name, _)| *name == unit)?.1;
        if !whole.is_empty() {
            total = total.checked_add(whole.parse::<i128>().ok()?.checked_mul(scale)?)?;
        }
        let mut place = scale;
        for digit in fraction.bytes().take(18) {
            total += i128::from(digit - b'0') * place / 10;
            place /= 10;
        }
        if total > i128::from(i64::MAX) + i128::from(negative) {
            return None;
        }
        rest = next;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// `22 ns`, `3 days`: the other form that upstream reads.
fn scala_duration(patterns: &Patterns, text: &str) -> bool {
    const UNITS: [&str; 8] = ["ns", "us", "ms", "s", "m", "h", "d", "w"];
    const NAMES: [&str; 9] = ["nano", "micro", "milli", "sec", "min", "hr", "hour", "day", "week"];
    patterns.duration.captures_iter(text).any(|c| {
        let unit = c[2].to_lowercase();
        UNITS.contains(&unit.as_str()) || unit == "µs" || NAMES.iter().any(|n| unit.starts_with(n))
    })
}

/// An ISO 8601 date and time; the zone may be missing. The empty text is one, too.
fn date_time(text: &str) -> bool {
    if text.is_empty() {
        return true;
    }
    let shaped = text.as_bytes().get(10) == Some(&b'T');
    shaped
        && (text.parse::<jiff::Timestamp>().is_ok()
            || (!text.contains(['.', 'Z', 'z']) && text.parse::<jiff::civil::DateTime>().is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        for (format, yes, no) in [
            ("ipv4", "192.168.0.1", "192.168.0.256"),
            ("ipv6", "::1", "1.2.3.4"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "01:02:03:04:05:06", "01:02:03"),
            ("uri", "https://example.com/a?b=c", "example.com"),
            ("email", "a@b.c", "a"),
            ("hostname", "a-b.example.com", "a_b.com"),
            ("uuid", "7a6b4dc0-8d2c-4a3e-9f53-0f6c2d0e4a11", "7a6b4dc0"),
            ("uuid4", "7a6b4dc0-8d2c-4a3e-9f53-0f6c2d0e4a11", "7a6b4dc0-8d2c-3a3e-9f53-0f6c2d0e4a11"),
            ("isbn10", "0321751043", "0321751044"),
            ("isbn13", "978-0321751041", "978-0321751042"),
            ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
            ("hexcolor", "#fff", "#ff"),
            ("rgbcolor", "rgb(0,0,255)", "rgb(0,0,256)"),
            ("byte", "YQ==", "a"),
            ("date", "2024-02-29", "2023-02-29"),
            ("duration", "1h30m", "abc"),
            ("duration", "3 days", "x1"),
            ("date-time", "2014-12-15T19:30:20.000Z", "2014-12-15"),
            ("bsonobjectid", "507f1f77bcf86cd799439011", "x"),
            ("k8s-short-name", "abc", "a.b"),
            ("k8s-long-name", "a.b", "A"),
        ] {
            assert_eq!(supported(Some(Type::String), format), Some(format));
            assert!(matches(format, yes), "{format} {yes}");
            assert!(!matches(format, no), "{format} {no}");
        }
        assert_eq!(supported(Some(Type::String), "int32"), None);
        assert_eq!(supported(Some(Type::Integer), "int32"), Some("int32"));
        assert_eq!(parse_duration("1.5h"), Some(5_400_000_000_000));
        assert_eq!(parse_duration("-2ms"), Some(-2_000_000));
        assert_eq!(parse_duration("300000h0"), None);
    }
}
