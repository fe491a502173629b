//! Key files, and that errors never show a key.

use super::KeyFileError;
use crate::key::{KeyError, KeyId, RootKey, RootKeyStatus};
use crate::keyring::Keyring;

const ONE: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE";
const TWO: &str = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI";

#[test]
fn a_key_file_is_read_and_written() {
    let text = format!("# ours\n\n \t k-2 \t active  {TWO}#made in May \r\nk1 retired {ONE} #\n");
    let keyring = Keyring::parse(&text).unwrap();
    let keys: Vec<_> = keyring.keys().map(|(id, status)| (id.as_str(), status)).collect();
    assert_eq!(keys, [("k-2", RootKeyStatus::Active), ("k1", RootKeyStatus::Retired)]);
    let written = keyring.to_text();
    let expected = format!(
        "# Root keys of Oncebox, secret. Each line: id, status, key.\nk-2 active {TWO} # made in May\nk1 retired {ONE}\n"
    );
    assert_eq!(*written, expected);
    assert_eq!(*Keyring::parse(&written).unwrap().to_text(), expected);
}

#[test]
fn changes_and_the_keys_themselves_are_written() {
    let mut keyring = Keyring::new(KeyId::new("k1").unwrap(), RootKey::new(&[1; 32]).unwrap());
    keyring.rotate(KeyId::new("k2").unwrap(), RootKey::new(&[2; 32]).unwrap()).unwrap();
    assert!(keyring.to_text().ends_with(&format!("\nk1 accepted {ONE}\nk2 active {TWO}\n")));
    assert!(!format!("{keyring:?}").contains(&ONE[..8]));
}

#[test]
fn the_largest_key_file_is_within_its_limit() {
    let mut keyring = Keyring::new(KeyId::new(&"a".repeat(32)).unwrap(), RootKey::new(&[0; 64]).unwrap());
    for byte in 1..64 {
        let id = KeyId::new(&format!("{byte:a>32}")).unwrap();
        keyring.rotate(id, RootKey::new(&[byte; 64]).unwrap()).unwrap();
    }
    let text = keyring.to_text();
    assert!(text.len() <= text.capacity());
    assert_eq!(Keyring::parse(&text).unwrap().keys().count(), 64);
    let long = format!("{}\n{}", *text, "#".repeat(64 * 1024));
    assert!(matches!(Keyring::parse(&long), Err(KeyFileError::TooLong { .. })));
}

#[test]
fn errors_name_the_line_and_never_show_a_key() {
    let (line, id) = (2, KeyId::new("k1").unwrap());
    let key = |error| KeyFileError::Key { line, error };
    for (content, expected) in [
        (format!("k2 active {TWO}"), KeyFileError::SecondActive { line }),
        (format!("k1 accepted {TWO}"), key(KeyError::IdInUse(id.clone()))),
        (format!("k2 accepted {ONE}"), key(KeyError::SameKey(id))),
        (format!("K2 accepted {TWO}"), key(KeyError::Id)),
        (format!("{TWO} accepted k2"), key(KeyError::Id)),
        (format!("k2 {TWO} accepted"), KeyFileError::Status { line }),
        (format!("k2 Accepted {TWO}"), KeyFileError::Status { line }),
        (format!("k2 accepted {TWO} more"), KeyFileError::Form { line }),
        (format!("k2 accepted {TWO}="), KeyFileError::Form { line }),
        (format!("k2 accepted {}+", &TWO[..42]), KeyFileError::Form { line }),
        (format!("k2 {TWO}"), KeyFileError::Form { line }),
        (TWO.to_owned(), KeyFileError::Form { line }),
        (format!("k2 accepted {}", &TWO[..42]), key(KeyError::Length { given: 31 })),
        (format!("k2 accepted {TWO}{TWO}"), KeyFileError::Form { line }),
        (format!("k2 accepted {0}{0}", &TWO[..40].repeat(2)), key(KeyError::Length { given: 120 })),
        ("k2".to_owned(), KeyFileError::Form { line }),
    ] {
        let text = format!("k1 active {ONE}\n{content}\n");
        let error = Keyring::parse(&text).unwrap_err();
        assert_eq!(error, expected, "{content}");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(&TWO[..6]) && !shown.contains(&ONE[..6]), "{shown}");
        assert!(shown.starts_with("line 2 of the key file: "), "{shown}");
    }
}

#[test]
fn one_key_has_to_be_active() {
    for text in [String::new(), "# nothing".to_owned(), format!("k1 accepted {ONE}")] {
        assert_eq!(Keyring::parse(&text).unwrap_err(), KeyFileError::NoActive);
    }
}
