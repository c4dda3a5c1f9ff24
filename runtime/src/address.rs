//! Which network addresses may be dialled for somebody who is not the operator.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is one of the public Internet.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_public_v4(v4),
            None => is_public_v6(v6),
        },
    }
}

fn is_public_v4(a: Ipv4Addr) -> bool {
    let [first, second, third, _] = a.octets();
    // 100.64.0.0/10: carriers' own networks.
    let shared = first == 100 && (64..128).contains(&second);
    let special =
        first == 0 || first >= 240 || (first == 192 && second == 0) || (first == 198 && matches!(second, 18 | 19));
    // 192.88.99.0/24: relays of 6to4.
    let special = special || (first == 192 && second == 88 && third == 99) || a.is_documentation();
    !(a.is_loopback() || a.is_private() || a.is_link_local() || a.is_multicast() || shared || special)
}

fn is_public_v6(a: Ipv6Addr) -> bool {
    // 2000::/3 is what is routed globally; 2002::/16, 2001::/32 and 64:ff9b::/96 carry v4 addresses. 2001::/23 is for protocols,
    // 2001:db8::/32 and 3fff::/20 are for documentation.
    let [first, second, ..] = a.segments();
    let special = first == 0x2002
        || (first == 0x2001 && (second < 0x200 || second == 0xdb8))
        || (first == 0x3fff && second < 0x1000);
    first & 0xe000 == 0x2000 && !special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_routed_globally_is_public() {
        let public = |text: &str| is_public(text.parse().unwrap_or_else(|e| panic!("{text}: {e}")));
        for text in ["1.1.1.1", "93.184.216.34", "2606:4700::1111"] {
            assert!(public(text), "{text}");
        }
        for text in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "198.18.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "::ffff:127.0.0.1",
            "2002:7f00:1::",
            "64:ff9b::7f00:1",
            "2001::7f00:1",
            "2001:db8::1",
            "3fff::1",
            "192.88.99.1",
            "203.0.113.1",
        ] {
            assert!(!public(text), "{text}");
        }
    }
}
