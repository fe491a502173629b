//! Tests of the ledger.

use std::time::Duration;

use oncebox::ErrorKind;
use oncebox::ledger::{
    BeginOutcome, FinishOutcome, KEEP_MIN, KeyStatus, LEASE_MAX, LEASE_MIN, LeaseToken, ReleaseOutcome,
};

use super::fixture::{Fixture, on_every_store, on_every_store_with};

async fn begin(fixture: &Fixture, key: &str) -> LeaseToken {
    match fixture.oncebox.ledger().try_begin(key, None, None).await.unwrap() {
        BeginOutcome::Acquired { lease, .. } => lease,
        outcome => panic!("{key} can be leased: {outcome:?}"),
    }
}

/// Holds: RULE-16.
#[test]
fn checking_a_key_records_nothing_and_marking_is_unconditional() {
    on_every_store(async |fixture| {
        let ledger = fixture.oncebox.ledger();
        assert!(!ledger.is_processed("k").await.unwrap());
        assert_eq!(ledger.get("k").await.unwrap().status, KeyStatus::Unknown);
        begin(&fixture, "held").await;
        for key in ["k", "held"] {
            ledger.mark_processed(key).await.unwrap();
            ledger.mark_processed(key).await.unwrap();
            assert!(ledger.is_processed(key).await.unwrap());
        }
        assert_eq!(ledger.is_processed(" ").await.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(ledger.mark_processed("").await.unwrap_err().kind(), ErrorKind::Invalid);
    });
}

/// Holds: LDG-05, RULE-16.
#[test]
fn a_key_has_one_holder_at_a_time_until_its_lease_ends() {
    on_every_store(async |fixture| {
        let ledger = fixture.oncebox.ledger();
        let first = ledger.try_begin("k", Some("worker-1"), None).await.unwrap();
        let BeginOutcome::Acquired { lease, expires_at } = first else { panic!("{first:?}") };
        let again = ledger.try_begin("k", Some("worker-1"), None).await.unwrap();
        assert_eq!(again, BeginOutcome::Busy { expires_at }, "also for the same owner");
        let entry = ledger.get("k").await.unwrap();
        assert_eq!((entry.status, entry.attempts, entry.lease_until), (KeyStatus::Busy, 1, Some(expires_at)));
        fixture.advance(LEASE_MIN);
        let second = begin(&fixture, "k").await;
        assert_eq!(ledger.finish("k", &lease).await.unwrap(), FinishOutcome::LeaseLost);
        assert_eq!(ledger.get("k").await.unwrap().attempts, 2);
        assert_eq!(ledger.finish("k", &second).await.unwrap(), FinishOutcome::Processed);
        assert_eq!(
            ledger.finish("k", &second).await.unwrap(),
            FinishOutcome::Processed,
            "finishing again returns the same outcome"
        );
        assert_eq!(ledger.try_begin("k", None, None).await.unwrap(), BeginOutcome::Processed);
    });
}

/// Holds: LDG-07, LDG-09, RULE-07.
#[test]
fn a_released_key_is_free_and_a_lease_on_another_key_changes_nothing() {
    on_every_store(async |fixture| {
        let ledger = fixture.oncebox.ledger();
        let (one, two) = (begin(&fixture, "1").await, begin(&fixture, "2").await);
        assert_eq!(ledger.release("1", &two).await.unwrap(), ReleaseOutcome::LeaseLost);
        assert_eq!(ledger.finish("1", &two).await.unwrap(), FinishOutcome::LeaseLost);
        assert_eq!(ledger.finish("unknown", &two).await.unwrap(), FinishOutcome::LeaseLost);
        assert_eq!(ledger.get("2").await.unwrap().status, KeyStatus::Busy);
        assert_eq!(ledger.release("1", &one).await.unwrap(), ReleaseOutcome::Released);
        assert_eq!(ledger.get("1").await.unwrap().status, KeyStatus::Pending);
        begin(&fixture, "1").await;
        // However often its lease lapses, a ledger key never becomes Dead.
        for _ in 0..30 {
            fixture.advance(LEASE_MIN);
            begin(&fixture, "1").await;
        }
    });
}

/// Holds: LDG-08.
#[test]
fn a_key_record_has_the_first_and_last_time_it_was_seen() {
    on_every_store(async |fixture| {
        let ledger = fixture.oncebox.ledger();
        begin(&fixture, "k").await;
        fixture.advance(Duration::from_secs(60));
        begin(&fixture, "k").await;
        let entry = ledger.get("k").await.unwrap();
        let (first, last) = (entry.first_seen.unwrap(), entry.last_seen.unwrap());
        assert_eq!(last.since(first), Duration::from_secs(60));
    });
}

/// Holds: LDG-11.
#[test]
fn leases_last_30_to_120_seconds_and_processed_keys_are_kept_as_configured() {
    on_every_store_with(
        |builder| builder.ledger_keep(KEEP_MIN),
        async |fixture| {
            let ledger = fixture.oncebox.ledger();
            let now = || oncebox::store::Clock::now(&*fixture.clock);
            for (key, requested, granted) in
                [("a", 1, LEASE_MIN), ("b", 60, Duration::from_secs(60)), ("c", 999, LEASE_MAX)]
            {
                let outcome =
                    ledger.try_begin(key, None, Some(Duration::from_secs(requested))).await.unwrap();
                let BeginOutcome::Acquired { expires_at, .. } = outcome else { panic!("{outcome:?}") };
                assert_eq!(expires_at.since(now()), granted);
            }
            ledger.mark_processed("a").await.unwrap();
            fixture.advance(KEEP_MIN / 2);
            ledger.mark_processed("a").await.unwrap();
            fixture.advance(KEEP_MIN / 2);
            assert!(!ledger.is_processed("a").await.unwrap(), "marking again does not extend the retention");
        },
    );
    let invalid = oncebox::Oncebox::builder().ledger_keep(KEEP_MIN * 5);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(
        runtime.block_on(invalid.open("memory:")).unwrap_err().to_string(),
        "ledger_keep must be from 7 to 30 days"
    );
}

/// The ledger and the inbox have separate keys.
/// Holds: RULE-02.
#[test]
fn a_ledger_key_is_not_an_inbox_message() {
    on_every_store(async |fixture| {
        begin(&fixture, "1").await;
        let queue = fixture.oncebox.queue();
        assert_eq!(queue.claim(queue.new_owner(), Duration::from_secs(30), 10).await.unwrap(), []);
        assert!(!fixture.oncebox.inbox().already_processed("ledger", "1").await.unwrap());
        fixture.oncebox.inbox().mark_processed("ledger", "1").await.unwrap();
        assert!(!fixture.oncebox.ledger().is_processed("1").await.unwrap());
    });
}
