//! Percent-encoding, taken by its letter: `%` and two hex digits, and UTF-8 in the end.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The text that is encoded; none if a `%` is followed by anything but two hex digits, or the bytes are not UTF-8.
pub(super) fn decode(text: &str) -> Option<Cow<'_, str>> {
    let mut rest = text.as_bytes();
    while let Some(place) = rest.iter().position(|byte| *byte == b'%') {
        let digits = rest.get(place + 1..place + 3)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        rest = &rest[place + 3..];
    }
    percent_decode_str(text).decode_utf8().ok()
}

/// Whether it can be decoded.
pub(super) fn is_sound(text: &str) -> bool {
    // Most have nothing to decode.
    !text.contains('%') || decode(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::{decode, is_sound};

    #[test]
    fn what_is_encoded_by_the_letter_is_decoded() {
        for (text, decoded) in [
            ("", ""),
            ("a b", "a b"),
            ("%41%2f%2F", "A//"),
            ("%C3%bc", "ü"),
            ("ü%25zz", "ü%zz"),
            ("a+b", "a+b"),
        ] {
            assert_eq!(decode(text).as_deref(), Some(decoded), "{text}");
            assert!(is_sound(text), "{text}");
        }
    }

    #[test]
    fn what_is_not_is_refused() {
        for text in
            ["%", "%4", "a%", "%zz", "%4z", "%z4", "%%41", "%+1", "% 1", "%FF", "%C3", "%C3/%BC", "%ED%A0%80"]
        {
            assert!(decode(text).is_none() && !is_sound(text), "{text}");
        }
    }
}
