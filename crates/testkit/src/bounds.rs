//! Cases about full stores. Each store sets its bounds in its own way, so these are functions for its own tests, not
//! cases of the conformance suite.

use std::time::Duration;

use oncebox_core::{
    Accepted, Action, Begin, Begun, Bound, Budget, NewMessage, Observed, Operated, Order, Policy, StoreExt,
};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{Draft, LEASE, TICK, key, message, observation, owner, seconds, span};
use crate::timed::until;

/// How long the keys below are held after their messages are done.
const KEEP: Duration = seconds(3_600);
/// More keys than any of these stores can hold.
const KEYS_MAX: usize = 1_000;
/// The pause between two messages: a store may count its keys only from time to time.
const PAUSE: Duration = Duration::from_millis(20);

/// Accepts and finishes messages until the store has reached its limit of keys.
async fn fill(fixture: &Fixture) -> Result<Vec<NewMessage>, Box<dyn std::error::Error + Send + Sync>> {
    let mut accepted_before = Vec::new();
    while accepted_before.len() < KEYS_MAX {
        let next = message(&accepted_before.len().to_string()).hold(Duration::ZERO, Some(KEEP));
        match fixture.accept_again(&next).await? {
            Accepted::New { .. } => {}
            Accepted::Saturated { bound, .. } if bound.name == Bound::KEYS => return Ok(accepted_before),
            other => return Err(format!("{other:?}").into()),
        }
        let delivery = fixture.claim_one().await?;
        fixture.settle(delivery.ack()).await?;
        accepted_before.push(next);
        tokio::time::sleep(PAUSE).await;
    }
    Err(format!("{} keys were accepted, and the store is still not full", accepted_before.len()).into())
}

/// A store that has reached its limit of keys forgets none before its hold ends: every call that would add a key is
/// refused, and every held key is recognized. When holds end, there is space again.
///
/// The store may hold at most a hundred keys, and has no other bound.
pub async fn a_full_store_forgets_no_key(fixture: Fixture) -> TestResult {
    let accepted_before = fill(&fixture).await?;
    assert!(!accepted_before.is_empty(), "not even one key fits");
    let (new, store) = (message("new"), &fixture.store);
    let hold = Policy::LEDGER.hold;
    let lease = Begin { key: new.key.clone(), owner: owner(1), lease: span(LEASE), hold };
    let mark = Order { target: new.key.clone().into(), action: Action::MarkProcessed { hold } };
    for later in [Duration::ZERO, KEEP.saturating_sub(TICK)] {
        fixture.advance(later).await;
        fixture.maintain(&Budget::new(1_000)).await?;
        let accepted = fixture.accept_again(&new).await?;
        assert!(
            matches!(accepted, Accepted::Saturated { bound, .. } if bound.name == Bound::KEYS),
            "{accepted:?}"
        );
        let observed = fixture.observe(observation(key("new"))).await?;
        assert!(matches!(observed, Observed::Saturated { .. }), "{observed:?}");
        let leased = store.begin(std::slice::from_ref(&lease)).await?;
        assert!(matches!(leased[..], [Begun::Saturated { .. }]), "{leased:?}");
        let marked = store.operate_one(&mark).await?;
        assert!(matches!(marked, Operated::Saturated { .. }), "{marked:?}");
        for known in &accepted_before {
            let again = fixture.accept_again(known).await?;
            assert!(matches!(again, Accepted::Duplicate { diverged: false, .. }), "{again:?}");
        }
    }
    fixture.advance(TICK).await;
    until("keys that are no longer held make space", async || {
        let report = fixture.maintain(&Budget::new(1_000)).await;
        report.is_ok() && matches!(fixture.accept_again(&new).await, Ok(Accepted::New { .. }))
    })
    .await;
    Ok(())
}

/// Bytes are bounded, for new content and for replacing content, and all of them are freed again.
///
/// The store may hold 10,000 bytes in memory (`live_bytes_max`).
pub async fn a_store_full_of_bytes_is_saturated(fixture: Fixture) -> TestResult {
    let sized = |id: &str, byte: u8, bytes: usize| message(id).payload(vec![byte; bytes]);
    fixture.accept(&sized("1", b'x', 5_000)).await?;
    let full = fixture.accept_again(&sized("2", b'x', 4_000)).await?;
    assert!(
        matches!(full, Accepted::Saturated { bound, .. } if bound.name == Bound::LIVE_BYTES && bound.limit == 10_000),
        "{full:?}"
    );
    let larger = fixture.accept_again(&sized("1", b'y', 9_900)).await?;
    assert!(matches!(larger, Accepted::Saturated { .. }), "{larger:?}");
    let kept = fixture.read(key("1")).await?;
    assert_eq!(kept.content.ok_or("with content")?.payload.len(), 5_000);
    let replaced = fixture.accept_again(&sized("1", b'y', 9_000)).await?;
    assert!(matches!(replaced, Accepted::Replaced(_)), "{replaced:?}");
    let delivery = fixture.claim_one().await?;
    fixture.settle(delivery.ack()).await?;
    fixture.accept(&sized("3", b'z', 8_900)).await?;
    Ok(())
}
