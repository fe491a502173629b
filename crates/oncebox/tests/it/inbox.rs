//! Accepting messages into the inbox.

use std::time::Duration;

use oncebox::{
    EnqueueOutcome, ErrorKind, Message, MessageState, Oncebox,
    inbox::{Mark, Observed, ObservedKey},
    message::{DeadReason, Divergence, Key},
    operator::Operated,
};

use super::fixture::{key, on_every_store, on_every_store_with};

/// Holds: RULE-01, RULE-02, RULE-03, IBX-001, IBX-014, IBX-027.
#[test]
fn a_message_is_accepted_once_and_duplicates_get_its_receipt() {
    on_every_store(async |fixture| {
        let inbox = fixture.oncebox.inbox();
        let message = || Message::new("paid", "stripe", "evt_1").text("{}").correlation("c");
        let first = inbox.enqueue(message()).await.unwrap();
        fixture.advance(Duration::from_secs(5));
        let again = inbox.enqueue(message().correlation("other")).await.unwrap();
        assert_eq!((first.outcome, again.outcome), (EnqueueOutcome::Accepted, EnqueueOutcome::Duplicate));
        assert_eq!((first.uid, first.accepted_at, first.trace), (again.uid, again.accepted_at, again.trace));
        assert_eq!(first.state, MessageState::Processing);
        assert_eq!(first.dedup_until, first.accepted_at.after(Duration::from_secs(30 * 24 * 3_600)));
        let other = inbox.enqueue(Message::new("paid", "github", "evt_1")).await.unwrap();
        assert_eq!(other.outcome, EnqueueOutcome::Accepted, "another source has its own ids");
    });
}

/// Holds: IBX-002, IBX-003, IBX-004, IBX-005.
#[test]
fn a_key_is_processed_once_it_is_done() {
    on_every_store(async |fixture| {
        let inbox = fixture.oncebox.inbox();
        assert!(!inbox.already_processed("test", "1").await.unwrap());
        assert_eq!(fixture.show("1").await.state, MessageState::Seen);
        fixture.advance(Duration::from_secs(1));
        assert!(!inbox.already_processed("test", "1").await.unwrap());
        let seen = fixture.show("1").await;
        assert_eq!(seen.last_seen_at.since(seen.accepted_at), Duration::from_secs(1));
        inbox.mark_processed("test", "1").await.unwrap();
        assert!(inbox.already_processed("test", "1").await.unwrap());
    });
}

/// Holds: IBX-007, IBX-129.
#[test]
fn a_hash_is_stored_with_its_algorithm_and_an_invalid_one_rejected() {
    on_every_store(async |fixture| {
        let inbox = fixture.oncebox.inbox();
        assert!(!inbox.already_processed_with_hash("test", "1", ("sha256", &[7; 32])).await.unwrap());
        let hash = fixture.show("1").await.hash.unwrap();
        assert_eq!((hash.algorithm(), hash.as_bytes()), ("sha256", &[7; 32][..]));
        let refused = inbox.already_processed_with_hash("test", "2", ("sha256", &[])).await.unwrap_err();
        assert_eq!(refused.to_string(), "hash is empty: give at least one character");
        let refused = inbox.enqueue(Message::new("t", "test", "2").hash("", &[1])).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        let both =
            inbox.observe([ObservedKey::new("test", "1"), ObservedKey::new("test", "3")]).await.unwrap();
        assert!(matches!(both[..], [Observed::Again { diverged: false, .. }, Observed::First(_)]));
    });
}

/// Holds: IBX-009, IBX-010, IBX-011, IBX-012, IBX-015, IBX-016, IBX-017, IBX-020, RULE-19.
#[test]
fn values_out_of_bounds_are_rejected_and_nothing_is_accepted() {
    on_every_store(async |fixture| {
        let inbox = fixture.oncebox.inbox();
        let long = "x".repeat(256);
        for (topic, source, id, field) in [
            ("", "s", "i", "topic"),
            ("t", "", "i", "source"),
            ("t", "s", "", "id"),
            (&long, "s", "i", "topic"),
            ("t", &long, "i", "source"),
            ("t", "s", &long, "id"),
        ] {
            let good = Message::new("t", "test", "good");
            let refused = inbox.enqueue_all([good, Message::new(topic, source, id)]).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid);
            assert!(refused.to_string().starts_with(field), "{refused}");
            if topic == "t" {
                assert!(inbox.already_processed(source, id).await.is_err());
            }
        }
        let refused = inbox.enqueue(Message::new("t", "s", "i").attribute("", "x")).await.unwrap_err();
        assert!(refused.to_string().starts_with("attribute name"), "{refused}");
        let refused =
            inbox.enqueue(Message::new("t", "s", "i").tenant(&"x".repeat(2_000))).await.unwrap_err();
        assert!(refused.to_string().starts_with("tenant id"), "{refused}");
        let refused = inbox.enqueue(Message::new("t", "s", "i").partition("")).await.unwrap_err();
        assert!(refused.to_string().starts_with("partition"), "{refused}");
        assert_eq!(
            fixture.oncebox.operator("t").counts(None).await.unwrap(),
            oncebox::operator::Counts::default()
        );
    });
}

/// Holds: IBX-019, IBX-022, IBX-118.
#[test]
fn any_payload_up_to_the_limit_is_accepted() {
    on_every_store_with(
        |builder| builder.payload_bytes_max(1_000),
        async |fixture| {
            let inbox = fixture.oncebox.inbox();
            inbox.enqueue(Message::new("t", "test", "empty")).await.unwrap();
            inbox.enqueue(Message::new("t", "test", "odd").bytes(vec![0xFF; 1_000])).await.unwrap();
            assert_eq!(fixture.show("odd").await.content.unwrap().payload.len(), 1_000);
            let refused =
                inbox.enqueue(Message::new("t", "test", "big").bytes(vec![0; 1_001])).await.unwrap_err();
            assert_eq!(refused.to_string(), "payload is 1001 bytes long, the limit is 1000");
        },
    );
}

/// Holds: IBX-023, IBX-024.
#[test]
fn a_message_is_not_ready_before_it_is_due() {
    on_every_store(async |fixture| {
        let (inbox, queue) = (fixture.oncebox.inbox(), fixture.oncebox.queue());
        let owner = queue.new_owner();
        let lease = Duration::from_secs(30);
        inbox.enqueue(Message::new("t", "test", "later").due_in(Duration::from_secs(60))).await.unwrap();
        assert_eq!(queue.claim(owner, lease, 10).await.unwrap().len(), 0);
        fixture.advance(Duration::from_secs(60));
        assert_eq!(queue.claim(owner, lease, 10).await.unwrap().len(), 1);
        let past = std::time::SystemTime::UNIX_EPOCH;
        inbox.enqueue(Message::new("t", "test", "past").due_at(past)).await.unwrap();
        assert_eq!(queue.claim(owner, lease, 10).await.unwrap().len(), 1);
    });
}

/// Holds: RULE-12.
#[test]
fn a_message_expires_unless_it_is_handled_in_time() {
    on_every_store(async |fixture| {
        let message = Message::new("t", "test", "1").expires_in(Duration::from_secs(60));
        fixture.oncebox.inbox().enqueue(message).await.unwrap();
        fixture.advance(Duration::from_secs(60));
        let found = fixture.show("1").await;
        assert_eq!((found.state, found.dead), (MessageState::Dead, Some(DeadReason::Expired)));
    });
}

/// Holds: RULE-08, IBX-028, IBX-029.
#[test]
fn diverging_content_is_handled_as_the_inbox_is_configured() {
    let set = |builder: oncebox::OnceboxBuilder| {
        builder
            .on_divergence_from("first", Divergence::KeepFirst)
            .on_divergence_from("strict", Divergence::Conflict)
    };
    on_every_store_with(set, async |fixture| {
        let inbox = fixture.oncebox.inbox();
        for (source, outcome, payload) in [
            ("newest", EnqueueOutcome::Replaced, "new"),
            ("first", EnqueueOutcome::Duplicate, "old"),
            ("strict", EnqueueOutcome::Conflict, "old"),
        ] {
            let message = |text: &str| Message::new("t", source, "1").text(text);
            inbox.enqueue(message("old")).await.unwrap();
            assert_eq!(inbox.enqueue(message("new")).await.unwrap().outcome, outcome);
            let key = Key::inbox(source, "1").unwrap();
            let stored = fixture.oncebox.queue().get(&key).await.unwrap().unwrap();
            assert_eq!(stored.content.unwrap().payload.as_bytes(), payload.as_bytes());
            inbox.mark_processed(source, "1").await.unwrap();
            let done = if source == "strict" { EnqueueOutcome::Conflict } else { EnqueueOutcome::Duplicate };
            assert_eq!(inbox.enqueue(message("newer")).await.unwrap().outcome, done);
        }
    });
}

/// Holds: RULE-04.
#[test]
fn marks_apply_where_allowed_and_report_the_outcome() {
    on_every_store(async |fixture| {
        let inbox = fixture.oncebox.inbox();
        assert_eq!(inbox.mark_processing("test", "no").await.unwrap(), Operated::Unknown);
        assert_eq!(inbox.mark_dead("test", "no").await.unwrap(), Operated::Unknown);
        inbox.already_processed("test", "1").await.unwrap();
        inbox.mark_processing("test", "1").await.unwrap();
        assert_eq!(fixture.show("1").await.state, MessageState::Processing);
        inbox.mark_dead("test", "1").await.unwrap();
        let dead = fixture.show("1").await;
        assert_eq!((dead.state, dead.dead), (MessageState::Dead, Some(DeadReason::Failed)));
        let marked = inbox.mark(Mark::Processed, &[key("1"), key("2")]).await.unwrap();
        assert!(matches!(marked[..], [Operated::Changed(_), Operated::Changed(_)]));
        assert_eq!(fixture.show("2").await.state, MessageState::Done);
        assert!(matches!(inbox.mark_dead("test", "2").await.unwrap(), Operated::Unchanged(_)));
    });
}

/// A full inbox must be an error, so that a caller that ignores outcomes cannot lose messages.
/// Holds: RULE-03, RULE-19.
#[tokio::test(crate = "crate::timed")]
async fn a_full_inbox_is_an_error_with_a_retry_delay() {
    let oncebox = Oncebox::open("memory:?messages_max=1").await.unwrap();
    let inbox = oncebox.inbox();
    let messages = [Message::new("t", "test", "1"), Message::new("t", "test", "2")];
    let outcomes = inbox.enqueue_all(messages).await.unwrap();
    assert!(outcomes[0].is_ok());
    let full = inbox.enqueue(Message::new("t", "test", "2")).await.unwrap_err();
    assert_eq!((full.kind(), full.is_retryable()), (ErrorKind::Saturated, true));
    assert!(full.retry_after().is_some_and(|after| !after.is_zero()));
    assert_eq!(inbox.already_processed("test", "2").await.unwrap_err().kind(), ErrorKind::Saturated);
    inbox.mark_processed("test", "1").await.unwrap();
    assert_eq!(
        inbox.enqueue(Message::new("t", "test", "2")).await.unwrap().outcome,
        EnqueueOutcome::Accepted
    );
}
