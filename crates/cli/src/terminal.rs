//! How wide the terminal is.

/// The width of a terminal that does not say, and of whatever is none.
const COLUMNS: usize = 80;
/// Narrower than this, nothing fits.
const COLUMNS_MIN: usize = 40;
/// Wider than this, nobody reads a line.
const COLUMNS_MAX: usize = 1_000;

/// The columns of the terminal that stdout is. Of none, what the variable `COLUMNS` says, else 80.
pub(crate) fn columns() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    of_stdout().or(told).unwrap_or(COLUMNS).clamp(COLUMNS_MIN, COLUMNS_MAX)
}

#[cfg(unix)]
fn of_stdout() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(not(unix))]
fn of_stdout() -> Option<usize> {
    None
}

/// The text, cut off if it is wider than that.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// The text, without its middle if it is wider than that: names often differ at their ends.
pub(crate) fn cut_inside(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let end = width / 2;
    let start = width.saturating_sub(end + 1);
    text.chars().take(start).chain(['…']).chain(text.chars().skip(length - end)).collect()
}

/// The text in lines that are not wider than that; every line begins with `first` or, after the first one, with `rest`.
pub(crate) fn wrapped(text: &str, width: usize, first: &str, rest: &str) -> Vec<String> {
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
    use super::{cut, cut_inside, wrapped};

    #[test]
    fn what_is_too_wide_is_cut_off() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("äbcd", 3), "äb…");
        assert_eq!(cut_inside("order-17", 8), "order-17");
        assert_eq!(cut_inside("order-2026-000017", 8), "ord…0017");
        assert_eq!([0, 1, 2].map(|width| cut_inside("abcdef", width)), ["…", "…", "…f"]);
    }

    #[test]
    fn long_sentences_are_wrapped_between_words() {
        assert_eq!(wrapped("a b", 80, "  ", "    "), ["  a b"]);
        let text = "word ".repeat(60);
        let lines = wrapped(text.trim_end(), 80, "  ", "    ");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
        assert_eq!(lines.join(" ").split_whitespace().count(), 60);
        let long = "x".repeat(100);
        assert_eq!(wrapped(&format!("a {long}"), 80, "", ""), ["a", &long], "a word stays whole");
    }
}
