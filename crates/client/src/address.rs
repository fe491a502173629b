//! Where the server is: `http://host:port`, or `unix:/path/to.sock`.

use std::path::PathBuf;

use hyper::Uri;

use crate::error::Error;

/// The port of a server that is not told another one.
const PORT: u16 = 7420;

/// Where the server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp { host: String, port: u16 },
    Unix { path: PathBuf },
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path.strip_prefix("//").unwrap_or(path));
            return if path.as_os_str().is_empty() || !cfg!(unix) {
                Err(Error::invalid(
                    "the address names no unix socket: write it as in `unix:/run/oncebox.sock`",
                ))
            } else {
                Ok(Self::Unix { path })
            };
        }
        if text.starts_with("https:") {
            return Err(Error::invalid(
                "the client speaks no TLS: put a proxy in front of it, or use http://",
            ));
        }
        let wrong = || {
            Error::invalid(
                "the address is neither `http://127.0.0.1:7420` nor `unix:/run/oncebox.sock`: fix it",
            )
        };
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let bare = matches!(uri.path(), "" | "/") && uri.query().is_none();
        let named = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        match uri.host() {
            Some(host) if uri.scheme_str() == Some("http") && bare && named && !host.is_empty() => {
                Ok(Self::Tcp { host: host.to_owned(), port: uri.port_u16().unwrap_or(PORT) })
            }
            _ => Err(wrong()),
        }
    }

    /// What stands before the path of a request; also the server's name to those who check it.
    pub(crate) fn origin(&self) -> String {
        match self {
            Self::Tcp { host, port } => format!("http://{host}:{port}"),
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
    fn addresses_are_told_apart() {
        for (text, shown) in [
            ("http://127.0.0.1:7420", "http://127.0.0.1:7420"),
            ("http://localhost/", "http://localhost:7420"),
            ("http://[::1]:80", "http://[::1]:80"),
            #[cfg(unix)]
            ("unix:/run/a.sock", "unix:/run/a.sock"),
            #[cfg(unix)]
            ("unix:///run/a.sock", "unix:/run/a.sock"),
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for text in ["", "localhost:7420", "unix:", "https://a", "http://a/v1", "http://u:p@a", "ftp://a"] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains(": "), "{error}");
        }
    }
}
