//! Fast ASCII formatting of numbers and bytes. `fmt` writes them digit by digit, which takes longer than everything
//! else in a delivery.

use std::fmt;

const HEX: &[u8; 16] = b"0123456789abcdef";
/// The number of bytes that are formatted at once.
const CHUNK_BYTES: usize = 32;

/// A value with an ASCII text form.
pub trait AppendAscii {
    /// Appends the same text as `Display`.
    fn append_to(&self, text: &mut Vec<u8>);
}

/// Writes bytes as two hexadecimal digits each.
pub fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    for chunk in bytes.chunks(CHUNK_BYTES) {
        let mut digits = [0; CHUNK_BYTES * 2];
        put_hex(&mut digits, chunk);
        write_ascii(f, &digits[..chunk.len() * 2])?;
    }
    Ok(())
}

/// Appends bytes as two hexadecimal digits each.
pub fn append_hex(text: &mut Vec<u8>, bytes: &[u8]) {
    let start = text.len();
    text.resize(start + bytes.len() * 2, 0);
    put_hex(&mut text[start..], bytes);
}

fn put_hex(digits: &mut [u8], bytes: &[u8]) {
    for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
        *pair = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
    }
}

/// Parses exactly `N` bytes of two hexadecimal digits each; none if the text is anything else.
pub fn read_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Writes bytes that are known to be ASCII.
pub fn write_ascii(f: &mut fmt::Formatter<'_>, ascii: &[u8]) -> fmt::Result {
    f.write_str(std::str::from_utf8(ascii).map_err(|_| fmt::Error)?)
}

/// Fills `digits` with the last decimal digits of a number, with leading zeros.
pub(crate) fn put_decimal(digits: &mut [u8], mut number: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::{AppendAscii, put_decimal, read_hex, write_hex};
    use crate::{Fingerprint, Timestamp};

    #[test]
    fn appending_and_displaying_give_the_same_text() {
        fn appended(value: &impl AppendAscii) -> String {
            let mut text = b"x".to_vec();
            value.append_to(&mut text);
            String::from_utf8(text).unwrap()
        }
        for millis in
            [0, 1, 951_782_400_123, 253_402_300_799_999, 253_402_300_800_000, u64::MAX - 1, u64::MAX]
        {
            let at = Timestamp::from_millis(millis);
            assert_eq!(appended(&at), format!("x{at}"));
        }
        let hash = Fingerprint::of_bytes(b"hello");
        assert_eq!(appended(&hash), format!("x{hash}"));
    }

    struct Hex<'a>(&'a [u8]);

    impl fmt::Display for Hex<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write_hex(f, self.0)
        }
    }

    #[test]
    fn any_number_of_bytes_is_written_in_order() {
        let bytes: Vec<_> = (0..=255).collect();
        for length in [0, 1, 31, 32, 33, 64, 256] {
            let text = Hex(&bytes[..length]).to_string();
            let read = (0..length).map(|index| u8::from_str_radix(&text[index * 2..][..2], 16));
            assert!(read.eq(bytes[..length].iter().copied().map(Ok)), "{text}");
            assert_eq!(text.len(), length * 2);
        }
    }

    #[test]
    fn only_hexadecimal_digits_are_parsed() {
        assert_eq!(read_hex("00fFa9"), Some([0, 255, 0xa9]));
        for wrong in ["", "00", "00ff", "00ffa9b", "00ffa9bc", "+0ffa9", "00ffg9", "00ff\u{e4}"] {
            assert_eq!(read_hex::<3>(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn decimals_have_leading_zeros_and_drop_high_digits() {
        let mut digits = [0; 4];
        put_decimal(&mut digits, 42);
        assert_eq!(&digits, b"0042");
        put_decimal(&mut digits, 123_456);
        assert_eq!(&digits, b"3456");
    }
}
