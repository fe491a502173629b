//! Addresses that the server listens on.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use super::redact::shown;

/// Maximum length of a socket path that all systems support.
const SOCKET_BYTES_MAX: usize = 103;
pub(super) const LISTEN_MAX: usize = 16;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenAddress {
    /// An address with a port; port 0 selects a free port.
    Tcp(SocketAddr),
    /// The path of a unix socket.
    Unix(PathBuf),
}

impl ListenAddress {
    /// Whether other machines can reach it.
    pub(super) fn is_public(&self) -> bool {
        matches!(self, Self::Tcp(address) if !address.ip().to_canonical().is_loopback())
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(formatter, "{address}"),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

/// Parses all entries. Each error text continues a sentence.
pub(super) fn parse_all(entries: &[&str], min: usize) -> Result<Vec<ListenAddress>, Vec<String>> {
    if entries.len() < min {
        return Err(vec!["is empty: list at least one address, such as `127.0.0.1:7420`".to_owned()]);
    }
    if entries.len() > LISTEN_MAX {
        return Err(vec![format!(
            "has {} entries, but at most {LISTEN_MAX} are allowed: remove some",
            entries.len()
        )]);
    }
    let (mut addresses, mut faults) = (Vec::new(), Vec::new());
    for entry in entries {
        match parse(entry) {
            Ok(address) if is_fixed(&address) && addresses.contains(&address) => {
                faults.push(format!("lists {} twice: remove one", shown(entry)));
            }
            Ok(address) => addresses.push(address),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { Ok(addresses) } else { Err(faults) }
}

/// Whether the address is the same each time; port 0 is not.
fn is_fixed(address: &ListenAddress) -> bool {
    !matches!(address, ListenAddress::Tcp(address) if address.port() == 0)
}

fn parse(entry: &str) -> Result<ListenAddress, String> {
    if let Some(path) = entry.strip_prefix("unix:") {
        return socket(entry, path);
    }
    let named = entry.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let local = named.map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let Some(address) = local.or_else(|| entry.parse().ok()) else {
        return Err(format!(
            "contains {}, which is not an address: use `127.0.0.1:7420`, `[::1]:7420`, `localhost:7420` or `unix:/path`",
            shown(entry)
        ));
    };
    Ok(ListenAddress::Tcp(address))
}

fn socket(entry: &str, path: &str) -> Result<ListenAddress, String> {
    if path.is_empty() || path.contains('\0') {
        return Err(format!("contains {}, which is not a socket path: use `unix:/path`", shown(entry)));
    }
    if path.len() > SOCKET_BYTES_MAX {
        return Err(format!(
            "contains {}, a path of {} bytes, but at most {SOCKET_BYTES_MAX} are allowed: shorten it",
            shown(entry),
            path.len()
        ));
    }
    Ok(ListenAddress::Unix(PathBuf::from(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_and_sockets_are_valid() {
        let entries =
            ["127.0.0.1:7420", "localhost:80", "[::1]:0", "[::1]:0", "127.9.9.9:1", "unix:/run/x.sock"];
        let shown: Vec<_> = parse_all(&entries, 1).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            ["127.0.0.1:7420", "127.0.0.1:80", "[::1]:0", "[::1]:0", "127.9.9.9:1", "unix:/run/x.sock"]
        );
    }

    #[test]
    fn addresses_that_other_machines_can_reach_are_recognized() {
        for (entry, is_public) in [
            ("0.0.0.0:7420", true),
            ("[::]:7420", true),
            ("192.168.1.2:7420", true),
            ("[::ffff:10.0.0.1]:7420", true),
            ("[::ffff:127.0.0.1]:7420", false),
            ("127.0.0.2:7420", false),
            ("[::1]:7420", false),
            ("unix:/run/x.sock", false),
        ] {
            assert_eq!(parse_all(&[entry], 1).unwrap()[0].is_public(), is_public, "{entry}");
        }
    }

    #[test]
    fn every_invalid_entry_is_reported() {
        let long = format!("unix:/{}", "x".repeat(103));
        let faults =
            parse_all(&["7420", "example.com:80", "unix:", "", &long, "[::1]:1", "[::1]:1"], 1).unwrap_err();
        assert_eq!(faults.len(), 6, "{faults:?}");
        assert!(parse_all(&[], 1).is_err());
        assert_eq!(parse_all(&[], 0), Ok(Vec::new()));
        assert!(parse_all(&["[::1]:0"; 17], 1).is_err());
    }
}
