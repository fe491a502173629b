//! Decisions about heads of requests, and about tokens that have ended.

use std::time::Duration;

use oncebox::Oncebox;
use oncebox_capability::{
    ApiNamespace, ApiOperation, AuthReason, Caveat, KeyId, Keyring, MessageFacts, Nonce, Refusal, RootKey,
    RootKeyStatus, ScopeReason,
};
use tempfile::TempDir;

use super::super::keys::Keys;
use super::super::revocations::Revocations;
use super::super::revoked::{RevocationDetails, RevocationTarget};
use super::{Access, AccessControl, AccessRefusal, RequestHead, Requirement};
use crate::config::AuthConfig;

const NOW: u64 = 1_800_000_000;

struct Fixture {
    control: AccessControl,
    keyring: Keyring,
    directory: TempDir,
    config: AuthConfig,
    now: u64,
}

impl Fixture {
    async fn new() -> Self {
        let oncebox = Oncebox::open("memory:").await.unwrap();
        let control = AccessControl::new(Revocations::in_store(oncebox.store()));
        control.revocations.read().await.unwrap();
        let keyring = Keyring::new(KeyId::new("k1").unwrap(), RootKey::new(&[1; 32]).unwrap());
        let directory = TempDir::new().unwrap();
        Self { control, keyring, directory, config: AuthConfig::default(), now: NOW }
    }

    fn keys(&self) -> Keys {
        use std::os::unix::fs::PermissionsExt;
        let path = self.directory.path().join("keys");
        std::fs::write(&path, self.keyring.to_text()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        Keys::read(&path, Duration::ZERO).unwrap()
    }

    fn token(&self, nonce: u8, caveats: &[&str]) -> String {
        let caveats: Vec<_> = caveats.iter().map(|text| Caveat::parse(text).unwrap()).collect();
        self.keyring.mint(Nonce::new([nonce; 16]), &caveats).unwrap().to_text()
    }

    fn admit(&self, operation: ApiOperation, token: Option<&str>) -> Result<Access, AccessRefusal> {
        let requirement =
            Requirement { operation, namespace: Some(ApiNamespace::Mailbox), is_about_messages: true };
        let head = RequestHead {
            token,
            client: Some("192.0.2.1".parse().unwrap()),
            payload_bytes_min: 10,
            now: self.now,
        };
        self.control.admit(&self.keys(), &self.config, requirement, &head)
    }

    /// Why the token has ended, for an operation that it still allows; or why it is refused.
    fn ended(&self, operation: ApiOperation, token: &str) -> Result<Option<AuthReason>, AccessRefusal> {
        self.admit(operation, Some(token)).map(|access| access.ended())
    }

    async fn revoke(&self, target: RevocationTarget, compromised: bool) {
        let details = RevocationDetails { compromised, actor: String::new(), reason: String::new() };
        self.control.revocations.revoke(target, details).await.unwrap();
    }
}

const SETTLING: [ApiOperation; 4] =
    [ApiOperation::Ack, ApiOperation::Nack, ApiOperation::Settle, ApiOperation::Work];

fn refused(reason: AuthReason) -> Result<Option<AuthReason>, AccessRefusal> {
    Err(AccessRefusal::Token(Refusal::Auth(reason)))
}

#[tokio::test]
async fn a_token_is_demanded_and_its_head_is_checked() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.admit(ApiOperation::Send, None).err(), Some(AccessRefusal::NoToken));
    let good = fixture.token(1, &["expires = 1800000001", "op = send"]);
    assert_eq!(fixture.ended(ApiOperation::Send, &good), Ok(None));
    assert_eq!(fixture.ended(ApiOperation::Send, "x"), refused(AuthReason::Malformed));
    let denied = fixture.ended(ApiOperation::Recv, &good).unwrap_err();
    assert!(matches!(denied, AccessRefusal::Token(Refusal::Scope(ScopeReason::Caveat(_)))), "{denied:?}");
    let small = fixture.token(1, &["expires = 1800000001", "bytes_max = 9"]);
    assert!(fixture.ended(ApiOperation::Send, &small).is_err());
    let elsewhere = fixture.token(1, &["expires = 1800000001", "client = 10.0.0.0/8"]);
    assert!(fixture.ended(ApiOperation::Send, &elsewhere).is_err());
}

/// Settlements come through, because they may be of what was received before; nothing else does.
#[tokio::test]
async fn a_token_that_has_ended_is_good_for_settlements_at_most() {
    let mut fixture = Fixture::new().await;
    let token = fixture.token(1, &["expires = 1800000100"]);
    for (seconds, ended) in [(99, None), (100, Some(AuthReason::Expired)), (9_999, Some(AuthReason::Expired))]
    {
        fixture.now = NOW + seconds;
        for operation in SETTLING {
            assert_eq!(fixture.ended(operation, &token), Ok(ended), "{operation} after {seconds} s");
        }
        for operation in ApiOperation::ALL.iter().copied().filter(|other| !SETTLING.contains(other)) {
            let expected = ended.map_or(Ok(None), refused);
            assert_eq!(fixture.ended(operation, &token), expected, "{operation} after {seconds} s");
        }
    }
    // Revoked or retired: until it expires.
    let nonce = RevocationTarget::Nonce(Nonce::new([1; 16]));
    fixture.revoke(nonce.clone(), false).await;
    fixture.now = NOW;
    assert_eq!(fixture.ended(ApiOperation::Ack, &token), Ok(Some(AuthReason::Revoked)));
    assert_eq!(fixture.ended(ApiOperation::Extend, &token), refused(AuthReason::Revoked));
    assert_eq!(fixture.ended(ApiOperation::Recv, &token), refused(AuthReason::Revoked));
    fixture.now = NOW + 100;
    assert_eq!(fixture.ended(ApiOperation::Ack, &token), refused(AuthReason::Expired));
    // Compromised: nothing.
    fixture.now = NOW;
    fixture.revoke(nonce, true).await;
    assert_eq!(fixture.ended(ApiOperation::Ack, &token), refused(AuthReason::KeyCompromised));

    let another = fixture.token(2, &["expires = 1800000100"]);
    let k1 = KeyId::new("k1").unwrap();
    fixture.keyring.rotate(KeyId::new("k2").unwrap(), RootKey::new(&[2; 32]).unwrap()).unwrap();
    assert_eq!(fixture.ended(ApiOperation::Recv, &another), Ok(None));
    fixture.keyring.set_status(&k1, RootKeyStatus::Retired).unwrap();
    assert_eq!(fixture.ended(ApiOperation::Ack, &another), Ok(Some(AuthReason::KeyRetired)));
    assert_eq!(fixture.ended(ApiOperation::Recv, &another), refused(AuthReason::KeyRetired));
    fixture.now = NOW + 100;
    assert_eq!(fixture.ended(ApiOperation::Ack, &another), refused(AuthReason::Expired));
    fixture.now = NOW;
    fixture.keyring.set_status(&k1, RootKeyStatus::Compromised).unwrap();
    assert_eq!(fixture.ended(ApiOperation::Ack, &another), refused(AuthReason::KeyCompromised));
    let newer = fixture.token(3, &["expires = 1800000100"]);
    assert_eq!(fixture.ended(ApiOperation::Recv, &newer), Ok(None));
    fixture.revoke(RevocationTarget::Key(KeyId::new("k2").unwrap()), false).await;
    assert_eq!(fixture.ended(ApiOperation::Recv, &newer), refused(AuthReason::Revoked));
}

#[tokio::test(start_paused = true)]
async fn without_current_revocations_nothing_is_allowed() {
    let fixture = Fixture::new().await;
    let token = fixture.token(1, &["expires = 1800000100"]);
    tokio::time::advance(fixture.config.cap_cache_ttl + Duration::from_millis(1)).await;
    for operation in [ApiOperation::Send, ApiOperation::Ack] {
        let refused = fixture.ended(operation, &token);
        assert!(matches!(refused, Err(AccessRefusal::RevocationsTooOld(_))), "{refused:?}");
    }
    fixture.control.revocations.read().await.unwrap();
    assert_eq!(fixture.ended(ApiOperation::Send, &token), Ok(None));
}

/// Who receives gets an owner that shows with which token.
#[tokio::test]
async fn a_delivery_belongs_to_the_token_it_was_received_with() {
    let fixture = Fixture::new().await;
    let (token, other) =
        (fixture.token(1, &["expires = 1800000100"]), fixture.token(2, &["expires = 1800000100"]));
    let narrower = fixture.token(1, &["expires = 1800000100", "op = ack,recv"]);
    let access = |token: &str| fixture.admit(ApiOperation::Recv, Some(token)).unwrap();
    let owner = access(&token).owner(77).unwrap();
    assert_eq!(access(&token).owner(77), Some(owner), "the same for a repeat");
    assert_ne!(access(&token).owner(78), Some(owner));
    for (text, received) in [(&token, true), (&narrower, true), (&other, false)] {
        assert_eq!(access(text).limits().unwrap().received(owner), received);
    }
    assert!(Access::Open.owner(77).is_none());
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_when_the_token_ends() {
    let fixture = Fixture::new().await;
    let started = tokio::time::Instant::now();
    let now = || NOW + started.elapsed().as_secs();
    let age_max = Duration::from_secs(30);
    let fresh = fixture.token(1, &["expires = 1800000020"]);
    let access = fixture.admit(ApiOperation::Recv, Some(&fresh)).unwrap();
    fixture.control.until_end(access.limits().unwrap(), age_max, now, |_| true).await;
    assert_eq!(started.elapsed(), Duration::from_secs(20));

    fixture.control.revocations.read().await.unwrap();
    let long = fixture.token(2, &["expires = 1800010000"]);
    let access = fixture.admit(ApiOperation::Recv, Some(&long)).unwrap();
    let grant = access.limits().unwrap();
    let waiting = fixture.control.until_end(grant, age_max, now, |_| true);
    let revoking = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        fixture.revoke(RevocationTarget::Nonce(Nonce::new([9; 16])), false).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        fixture.revoke(RevocationTarget::Nonce(Nonce::new([2; 16])), false).await;
    };
    tokio::join!(waiting, revoking);
    assert_eq!(started.elapsed(), Duration::from_secs(30), "at the moment of its revocation");

    // Its key is retired, and the keys are read again.
    fixture.control.revocations.read().await.unwrap();
    let (retiring, is_good) = (fixture.token(4, &["expires = 1800010000"]), std::cell::Cell::new(true));
    let access = fixture.admit(ApiOperation::Recv, Some(&retiring)).unwrap();
    let grant = access.limits().unwrap();
    let waiting = fixture.control.until_end(grant, age_max, now, |key| key.as_str() == "k1" && is_good.get());
    let reloading = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        is_good.set(false);
        fixture.control.keys_reloaded();
    };
    tokio::join!(waiting, reloading);
    assert_eq!(started.elapsed(), Duration::from_secs(31), "at the moment of the reload");

    // A store that cannot be read.
    let third = fixture.token(3, &["expires = 1800010000"]);
    let access = fixture.admit(ApiOperation::Recv, Some(&third)).unwrap();
    fixture.control.until_end(access.limits().unwrap(), age_max, now, |_| true).await;
    assert!(started.elapsed() <= Duration::from_secs(31 + 45), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_rate_limits_all_messages_of_a_token() {
    let fixture = Fixture::new().await;
    let token = fixture.token(1, &["expires = 1800000100", "rate = 5/s"]);
    let access = fixture.admit(ApiOperation::SendBatch, Some(&token)).unwrap();
    assert_eq!(fixture.control.count(&access, 4), Ok(()));
    assert!(matches!(fixture.control.count(&access, 3), Err(AccessRefusal::Rate(_))));
    let free = fixture.token(2, &["expires = 1800000100"]);
    let free = fixture.admit(ApiOperation::SendBatch, Some(&free)).unwrap();
    assert_eq!(fixture.control.count(&free, 1_000_000), Ok(()));
    assert_eq!(free.check(&MessageFacts { topic: Some("t"), ..MessageFacts::default() }), Ok(()));
}

/// Each narrower token has a rate of its own, and together they do no more than the token they come from.
#[tokio::test(start_paused = true)]
async fn attenuated_tokens_share_the_rate_of_their_origin() {
    let fixture = Fixture::new().await;
    let mut counted = 0;
    for narrower in 1..9 {
        let rate = format!("rate = {narrower}/s");
        let token = fixture.token(1, &["expires = 1800000100", "rate = 10/s", &rate]);
        let access = fixture.admit(ApiOperation::SendBatch, Some(&token)).unwrap();
        counted += (0..narrower).filter(|_| fixture.control.count(&access, 1).is_ok()).count();
    }
    assert_eq!(counted, 10, "without the shared rate, it would be 36");
}

#[tokio::test]
async fn many_refusals_purge_the_verified_tokens() {
    let fixture = Fixture::new().await;
    let keys = fixture.keys();
    let token = fixture.token(1, &["expires = 1800000100"]);
    let requirement =
        Requirement { operation: ApiOperation::Send, namespace: None, is_about_messages: false };
    let admit = |token| {
        let head = RequestHead { token: Some(token), client: None, payload_bytes_min: 0, now: NOW };
        fixture.control.admit(&keys, &fixture.config, requirement, &head).is_ok()
    };
    let first = keys.known(&token).unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &keys.known(&token).unwrap()), "cached");
    for _ in 0..100 {
        assert!(!admit("x"));
    }
    assert!(!std::sync::Arc::ptr_eq(&first, &keys.known(&token).unwrap()), "verified again");
    assert!(admit(&token));
}
