//! Delays, due times and expiries set by receivers and senders, to the millisecond.

use std::time::Duration;

use oncebox::mailbox::{
    Mailbox, MailboxSettings, MsgId, OutgoingMessage, Receive, SendOutcome, Settle, SettleOutcome,
};
use oncebox::{ErrorKind, message::DeadReason, store::Clock};

use super::mailbox;
use crate::fixture::on_every_store;

const HOUR: Duration = Duration::from_secs(3_600);

async fn send(mailbox: &Mailbox, message: OutgoingMessage) -> MsgId {
    match mailbox.send(message).await.unwrap() {
        SendOutcome::Accepted(receipt) => receipt.msg_id,
        outcome => panic!("the message is new: {outcome:?}"),
    }
}

/// Holds: RULE-10, IBX-058.
#[test]
fn a_nacked_message_is_delivered_after_the_given_delay() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let id = send(&mailbox, OutgoingMessage::new("t", "k")).await;
        let receipt = mailbox.receive(Receive::new("t")).await.unwrap().envelopes.remove(0).receipt;
        let error = mailbox.nack_after(receipt, Duration::ZERO, None).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (ErrorKind::Invalid, "delay must be greater than zero".into())
        );
        let (now, delay) = (fixture.clock.now(), Duration::from_secs(30));
        assert_eq!(mailbox.nack_after(receipt, delay, Some("busy")).await.unwrap(), SettleOutcome::Ok);
        let waiting = mailbox.operator("test").show(id).await.unwrap().unwrap();
        assert_eq!((waiting.retry_at, waiting.attempts), (Some(now.after(delay)), 1));
        fixture.advance(delay.checked_sub(Duration::from_millis(1)).unwrap());
        assert!(mailbox.receive(Receive::new("t")).await.unwrap().is_empty());
        fixture.advance(Duration::from_millis(1));
        assert_eq!(mailbox.receive(Receive::new("t")).await.unwrap().envelopes[0].attempt, 2);
    });
}

#[test]
fn a_failed_message_is_a_dead_letter_at_once() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let (one, two) = (
            send(&mailbox, OutgoingMessage::new("t", "1")).await,
            send(&mailbox, OutgoingMessage::new("t", "2")).await,
        );
        let envelopes = mailbox.receive(Receive::new("t")).await.unwrap().envelopes;
        assert_eq!(mailbox.fail(envelopes[0].receipt, Some("no JSON")).await.unwrap(), SettleOutcome::Dead);
        let settled = mailbox.settle_all(vec![Settle::fail(two, None)]).await.unwrap();
        assert_eq!(settled, [SettleOutcome::Dead], "by message id, during the first delivery");
        for (id, error) in [(one, Some("no JSON")), (two, None)] {
            let dead = mailbox.operator("test").show(id).await.unwrap().unwrap();
            assert_eq!((dead.dead, dead.attempts), (Some(DeadReason::Failed), 0));
            assert_eq!(dead.last_error.as_ref().map(oncebox_core::LastError::as_str), error);
        }
    });
}

/// Holds: RULE-09, RULE-12.
#[test]
fn a_message_is_due_and_expires_at_the_times_its_sender_set() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let message = || OutgoingMessage::new("t", "k").due_in(HOUR).expires_in(2 * HOUR);
        let (now, id) = (fixture.clock.now(), send(&mailbox, message()).await);
        // Within the replay window.
        fixture.advance(HOUR / 60);
        let SendOutcome::Duplicate(again) = mailbox.send(message()).await.unwrap() else {
            panic!("it is a duplicate")
        };
        assert_eq!(again.msg_id, id);
        let waiting = mailbox.operator("test").show(id).await.unwrap().unwrap().content.unwrap();
        assert_eq!((waiting.due, waiting.expires), (Some(now.after(HOUR)), Some(now.after(2 * HOUR))));
        assert!(mailbox.receive(Receive::new("t")).await.unwrap().is_empty());
        fixture.advance(59 * HOUR / 60);
        let receipt = mailbox.receive(Receive::new("t")).await.unwrap().envelopes.remove(0).receipt;
        assert_eq!(mailbox.nack_after(receipt, 2 * HOUR, None).await.unwrap(), SettleOutcome::Ok);
        fixture.advance(HOUR);
        let dead = mailbox.operator("test").show(id).await.unwrap().unwrap();
        assert_eq!(dead.dead, Some(DeadReason::Expired), "it expires while it waits for its retry");
    });
}

#[test]
fn invalid_times_are_rejected_and_the_topic_limits_expiry() {
    on_every_store(async |fixture| {
        let mut settings = MailboxSettings::default();
        settings.topic.ready_keep = HOUR;
        settings.topic.visibility_default = Some(2 * HOUR / 60);
        let mailbox = fixture.oncebox.mailbox(settings).unwrap();
        for (message, expected) in [
            (OutgoingMessage::new("t", "k").due_in(Duration::ZERO), "due_in must be greater than zero"),
            (OutgoingMessage::new("t", "k").expires_in(Duration::MAX), "expires_in is longer than ten years"),
            (
                OutgoingMessage::new("t", "k").due_in(HOUR).expires_in(HOUR),
                "expires_in must be more than due_in",
            ),
        ] {
            assert_eq!(mailbox.send(message).await.unwrap_err().to_string(), expected);
        }
        let now = fixture.clock.now();
        for (key, message, expires) in [
            ("1", OutgoingMessage::new("t", "1").expires_in(2 * HOUR), HOUR),
            ("2", OutgoingMessage::new("t", "2").expires_in(HOUR / 2), HOUR / 2),
            ("3", OutgoingMessage::new("t", "3").due_in(2 * HOUR), 3 * HOUR),
        ] {
            let id = send(&mailbox, message).await;
            let content = mailbox.operator("test").show(id).await.unwrap().unwrap().content.unwrap();
            assert_eq!(content.expires, Some(now.after(expires)), "{key}");
        }
        let envelope = mailbox.receive(Receive::new("t").messages(1)).await.unwrap().envelopes.remove(0);
        assert_eq!(envelope.visible_until, now.after(2 * HOUR / 60), "the visibility of the topic applies");
    });
}
