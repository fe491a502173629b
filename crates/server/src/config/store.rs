//! The URL of the store: validation.

use super::redact::{names_host, shown};

/// Checks the URL as far as possible without opening the store. The error text continues a sentence.
pub(super) fn check(url: &str) -> Result<(), String> {
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    let path = rest.split_once('?').map_or(rest, |(path, _)| path);
    match scheme {
        "memory" if !url.contains(':') => Err("is `memory`, without the colon: write `memory:`".to_owned()),
        "memory" if path.is_empty() => Ok(()),
        "memory" => Err(format!("is {}, but the memory store has no path: write `memory:`", shown(url))),
        "embedded" if path.is_empty() => {
            Err(format!("is {}, which has no directory: write `embedded:./data`", shown(url)))
        }
        "embedded" if names_host(path) => {
            Err(format!("is {}, which names a host: write `embedded:./data`", shown(url)))
        }
        "embedded" => Ok(()),
        "postgres" | "postgresql" if names_host(path) => Ok(()),
        "postgres" | "postgresql" => Err("has no host: write `postgres://user@host/database`".to_owned()),
        _ => Err(format!(
            "is {}, which is not a supported store: use `memory:`, `embedded:DIRECTORY` or `postgres://HOST/DATABASE`",
            shown(url)
        )),
    }
}

/// Whether the store is lost with the process.
pub(super) fn is_memory(url: &str) -> bool {
    url.starts_with("memory:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_supported_urls_are_valid() {
        for url in [
            "memory:",
            "memory:?messages_max=5",
            "embedded:./data",
            "embedded:///srv/data?durability=os",
            "postgres://h/d",
            "postgresql://u:p@h/d?schema=x",
        ] {
            assert_eq!(check(url), Ok(()), "{url}");
        }
        for url in [
            "",
            "memory",
            "memory:x",
            "embedded:",
            "embedded:?a=b",
            "embedded://host/x",
            "sqlite:x",
            "postgres:x",
        ] {
            assert!(check(url).is_err(), "{url}");
        }
    }
}
