//! Observations and marks: I-T17 to I-T28.

use std::time::Duration;

use oncebox::{ErrorKind, Message, MessageState, Oncebox, operator::Operated};
use tokio::task::JoinSet;

use crate::fixture::{Fixture, on_every_store};

/// This number of services, each with its own inbox on the same store, observe message `1` concurrently. Returns their
/// results.
async fn observe_concurrently(fixture: &Fixture, services: usize) -> Vec<bool> {
    let mut observations = JoinSet::new();
    for _ in 0..services {
        let inbox = Oncebox::builder().on(fixture.store.clone()).unwrap().inbox();
        observations.spawn(async move { inbox.already_processed("test", "1").await.unwrap() });
    }
    observations.join_all().await
}

/// There is one entry, and no observation used an attempt.
async fn one_entry_without_attempts(fixture: &Fixture) {
    let counts = fixture.oncebox.operator("test").counts(None).await.unwrap();
    assert_eq!((counts.seen, counts.ready, counts.done, counts.dead), (1, 0, 0, 0));
    let found = fixture.show("1").await;
    assert_eq!((found.state, found.attempts, found.deliveries), (MessageState::Seen, 0, 0));
}

/// Replays I-T17.
#[test]
fn i_t17_a_new_id_is_not_processed_and_is_recorded() {
    on_every_store(async |fixture| {
        assert!(!fixture.oncebox.inbox().already_processed("test", "1").await.unwrap());
        one_entry_without_attempts(&fixture).await;
    });
}

/// Replays I-T18.
#[test]
fn i_t18_a_key_marked_processed_is_processed() {
    on_every_store(async |fixture| {
        let inbox = fixture.oncebox.inbox();
        inbox.already_processed("test", "1").await.unwrap();
        inbox.mark_processed("test", "1").await.unwrap();
        assert!(inbox.already_processed("test", "1").await.unwrap());
    });
}

/// Replays I-T19.
#[test]
fn i_t19_marking_processed_sets_done_and_the_time() {
    on_every_store(async |fixture| {
        let inbox = fixture.oncebox.inbox();
        inbox.already_processed("test", "1").await.unwrap();
        fixture.advance(Duration::from_secs(3));
        assert!(matches!(inbox.mark_processed("test", "1").await.unwrap(), Operated::Changed(_)));
        let done = fixture.show("1").await;
        assert_eq!(done.state, MessageState::Done);
        assert_eq!(done.finished_at, Some(done.accepted_at.after(Duration::from_secs(3))));
    });
}

/// Replays I-T20.
#[test]
fn i_t20_marking_processing_sets_processing() {
    on_every_store(async |fixture| {
        let inbox = fixture.oncebox.inbox();
        inbox.already_processed("test", "1").await.unwrap();
        assert!(matches!(inbox.mark_processing("test", "1").await.unwrap(), Operated::Changed(_)));
        assert_eq!(fixture.show("1").await.state, MessageState::Processing);
    });
}

/// Replays I-T21.
#[test]
fn i_t21_marking_dead_sets_dead() {
    on_every_store(async |fixture| {
        let inbox = fixture.oncebox.inbox();
        inbox.already_processed("test", "1").await.unwrap();
        assert!(matches!(inbox.mark_dead("test", "1").await.unwrap(), Operated::Changed(_)));
        assert_eq!(fixture.show("1").await.state, MessageState::Dead);
    });
}

/// Replays I-T22.
#[test]
fn i_t22_five_concurrent_observations_leave_one_entry_and_no_attempt() {
    on_every_store(async |fixture| {
        assert_eq!(observe_concurrently(&fixture, 5).await, [false; 5]);
        one_entry_without_attempts(&fixture).await;
    });
}

/// With the name of its algorithm.
/// Replays I-T23.
#[test]
fn i_t23_a_hash_of_32_bytes_is_stored() {
    on_every_store(async |fixture| {
        let inbox = fixture.oncebox.inbox();
        let bytes: Vec<u8> = (0..32).collect();
        assert!(!inbox.already_processed_with_hash("test", "1", ("sha256", &bytes)).await.unwrap());
        let hash = fixture.show("1").await.hash.unwrap();
        assert_eq!((hash.algorithm(), hash.as_bytes()), ("sha256", &bytes[..]));
    });
}

/// Every call with an id and a source rejects blanks; nothing is recorded.
async fn assert_blank_rejected(fixture: &Fixture, source: &str, id: &str, named: &str) {
    let inbox = fixture.oncebox.inbox();
    let refusals = [
        inbox.already_processed(source, id).await.map(drop),
        inbox.mark_processing(source, id).await.map(drop),
        inbox.mark_processed(source, id).await.map(drop),
        inbox.mark_dead(source, id).await.map(drop),
        inbox.enqueue(Message::new("t", source, id)).await.map(drop),
    ];
    for refused in refusals {
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(refused.to_string().starts_with(named), "{refused}");
    }
    let counts = fixture.oncebox.operator("test").counts(None).await.unwrap();
    assert_eq!(counts, oncebox::operator::Counts::default());
}

/// A missing id cannot be expressed in Rust.
/// Replays I-T24.
#[test]
fn i_t24_an_empty_id_is_rejected() {
    on_every_store(async |fixture| assert_blank_rejected(&fixture, "test", "", "id").await);
}

/// Replays I-T25.
#[test]
fn i_t25_an_empty_source_is_rejected() {
    on_every_store(async |fixture| assert_blank_rejected(&fixture, "", "1", "source").await);
}

/// Replays I-T26.
#[test]
fn i_t26_a_key_goes_from_first_observation_to_processed() {
    on_every_store(async |fixture| {
        let inbox = fixture.oncebox.inbox();
        assert!(!inbox.already_processed("test", "1").await.unwrap());
        inbox.mark_processing("test", "1").await.unwrap();
        assert!(!inbox.already_processed("test", "1").await.unwrap());
        inbox.mark_processed("test", "1").await.unwrap();
        assert!(inbox.already_processed("test", "1").await.unwrap());
        assert_eq!(fixture.show("1").await.state, MessageState::Done);
    });
}

/// It does not count as processed, and has the time at which it became Dead.
/// Replays I-T27.
#[test]
fn i_t27_a_dead_message_is_not_processed() {
    on_every_store(async |fixture| {
        let inbox = fixture.oncebox.inbox();
        inbox.already_processed("test", "1").await.unwrap();
        inbox.mark_processing("test", "1").await.unwrap();
        inbox.mark_dead("test", "1").await.unwrap();
        assert!(!inbox.already_processed("test", "1").await.unwrap());
        let dead = fixture.show("1").await;
        assert_eq!((dead.state, dead.finished_at), (MessageState::Dead, Some(dead.accepted_at)));
    });
}

/// Replays I-T28.
#[test]
fn i_t28_ten_concurrent_services_leave_one_entry_and_no_attempt() {
    on_every_store(async |fixture| {
        assert_eq!(observe_concurrently(&fixture, 10).await, [false; 10]);
        one_entry_without_attempts(&fixture).await;
    });
}
