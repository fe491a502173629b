//! Revocations in a store and in a file: both are read by others, and bounded.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use oncebox::Oncebox;
use oncebox_capability::{AuthReason, Identifier, KeyId, Nonce};
use tempfile::TempDir;
use tokio::time::advance;
use tokio_util::sync::CancellationToken;

use super::{REVOCATIONS_MAX, RevocationTarget, Revocations, RevocationsError, TooOld};
use crate::access::revoked::RevocationDetails;

const MINUTE: Duration = Duration::from_secs(60);

fn nonce(number: u32) -> Nonce {
    Nonce::new(u128::from(number).to_be_bytes())
}

fn token(number: u32) -> Identifier {
    Identifier { key: KeyId::new("k1").unwrap(), nonce: nonce(number) }
}

fn details() -> RevocationDetails {
    RevocationDetails { compromised: false, actor: "ann".to_owned(), reason: "leaked".to_owned() }
}

async fn revoke(revocations: &Revocations, number: u32) -> Result<(), RevocationsError> {
    revocations.revoke(RevocationTarget::Nonce(nonce(number)), details()).await.map(drop)
}

fn reason(revocations: &Revocations, number: u32) -> Option<AuthReason> {
    revocations.current(MINUTE).unwrap().reason(&token(number))
}

#[tokio::test]
async fn a_revocation_applies_at_once_here_and_elsewhere_when_it_is_read() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("revocations");
    let oncebox = Oncebox::open("memory:").await.unwrap();
    for (here, elsewhere) in [
        (Revocations::in_store(oncebox.store()), Revocations::in_store(oncebox.store())),
        (Revocations::in_file(path.clone()), Revocations::in_file(path.clone())),
    ] {
        here.read().await.unwrap();
        elsewhere.read().await.unwrap();
        assert_eq!(reason(&here, 1), None);
        revoke(&here, 1).await.unwrap();
        assert_eq!((reason(&here, 1), reason(&here, 2)), (Some(AuthReason::Revoked), None));
        assert_eq!(reason(&elsewhere, 1), None, "not read yet");
        elsewhere.read().await.unwrap();
        assert_eq!(reason(&elsewhere, 1), Some(AuthReason::Revoked));
        // Again, and stricter.
        let stricter = RevocationDetails { compromised: true, ..details() };
        here.revoke(RevocationTarget::Nonce(nonce(1)), stricter.clone()).await.unwrap();
        // It cannot be undone by revoking again.
        revoke(&here, 1).await.unwrap();
        assert_eq!(reason(&here, 1), Some(AuthReason::KeyCompromised));
        let all = here.current(MINUTE).unwrap();
        let listed = all.list();
        assert_eq!((listed.len(), &listed[0].details), (1, &stricter));
        assert!(listed[0].since.as_millis() > 1_700_000_000_000);
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test(start_paused = true)]
async fn revocations_that_were_read_too_long_ago_are_not_used() {
    let oncebox = Oncebox::open("memory:").await.unwrap();
    let revocations = Revocations::in_store(oncebox.store());
    assert!(matches!(revocations.current(MINUTE), Err(TooOld(_))), "never read");
    revocations.read().await.unwrap();
    advance(MINUTE).await;
    assert!(revocations.current(MINUTE).is_ok());
    advance(Duration::from_millis(1)).await;
    assert!(matches!(revocations.current(MINUTE), Err(TooOld(age)) if age > MINUTE));
    assert!(revocations.finding(MINUTE).unwrap().contains("503"));
    revocations.read().await.unwrap();
    assert_eq!((revocations.current(MINUTE).is_ok(), revocations.finding(MINUTE)), (true, None));
}

/// They are read often enough, and a store that cannot be read is noticed.
#[tokio::test(start_paused = true)]
async fn revocations_are_read_again_and_again() {
    let oncebox = Oncebox::open("memory:").await.unwrap();
    let (here, elsewhere) = (Revocations::in_store(oncebox.store()), Revocations::in_store(oncebox.store()));
    here.read().await.unwrap();
    let here = Arc::new(here);
    let stopping = CancellationToken::new();
    let reader = here.clone();
    let stop = stopping.clone();
    let running = tokio::spawn(async move { reader.run(|| MINUTE, stop).await });
    elsewhere.read().await.unwrap();
    for number in 0..5 {
        revoke(&elsewhere, number).await.unwrap();
        let changed = here.changes();
        tokio::time::timeout(MINUTE, changed).await.unwrap();
        assert_eq!(reason(&here, number), Some(AuthReason::Revoked));
    }
    oncebox.close().await.unwrap();
    tokio::time::sleep(2 * MINUTE).await;
    assert!(here.current(MINUTE).is_err());
    stopping.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn revocations_are_bounded() {
    let oncebox = Oncebox::open("memory:").await.unwrap();
    let in_store = Revocations::in_store(oncebox.store());
    in_store.read().await.unwrap();
    for number in 0..REVOCATIONS_MAX {
        // Without reading all of them each time.
        let target = RevocationTarget::Nonce(nonce(number));
        super::write(oncebox.store().as_ref(), &target, details()).await.unwrap();
    }
    let full = revoke(&in_store, REVOCATIONS_MAX).await.unwrap_err();
    assert!(matches!(full, RevocationsError::Full(_)) && full.to_string().contains("rotate"), "{full}");
    in_store.read().await.unwrap();
    assert_eq!(in_store.current(MINUTE).unwrap().list().len(), 10_000);
    assert!(in_store.finding(MINUTE).unwrap().contains("10000 of 10000"));
    // One that is there can still be replaced.
    revoke(&in_store, 7).await.unwrap();
}

#[tokio::test]
async fn a_damaged_file_of_revocations_is_an_error() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("revocations");
    let revocations = Revocations::in_file(path.clone());
    for text in
        ["", "[", "[{}]", "{}", r#"[{"target":"x","since_ms":1,"compromised":false,"actor":"","reason":""}]"#]
    {
        fs::write(&path, text).unwrap();
        let error = revocations.read().await.unwrap_err().to_string();
        assert!(error.contains("is damaged"), "{text}: {error}");
        assert!(revoke(&revocations, 1).await.is_err(), "{text}");
    }
    assert!(fs::read_to_string(&path).unwrap().contains("\"x\""), "nothing was overwritten");
}

/// Several servers may use the same key file, and a request may be cancelled.
#[tokio::test]
async fn concurrent_revocations_in_a_file_are_all_kept() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("revocations");
    let servers = [(); 4].map(|()| Arc::new(Revocations::in_file(path.clone())));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..40 {
        let server = servers[number as usize % servers.len()].clone();
        tasks.spawn(async move { revoke(&server, number).await.unwrap() });
    }
    tasks.join_all().await;
    servers[0].read().await.unwrap();
    assert_eq!(servers[0].current(MINUTE).unwrap().list().len(), 40);
    let unwritable = Revocations::in_file(directory.path().join("missing/revocations"));
    assert!(unwritable.read().await.is_err(), "known before it is needed");
}

/// A shorter time applies at once.
#[tokio::test(start_paused = true)]
async fn reading_follows_a_shorter_time() {
    let oncebox = Oncebox::open("memory:").await.unwrap();
    let revocations = Arc::new(Revocations::in_store(oncebox.store()));
    revocations.read().await.unwrap();
    let seconds = Arc::new(std::sync::atomic::AtomicU64::new(120));
    let (reader, current) = (revocations.clone(), seconds.clone());
    let age_max = move || Duration::from_secs(current.load(std::sync::atomic::Ordering::Relaxed));
    let running = tokio::spawn(async move { reader.run(age_max, CancellationToken::default()).await });
    tokio::time::sleep(Duration::from_secs(10)).await;
    seconds.store(5, std::sync::atomic::Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(revocations.current(Duration::from_secs(5)).is_ok());
    running.abort();
}
