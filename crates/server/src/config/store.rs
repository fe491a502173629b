//! The URL of the store: validation, and display without the password.

use super::raw::shown;

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

/// Hides what may be secret: `postgres://user:***@host/db`.
///
/// Prefers hiding too much: a password may contain any character, so it ends at the last `@`, and parameters are hidden
/// for all schemes except `memory` and `embedded`.
pub(super) fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once(':') else { return url.to_owned() };
    let path = rest.split_once('?').map_or(rest, |(path, _)| path);
    if matches!(scheme, "memory" | "embedded") && !names_host(path) {
        return url.to_owned();
    }
    let (slashes, rest) = rest.split_at(rest.len() - rest.trim_start_matches('/').len());
    let (user, rest) = match rest.rsplit_once('@') {
        Some((user, rest)) => {
            (user.split_once(':').map_or("***@".to_owned(), |(user, _)| format!("{user}:***@")), rest)
        }
        None => (String::new(), rest),
    };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, _)) => (rest, "?***"),
        None => (rest, ""),
    };
    format!("{scheme}:{slashes}{user}{rest}{query}")
}

fn names_host(path: &str) -> bool {
    path.starts_with("//") && !path.starts_with("///")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden() {
        for (url, expected) in [
            ("postgres://user:secret@host/db", "postgres://user:***@host/db"),
            ("postgres://user:se/cr?e@t@host/db", "postgres://user:***@host/db"),
            ("redis://secret@host", "redis://***@host"),
            ("postgres://host/db?password=secret", "postgres://host/db?***"),
            ("user:secret@host", "user:***@host"),
            ("embedded://user:secret@host/x", "embedded://user:***@host/x"),
            ("embedded:./a@b?durability=os", "embedded:./a@b?durability=os"),
            ("memory:?messages_max=5", "memory:?messages_max=5"),
            ("127.0.0.1:80", "127.0.0.1:80"),
        ] {
            assert_eq!(redacted(url), expected);
        }
    }

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
