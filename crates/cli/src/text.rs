//! Escapes untrusted text, so that it cannot control the terminal.

use oncebox_client::wire::Base64;
use serde_json::Value;

/// The text on one line, with invisible characters escaped.
pub(crate) fn escape(text: &str) -> String {
    text.chars().map(|char| if is_visible(char) { char.to_string() } else { escape_char(char) }).collect()
}

/// The text with invisible characters escaped, except line feeds and tabs.
pub(crate) fn escape_multiline(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let shown = |char| is_visible(char) || matches!(char, '\n' | '\t');
    text.chars().map(|char| if shown(char) { char.to_string() } else { escape_char(char) }).collect()
}

/// The same JSON document, with characters that could control the terminal escaped.
pub(crate) fn escape_json(text: &str) -> String {
    let escape_char = |char: char| format!("\\u{:04x}", u32::from(char));
    let shown = |char: char| is_visible(char) || char == '\n';
    text.chars().map(|char| if shown(char) { char.to_string() } else { escape_char(char) }).collect()
}

/// A payload as text if it is valid text, otherwise as base64 with a note.
pub(crate) fn payload(bytes: &Base64) -> String {
    match std::str::from_utf8(&bytes.0) {
        Ok(text) if !text.contains('\0') => escape_multiline(text),
        _ => format!("{}\n({} bytes that are not text, shown in base64)", base64(bytes), bytes.0.len()),
    }
}

fn base64(bytes: &Base64) -> String {
    match serde_json::to_value(bytes) {
        Ok(Value::String(text)) => text,
        _ => String::new(),
    }
}

fn escape_char(char: char) -> String {
    char.escape_default().to_string()
}

/// False for control characters, line separators and those that change the text direction; all of these are below
/// U+FFFF.
fn is_visible(char: char) -> bool {
    let invisible = matches!(
        char,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{61c}' | '\u{feff}'
    );
    !char.is_control() && !invisible
}

#[cfg(test)]
mod tests {
    use oncebox_client::wire::Base64;

    use super::{escape, escape_json, escape_multiline, payload};

    #[test]
    fn control_characters_are_escaped() {
        let hostile = "a\u{1b}[2J\u{9b}31m\u{7f}\r\u{202e}b\nc\tü";
        assert_eq!(escape(hostile), r"a\u{1b}[2J\u{9b}31m\u{7f}\r\u{202e}b\nc\tü");
        assert_eq!(escape_multiline("a\r\nb\rc\t\u{1b}"), "a\nb\\rc\t\\u{1b}");
    }

    #[test]
    fn escaped_json_is_equivalent() {
        let text = serde_json::to_string("a\u{9b}\u{7f}\u{202e}\u{1b}ü").unwrap();
        let safe = escape_json(&text);
        assert!(safe.chars().all(|char| !char.is_control() && char != '\u{202e}'), "{safe}");
        let (before, after): (String, String) =
            (serde_json::from_str(&text).unwrap(), serde_json::from_str(&safe).unwrap());
        assert_eq!(before, after);
    }

    #[test]
    fn a_payload_is_text_or_base64() {
        assert_eq!(payload(&Base64::from(b"hi\x1b".to_vec())), "hi\\u{1b}");
        let bytes = payload(&Base64::from(vec![255, 254]));
        assert_eq!(bytes, "//4=\n(2 bytes that are not text, shown in base64)");
        assert!(payload(&Base64::from(b"a\0b".to_vec())).contains("base64"));
    }
}
