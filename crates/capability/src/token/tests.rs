//! Minting, attenuating and the text form.

use super::Token;
use crate::caveat::{Caveat, CaveatError};
use crate::identifier::Nonce;
use crate::key::{KeyId, RootKey};
use crate::token_error::TokenError;

/// Made by pymacaroons 0.13.0 with the key 0, 1, … 31: `op = ack,recv`, `topic_prefix = orders.`,
/// `expires = 1801440000`; with a location, and with an empty one.
const VECTORS: [&str; 2] = [
    "AgEXaHR0cDovL29uY2Vib3guZXhhbXBsZS8CJTE6azE6MDAwMTAyMDMwNDA1MDYwNzA4MDkwYTBiMGMwZDBlMGYAAg1vcCA9IGFjayxyZWN2AAIWdG9waWNfcHJlZml4ID0gb3JkZXJzLgACFGV4cGlyZXMgPSAxODAxNDQwMDAwAAAGIJUDF0Q45nW0ZX81Dppr2MKJz6S879ulUN4VNqq8lzvR",
    "AgEAAiUxOmsxOjAwMDEwMjAzMDQwNTA2MDcwODA5MGEwYjBjMGQwZTBmAAINb3AgPSBhY2sscmVjdgACFnRvcGljX3ByZWZpeCA9IG9yZGVycy4AAhRleHBpcmVzID0gMTgwMTQ0MDAwMAAABiCVAxdEOOZ1tGV_NQ6aa9jCic-kvO_bpVDeFTaqvJc70Q",
];

fn root() -> RootKey {
    let bytes: Vec<u8> = (0..32).collect();
    RootKey::new(&bytes).unwrap()
}

fn mint(caveats: &[&str]) -> Result<Token, TokenError> {
    let nonce = Nonce::parse("000102030405060708090a0b0c0d0e0f").unwrap();
    let caveats: Vec<_> = caveats.iter().map(|text| Caveat::parse(text).unwrap()).collect();
    Token::mint(KeyId::new("k1").unwrap(), &root(), nonce, &caveats)
}

fn texts(token: &Token) -> Vec<&str> {
    token.caveats().map(|(text, _)| text).collect()
}

#[test]
fn tokens_of_another_implementation_are_signed_alike() {
    let ours = mint(&["op = ack,recv", "topic_prefix = orders.", "expires = 1801440000"]).unwrap();
    for vector in VECTORS {
        let token = Token::parse(vector).unwrap();
        assert!(token.is_signed_by(&root()));
        assert_eq!(token.to_text(), vector);
        let (theirs, ours) = (token.to_bytes(), ours.to_bytes());
        assert_eq!(theirs[theirs.len() - 32..], ours[ours.len() - 32..]);
    }
}

#[test]
fn the_text_is_unpadded_base64url_and_nothing_else() {
    let text = mint(&["expires = 1801440000"]).unwrap().to_text();
    assert_eq!(Token::parse(&text).unwrap().to_text(), text);
    let vector = VECTORS[1];
    for other in [
        format!("{text}="),
        format!("{text}=="),
        format!(" {text}"),
        format!("{text}\n"),
        vector.replace('_', "/"),
        vector.replace('-', "+"),
        // The last character of this vector has two unused bits.
        format!("{}R", &vector[..vector.len() - 1]),
        "*".to_owned(),
    ] {
        assert_eq!(Token::parse(&other).unwrap_err(), TokenError::Encoding, "{other}");
    }
    assert_eq!(Token::parse("").unwrap_err(), TokenError::Format("it ends too early"));
    // Too long a text is not even decoded.
    let error = Token::parse(&"*".repeat(21_848)).unwrap_err().to_string();
    assert_eq!(error, "the token is 16386 bytes long, the limit is 16384: use a shorter one");
}

#[test]
fn a_token_is_minted_with_an_expiry_only_and_tenants_come_first() {
    assert_eq!(mint(&[]).unwrap_err(), TokenError::NoExpiry);
    assert_eq!(mint(&["not_before = 7", "op = ack"]).unwrap_err(), TokenError::NoExpiry);
    let token = mint(&["op = ack", "expires = 9", "tenant = a", "topic = t", "tenant = *"]).unwrap();
    assert_eq!(texts(&token), ["tenant = a", "tenant = *", "op = ack", "expires = 9", "topic = t"]);
}

#[test]
fn a_holder_adds_up_to_32_caveats_without_a_key() {
    let mut token = mint(&["expires = 9"]).unwrap();
    let name = Caveat::parse("name = n").unwrap();
    for _ in 1..32 {
        token = token.attenuate(&name).unwrap();
        assert!(Token::parse(&token.to_text()).unwrap().is_signed_by(&root()));
    }
    assert_eq!(token.attenuate(&name).unwrap_err(), TokenError::TooManyCaveats);
    assert_eq!(texts(&token).len(), 32);

    let token = mint(&["expires = 9"]).unwrap();
    let topic = |length| Caveat::parse(&format!("topic = {}", "t".repeat(length))).unwrap();
    token.attenuate(&topic(248)).unwrap();
    let error = token.attenuate(&topic(249)).unwrap_err();
    assert_eq!(error.to_string(), "the caveat is 257 bytes long, the limit is 256: use a shorter one");
    assert_eq!(texts(&token), ["expires = 9"], "attenuating leaves the token as it is");
}

#[test]
fn the_largest_token_is_within_the_limits() {
    let longest = Caveat::parse(&format!("topic = {}", "t".repeat(248))).unwrap();
    let caveats = [vec![longest; 31], vec![Caveat::Expires(u64::MAX)]].concat();
    let key = KeyId::new(&"k".repeat(32)).unwrap();
    let token = Token::mint(key, &root(), Nonce::new([0xFF; 16]), &caveats).unwrap();
    assert_eq!(Token::parse(&token.to_text()).unwrap().to_bytes(), token.to_bytes());
}

#[test]
fn a_foreign_identifier_is_refused() {
    let vector = "AgEXaHR0cDovL29uY2Vib3guZXhhbXBsZS8CE2sxOjAxMjM0NTY3ODlhYmNkZWYAAghvcCA9IGFjawACDnRvcGljID0gb3JkZXJzAAAGIBGHJlZ64RD7b1npy_f3TiIIgEBShfJgnULn2KJZno0c";
    assert_eq!(Token::parse(vector).unwrap_err(), TokenError::Identifier);
}

#[test]
fn inspecting_shows_what_is_understood_and_debugging_shows_no_secret() {
    let mut bytes = mint(&["expires = 9", "op = ack"]).unwrap().to_bytes();
    let end = bytes.len() - 1;
    // Any signature will do.
    bytes[end] ^= 1;
    let start = bytes.windows(2).position(|pair| pair == b"op").unwrap();
    bytes[start] = b'x';
    let token = Token::from_bytes(&bytes).unwrap();
    let caveats: Vec<_> = token.caveats().collect();
    let unknown = CaveatError::Unknown { name: "xp".to_owned() };
    assert_eq!(caveats, [("expires = 9", Ok(Caveat::Expires(9))), ("xp = ack", Err(unknown))]);
    assert_eq!(token.identifier().to_string(), "1:k1:000102030405060708090a0b0c0d0e0f");
    assert_eq!(
        format!("{token:?}"),
        r#"Token { key: KeyId("k1"), nonce: 000102030405060708090a0b0c0d0e0f, caveats: 2 }"#
    );
}
