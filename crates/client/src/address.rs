//! The server's address: `http://host:port`, `https://host:port`, or `unix:/path/to.sock`.

use std::path::PathBuf;

use hyper::Uri;

use crate::error::ClientError;

/// The default port of the server.
const PORT_DEFAULT: u16 = 7420;

/// The server's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp { host: String, port: u16, tls: bool },
    Unix { path: PathBuf },
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, ClientError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path.strip_prefix("//").unwrap_or(path));
            return if path.as_os_str().is_empty() || !cfg!(unix) {
                Err(ClientError::invalid(
                    "the address contains no path of a Unix socket: write it as in `unix:/run/oncebox.sock`",
                ))
            } else {
                Ok(Self::Unix { path })
            };
        }
        let invalid = || {
            ClientError::invalid(
                "the address is invalid: write it as in `http://127.0.0.1:7420`, `https://oncebox.example:7420` or `unix:/run/oncebox.sock`",
            )
        };
        let uri: Uri = text.parse().map_err(|_| invalid())?;
        let bare = matches!(uri.path(), "" | "/") && uri.query().is_none();
        let named = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(invalid()),
        };
        match uri.host() {
            Some(host) if bare && named && !host.is_empty() => {
                Ok(Self::Tcp { host: host.to_owned(), port: uri.port_u16().unwrap_or(PORT_DEFAULT), tls })
            }
            _ => Err(invalid()),
        }
    }

    /// The URL without path; it also determines the `Host` header.
    pub(crate) fn origin(&self) -> String {
        match self {
            Self::Tcp { host, port, tls: false } => format!("http://{host}:{port}"),
            Self::Tcp { host, port, tls: true } => format!("https://{host}:{port}"),
            Self::Unix { .. } => "http://localhost".to_owned(),
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp { .. } => f.write_str(&self.origin()),
            Self::Unix { path } => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn valid_addresses_are_parsed() {
        for (text, shown) in [
            ("http://127.0.0.1:7420", "http://127.0.0.1:7420"),
            ("http://localhost/", "http://localhost:7420"),
            ("http://[::1]:80", "http://[::1]:80"),
            ("https://oncebox.example:443", "https://oncebox.example:443"),
            #[cfg(unix)]
            ("unix:/run/a.sock", "unix:/run/a.sock"),
            #[cfg(unix)]
            ("unix:///run/a.sock", "unix:/run/a.sock"),
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn invalid_addresses_are_rejected_with_advice() {
        for text in ["", "localhost:7420", "unix:", "https://a/v1", "http://a/v1", "http://u:p@a", "ftp://a"]
        {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains(": "), "{error}");
        }
    }
}
