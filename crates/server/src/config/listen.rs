//! Where the server listens.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use super::raw::shown;

/// The longest path of a socket that every system takes.
const SOCKET_BYTES_MAX: usize = 103;
pub(super) const LISTEN_MAX: usize = 16;

/// A place to listen at.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Listen {
    /// A loopback address and its port; port 0 is any free one.
    Tcp(SocketAddr),
    /// The path of a socket.
    Unix(PathBuf),
}

impl fmt::Display for Listen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(formatter, "{address}"),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

/// Reads all entries. Each fault continues a sentence.
pub(super) fn parse_all(entries: &[&str], least: usize) -> Result<Vec<Listen>, Vec<String>> {
    if entries.len() < least {
        return Err(vec!["is empty: name at least one place, as in `127.0.0.1:7420`".to_owned()]);
    }
    if entries.len() > LISTEN_MAX {
        return Err(vec![format!("has {} entries, the most is {LISTEN_MAX}: remove some", entries.len())]);
    }
    let (mut places, mut faults) = (Vec::new(), Vec::new());
    for entry in entries {
        match parse(entry) {
            Ok(place) if is_fixed(&place) && places.contains(&place) => {
                faults.push(format!("names {} twice: remove one", shown(entry)));
            }
            Ok(place) => places.push(place),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { Ok(places) } else { Err(faults) }
}

/// Whether it is the same place each time: port 0 is not.
fn is_fixed(place: &Listen) -> bool {
    !matches!(place, Listen::Tcp(address) if address.port() == 0)
}

fn parse(entry: &str) -> Result<Listen, String> {
    if let Some(path) = entry.strip_prefix("unix:") {
        return socket(entry, path);
    }
    let named = entry.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let local = named.map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let Some(address) = local.or_else(|| entry.parse().ok()) else {
        return Err(format!(
            "holds {}, which is no address: write `127.0.0.1:7420`, `[::1]:7420`, `localhost:7420` or `unix:/path`",
            shown(entry)
        ));
    };
    if !address.ip().to_canonical().is_loopback() {
        return Err(format!(
            "holds {}, which other machines can reach: there are no capabilities yet, so whoever reaches the port \
             could read all; use a loopback address, a unix socket, or a proxy on the same machine",
            shown(entry)
        ));
    }
    Ok(Listen::Tcp(address))
}

fn socket(entry: &str, path: &str) -> Result<Listen, String> {
    if path.is_empty() || path.contains('\0') {
        return Err(format!("holds {}, which names no file: write `unix:/path`", shown(entry)));
    }
    if path.len() > SOCKET_BYTES_MAX {
        return Err(format!(
            "holds {}, a path of {} bytes, the most is {SOCKET_BYTES_MAX}: shorten it",
            shown(entry),
            path.len()
        ));
    }
    Ok(Listen::Unix(PathBuf::from(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_sockets_pass() {
        let entries =
            ["127.0.0.1:7420", "localhost:80", "[::1]:0", "[::1]:0", "127.9.9.9:1", "unix:/run/x.sock"];
        let shown: Vec<_> = parse_all(&entries, 1).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            ["127.0.0.1:7420", "127.0.0.1:80", "[::1]:0", "[::1]:0", "127.9.9.9:1", "unix:/run/x.sock"]
        );
    }

    /// Nobody else may reach the port while there are no capabilities.
    #[test]
    fn addresses_that_others_reach_are_refused() {
        for entry in ["0.0.0.0:7420", "[::]:7420", "192.168.1.2:7420", "[::ffff:10.0.0.1]:7420"] {
            let faults = parse_all(&[entry], 1).unwrap_err();
            assert!(faults[0].contains("no capabilities yet"), "{faults:?}");
        }
    }

    #[test]
    fn every_entry_that_is_no_place_is_told() {
        let long = format!("unix:/{}", "x".repeat(103));
        let faults =
            parse_all(&["7420", "example.com:80", "unix:", "", &long, "[::1]:1", "[::1]:1"], 1).unwrap_err();
        assert_eq!(faults.len(), 6, "{faults:?}");
        assert!(parse_all(&[], 1).is_err());
        assert_eq!(parse_all(&[], 0), Ok(Vec::new()));
        assert!(parse_all(&["[::1]:0"; 17], 1).is_err());
    }
}
