//! The mailbox.

mod keeping;
mod retries;
mod settling;
mod shards;

use std::num::NonZeroU128;
use std::time::Duration;

use oncebox::mailbox::{
    KeyHold, Mailbox, MailboxSettings, MsgId, Outcome, Parcel, Receive, Sent, Settle, Ticket,
};
use oncebox::{Bytes, DeadReason, Filter, Kind, MessageState, Trace};

use super::fixture::{Fixture, on_every_store};

fn mailbox(fixture: &Fixture) -> Mailbox {
    fixture.oncebox.mailbox(MailboxSettings::default()).unwrap()
}

async fn send(mailbox: &Mailbox, idem_key: &str) -> MsgId {
    match mailbox.send(Parcel::new("t", idem_key).bytes(idem_key.to_owned())).await.unwrap() {
        Sent::Accepted(ticket) => ticket.msg_id,
        sent => panic!("{idem_key} is new: {sent:?}"),
    }
}

/// Replays R-T1.
/// Holds: MBX-C-1, MBX-I-7, MBX-I-12, MBX-P-8, MBX-C-9, RULE-18.
#[test]
fn what_is_sent_is_received_whole() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let parcel = Parcel::new("t", "k").bytes("hello").attributes([("b", "2"), ("a", "1")]).partition("p");
        let Sent::Accepted(ticket) = mailbox.send(parcel).await.unwrap() else { panic!("it is new") };
        let id = ticket.msg_id;
        let [envelope] = &*mailbox.receive(Receive::new("t")).await.unwrap().envelopes else {
            panic!("one was sent")
        };
        assert_eq!((envelope.msg_id, envelope.topic.as_str(), envelope.idem_key.as_str()), (id, "t", "k"));
        assert_eq!((&envelope.payload, envelope.attempt), (&Bytes::from("hello"), 1));
        assert_eq!(envelope.attributes.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
        let hash = "b3:ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f";
        assert_eq!(envelope.payload_hash.to_string(), hash);
        let made = &envelope.corr_id;
        assert_eq!((made.len(), &made[14..15]), (36, "7"), "a UUID of version 7 was made for it: {made}");
        assert_eq!(envelope.hash_chain, envelope.chain());
        let mut forged = envelope.clone();
        forged.idem_key = "other".to_owned();
        assert_ne!(forged.chain(), envelope.hash_chain);
        assert_eq!(mailbox.ack(envelope.receipt).await.unwrap(), Outcome::Ok);
        assert_eq!(mailbox.receive(Receive::new("t")).await.unwrap().envelopes, []);
    });
}

#[test]
fn parcels_can_share_the_ids_of_what_caused_them() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let trace = Trace::default().with_correlation("story").unwrap().with_tenant("acme").unwrap();
        let parcel = |key| Parcel::new("t", key).trace(trace.clone());
        mailbox.send_all([parcel("1"), parcel("2").corr_id("own"), parcel("3").corr_id(" ")]).await.unwrap();
        let received = mailbox.receive(Receive::new("t").messages(3)).await.unwrap().envelopes;
        let ids: Vec<_> = received.iter().map(|envelope| envelope.corr_id.as_str()).collect();
        assert_eq!(ids, ["story", "own", "story"], "a blank id is none");
        for envelope in &received {
            let shown = mailbox.operator("ann").show(envelope.msg_id).await.unwrap().unwrap();
            assert_eq!(shown.trace.tenant(), Some("acme"), "{}", envelope.idem_key);
        }
        let long = "x".repeat(2_000);
        let refused = mailbox.send(Parcel::new("t", "4").corr_id(&long)).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Invalid);
        assert!(refused.to_string().contains("correlation id"), "{refused}");
    });
}

/// Replays R-T2, R-T22.
/// Holds: MBX-I-2, MBX-G-2, MBX-C-2.
#[test]
fn a_parcel_that_comes_again_is_one_delivery() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let id = send(&mailbox, "k").await;
        for _ in 0..5 {
            let again = mailbox.send(Parcel::new("t", "k").bytes("k")).await.unwrap();
            assert!(matches!(again, Sent::Duplicate(Ticket { msg_id, .. }) if msg_id == id), "{again:?}");
        }
        let other = mailbox.send(Parcel::new("t", "k").bytes("another payload")).await.unwrap();
        assert!(matches!(other, Sent::Conflict(Ticket { msg_id, .. }) if msg_id == id), "{other:?}");
        let elsewhere = mailbox.send(Parcel::new("u", "k").bytes("k")).await.unwrap();
        assert!(matches!(elsewhere, Sent::Accepted(_)), "another topic has its own keys");
        assert_eq!(mailbox.receive(Receive::new("t")).await.unwrap().envelopes.len(), 1);
    });
}

/// Replays R-T3, R-T20.
/// Holds: MBX-I-1, MBX-I-3, MBX-G-3, MBX-P-8, RULE-18.
#[test]
fn what_is_not_acknowledged_comes_again() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let id = send(&mailbox, "k").await;
        let wish = || Receive::new("t").visibility(Duration::from_secs(1));
        let first = mailbox.receive(wish()).await.unwrap().envelopes.remove(0);
        fixture.advance(Duration::from_millis(999));
        assert_eq!(mailbox.receive(wish()).await.unwrap().envelopes, []);
        fixture.advance(Duration::from_millis(1));
        let second = mailbox.receive(wish()).await.unwrap().envelopes.remove(0);
        assert_eq!((second.msg_id, second.attempt, second.ts), (id, 2, first.ts));
        assert_eq!((second.hash_chain, &second.corr_id), (first.hash_chain, &first.corr_id));
        assert_eq!(mailbox.ack(first.receipt).await.unwrap(), Outcome::LeaseLost);
        assert_eq!(mailbox.ack(second.receipt).await.unwrap(), Outcome::Ok);
    });
}

/// Replays R-T4.
/// Holds: RULE-17.
#[test]
fn a_message_id_is_enough_for_the_first_delivery_alone() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let (one, two) = (send(&mailbox, "1").await, send(&mailbox, "2").await);
        assert_eq!(mailbox.ack(one).await.unwrap(), Outcome::LeaseLost, "it was not received yet");
        let wish = || Receive::new("t").visibility(Duration::from_secs(1));
        assert_eq!(mailbox.receive(wish()).await.unwrap().envelopes.len(), 2);
        assert_eq!(mailbox.ack(one).await.unwrap(), Outcome::Ok);
        assert_eq!(mailbox.ack(one).await.unwrap(), Outcome::Ok, "the same again");
        fixture.advance(Duration::from_secs(1));
        let again = mailbox.receive(wish()).await.unwrap().envelopes.remove(0);
        assert_eq!(mailbox.ack(two).await.unwrap(), Outcome::ReceiptRequired);
        assert_eq!(mailbox.nack(two, None).await.unwrap(), Outcome::ReceiptRequired);
        assert_eq!(mailbox.extend(two, Duration::from_secs(1)).await.unwrap(), Outcome::ReceiptRequired);
        assert_eq!(mailbox.ack(again.receipt).await.unwrap(), Outcome::Ok);
        let nobody = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ".parse::<MsgId>().unwrap();
        assert_eq!(mailbox.ack(nobody).await.unwrap(), Outcome::LeaseLost);
    });
}

/// More time counts before the delivery is settled, and before more is waited for; not after.
/// Holds: RULE-13.
#[test]
fn settlements_of_one_call_act_in_their_order() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let (minute, topic) = (Duration::from_secs(60), "t");
        for before in [true, false] {
            send(&mailbox, &before.to_string()).await;
            let held = mailbox.receive(Receive::new(topic)).await.unwrap().envelopes.remove(0);
            let mut settles = vec![Settle::extend(held.receipt, minute), Settle::ack(held.receipt)];
            if !before {
                settles.reverse();
            }
            let (outcomes, _) = mailbox.work(settles, Receive::new(topic)).await.unwrap();
            let expected = |outcome: &Outcome| matches!(outcome, Outcome::Until(_)) == before;
            let (extended, acknowledged) = if before { (0, 1) } else { (1, 0) };
            assert!(expected(&outcomes[extended]), "{outcomes:?}");
            assert_eq!(outcomes[acknowledged], Outcome::Ok);
        }
    });
}

/// Replays R-T5, R-T6.
/// Holds: MBX-I-4, MBX-P-7, MBX-C-4, RULE-10.
#[test]
fn a_parcel_that_fails_sixteen_times_is_a_dead_letter_until_it_is_reprocessed() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let id = send(&mailbox, "k").await;
        for attempt in 1..=16 {
            let envelope = mailbox.receive(Receive::new("t")).await.unwrap().envelopes.remove(0);
            assert_eq!(envelope.attempt, attempt);
            let outcome = if attempt == 16 { Outcome::Dead } else { Outcome::Ok };
            assert_eq!(mailbox.nack(envelope.receipt, Some("no")).await.unwrap(), outcome);
            // 1 s doubling with each delivery, spread between nothing and that.
            fixture.advance(Duration::from_secs((1 << attempt).min(60)));
        }
        assert_eq!(mailbox.receive(Receive::new("t")).await.unwrap().envelopes, []);
        let operator = mailbox.operator("ann");
        let dead = operator.show(id).await.unwrap().unwrap();
        assert_eq!((dead.state, dead.dead), (MessageState::Dead, Some(DeadReason::Exhausted)));
        assert_eq!(dead.last_error.unwrap().as_str(), "no");
        let inbox = fixture.oncebox.operator("ann");
        assert_eq!(inbox.preview(&Filter::dead()).await.unwrap().matched, 0, "the inbox has none");
        assert_eq!(operator.redrive_where(&Filter::dead().topic("t")).await.unwrap().changed, 1);
        assert_eq!(mailbox.receive(Receive::new("t")).await.unwrap().envelopes[0].msg_id, id);
    });
}

/// Replays R-T8.
/// Holds: MBX-I-13, MBX-G-8.
#[test]
fn a_key_is_free_again_after_the_replay_window() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let id = send(&mailbox, "k").await;
        let received = mailbox.receive(Receive::new("t")).await.unwrap().envelopes;
        mailbox.ack(received[0].receipt).await.unwrap();
        fixture.advance(Duration::from_millis(299_999));
        let again = mailbox.send(Parcel::new("t", "k").bytes("k")).await.unwrap();
        assert!(matches!(again, Sent::Duplicate(Ticket { msg_id, .. }) if msg_id == id), "{again:?}");
        fixture.advance(Duration::from_millis(1));
        assert_ne!(send(&mailbox, "k").await, id);
    });
}

/// A topic can hold the key of a message until that is finished; a receiver can name itself.
/// Holds: RULE-03.
#[test]
fn a_topic_can_hold_the_keys_of_unfinished_messages() {
    on_every_store(async |fixture| {
        let mut settings = MailboxSettings::default();
        settings.topic.key_hold = KeyHold::UntilFinished;
        let mailbox = fixture.oncebox.mailbox(settings).unwrap();
        let id = send(&mailbox, "k").await;
        fixture.advance(Duration::from_secs(301));
        let again = mailbox.send(Parcel::new("t", "k").bytes("k")).await.unwrap();
        assert!(matches!(again, Sent::Duplicate(Ticket { msg_id, .. }) if msg_id == id), "{again:?}");
        let received = mailbox.receive(Receive::new("t").worker("w1")).await.unwrap().envelopes;
        let shown = mailbox.operator("a").show(id.uid()).await.unwrap().unwrap();
        assert_eq!(
            shown.grant.and_then(|grant| grant.worker).map(|name| name.to_string()).as_deref(),
            Some("w1")
        );
        mailbox.ack(received[0].receipt).await.unwrap();
        assert_ne!(send(&mailbox, "k").await, id, "the window is over");
    });
}

/// Replays R-T10.
/// Holds: MBX-I-6, RULE-19.
#[test]
fn a_payload_over_the_limit_or_beside_its_hash_is_refused() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let large = Parcel::new("t", "1").bytes(vec![0; (1 << 20) + 1]);
        assert_eq!(mailbox.send(large).await.unwrap(), Sent::TooLarge { bytes_max: 1 << 20 });
        let parcel = || Parcel::new("t", "2").bytes("hello");
        let damaged = parcel().payload_hash(format!("b3:{}", "0".repeat(64)));
        assert_eq!(mailbox.send(damaged).await.unwrap(), Sent::Damaged);
        let whole = "b3:ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f";
        assert!(matches!(mailbox.send(parcel().payload_hash(whole)).await.unwrap(), Sent::Accepted(_)));
        assert_eq!(mailbox.send(Parcel::new("", "3")).await.unwrap_err().kind(), Kind::Invalid);
        let refused =
            mailbox.receive(Receive::new("t").visibility(Duration::from_millis(249))).await.unwrap_err();
        assert_eq!(refused.to_string(), "visibility is 249 ms, the least is 250 ms");
        assert!(mailbox.receive(Receive::new("t").messages(257)).await.is_err());
    });
}

/// Replays R-T11.
/// Holds: MBX-I-5, MBX-C-5, RULE-17.
#[test]
fn a_full_shard_and_too_much_in_flight_push_back() {
    on_every_store(async |fixture| {
        let mut settings = MailboxSettings::default();
        settings.shard_capacity = 3;
        settings.global_in_flight = 3;
        let mailbox = fixture.oncebox.mailbox(settings).unwrap();
        for idem_key in ["1", "2", "3"] {
            send(&mailbox, idem_key).await;
        }
        let full = mailbox.send(Parcel::new("t", "4")).await.unwrap_err();
        assert_eq!((full.kind(), full.retry_after().is_some()), (Kind::Saturated, true));
        assert!(matches!(mailbox.send(Parcel::new("t", "1").bytes("1")).await.unwrap(), Sent::Duplicate(_)));
        mailbox.send(Parcel::new("elsewhere", "4")).await.unwrap();
        let held = mailbox.receive(Receive::new("t")).await.unwrap().envelopes;
        assert_eq!(held.len(), 3);
        let ceiling = mailbox.receive(Receive::new("elsewhere")).await.unwrap_err();
        assert_eq!(ceiling.kind(), Kind::Saturated);
        mailbox.ack(held[0].receipt).await.unwrap();
        assert_eq!(mailbox.receive(Receive::new("elsewhere")).await.unwrap().envelopes.len(), 1);
        send(&mailbox, "4").await;
    });
}

/// Replays R-T15.
/// Holds: MBX-I-14, MBX-G-9.
#[test]
fn a_topic_is_received_in_the_order_it_was_sent() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let sent: Vec<_> = (0..100).map(|number: u32| number.to_string()).collect();
        let parcels = sent.iter().map(|key| Parcel::new("t", key.as_str()).bytes(key.clone()));
        assert!(mailbox.send_all(parcels).await.unwrap().into_iter().all(|sent| sent.is_ok()));
        let mut received = Vec::new();
        while let Ok(envelopes) = mailbox.receive(Receive::new("t").messages(7)).await
            && !envelopes.is_nothing()
        {
            received.extend(envelopes.into_iter().map(|envelope| envelope.idem_key));
        }
        assert_eq!(received, sent);
    });
}

/// Holds: MBX-P-9, RULE-12.
#[test]
fn a_delivery_can_be_held_for_ten_times_its_visibility_and_waits_for_seven_days() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let id = send(&mailbox, "k").await;
        let second = Duration::from_secs(1);
        let envelope =
            mailbox.receive(Receive::new("t").visibility(second)).await.unwrap().envelopes.remove(0);
        let extended = mailbox.extend(envelope.receipt, Duration::from_secs(60)).await.unwrap();
        let Outcome::Until(until) = extended else { panic!("{extended:?}") };
        assert_eq!(until.since(oncebox::Clock::now(&*fixture.clock)), second * 10);
        fixture.advance(second * 10);
        assert_eq!(mailbox.extend(envelope.receipt, second).await.unwrap(), Outcome::LeaseLost);
        fixture.advance(Duration::from_secs(7 * 24 * 3_600));
        assert_eq!(mailbox.operator("t").show(id).await.unwrap().unwrap().dead, Some(DeadReason::Expired));
    });
}

#[test]
fn a_receiver_waits_for_what_is_sent() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let waiting = mailbox.receive(Receive::new("t").wait(Duration::from_secs(3_600)));
        let (received, id) = tokio::join!(waiting, async {
            tokio::task::yield_now().await;
            send(&mailbox, "k").await
        });
        assert_eq!(received.unwrap().envelopes[0].msg_id, id);
        assert_eq!(
            mailbox.receive(Receive::new("t").wait(Duration::from_millis(1))).await.unwrap().envelopes,
            []
        );
    });
}

/// Many wait for one topic: each message is given to one of them, whether they come one by one or in a bunch, and also when
/// some who waited have left.
#[test]
fn everybody_who_waits_gets_a_message() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let wait = || {
            let mailbox = mailbox.clone();
            let wish = Receive::new("t").messages(1).wait(Duration::from_secs(3_600));
            tokio::spawn(async move { mailbox.receive(wish).await.unwrap().envelopes.remove(0).idem_key })
        };
        let leaving: Vec<_> = (0..3).map(|_| wait()).collect();
        let waiting: Vec<_> = (0..8).map(|_| wait()).collect();
        // Let all of them get as far as they can.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        leaving.iter().for_each(tokio::task::JoinHandle::abort);
        for one_by_one in ["0", "1", "2"] {
            send(&mailbox, one_by_one).await;
        }
        let bunch = (3..8).map(|number| Parcel::new("t", number.to_string()).bytes("x"));
        mailbox.send_all(bunch).await.unwrap();
        let mut received = Vec::new();
        for receiver in waiting {
            received.push(receiver.await.unwrap());
        }
        received.sort();
        assert_eq!(received, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    });
}

/// Many are settled in one call, each with its own outcome, and the next are given in the same step.
/// Holds: RULE-13, RULE-17.
#[test]
fn a_round_of_work_settles_and_gives_the_next() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        for idem_key in ["1", "2", "3", "4"] {
            send(&mailbox, idem_key).await;
        }
        let held = mailbox
            .receive(Receive::new("t").visibility(Duration::from_secs(5)).messages(3))
            .await
            .unwrap()
            .envelopes;
        let [first, second, third] = &*held else { panic!("three were asked for") };
        let nobody: MsgId = "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        let settles = vec![
            Settle::ack(first.receipt),
            Settle::extend(second.receipt, Duration::from_secs(9)),
            Settle::ack(nobody),
            Settle::nack(third.msg_id, Some("no")),
            Settle::ack(first.receipt),
        ];
        let (outcomes, next) = mailbox.work(settles, Receive::new("t")).await.unwrap();
        let [Outcome::Ok, Outcome::Until(until), Outcome::LeaseLost, Outcome::Ok, Outcome::Ok] = *outcomes
        else {
            panic!("{outcomes:?}")
        };
        assert_eq!(until.as_millis() - second.visible_until.as_millis(), 4_000);
        assert_eq!(
            next.envelopes.iter().map(|envelope| envelope.idem_key.as_str()).collect::<Vec<_>>(),
            ["4"]
        );
    });
}

/// A receiver whose answer was lost asks again, and gets the same.
/// Holds: RULE-06.
#[test]
fn a_repeated_wish_gets_the_same_deliveries() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        for idem_key in ["1", "2"] {
            send(&mailbox, idem_key).await;
        }
        let wish = |number| Receive::new("t").messages(1).request(NonZeroU128::new(number).unwrap());
        let first = mailbox.receive(wish(7)).await.unwrap().envelopes;
        assert_eq!(mailbox.receive(wish(7)).await.unwrap().envelopes, first);
        let other = mailbox.receive(wish(8)).await.unwrap().envelopes;
        assert_eq!((first[0].idem_key.as_str(), other[0].idem_key.as_str()), ("1", "2"));
    });
}
