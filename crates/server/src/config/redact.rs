//! Redaction: values in messages, without passwords.

use super::unit::one_line;

/// Formats a string for a message: on one line, in backticks, without passwords.
pub(super) fn shown(text: &str) -> String {
    format!("`{}`", one_line(&redacted(text)))
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

/// Whether the path of a URL begins with a host.
pub(super) fn names_host(path: &str) -> bool {
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
}
