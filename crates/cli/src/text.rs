//! Texts of others on a terminal: nothing in them may play with it.

use oncebox_client::wire::Base64;
use serde_json::Value;

/// On one line, with everything escaped that is not to be seen.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|char| if is_visible(char) { char.to_string() } else { escape(char) }).collect()
}

/// The same, with its line ends and tabs left as they are.
pub(crate) fn lines(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let shown = |char| is_visible(char) || matches!(char, '\n' | '\t');
    text.chars().map(|char| if shown(char) { char.to_string() } else { escape(char) }).collect()
}

/// JSON with everything escaped that a terminal might obey; still the same JSON.
pub(crate) fn json(text: &str) -> String {
    let escape = |char: char| format!("\\u{:04x}", u32::from(char));
    let shown = |char: char| is_visible(char) || char == '\n';
    text.chars().map(|char| if shown(char) { char.to_string() } else { escape(char) }).collect()
}

/// A payload for people: as text if it is one, else as base64 with a note.
pub(crate) fn payload(bytes: &Base64) -> String {
    match std::str::from_utf8(&bytes.0) {
        Ok(text) if !text.contains('\0') => lines(text),
        _ => format!("{}\n({} bytes that are not text, so in base64)", base64(bytes), bytes.0.len()),
    }
}

fn base64(bytes: &Base64) -> String {
    match serde_json::to_value(bytes) {
        Ok(Value::String(text)) => text,
        _ => String::new(),
    }
}

fn escape(char: char) -> String {
    char.escape_default().to_string()
}

/// Control characters, and those that turn the direction of writing or break lines, are not. All are below U+FFFF.
fn is_visible(char: char) -> bool {
    let turns = matches!(
        char,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{61c}' | '\u{feff}'
    );
    !char.is_control() && !turns
}

#[cfg(test)]
mod tests {
    use oncebox_client::wire::Base64;

    use super::{json, lines, payload, plain};

    #[test]
    fn nothing_plays_with_the_terminal() {
        let evil = "a\u{1b}[2J\u{9b}31m\u{7f}\r\u{202e}b\nc\tü";
        assert_eq!(plain(evil), r"a\u{1b}[2J\u{9b}31m\u{7f}\r\u{202e}b\nc\tü");
        assert_eq!(lines("a\r\nb\rc\t\u{1b}"), "a\nb\\rc\t\\u{1b}");
    }

    #[test]
    fn json_stays_the_same() {
        let text = serde_json::to_string("a\u{9b}\u{7f}\u{202e}\u{1b}ü").unwrap();
        let safe = json(&text);
        assert!(safe.chars().all(|char| !char.is_control() && char != '\u{202e}'), "{safe}");
        let (before, after): (String, String) =
            (serde_json::from_str(&text).unwrap(), serde_json::from_str(&safe).unwrap());
        assert_eq!(before, after);
    }

    #[test]
    fn a_payload_is_text_or_base64() {
        assert_eq!(payload(&Base64::from(b"hi\x1b".to_vec())), "hi\\u{1b}");
        let bytes = payload(&Base64::from(vec![255, 254]));
        assert_eq!(bytes, "//4=\n(2 bytes that are not text, so in base64)");
        assert!(payload(&Base64::from(b"a\0b".to_vec())).contains("base64"));
    }
}
