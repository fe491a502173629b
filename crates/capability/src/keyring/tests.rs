//! Keys and their status, and attacks on tokens.

use super::Keyring;
use crate::caveat::Caveat;
use crate::identifier::Nonce;
use crate::key::{KeyError, KeyId, RootKey, RootKeyStatus};
use crate::packet::Packet;
use crate::refusal::{AuthReason, Refusal, ScopeReason};
use crate::token::Token;

const IDENTIFIER: &str = "1:k1:07070707070707070707070707070707";

fn id(id: &str) -> KeyId {
    KeyId::new(id).unwrap()
}

fn root(byte: u8) -> RootKey {
    RootKey::new(&[byte; 32]).unwrap()
}

fn keyring() -> Keyring {
    Keyring::new(id("k1"), root(1))
}

fn mint(keyring: &Keyring, caveats: &[&str]) -> Token {
    let caveats: Vec<_> = caveats.iter().map(|text| Caveat::parse(text).unwrap()).collect();
    keyring.mint(Nonce::new([7; 16]), &caveats).unwrap()
}

/// A token that is signed with the right key, of any texts.
fn signed(identifier: &str, caveats: &[&str]) -> Packet {
    let mut packet = Packet::sign(&root(1), None, identifier.to_owned());
    for text in caveats {
        packet.add((*text).to_owned()).unwrap();
    }
    packet
}

/// A token with other texts and the signature of this one.
fn forged(signature_of: &Token, identifier: &str, caveats: &[&str]) -> Token {
    let (mut bytes, real) = (signed(identifier, caveats).to_bytes(), signature_of.to_bytes());
    let start = bytes.len() - 32;
    bytes[start..].copy_from_slice(&real[real.len() - 32..]);
    Token::from_bytes(&bytes).unwrap()
}

fn refusal(token: &Token) -> Option<Refusal> {
    keyring().verify(token).err()
}

const BAD_SIGNATURE: Option<Refusal> = Some(Refusal::Auth(AuthReason::BadSignature));

#[test]
fn caveats_cannot_be_removed_reordered_or_changed() {
    let token = mint(&keyring(), &["op = ack", "expires = 90", "topic = a"]);
    assert_eq!(refusal(&forged(&token, IDENTIFIER, &["op = ack", "expires = 90", "topic = a"])), None);
    for caveats in [
        &["op = ack", "expires = 90"][..],
        &["expires = 90", "topic = a"],
        &["expires = 90"],
        &[],
        &["expires = 90", "op = ack", "topic = a"],
        &["op = ack", "topic = a", "expires = 90"],
        &["op = ack", "expires = 91", "topic = a"],
        &["op = nack", "expires = 90", "topic = a"],
        &["op = ack", "expires = 90", "topic = A"],
        &["op = ack", "expires = 90", "topic = ab"],
        &["op = ack", "expires = 90", "topic = a", "topic = a"],
        &["op = ack", "expires = 90", "topic = a", "name = x"],
    ] {
        assert_eq!(refusal(&forged(&token, IDENTIFIER, caveats)), BAD_SIGNATURE, "{caveats:?}");
    }
}

#[test]
fn another_identifier_has_another_signature() {
    let mut both = keyring();
    both.rotate(id("k2"), root(2)).unwrap();
    let token = mint(&keyring(), &["expires = 90"]);
    both.verify(&token).unwrap();
    // The same nonce, the other key.
    let confused = forged(&token, "1:k2:07070707070707070707070707070707", &["expires = 90"]);
    assert_eq!(both.verify(&confused).unwrap_err(), AuthReason::BadSignature.into());
    let renamed = forged(&token, "1:k1:07070707070707070707070707070708", &["expires = 90"]);
    assert_eq!(both.verify(&renamed).unwrap_err(), AuthReason::BadSignature.into());
    let unknown = forged(&token, "1:k3:07070707070707070707070707070707", &["expires = 90"]);
    assert_eq!(both.verify(&unknown).unwrap_err(), AuthReason::UnknownKey.into());
}

#[test]
fn a_token_of_another_server_is_refused_also_with_the_same_key_id() {
    let other = Keyring::new(id("k1"), root(2));
    let token = mint(&other, &["expires = 90"]);
    other.verify(&token).unwrap();
    assert_eq!(refusal(&token), BAD_SIGNATURE);
    // A caveat that is appended under another key.
    let appended = token.attenuate(&Caveat::Expires(80)).unwrap();
    let mine = mint(&keyring(), &["expires = 90"]);
    assert_eq!(refusal(&forged(&appended, IDENTIFIER, &["expires = 90", "expires = 80"])), BAD_SIGNATURE);
    assert_eq!(refusal(&mine.attenuate(&Caveat::Expires(80)).unwrap()), None);
}

#[test]
fn caveats_that_are_not_understood_refuse_the_token() {
    for (caveats, expected) in [
        (&["expires = 90", "aud = console"][..], Some("aud")),
        (&["expires = 90", "op = "], Some("op")),
        (&["expires = 90", "op = ack,fly"], Some("op")),
        (&["expires = 90", "namespace = "], Some("namespace")),
        (&["expires = 90", "topic_prefix = orders"], Some("topic_prefix")),
        (&["expires = 90", "OP = ack"], Some("?")),
        (&["expires = 90", ""], Some("?")),
        (&["expires = 090"], Some("expires")),
        (&["expires = 90", "op = ack"], None),
    ] {
        let token = Token::from_bytes(&signed(IDENTIFIER, caveats).to_bytes()).unwrap();
        let expected = expected.map(|name| Refusal::Scope(ScopeReason::UnknownCaveat(name.to_owned())));
        assert_eq!(refusal(&token), expected, "{caveats:?}");
    }
    for caveats in [&[][..], &["op = ack"], &["not_before = 90"]] {
        let token = Token::from_bytes(&signed(IDENTIFIER, caveats).to_bytes()).unwrap();
        assert_eq!(refusal(&token), Some(AuthReason::NoExpiry.into()), "{caveats:?}");
    }
}

#[test]
fn the_status_of_its_key_decides_about_a_token() {
    let mut keyring = keyring();
    let token = mint(&keyring, &["expires = 90"]);
    keyring.rotate(id("k2"), root(2)).unwrap();
    assert_eq!(mint(&keyring, &["expires = 90"]).identifier().key, id("k2"));
    keyring.verify(&token).unwrap();
    for (status, verified, for_settlement) in [
        (RootKeyStatus::Accepted, None, None),
        (RootKeyStatus::Retired, Some(AuthReason::KeyRetired), None),
        (RootKeyStatus::Compromised, Some(AuthReason::KeyCompromised), Some(AuthReason::KeyCompromised)),
    ] {
        keyring.set_status(&id("k1"), status).unwrap();
        assert_eq!(keyring.verify(&token).err(), verified.map(Refusal::Auth));
        assert_eq!(keyring.verify_for_settlement(&token).err(), for_settlement.map(Refusal::Auth));
        let forged = forged(&token, IDENTIFIER, &["expires = 91"]);
        assert_eq!(keyring.verify_for_settlement(&forged).err(), BAD_SIGNATURE);
    }
}

#[test]
fn exactly_one_key_is_active_after_every_change() {
    let mut keyring = keyring();
    let statuses = |keyring: &Keyring| keyring.keys().map(|(_, status)| status).collect::<Vec<_>>();
    let (active, accepted) = (RootKeyStatus::Active, RootKeyStatus::Accepted);
    assert_eq!(keyring.rotate(id("k1"), root(2)), Err(KeyError::IdInUse(id("k1"))));
    assert_eq!(keyring.rotate(id("k2"), root(1)), Err(KeyError::SameKey(id("k1"))));
    assert_eq!(statuses(&keyring), [active]);
    keyring.rotate(id("k2"), root(2)).unwrap();
    assert_eq!(statuses(&keyring), [accepted, active]);
    keyring.set_status(&id("k1"), active).unwrap();
    assert_eq!(statuses(&keyring), [active, accepted]);
    for status in [accepted, RootKeyStatus::Retired, RootKeyStatus::Compromised] {
        assert_eq!(keyring.set_status(&id("k1"), status), Err(KeyError::Active(id("k1"))));
    }
    keyring.set_status(&id("k1"), active).unwrap();
    keyring.set_status(&id("k2"), RootKeyStatus::Compromised).unwrap();
    for status in [active, accepted, RootKeyStatus::Retired] {
        assert_eq!(keyring.set_status(&id("k2"), status), Err(KeyError::Compromised(id("k2"))));
    }
    assert_eq!(keyring.set_status(&id("k3"), active), Err(KeyError::Unknown(id("k3"))));
    assert_eq!(statuses(&keyring), [active, RootKeyStatus::Compromised]);
    for byte in 3..=64 {
        keyring.rotate(id(&format!("k{byte}")), root(byte)).unwrap();
    }
    assert_eq!(keyring.rotate(id("k65"), root(65)), Err(KeyError::TooMany));
    assert_eq!(statuses(&keyring).iter().filter(|status| **status == active).count(), 1);
}

#[test]
fn the_tolerance_for_clocks_has_a_limit() {
    keyring().with_skew_seconds(120).unwrap();
    assert_eq!(keyring().with_skew_seconds(121).unwrap_err(), KeyError::Skew { given: 121 });
}

struct Random(u64);

impl Random {
    /// A step of `SplitMix64`.
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    let (at, other) = (random.below(bytes.len()), random.below(bytes.len()));
    let (start, end) = (at.min(other), at.max(other));
    match random.below(8) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.byte(),
        2 => bytes.insert(at, random.byte()),
        3 => drop(bytes.remove(at)),
        4 => bytes.swap(at, other),
        5 => bytes.truncate(at),
        6 => drop(bytes.drain(start..end)),
        _ => {
            let piece = bytes[start..end].to_vec();
            bytes.splice(at..at, piece);
        }
    }
}

#[test]
fn no_random_mutation_verifies() {
    let keyring = keyring();
    let caveats = ["tenant = a", "op = recv", "topic_prefix = o.", "expires = 90", "name = n"];
    let token = mint(&keyring, &caveats);
    let (binary, text) = (token.to_bytes(), token.to_text());
    let mut random = Random(22);
    let (mut parsed, mut same) = (0, 0);
    for round in 0..10_000 {
        let outcome = if round % 2 == 0 {
            let mut bytes = binary.clone();
            mutate(&mut bytes, &mut random);
            Token::from_bytes(&bytes)
        } else {
            let mut bytes = text.clone().into_bytes();
            mutate(&mut bytes, &mut random);
            Token::parse(&String::from_utf8_lossy(&bytes))
        };
        let Ok(mutant) = outcome else { continue };
        parsed += 1;
        if mutant.to_bytes() == binary {
            same += 1;
            continue;
        }
        assert!(
            keyring.verify(&mutant).is_err(),
            "round {round}: {mutant:?} with caveats {:?}",
            mutant.caveats().collect::<Vec<_>>()
        );
    }
    // The mutations are not so large that parsing finds them all, and few change nothing.
    assert!(parsed > 1_000 && same < 500, "{parsed} parsed, {same} were the same");
    keyring.verify(&token).unwrap();
}
