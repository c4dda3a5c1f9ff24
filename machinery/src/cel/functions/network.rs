//! Kubernetes' addresses and networks.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::cel::value::Value;

/// An address, as Kubernetes wants it: no zone, no IPv4 in IPv6.
fn parse_ip(text: &str) -> Result<IpAddr, String> {
    if text.contains('%') {
        return Err(format!("IP address with zone value is not allowed: {text:?}"));
    }
    let address: IpAddr = text.parse().map_err(|_| {
        format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP"
        )
    })?;
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address is not allowed: {text:?}"))
        }
        other => Ok(other),
    }
}

fn parse_cidr(text: &str) -> Result<(IpAddr, u8), String> {
    let wrong =
        || format!("network address parse error during conversion from string: netip.ParsePrefix({text:?}): no '/'");
    let (address, length) = text.split_once('/').ok_or_else(wrong)?;
    let address = parse_ip(address)?;
    let max = if address.is_ipv4() { 32 } else { 128 };
    match length.parse::<u8>() {
        Ok(n) if n <= max && n.to_string() == length => Ok((address, n)),
        _ => Err(format!(
            "network address parse error during conversion from string: netip.ParsePrefix({text:?}): prefix length out of range"
        )),
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)) << 96,
        IpAddr::V6(v6) => u128::from(v6),
    }
}

fn mask(length: u8) -> u128 {
    if length == 0 { 0 } else { u128::MAX << (128 - u32::from(length)) }
}

fn masked(address: IpAddr, length: u8) -> IpAddr {
    let kept = bits(address) & mask(length);
    match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from((kept >> 96) as u32)),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from(kept)),
    }
}

fn holds((network, length): (IpAddr, u8), address: IpAddr) -> bool {
    network.is_ipv4() == address.is_ipv4() && bits(network) & mask(length) == bits(address) & mask(length)
}

pub(in crate::cel) fn call(function: &str, member: bool, values: &[Value]) -> Option<Result<Value, String>> {
    Some(match (function, values) {
        ("ip", [Value::String(text)]) if !member => parse_ip(text).map(Value::Ip),
        ("isIP", [Value::String(text)]) => Ok(Value::Bool(parse_ip(text).is_ok())),
        ("ip.isCanonical", [Value::String(text)]) => parse_ip(text).map(|a| Value::Bool(a.to_string() == **text)),
        ("cidr", [Value::String(text)]) => parse_cidr(text).map(|(a, n)| Value::Cidr(a, n)),
        ("isCIDR", [Value::String(text)]) => Ok(Value::Bool(parse_cidr(text).is_ok())),
        ("family", [Value::Ip(a)]) => Ok(Value::Int(if a.is_ipv4() { 4 } else { 6 })),
        ("isUnspecified", [Value::Ip(a)]) => Ok(Value::Bool(a.is_unspecified())),
        ("isLoopback", [Value::Ip(a)]) => Ok(Value::Bool(a.is_loopback())),
        ("isLinkLocalMulticast", [Value::Ip(a)]) => Ok(Value::Bool(match a {
            IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
            IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
        })),
        ("isLinkLocalUnicast", [Value::Ip(a)]) => Ok(Value::Bool(link_local(*a))),
        ("isGlobalUnicast", [Value::Ip(a)]) => {
            let broadcast = matches!(a, IpAddr::V4(v4) if v4.is_broadcast());
            Ok(Value::Bool(
                !broadcast && !a.is_unspecified() && !a.is_loopback() && !a.is_multicast() && !link_local(*a),
            ))
        }
        ("ip", [Value::Cidr(a, _)]) => Ok(Value::Ip(*a)),
        ("prefixLength", [Value::Cidr(_, n)]) => Ok(Value::Int(i64::from(*n))),
        ("masked", [Value::Cidr(a, n)]) => Ok(Value::Cidr(masked(*a, *n), *n)),
        ("containsIP", [Value::Cidr(a, n), Value::Ip(other)]) => Ok(Value::Bool(holds((*a, *n), *other))),
        ("containsIP", [Value::Cidr(a, n), Value::String(text)]) => {
            parse_ip(text).map(|other| Value::Bool(holds((*a, *n), other)))
        }
        ("containsCIDR", [Value::Cidr(a, n), Value::Cidr(b, m)]) => Ok(Value::Bool(m >= n && holds((*a, *n), *b))),
        ("containsCIDR", [Value::Cidr(a, n), Value::String(text)]) => {
            parse_cidr(text).map(|(b, m)| Value::Bool(m >= *n && holds((*a, *n), b)))
        }
        _ => return None,
    })
}

fn link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    }
}
