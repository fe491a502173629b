//! How long a parcel waits after a delivery that was not acknowledged.

use std::time::Duration;

use oncebox::Clock;
use oncebox::mailbox::{Mailbox, MailboxSettings, MsgId, Outcome, Parcel, Receive, Sent};
use oncebox_core::Rng;

use super::mailbox;
use crate::fixture::{Fixture, on_every_store_with};

/// Draws the same number every time.
struct Constant(u64);

impl Rng for Constant {
    fn next_u64(&mut self) -> u64 {
        self.0
    }
}

async fn send(mailbox: &Mailbox, topic: &str) -> MsgId {
    match mailbox.send(Parcel::new(topic, "k").bytes("x")).await.unwrap() {
        Sent::Accepted(ticket) => ticket.msg_id,
        sent => panic!("it is new: {sent:?}"),
    }
}

/// Receives and gives back.
async fn give_back(mailbox: &Mailbox, topic: &str) -> Outcome {
    let envelope = mailbox.receive(Receive::new(topic)).await.unwrap().envelopes.remove(0);
    mailbox.nack(envelope.receipt, Some("no")).await.unwrap()
}

/// The same, and waits; answers for how long.
async fn given_back(fixture: &Fixture, mailbox: &Mailbox, topic: &str, id: MsgId) -> Duration {
    assert_eq!(give_back(mailbox, topic).await, Outcome::Ok);
    let waiting = mailbox.operator("test").show(id).await.unwrap().unwrap();
    let delay = waiting.retry_at.expect("it comes again").since(fixture.clock.now());
    fixture.advance(delay);
    delay
}

/// `rand(1 ms, min(60 s, 1 s · 2^delivery))`: what is drawn is the remainder of the number by the length of the range.
/// Holds: MBX-P-7, RULE-10.
#[test]
fn a_parcel_waits_for_what_is_drawn_from_its_range() {
    for draw in [0, u64::MAX] {
        on_every_store_with(
            |builder| builder.rng(Box::new(Constant(draw))),
            async |fixture| {
                let mailbox = mailbox(&fixture);
                let id = send(&mailbox, "t").await;
                for most in [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
                    let drawn = Duration::from_millis(1 + draw % most);
                    assert_eq!(given_back(&fixture, &mailbox, "t", id).await, drawn);
                }
            },
        );
    }
}

/// A topic with delays and a limit of its own has these, and all others the usual ones.
/// Holds: MBX-C-4, MBX-P-7, RULE-07, RULE-10.
#[test]
fn a_topic_has_its_own_delays_and_its_own_limit() {
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
                assert_eq!(given_back(&fixture, &mailbox, topic, id).await, drawn, "{topic}");
            }
            assert_eq!(give_back(&mailbox, "own").await, Outcome::Dead);
            assert_eq!(give_back(&mailbox, "usual").await, Outcome::Ok);
        },
    );
}
