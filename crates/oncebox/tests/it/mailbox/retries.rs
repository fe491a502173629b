//! Retry delays of messages that were not acknowledged.

use std::time::Duration;

use oncebox::mailbox::{
    Mailbox, MailboxSettings, MsgId, OutgoingMessage, Receive, SendOutcome, SettleOutcome,
};
use oncebox::store::Clock;
use oncebox_core::Rng;

use super::mailbox;
use crate::fixture::{Fixture, on_every_store_with};

/// Returns the same number every time.
struct Constant(u64);

impl Rng for Constant {
    fn next_u64(&mut self) -> u64 {
        self.0
    }
}

async fn send(mailbox: &Mailbox, topic: &str) -> MsgId {
    match mailbox.send(OutgoingMessage::new(topic, "k").bytes("x")).await.unwrap() {
        SendOutcome::Accepted(receipt) => receipt.msg_id,
        outcome => panic!("the message is new: {outcome:?}"),
    }
}

/// Receives a message and nacks it.
async fn nack_next(mailbox: &Mailbox, topic: &str) -> SettleOutcome {
    let envelope = mailbox.receive(Receive::new(topic)).await.unwrap().envelopes.remove(0);
    mailbox.nack(envelope.receipt, Some("no")).await.unwrap()
}

/// Receives a message, nacks it, and advances the clock to its retry; returns the delay.
async fn nack_and_wait(fixture: &Fixture, mailbox: &Mailbox, topic: &str, id: MsgId) -> Duration {
    assert_eq!(nack_next(mailbox, topic).await, SettleOutcome::Ok);
    let waiting = mailbox.operator("test").show(id).await.unwrap().unwrap();
    let delay = waiting.retry_at.expect("the message will be retried").since(fixture.clock.now());
    fixture.advance(delay);
    delay
}

/// `rand(1 ms, min(60 s, 1 s · 2^delivery))`: the random number modulo the length of the range.
/// Holds: MBX-P-7, RULE-10.
#[test]
fn the_retry_delay_is_drawn_from_the_backoff_range() {
    for draw in [0, u64::MAX] {
        on_every_store_with(
            |builder| builder.rng(Box::new(Constant(draw))),
            async |fixture| {
                let mailbox = mailbox(&fixture);
                let id = send(&mailbox, "t").await;
                for most in [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
                    let drawn = Duration::from_millis(1 + draw % most);
                    assert_eq!(nack_and_wait(&fixture, &mailbox, "t", id).await, drawn);
                }
            },
        );
    }
}

/// The settings of the topic apply if there are any, otherwise the defaults.
/// Holds: MBX-C-4, MBX-P-7, RULE-07, RULE-10.
#[test]
fn a_topic_can_have_its_own_backoff_and_attempt_limit() {
    const DRAW: u64 = u64::MAX;
    on_every_store_with(
        |builder| builder.rng(Box::new(Constant(DRAW))),
        async |fixture| {
            let mut settings = MailboxSettings::default();
            let mut own = settings.topic.clone();
            own.attempts_max = 3;
            own.backoff_base = Duration::from_secs(10);
            own.backoff_max = Duration::from_secs(30);
            settings.topics.insert("own".to_owned(), own);
            let mailbox = fixture.oncebox.mailbox(settings).unwrap();
            let (own, usual) = (send(&mailbox, "own").await, send(&mailbox, "usual").await);
            for (topic, id, most) in [
                ("own", own, 20_000),
                ("usual", usual, 2_000),
                ("own", own, 30_000),
                ("usual", usual, 4_000),
                ("usual", usual, 8_000),
            ] {
                let drawn = Duration::from_millis(1 + DRAW % most);
                assert_eq!(nack_and_wait(&fixture, &mailbox, topic, id).await, drawn, "{topic}");
            }
            assert_eq!(nack_next(&mailbox, "own").await, SettleOutcome::Dead);
            assert_eq!(nack_next(&mailbox, "usual").await, SettleOutcome::Ok);
        },
    );
}
