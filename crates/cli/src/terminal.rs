//! The width of the terminal, and text that is truncated or wrapped to it.

/// The width if stdout is not a terminal or its size is unknown.
const COLUMNS: usize = 80;
/// Tables do not fit a narrower terminal.
const COLUMNS_MIN: usize = 40;
/// Longer lines are unreadable.
const COLUMNS_MAX: usize = 1_000;

/// The width of the terminal; without one, the value of the variable `COLUMNS`, otherwise 80.
pub(crate) fn columns() -> usize {
    let variable = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    stdout_columns().or(variable).unwrap_or(COLUMNS).clamp(COLUMNS_MIN, COLUMNS_MAX)
}

#[cfg(unix)]
fn stdout_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(not(unix))]
fn stdout_columns() -> Option<usize> {
    None
}

/// The text, truncated at its end to this width.
pub(crate) fn truncate(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// The text, truncated in its middle to this width: names often differ at their ends.
pub(crate) fn truncate_middle(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let end = width / 2;
    let start = width.saturating_sub(end + 1);
    text.chars().take(start).chain(['…']).chain(text.chars().skip(length - end)).collect()
}

/// The text in lines of at most this width. The first line starts with `first`, the others with `rest`.
pub(crate) fn wrap(text: &str, width: usize, first: &str, rest: &str) -> Vec<String> {
    let mut lines = vec![first.to_owned()];
    let mut empty = true;
    for word in text.split(' ') {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if !empty && last + 1 + word.chars().count() > width {
            lines.push(rest.to_owned());
            empty = true;
        }
        if let Some(line) = lines.last_mut() {
            if !empty {
                line.push(' ');
            }
            line.push_str(word);
            empty = false;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{truncate, truncate_middle, wrap};

    #[test]
    fn text_that_is_too_wide_is_truncated() {
        assert_eq!(truncate("abc", 3), "abc");
        assert_eq!(truncate("äbcd", 3), "äb…");
        assert_eq!(truncate_middle("order-17", 8), "order-17");
        assert_eq!(truncate_middle("order-2026-000017", 8), "ord…0017");
        assert_eq!([0, 1, 2].map(|width| truncate_middle("abcdef", width)), ["…", "…", "…f"]);
    }

    #[test]
    fn long_text_is_wrapped_between_words() {
        assert_eq!(wrap("a b", 80, "  ", "    "), ["  a b"]);
        let text = "word ".repeat(60);
        let lines = wrap(text.trim_end(), 80, "  ", "    ");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
        assert_eq!(lines.join(" ").split_whitespace().count(), 60);
        let long = "x".repeat(100);
        assert_eq!(wrap(&format!("a {long}"), 80, "", ""), ["a", &long], "a word is never split");
    }
}
