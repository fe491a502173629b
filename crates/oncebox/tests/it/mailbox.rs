//! Tests of the mailbox.

mod ready_keep;
mod retries;
mod settling;
mod shards;

use std::num::NonZeroU128;
use std::time::Duration;

use oncebox::mailbox::{
    KeyHold, Mailbox, MailboxSettings, MsgId, OutgoingMessage, Receive, SendOutcome, SendReceipt, Settle,
    SettleOutcome,
};
use oncebox::{
    Bytes, ErrorKind, MessageState,
    message::{DeadReason, Trace},
    operator::SweepFilter,
};

use tokio_util::sync::CancellationToken;

use super::fixture::{Fixture, on_every_store};

fn mailbox(fixture: &Fixture) -> Mailbox {
    fixture.oncebox.mailbox(MailboxSettings::default()).unwrap()
}

async fn send(mailbox: &Mailbox, idem_key: &str) -> MsgId {
    match mailbox.send(OutgoingMessage::new("t", idem_key).bytes(idem_key.to_owned())).await.unwrap() {
        SendOutcome::Accepted(receipt) => receipt.msg_id,
        outcome => panic!("{idem_key} is new: {outcome:?}"),
    }
}

/// Replays R-T1.
/// Holds: MBX-C-1, MBX-I-7, MBX-I-12, MBX-P-8, MBX-C-9, RULE-18.
#[test]
fn a_sent_message_is_received_with_all_fields() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let message =
            OutgoingMessage::new("t", "k").bytes("hello").attributes([("b", "2"), ("a", "1")]).partition("p");
        let SendOutcome::Accepted(receipt) = mailbox.send(message).await.unwrap() else {
            panic!("the message is new")
        };
        let id = receipt.msg_id;
        let [envelope] = &*mailbox.receive(Receive::new("t")).await.unwrap().envelopes else {
            panic!("one message was sent")
        };
        assert_eq!((envelope.msg_id, envelope.topic.as_str(), envelope.idem_key.as_str()), (id, "t", "k"));
        assert_eq!((&envelope.payload, envelope.attempt), (&Bytes::from("hello"), 1));
        assert_eq!(envelope.attributes.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
        let hash = "b3:ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f";
        assert_eq!(envelope.payload_hash.to_string(), hash);
        let corr_id = &envelope.corr_id;
        assert_eq!(
            (corr_id.len(), &corr_id[14..15]),
            (36, "7"),
            "the default is a UUID version 7: {corr_id}"
        );
        assert_eq!(envelope.hash_chain, envelope.chain());
        let mut forged = envelope.clone();
        forged.idem_key = "other".to_owned();
        assert_ne!(forged.chain(), envelope.hash_chain);
        assert_eq!(mailbox.ack(envelope.receipt).await.unwrap(), SettleOutcome::Ok);
        assert_eq!(mailbox.receive(Receive::new("t")).await.unwrap().envelopes, []);
    });
}

#[test]
fn messages_can_share_a_trace() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let trace = Trace::default().with_correlation("story").unwrap().with_tenant("acme").unwrap();
        let message = |key| OutgoingMessage::new("t", key).trace(trace.clone());
        mailbox
            .send_all([message("1"), message("2").corr_id("own"), message("3").corr_id(" ")])
            .await
            .unwrap();
        let received = mailbox.receive(Receive::new("t").messages(3)).await.unwrap().envelopes;
        let ids: Vec<_> = received.iter().map(|envelope| envelope.corr_id.as_str()).collect();
        assert_eq!(ids, ["story", "own", "story"], "a blank id counts as none");
        for envelope in &received {
            let shown = mailbox.operator("ann").show(envelope.msg_id).await.unwrap().unwrap();
            assert_eq!(shown.trace.tenant(), Some("acme"), "{}", envelope.idem_key);
        }
        let long = "x".repeat(2_000);
        let refused = mailbox.send(OutgoingMessage::new("t", "4").corr_id(&long)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(refused.to_string().contains("correlation id"), "{refused}");
    });
}

/// Replays R-T2, R-T22.
/// Holds: MBX-I-2, MBX-G-2, MBX-C-2.
#[test]
fn a_message_sent_again_is_delivered_once() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let id = send(&mailbox, "k").await;
        for _ in 0..5 {
            let again = mailbox.send(OutgoingMessage::new("t", "k").bytes("k")).await.unwrap();
            assert!(
                matches!(again, SendOutcome::Duplicate(SendReceipt { msg_id, .. }) if msg_id == id),
                "{again:?}"
            );
        }
        let other = mailbox.send(OutgoingMessage::new("t", "k").bytes("another payload")).await.unwrap();
        assert!(
            matches!(other, SendOutcome::Conflict(SendReceipt { msg_id, .. }) if msg_id == id),
            "{other:?}"
        );
        let elsewhere = mailbox.send(OutgoingMessage::new("u", "k").bytes("k")).await.unwrap();
        assert!(matches!(elsewhere, SendOutcome::Accepted(_)), "another topic has its own keys");
        assert_eq!(mailbox.receive(Receive::new("t")).await.unwrap().envelopes.len(), 1);
    });
}

/// Replays R-T3, R-T20.
/// Holds: MBX-I-1, MBX-I-3, MBX-G-3, MBX-P-8, RULE-18.
#[test]
fn an_unacknowledged_message_is_delivered_again() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let id = send(&mailbox, "k").await;
        let request = || Receive::new("t").visibility(Duration::from_secs(1));
        let first = mailbox.receive(request()).await.unwrap().envelopes.remove(0);
        fixture.advance(Duration::from_millis(999));
        assert_eq!(mailbox.receive(request()).await.unwrap().envelopes, []);
        fixture.advance(Duration::from_millis(1));
        let second = mailbox.receive(request()).await.unwrap().envelopes.remove(0);
        assert_eq!((second.msg_id, second.attempt, second.ts), (id, 2, first.ts));
        assert_eq!((second.hash_chain, &second.corr_id), (first.hash_chain, &first.corr_id));
        assert_eq!(mailbox.ack(first.receipt).await.unwrap(), SettleOutcome::LeaseLost);
        assert_eq!(mailbox.ack(second.receipt).await.unwrap(), SettleOutcome::Ok);
    });
}

/// Replays R-T4.
/// Holds: RULE-17.
#[test]
fn a_message_id_identifies_only_the_first_delivery() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let (one, two) = (send(&mailbox, "1").await, send(&mailbox, "2").await);
        assert_eq!(
            mailbox.ack(one).await.unwrap(),
            SettleOutcome::LeaseLost,
            "the message was not received yet"
        );
        let request = || Receive::new("t").visibility(Duration::from_secs(1));
        assert_eq!(mailbox.receive(request()).await.unwrap().envelopes.len(), 2);
        assert_eq!(mailbox.ack(one).await.unwrap(), SettleOutcome::Ok);
        assert_eq!(mailbox.ack(one).await.unwrap(), SettleOutcome::Ok, "repeating an ack");
        fixture.advance(Duration::from_secs(1));
        let again = mailbox.receive(request()).await.unwrap().envelopes.remove(0);
        assert_eq!(mailbox.ack(two).await.unwrap(), SettleOutcome::ReceiptRequired);
        assert_eq!(mailbox.nack(two, None).await.unwrap(), SettleOutcome::ReceiptRequired);
        assert_eq!(
            mailbox.extend(two, Duration::from_secs(1)).await.unwrap(),
            SettleOutcome::ReceiptRequired
        );
        assert_eq!(mailbox.ack(again.receipt).await.unwrap(), SettleOutcome::Ok);
        let unknown = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ".parse::<MsgId>().unwrap();
        assert_eq!(mailbox.ack(unknown).await.unwrap(), SettleOutcome::LeaseLost);
    });
}

/// An extension applies if it is listed before the settlement of its delivery, and also before receiving waits; not
/// after.
/// Holds: RULE-13.
#[test]
fn settlements_of_one_call_apply_in_order() {
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
            let expected = |outcome: &SettleOutcome| matches!(outcome, SettleOutcome::Until(_)) == before;
            let (extended, acknowledged) = if before { (0, 1) } else { (1, 0) };
            assert!(expected(&outcomes[extended]), "{outcomes:?}");
            assert_eq!(outcomes[acknowledged], SettleOutcome::Ok);
        }
    });
}

/// Replays R-T5, R-T6.
/// Holds: MBX-I-4, MBX-P-7, MBX-C-4, RULE-10.
#[test]
fn a_message_that_fails_sixteen_times_is_a_dead_letter_until_it_is_redriven() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let id = send(&mailbox, "k").await;
        for attempt in 1..=16 {
            let envelope = mailbox.receive(Receive::new("t")).await.unwrap().envelopes.remove(0);
            assert_eq!(envelope.attempt, attempt);
            let outcome = if attempt == 16 { SettleOutcome::Dead } else { SettleOutcome::Ok };
            assert_eq!(mailbox.nack(envelope.receipt, Some("no")).await.unwrap(), outcome);
            // The maximum backoff: 1 s doubling with each delivery, up to 60 s.
            fixture.advance(Duration::from_secs((1 << attempt).min(60)));
        }
        assert_eq!(mailbox.receive(Receive::new("t")).await.unwrap().envelopes, []);
        let operator = mailbox.operator("ann");
        let dead = operator.show(id).await.unwrap().unwrap();
        assert_eq!((dead.state, dead.dead), (MessageState::Dead, Some(DeadReason::Exhausted)));
        assert_eq!(dead.last_error.unwrap().as_str(), "no");
        let inbox = fixture.oncebox.operator("ann");
        assert_eq!(
            inbox.preview(&SweepFilter::dead()).await.unwrap().matched,
            0,
            "the inbox has no dead letters"
        );
        assert_eq!(operator.redrive_where(&SweepFilter::dead().topic("t")).await.unwrap().changed, 1);
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
        let again = mailbox.send(OutgoingMessage::new("t", "k").bytes("k")).await.unwrap();
        assert!(
            matches!(again, SendOutcome::Duplicate(SendReceipt { msg_id, .. }) if msg_id == id),
            "{again:?}"
        );
        fixture.advance(Duration::from_millis(1));
        assert_ne!(send(&mailbox, "k").await, id);
    });
}

/// A topic can hold the key of a message until the message is finished; a receiver can set its worker name.
/// Holds: RULE-03.
#[test]
fn a_topic_can_hold_the_keys_of_unfinished_messages() {
    on_every_store(async |fixture| {
        let mut settings = MailboxSettings::default();
        settings.topic.key_hold = KeyHold::UntilFinished;
        let mailbox = fixture.oncebox.mailbox(settings).unwrap();
        let id = send(&mailbox, "k").await;
        fixture.advance(Duration::from_secs(301));
        let again = mailbox.send(OutgoingMessage::new("t", "k").bytes("k")).await.unwrap();
        assert!(
            matches!(again, SendOutcome::Duplicate(SendReceipt { msg_id, .. }) if msg_id == id),
            "{again:?}"
        );
        let received = mailbox.receive(Receive::new("t").worker("w1")).await.unwrap().envelopes;
        let shown = mailbox.operator("a").show(id.uid()).await.unwrap().unwrap();
        assert_eq!(
            shown.grant.and_then(|grant| grant.worker).map(|name| name.to_string()).as_deref(),
            Some("w1")
        );
        mailbox.ack(received[0].receipt).await.unwrap();
        assert_ne!(send(&mailbox, "k").await, id, "the replay window has ended");
    });
}

/// Replays R-T10.
/// Holds: MBX-I-6, RULE-19.
#[test]
fn a_payload_over_the_limit_or_with_a_wrong_hash_is_rejected() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let large = OutgoingMessage::new("t", "1").bytes(vec![0; (1 << 20) + 1]);
        assert_eq!(mailbox.send(large).await.unwrap(), SendOutcome::TooLarge { bytes_max: 1 << 20 });
        let message = || OutgoingMessage::new("t", "2").bytes("hello");
        let damaged = message().payload_hash(format!("b3:{}", "0".repeat(64)));
        assert_eq!(mailbox.send(damaged).await.unwrap(), SendOutcome::HashMismatch);
        let whole = "b3:ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f";
        assert!(matches!(
            mailbox.send(message().payload_hash(whole)).await.unwrap(),
            SendOutcome::Accepted(_)
        ));
        assert_eq!(mailbox.send(OutgoingMessage::new("", "3")).await.unwrap_err().kind(), ErrorKind::Invalid);
        let refused =
            mailbox.receive(Receive::new("t").visibility(Duration::from_millis(249))).await.unwrap_err();
        assert_eq!(refused.to_string(), "visibility is 249 ms, the minimum is 250 ms");
        assert!(mailbox.receive(Receive::new("t").messages(257)).await.is_err());
    });
}

/// Replays R-T11.
/// Holds: MBX-I-5, MBX-C-5, RULE-17.
#[test]
fn a_full_shard_and_too_many_messages_in_flight_are_saturated() {
    on_every_store(async |fixture| {
        let mut settings = MailboxSettings::default();
        settings.shard_capacity = 3;
        settings.global_in_flight = 3;
        let mailbox = fixture.oncebox.mailbox(settings).unwrap();
        for idem_key in ["1", "2", "3"] {
            send(&mailbox, idem_key).await;
        }
        let full = mailbox.send(OutgoingMessage::new("t", "4")).await.unwrap_err();
        assert_eq!((full.kind(), full.retry_after().is_some()), (ErrorKind::Saturated, true));
        assert!(matches!(
            mailbox.send(OutgoingMessage::new("t", "1").bytes("1")).await.unwrap(),
            SendOutcome::Duplicate(_)
        ));
        mailbox.send(OutgoingMessage::new("elsewhere", "4")).await.unwrap();
        let held = mailbox.receive(Receive::new("t")).await.unwrap().envelopes;
        assert_eq!(held.len(), 3);
        let ceiling = mailbox.receive(Receive::new("elsewhere")).await.unwrap_err();
        assert_eq!(ceiling.kind(), ErrorKind::Saturated);
        mailbox.ack(held[0].receipt).await.unwrap();
        assert_eq!(mailbox.receive(Receive::new("elsewhere")).await.unwrap().envelopes.len(), 1);
        send(&mailbox, "4").await;
    });
}

/// Replays R-T15.
/// Holds: MBX-I-14, MBX-G-9.
#[test]
fn messages_of_a_topic_are_received_in_send_order() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let sent: Vec<_> = (0..100).map(|number: u32| number.to_string()).collect();
        let messages = sent.iter().map(|key| OutgoingMessage::new("t", key.as_str()).bytes(key.clone()));
        assert!(mailbox.send_all(messages).await.unwrap().into_iter().all(|sent| sent.is_ok()));
        let mut received = Vec::new();
        while let Ok(envelopes) = mailbox.receive(Receive::new("t").messages(7)).await
            && !envelopes.is_empty()
        {
            received.extend(envelopes.into_iter().map(|envelope| envelope.idem_key));
        }
        assert_eq!(received, sent);
    });
}

/// Holds: MBX-P-9, RULE-12.
#[test]
fn a_delivery_is_extended_up_to_ten_times_its_visibility_and_expires_after_seven_days() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let id = send(&mailbox, "k").await;
        let second = Duration::from_secs(1);
        let envelope =
            mailbox.receive(Receive::new("t").visibility(second)).await.unwrap().envelopes.remove(0);
        let extended = mailbox.extend(envelope.receipt, Duration::from_secs(60)).await.unwrap();
        let SettleOutcome::Until(until) = extended else { panic!("{extended:?}") };
        assert_eq!(until.since(oncebox::store::Clock::now(&*fixture.clock)), second * 10);
        fixture.advance(second * 10);
        assert_eq!(mailbox.extend(envelope.receipt, second).await.unwrap(), SettleOutcome::LeaseLost);
        fixture.advance(Duration::from_secs(7 * 24 * 3_600));
        assert_eq!(mailbox.operator("t").show(id).await.unwrap().unwrap().dead, Some(DeadReason::Expired));
    });
}

#[test]
fn a_waiting_receiver_gets_a_message_when_it_is_sent() {
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

/// Many receivers wait for one topic: each message goes to one of them, whether messages arrive one by one or in a
/// batch, and even if some receivers were cancelled.
#[test]
fn every_waiting_receiver_gets_a_message() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let wait = || {
            let mailbox = mailbox.clone();
            let request = Receive::new("t").messages(1).wait(Duration::from_secs(3_600));
            tokio::spawn(async move { mailbox.receive(request).await.unwrap().envelopes.remove(0).idem_key })
        };
        let cancelled: Vec<_> = (0..3).map(|_| wait()).collect();
        let waiting: Vec<_> = (0..8).map(|_| wait()).collect();
        // Let all receivers start to wait.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        cancelled.iter().for_each(tokio::task::JoinHandle::abort);
        for one_by_one in ["0", "1", "2"] {
            send(&mailbox, one_by_one).await;
        }
        let batch = (3..8).map(|number| OutgoingMessage::new("t", number.to_string()).bytes("x"));
        mailbox.send_all(batch).await.unwrap();
        let mut received = Vec::new();
        for receiver in waiting {
            received.push(receiver.await.unwrap());
        }
        received.sort();
        assert_eq!(received, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    });
}

/// Whether it listens, waits for its turn to listen, or has not begun.
#[test]
fn a_cancelled_receiver_stops_waiting() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let gone = CancellationToken::new();
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let (mailbox, gone) = (mailbox.clone(), gone.clone());
                let request = Receive::new("t").wait(Duration::from_secs(3_600)).cancelled_by(gone);
                tokio::spawn(async move { mailbox.receive(request).await.unwrap() })
            })
            .collect();
        // Let all receivers start to wait.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        gone.cancel();
        for receiver in waiting {
            assert!(receiver.await.unwrap().is_empty());
        }
        let request = Receive::new("t").wait(Duration::from_secs(3_600)).cancelled_by(gone);
        assert!(mailbox.receive(request).await.unwrap().is_empty());
        let id = send(&mailbox, "k").await;
        assert_eq!(mailbox.receive(Receive::new("t")).await.unwrap().envelopes[0].msg_id, id);
    });
}

/// One call settles many deliveries, each with its own outcome, and receives the next messages.
/// Holds: RULE-13, RULE-17.
#[test]
fn a_work_call_settles_and_receives_the_next_messages() {
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
        let [first, second, third] = &*held else { panic!("three messages were requested") };
        let unknown: MsgId = "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        let settles = vec![
            Settle::ack(first.receipt),
            Settle::extend(second.receipt, Duration::from_secs(9)),
            Settle::ack(unknown),
            Settle::nack(third.msg_id, Some("no")),
            Settle::ack(first.receipt),
        ];
        let (outcomes, next) = mailbox.work(settles, Receive::new("t")).await.unwrap();
        let [
            SettleOutcome::Ok,
            SettleOutcome::Until(until),
            SettleOutcome::LeaseLost,
            SettleOutcome::Ok,
            SettleOutcome::Ok,
        ] = *outcomes
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

/// A receiver whose response was lost repeats its request, and gets the same deliveries.
/// Holds: RULE-06.
#[test]
fn a_repeated_receive_request_gets_the_same_deliveries() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        for idem_key in ["1", "2"] {
            send(&mailbox, idem_key).await;
        }
        let request = |number| Receive::new("t").messages(1).request(NonZeroU128::new(number).unwrap());
        let first = mailbox.receive(request(7)).await.unwrap().envelopes;
        assert_eq!(mailbox.receive(request(7)).await.unwrap().envelopes, first);
        let other = mailbox.receive(request(8)).await.unwrap().envelopes;
        assert_eq!((first[0].idem_key.as_str(), other[0].idem_key.as_str()), ("1", "2"));
    });
}
