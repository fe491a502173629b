//! Strict percent-encoding: `%` followed by two hex digits, yielding UTF-8.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Decodes a text; `None` if a `%` is not followed by two hex digits, or the bytes are not UTF-8.
pub(super) fn decode(text: &str) -> Option<Cow<'_, str>> {
    let mut rest = text.as_bytes();
    while let Some(index) = rest.iter().position(|byte| *byte == b'%') {
        let digits = rest.get(index + 1..index + 3)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        rest = &rest[index + 3..];
    }
    percent_decode_str(text).decode_utf8().ok()
}

/// Whether a text can be decoded.
pub(super) fn is_valid(text: &str) -> bool {
    // Most texts contain nothing to decode.
    !text.contains('%') || decode(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::{decode, is_valid};

    #[test]
    fn valid_encodings_are_decoded() {
        for (text, decoded) in [
            ("", ""),
            ("a b", "a b"),
            ("%41%2f%2F", "A//"),
            ("%C3%bc", "ü"),
            ("ü%25zz", "ü%zz"),
            ("a+b", "a+b"),
        ] {
            assert_eq!(decode(text).as_deref(), Some(decoded), "{text}");
            assert!(is_valid(text), "{text}");
        }
    }

    #[test]
    fn invalid_encodings_are_rejected() {
        for text in
            ["%", "%4", "a%", "%zz", "%4z", "%z4", "%%41", "%+1", "% 1", "%FF", "%C3", "%C3/%BC", "%ED%A0%80"]
        {
            assert!(decode(text).is_none() && !is_valid(text), "{text}");
        }
    }
}
