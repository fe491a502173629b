//! Ranges of IP addresses, in CIDR notation.

use std::fmt;
use std::net::IpAddr;

/// A range of IPv4 or of IPv6 addresses: the first address, and the number of bits that all its addresses share.
///
/// IPv4 addresses that are written as IPv6 (`::ffff:10.0.0.1`), as sockets for both report them, count as IPv4. So no
/// range of IPv6 contains them, not even `::/0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    prefix_bits: u8,
}

impl AddressRange {
    /// Parses `10.0.0.0/8` or `2001:db8::/32`. None if the bits after the prefix are not zero, and for a range of IPv4
    /// that is written as IPv6.
    pub fn parse(text: &str) -> Option<Self> {
        let (first, prefix_bits) = text.split_once('/')?;
        let range = Self { first: first.parse().ok()?, prefix_bits: prefix_bits.parse().ok()? };
        let bits_max = if range.first.is_ipv4() { 32 } else { 128 };
        let is_valid = range.prefix_bits <= bits_max
            && range.first.to_canonical() == range.first
            && bits(range.first) & range.mask() == bits(range.first);
        is_valid.then_some(range)
    }

    /// Whether the address is in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && bits(address) & self.mask() == bits(self.first)
    }

    fn mask(&self) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(self.prefix_bits)).unwrap_or(0)
    }
}

/// The bits of an address, the first one highest.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::AddressRange;

    #[track_caller]
    fn assert_edges(range: &str, inside: &[&str], outside: &[&str]) {
        let parsed = AddressRange::parse(range).unwrap();
        assert_eq!(parsed.to_string(), range);
        for (addresses, expected) in [(inside, true), (outside, false)] {
            for address in addresses {
                assert_eq!(parsed.contains(address.parse().unwrap()), expected, "{address} in {range}");
            }
        }
    }

    #[test]
    fn a_range_contains_its_first_and_last_address() {
        assert_edges("10.0.0.0/8", &["10.0.0.0", "10.255.255.255"], &["9.255.255.255", "11.0.0.0"]);
        assert_edges("192.0.2.6/31", &["192.0.2.6", "192.0.2.7"], &["192.0.2.5", "192.0.2.8"]);
        assert_edges("192.0.2.7/32", &["192.0.2.7"], &["192.0.2.6", "192.0.2.8"]);
        assert_edges(
            "2001:db8::/32",
            &["2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"],
            &["2001:db9::"],
        );
        assert_edges("2001:db8::1/128", &["2001:db8::1"], &["2001:db8::", "2001:db8::2"]);
    }

    #[test]
    fn the_families_stay_apart() {
        assert_edges("0.0.0.0/0", &["0.0.0.0", "255.255.255.255", "::ffff:10.0.0.1"], &["::", "::1"]);
        assert_edges("::/0", &["::1", "ffff::"], &["10.0.0.1", "::ffff:10.0.0.1"]);
        assert_edges("10.0.0.0/8", &["::ffff:10.1.2.3"], &["::ffff:11.1.2.3", "::10.1.2.3", "a00::"]);
        assert_edges("a00::/8", &["a00::1"], &["10.0.0.1"]);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "/",
            "10.0.0.0",
            "10.0.0.0/",
            "/8",
            "10.0.0.1/8",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/8/8",
            "10.0.0/8",
            "2001:db8::1/64",
            "::/129",
            "::ffff:10.0.0.0/104",
            "::ffff:0:0/96",
            "localhost/8",
            "fe80::%1/64",
            "::/256",
        ] {
            assert_eq!(AddressRange::parse(text), None, "{text}");
        }
    }
}
