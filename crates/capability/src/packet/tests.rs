//! The published vector, and everything that the format forbids.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::Packet;
use crate::key::RootKey;
use crate::token_error::TokenError;

const VECTOR: &str = "AgEXaHR0cDovL29uY2Vib3guZXhhbXBsZS8CE2sxOjAxMjM0NTY3ODlhYmNkZWYAAghvcCA9IGFjawACDnRvcGljID0gb3JkZXJzAAAGIBGHJlZ64RD7b1npy_f3TiIIgEBShfJgnULn2KJZno0c";
const SIGNATURE: [u8; 34] = {
    let mut field = [9; 34];
    (field[0], field[1]) = (6, 32);
    field
};

/// Made by pymacaroons 0.13.0.
#[test]
fn the_vector_of_another_implementation_is_made_and_verified() {
    let root = RootKey::new(b"this is our super secret key; only we should know it").unwrap();
    let location = Some("http://oncebox.example/".to_owned());
    let mut packet = Packet::sign(&root, location, "k1:0123456789abcdef".to_owned());
    packet.add("op = ack".to_owned()).unwrap();
    packet.add("topic = orders".to_owned()).unwrap();
    assert_eq!(URL_SAFE_NO_PAD.encode(packet.to_bytes()), VECTOR);

    let parsed = Packet::parse(&URL_SAFE_NO_PAD.decode(VECTOR).unwrap()).unwrap();
    assert_eq!((parsed.identifier(), parsed.caveats().len()), ("k1:0123456789abcdef", 2));
    assert!(parsed.is_signed_by(&root));
    let other = RootKey::new(b"this is our super secret key; only we should know IT").unwrap();
    assert!(!parsed.is_signed_by(&other));
}

/// A field with a length below 128.
fn field(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[kind, u8::try_from(content.len()).unwrap()], content].concat()
}

fn parse(parts: &[&[u8]]) -> Result<Vec<u8>, TokenError> {
    Packet::parse(&parts.concat()).map(|packet| packet.to_bytes())
}

#[test]
fn what_is_accepted_is_written_again_byte_by_byte() {
    let (location, id, caveat) = (field(1, b"here"), field(2, b"id"), field(2, b"a = b"));
    for parts in [
        &[&[2][..], &location, &id, &[0], &caveat, &[0], &caveat, &[0], &[0], &SIGNATURE][..],
        &[&[2], &field(1, b""), &id, &[0], &[0], &SIGNATURE],
        &[&[2], &id, &[0], &[0], &SIGNATURE],
    ] {
        assert_eq!(parse(parts).unwrap(), parts.concat());
    }
}

#[test]
fn other_fields_are_refused() {
    let (location, id, caveat) = (field(1, b"here"), field(2, b"id"), field(2, b"a = b"));
    let third_party = field(4, b"vid");
    let misplaced = TokenError::Format("a field is repeated, misplaced or unknown");
    for parts in [
        &[&[2][..], &location, &location, &id, &[0], &[0], &SIGNATURE][..],
        &[&[2], &id, &location, &[0], &[0], &SIGNATURE],
        &[&[2], &id, &id, &[0], &[0], &SIGNATURE],
        &[&[2], &location, &[0], &[0], &SIGNATURE],
        &[&[2], &id, &third_party, &[0], &[0], &SIGNATURE],
        &[&[2], &id, &[0], &caveat, &caveat, &[0], &[0], &SIGNATURE],
        &[&[2], &id, &[0], &caveat, &third_party, &[0], &[0], &SIGNATURE],
        &[&[2], &id, &[0], &location, &caveat, &[0], &[0], &SIGNATURE],
        &[&[2], &id, &[0], &third_party, &[0], &[0], &SIGNATURE],
        &[&[2], &id, &[0], &[0], &[0], &SIGNATURE],
        &[&[2], &id, &[0], &[0], &field(5, &[9; 32])],
        &[&[2], &id, &[0], &SIGNATURE],
    ] {
        assert_eq!(parse(parts).unwrap_err(), misplaced, "{parts:?}");
    }
    for (length, problem) in [(31, "does not have 32"), (33, "does not have 32"), (0, "does not have 32")] {
        let signature = field(6, &vec![9; length]);
        let error = parse(&[&[2], &id, &[0], &[0], &signature]).unwrap_err().to_string();
        assert!(error.contains(problem), "{length}: {error}");
    }
}

#[test]
fn other_bytes_are_refused() {
    let (id, end) = (field(2, b"id"), [&[0, 0][..], &SIGNATURE].concat());
    for (parts, problem) in [
        (&[&[1][..], &id, &end][..], "another version"),
        (&[&[], &[]], "too early"),
        (&[&[2], &id, &end[..end.len() - 1]], "too early"),
        (&[&[2], &id, &end, &[0]], "after its signature"),
        (&[&[2], &id, &end, &SIGNATURE], "after its signature"),
        (&[&[2], &[0x82, 0], &id[1..], &end], "longer than necessary"),
        (&[&[2], &[2, 0x82, 0], b"id", &end], "longer than necessary"),
        (&[&[2], &id, &[0x80, 0], &end], "longer than necessary"),
        (&[&[2], &[2, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]], "too large"),
        (&[&[2], &field(2, b"\xFF"), &end], "not text"),
        (&[&[2], &field(2, b"i\nd"), &end], "not text"),
        (&[&[2], &id, &[0], &field(2, b"a = \x1B[2J"), &[0], &end[1..]], "not text"),
        (&[&[2], &id, &[0], &field(2, "a = \u{85}".as_bytes()), &[0], &end[1..]], "not text"),
    ] {
        let error = parse(parts).unwrap_err().to_string();
        assert!(error.contains(problem), "{parts:?}: {error}");
    }
}

#[test]
fn a_part_over_its_limit_is_named() {
    let id = field(2, b"id");
    let long = |kind: u8, length: u16| {
        let [low, high] = (((length >> 7) << 8) | (length & 0x7F) | 0x80).to_le_bytes();
        [&[kind, low, high], &vec![b'x'; usize::from(length)][..]].concat()
    };
    let caveat = |length| parse(&[&[2], &id, &[0], &long(2, length), &[0, 0], &SIGNATURE]);
    let location = |length| parse(&[&[2], &long(1, length), &id, &[0, 0], &SIGNATURE]);
    assert_eq!(caveat(256).unwrap().len(), 1 + 4 + 1 + 259 + 2 + 34);
    assert!(location(256).is_ok());
    for (outcome, part) in
        [(caveat(257), "a caveat of the token"), (location(257), "the location of the token")]
    {
        assert_eq!(outcome.unwrap_err(), TokenError::TooLong { part, given: 257, limit: 256 });
    }
    let part = "the identifier of the token";
    let identifier = parse(&[&[2], &field(2, &[b'x'; 68]), &[0, 0], &SIGNATURE]);
    assert_eq!(identifier.unwrap_err(), TokenError::TooLong { part, given: 68, limit: 67 });
    let part = "the token";
    let whole = TokenError::TooLong { part, given: 16_385, limit: 16_384 };
    assert_eq!(parse(&[&vec![2; 16_385]]).unwrap_err(), whole);
    assert_ne!(parse(&[&vec![2; 16_384]]).unwrap_err(), whole);
}

#[test]
fn at_most_32_caveats_are_parsed() {
    let (id, caveat) = (field(2, b"id"), [&field(2, b"a = b")[..], &[0]].concat());
    let of = |count| parse(&[&[2], &id, &[0], &caveat.repeat(count), &[0], &SIGNATURE]);
    assert!(of(32).is_ok());
    assert_eq!(of(33).unwrap_err(), TokenError::TooManyCaveats);
}
