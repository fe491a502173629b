//! Authorities: host and port of a request, as the `Host` header and the request target name them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Port if none is given.
const PORT_DEFAULT: u16 = 80;

/// A host and a port, without user information.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Authority<'a> {
    host: Host<'a>,
    port: u16,
}

#[derive(Debug, Clone, Copy)]
enum Host<'a> {
    Address(IpAddr),
    Name(&'a str),
}

impl<'a> Authority<'a> {
    /// Parses a whole text as an authority.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (host, rest) = match text.strip_prefix('[') {
            Some(text) => {
                let (address, rest) = text.split_once(']')?;
                (Host::Address(address.parse::<Ipv6Addr>().ok()?.into()), rest)
            }
            None => {
                let (name, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
                (Host::named(name)?, rest)
            }
        };
        let port = match rest.strip_prefix(':') {
            Some(port) => parse_port(port)?,
            None if rest.is_empty() => PORT_DEFAULT,
            None => return None,
        };
        Some(Self { host, port })
    }

    /// Whether the host is this machine, with any port.
    pub(super) fn is_local(&self) -> bool {
        match self.host {
            Host::Address(address) => address.is_loopback(),
            Host::Name(name) => name.eq_ignore_ascii_case("localhost"),
        }
    }
}

impl<'a> Host<'a> {
    fn named(name: &'a str) -> Option<Self> {
        if let Ok(address) = name.parse::<Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        (!name.is_empty() && name.bytes().all(is_plain)).then_some(Self::Name(name))
    }
}

impl PartialEq for Host<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Address(one), Self::Address(other)) => one == other,
            (Self::Name(one), Self::Name(other)) => one.eq_ignore_ascii_case(other),
            _ => false,
        }
    }
}

impl Eq for Host<'_> {}

/// Parses a port from 1 to 65535: digits only, without a sign.
fn parse_port(text: &str) -> Option<u16> {
    let digits = (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port > 0)
}

#[cfg(test)]
mod tests {
    use super::Authority;

    fn is_local(text: &str) -> bool {
        Authority::parse(text).is_some_and(|authority| authority.is_local())
    }

    /// Holds: RULE-21.
    #[test]
    fn loopback_addresses_and_localhost_are_local_with_any_port() {
        for text in [
            "localhost",
            "LOCALHOST:7420",
            "localhost:1",
            "localhost:65535",
            "127.0.0.1",
            "127.0.0.1:7420",
            "127.8.9.1:1",
            "[::1]:7420",
            "[::1]",
            "[0:0:0:0:0:0:0:1]:7420",
        ] {
            assert!(is_local(text), "{text}");
        }
    }

    /// Holds: RULE-21.
    #[test]
    fn other_authorities_are_not_local() {
        for text in [
            "",
            ":",
            ":7420",
            "example.com",
            "localhost.example.com",
            "localhost.",
            "127.0.0.1.example.com:7420",
            "10.0.0.1",
            "[::2]:7420",
            "0.0.0.0",
            "localhost:18011.evil.com",
            "localhost:7420:7420",
            "127.0.0.1:evil.com",
            "127.0.0.1:",
            "127.1",
            "0127.0.0.1",
            "2130706433",
            "localhost:-1",
            "localhost:+1",
            "localhost:0",
            "localhost:65536",
            "localhost:000080",
            "localhost: 80",
            "localhost:",
            "localhost/",
            "localhost#",
            "localhost,localhost",
            " localhost",
            "user@localhost",
            "localhost@evil.com",
            "user:password@localhost:80",
            "[::1].evil.com",
            "[::1]evil.com",
            "[::1]:evil.com",
            "[::1]:",
            "[::1",
            "::1",
            "::1:7420",
            "[127.0.0.1]",
            "[localhost]",
            "[::1%25lo]",
            "[[::1]]",
        ] {
            assert!(!is_local(text), "{text}");
        }
    }

    #[test]
    fn authorities_are_equal_by_host_and_port() {
        let same = |one, other| Authority::parse(one).unwrap() == Authority::parse(other).unwrap();
        assert!(same("localhost", "LocalHost:80"));
        assert!(same("[::1]:7420", "[0:0::1]:7420"));
        assert!(!same("localhost:7420", "localhost"));
        assert!(!same("localhost:7420", "127.0.0.1:7420"));
    }
}
