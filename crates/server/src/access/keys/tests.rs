//! Key files as they are found, and verified tokens.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use oncebox_capability::{AuthReason, Caveat, KeyId, Keyring, Nonce, Refusal, RootKey, RootKeyStatus, Token};
use tempfile::TempDir;

use super::{KeyFileProblem, Keys};

fn keyring() -> Keyring {
    Keyring::new(KeyId::new("k1").unwrap(), RootKey::new(&[1; 32]).unwrap())
}

fn key_file(directory: &TempDir, text: &str, mode: u32) -> PathBuf {
    let path = directory.path().join("keys");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

fn mint(keyring: &Keyring) -> Token {
    keyring.mint(Nonce::new([7; 16]), &[Caveat::Expires(1_900_000_000)]).unwrap()
}

#[test]
fn a_key_file_that_others_can_access_is_refused() {
    let directory = TempDir::new().unwrap();
    let text = keyring().to_text();
    for mode in [0o600, 0o400, 0o700] {
        let path = key_file(&directory, &text, mode);
        let keys = Keys::read(&path, Duration::ZERO).unwrap();
        assert_eq!(keys.statuses().collect::<Vec<_>>(), [("k1", "active")]);
        fs::remove_file(path).unwrap();
    }
    for mode in [0o640, 0o604, 0o620, 0o602, 0o666, 0o601, 0o610] {
        let path = key_file(&directory, &text, mode);
        let problem = Keys::read(&path, Duration::ZERO).err().unwrap();
        assert!(matches!(problem, KeyFileProblem::NotPrivate(_)), "{mode:o}");
        let text = problem.to_string();
        assert!(text.contains(&format!("{mode:03o}")) && text.contains("chmod 600"), "{text}");
    }
}

#[test]
fn a_file_that_is_no_key_file_is_refused() {
    let directory = TempDir::new().unwrap();
    let problem = |path: &PathBuf| Keys::read(path, Duration::ZERO).err().unwrap().to_string();
    let missing = directory.path().join("missing");
    assert!(problem(&missing).contains("oncebox cap keygen"));
    for (text, expected) in
        [("", "active"), ("k1 active short", "line 1"), (&"#".repeat(65 * 1024), "correct `auth.key_file`")]
    {
        let shown = problem(&key_file(&directory, text, 0o600));
        assert!(shown.contains(expected), "{shown}");
    }
    let path = directory.path().join("keys");
    fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(problem(&path).contains("not text"));
    assert!(Keys::read(directory.path(), Duration::ZERO).is_err());
    let good = key_file(&directory, &keyring().to_text(), 0o600);
    assert!(Keys::read(&good, Duration::from_secs(121)).is_err());
}

/// What is cached is the same as what is not: full, after it was purged, and for tokens too long for the cache.
#[test]
fn the_cache_changes_no_decision() {
    let directory = TempDir::new().unwrap();
    let mut keyring = keyring();
    let token = mint(&keyring);
    keyring.rotate(KeyId::new("k2").unwrap(), RootKey::new(&[2; 32]).unwrap()).unwrap();
    let newer = mint(&keyring);
    keyring.set_status(&KeyId::new("k1").unwrap(), RootKeyStatus::Retired).unwrap();
    let keys = Keys::read(&key_file(&directory, &keyring.to_text(), 0o600), Duration::ZERO).unwrap();
    let long = (0..28).fold(newer.clone(), |token, number| {
        token.attenuate(&Caveat::parse(&format!("name = {}{number}", "n".repeat(60))).unwrap()).unwrap()
    });
    assert!(long.to_text().len() > 2_048);
    let mut forged = newer.to_text();
    forged.replace_range(forged.len() - 5.., "AAAAA");
    let check = |moment| {
        for (token, is_retired) in [(&token, true), (&newer, false), (&long, false)] {
            assert_eq!(keys.known(&token.to_text()).unwrap().is_retired, is_retired, "{moment}");
        }
        let refused = [(forged.as_str(), AuthReason::BadSignature), ("x", AuthReason::Malformed)];
        for (text, reason) in refused {
            assert_eq!(keys.known(text).err(), Some(Refusal::Auth(reason)), "{moment}");
        }
    };
    check("empty");
    check("cached");
    for number in 0..5_000 {
        let token = newer.attenuate(&Caveat::Expires(number)).unwrap();
        assert_eq!(keys.known(&token.to_text()).unwrap().verified.expires(), number);
    }
    check("after more tokens than the cache holds");
    keys.purge();
    check("purged");
}
