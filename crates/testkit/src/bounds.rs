//! Facts about stores that are full. They need bounds that each store sets in its own way, so they are functions for its own tests
//! and not cases of the conformance suite.

use std::time::Duration;

use oncebox_core::{
    Accepted, Action, Begin, Begun, Bound, Budget, NewMessage, Observed, Operated, Order, Policy, StoreExt,
};

use crate::conformance::kit::{Draft, LEASE, TICK, key, message, owner, seconds, sighting, span};
use crate::fixture::{Fixture, TestResult};
use crate::timed::until;

/// How long the keys below are held after their messages are done.
const KEEP: Duration = seconds(3_600);
/// More keys than any of these stores may hold.
const KEYS_MAX: usize = 1_000;
/// Between two messages: a store may count its keys only from time to time.
const PACE: Duration = Duration::from_millis(20);

/// Takes in and finishes messages until the store has as many keys as it may.
async fn fill(fixture: &Fixture) -> Result<Vec<NewMessage>, Box<dyn std::error::Error + Send + Sync>> {
    let mut taken = Vec::new();
    while taken.len() < KEYS_MAX {
        let next = message(&taken.len().to_string()).hold(Duration::ZERO, Some(KEEP));
        match fixture.again(&next).await? {
            Accepted::New { .. } => {}
            Accepted::Saturated { bound, .. } if bound.name == Bound::KEYS => return Ok(taken),
            other => return Err(format!("{other:?}").into()),
        }
        let delivery = fixture.take().await?;
        fixture.settle(delivery.ack()).await?;
        taken.push(next);
        tokio::time::sleep(PACE).await;
    }
    Err(format!("{} keys were taken in, and there is no end", taken.len()).into())
}

/// A store that has as many keys as it may forgets none before its hold is over: every call that would bring a new key is refused,
/// and every key that is held is answered. When holds are over, there is space again.
///
/// The store may hold few keys, a hundred at most, and has no other bound.
pub async fn a_full_store_forgets_no_key(fixture: Fixture) -> TestResult {
    let taken = fill(&fixture).await?;
    assert!(!taken.is_empty(), "no key fits at all");
    let (new, store) = (message("new"), &fixture.store);
    let hold = Policy::LEDGER.hold;
    let lease = Begin { key: new.key.clone(), owner: owner(1), lease: span(LEASE), hold };
    let mark = Order { target: new.key.clone().into(), action: Action::MarkProcessed { hold } };
    for later in [Duration::ZERO, KEEP.saturating_sub(TICK)] {
        fixture.pass(later).await;
        fixture.upkeep(&Budget::new(1_000)).await?;
        let accepted = fixture.again(&new).await?;
        assert!(
            matches!(accepted, Accepted::Saturated { bound, .. } if bound.name == Bound::KEYS),
            "{accepted:?}"
        );
        let observed = fixture.observe(sighting(key("new"))).await?;
        assert!(matches!(observed, Observed::Saturated { .. }), "{observed:?}");
        let leased = store.begin(std::slice::from_ref(&lease)).await?;
        assert!(matches!(leased[..], [Begun::Saturated { .. }]), "{leased:?}");
        let marked = store.operate_one(&mark).await?;
        assert!(matches!(marked, Operated::Saturated { .. }), "{marked:?}");
        for known in &taken {
            let again = fixture.again(known).await?;
            assert!(matches!(again, Accepted::Duplicate { diverged: false, .. }), "{again:?}");
        }
    }
    fixture.pass(TICK).await;
    until("keys that are no longer held make space", async || {
        let upkept = fixture.upkeep(&Budget::new(1_000)).await;
        upkept.is_ok() && matches!(fixture.again(&new).await, Ok(Accepted::New { .. }))
    })
    .await;
    Ok(())
}

/// Bytes are bounded, for new content and for content that replaces other, and come back to the last one.
///
/// The store may hold 10,000 bytes in memory (`live_bytes_max`).
pub async fn a_store_full_of_bytes_says_so(fixture: Fixture) -> TestResult {
    let sized = |id: &str, byte: u8, bytes: usize| message(id).payload(vec![byte; bytes]);
    fixture.accept(&sized("1", b'x', 5_000)).await?;
    let full = fixture.again(&sized("2", b'x', 4_000)).await?;
    assert!(
        matches!(full, Accepted::Saturated { bound, .. } if bound.name == Bound::LIVE_BYTES && bound.limit == 10_000),
        "{full:?}"
    );
    let larger = fixture.again(&sized("1", b'y', 9_900)).await?;
    assert!(matches!(larger, Accepted::Saturated { .. }), "{larger:?}");
    let kept = fixture.read(key("1")).await?;
    assert_eq!(kept.content.ok_or("with content")?.payload.len(), 5_000);
    let replaced = fixture.again(&sized("1", b'y', 9_000)).await?;
    assert!(matches!(replaced, Accepted::Replaced(_)), "{replaced:?}");
    let delivery = fixture.take().await?;
    fixture.settle(delivery.ack()).await?;
    fixture.accept(&sized("3", b'z', 8_900)).await?;
    Ok(())
}
