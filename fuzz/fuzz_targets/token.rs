//! Parses arbitrary bytes as a token, as its text, as a caveat and as a key file.
//!
//! What parses has one form, and no token verifies that the keyring has not signed.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use oncebox_capability::{Caveat, KeyId, Keyring, Nonce, RootKey, Token};

fn keyring() -> &'static Keyring {
    static KEYRING: OnceLock<Keyring> = OnceLock::new();
    KEYRING.get_or_init(|| Keyring::new(KeyId::new("k1").unwrap(), RootKey::new(&[7; 32]).unwrap()))
}

fn check(token: &Token) {
    assert!(keyring().verify(token).is_err(), "a forged token");
    assert!(keyring().verify_for_settlement(token).is_err(), "a forged token");
    for (text, caveat) in token.caveats() {
        if let Ok(caveat) = caveat {
            assert_eq!(caveat.to_string(), text);
        }
    }
}

/// A token of the keyring with some bytes changed: the input says where and how.
fn tampered(bytes: &[u8]) -> Option<Token> {
    static MINTED: OnceLock<Vec<u8>> = OnceLock::new();
    let minted = MINTED.get_or_init(|| {
        let caveats = ["op = send", "topic_prefix = orders.", "expires = 1800000000"];
        let caveats = caveats.map(|caveat| Caveat::parse(caveat).unwrap());
        keyring().mint(Nonce::new([1; 16]), &caveats).unwrap().to_bytes()
    });
    let mut changed = minted.clone();
    for change in bytes.chunks_exact(2) {
        let place = usize::from(change[0]) % changed.len();
        changed[place] ^= change[1];
    }
    (changed != *minted).then(|| Token::from_bytes(&changed).ok())?
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(token) = Token::from_bytes(bytes) {
        assert_eq!(token.to_bytes(), bytes);
        check(&token);
    }
    if let Some(token) = tampered(bytes) {
        check(&token);
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(token) = Token::parse(text) {
        assert_eq!(token.to_text(), text);
        check(&token);
    }
    if let Ok(caveat) = Caveat::parse(text) {
        assert_eq!(caveat.to_string(), text);
    }
    if let Ok(keyring) = Keyring::parse(text) {
        let written = keyring.to_text();
        let read = Keyring::parse(&written).expect("a key file that was written can be read");
        assert_eq!(*read.to_text(), *written);
    }
});
