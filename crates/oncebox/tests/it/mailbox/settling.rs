//! What a receiver and a sender say about time, to the millisecond.

use std::time::Duration;

use oncebox::mailbox::{Mailbox, MailboxSettings, MsgId, Outcome, Parcel, Receive, Sent, Settle};
use oncebox::{Clock, DeadReason, Kind};

use super::mailbox;
use crate::fixture::on_every_store;

const HOUR: Duration = Duration::from_secs(3_600);

async fn send(mailbox: &Mailbox, parcel: Parcel) -> MsgId {
    match mailbox.send(parcel).await.unwrap() {
        Sent::Accepted(ticket) => ticket.msg_id,
        sent => panic!("it is new: {sent:?}"),
    }
}

/// Holds: RULE-10, IBX-058.
#[test]
fn a_parcel_comes_again_when_its_receiver_says_so() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let id = send(&mailbox, Parcel::new("t", "k")).await;
        let receipt = mailbox.receive(Receive::new("t")).await.unwrap().envelopes.remove(0).receipt;
        let error = mailbox.nack_after(receipt, Duration::ZERO, None).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (Kind::Invalid, "delay must be greater than zero".into())
        );
        let (now, delay) = (fixture.clock.now(), Duration::from_secs(30));
        assert_eq!(mailbox.nack_after(receipt, delay, Some("busy")).await.unwrap(), Outcome::Ok);
        let waiting = mailbox.operator("test").show(id).await.unwrap().unwrap();
        assert_eq!((waiting.retry_at, waiting.attempts), (Some(now.after(delay)), 1));
        fixture.advance(delay.checked_sub(Duration::from_millis(1)).unwrap());
        assert!(mailbox.receive(Receive::new("t")).await.unwrap().is_nothing());
        fixture.advance(Duration::from_millis(1));
        assert_eq!(mailbox.receive(Receive::new("t")).await.unwrap().envelopes[0].attempt, 2);
    });
}

#[test]
fn a_parcel_that_cannot_be_handled_is_a_dead_letter_at_once() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let (one, two) =
            (send(&mailbox, Parcel::new("t", "1")).await, send(&mailbox, Parcel::new("t", "2")).await);
        let envelopes = mailbox.receive(Receive::new("t")).await.unwrap().envelopes;
        assert_eq!(mailbox.fail(envelopes[0].receipt, Some("no JSON")).await.unwrap(), Outcome::Dead);
        let settled = mailbox.settle_all(vec![Settle::fail(two, None)]).await.unwrap();
        assert_eq!(settled, [Outcome::Dead], "by its message, while that is enough");
        for (id, error) in [(one, Some("no JSON")), (two, None)] {
            let letter = mailbox.operator("test").show(id).await.unwrap().unwrap();
            assert_eq!((letter.dead, letter.attempts), (Some(DeadReason::Failed), 0));
            assert_eq!(letter.last_error.as_ref().map(oncebox_core::LastError::as_str), error);
        }
    });
}

/// Holds: RULE-09, RULE-12.
#[test]
fn a_parcel_is_due_and_expires_when_its_sender_says_so() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let parcel = || Parcel::new("t", "k").due_in(HOUR).expires_in(2 * HOUR);
        let (now, id) = (fixture.clock.now(), send(&mailbox, parcel()).await);
        // Within the replay window.
        fixture.advance(HOUR / 60);
        let Sent::Duplicate(again) = mailbox.send(parcel()).await.unwrap() else { panic!("it came before") };
        assert_eq!(again.msg_id, id);
        let waiting = mailbox.operator("test").show(id).await.unwrap().unwrap().content.unwrap();
        assert_eq!((waiting.due, waiting.expires), (Some(now.after(HOUR)), Some(now.after(2 * HOUR))));
        assert!(mailbox.receive(Receive::new("t")).await.unwrap().is_nothing());
        fixture.advance(59 * HOUR / 60);
        let receipt = mailbox.receive(Receive::new("t")).await.unwrap().envelopes.remove(0).receipt;
        assert_eq!(mailbox.nack_after(receipt, 2 * HOUR, None).await.unwrap(), Outcome::Ok);
        fixture.advance(HOUR);
        let letter = mailbox.operator("test").show(id).await.unwrap().unwrap();
        assert_eq!(letter.dead, Some(DeadReason::Expired), "it expires while it waits to be tried again");
    });
}

#[test]
fn times_that_cannot_be_are_refused_and_the_topic_limits_them() {
    on_every_store(async |fixture| {
        let mut settings = MailboxSettings::default();
        settings.topic.ready_keep = HOUR;
        settings.topic.visibility_default = Some(2 * HOUR / 60);
        let mailbox = fixture.oncebox.mailbox(settings).unwrap();
        for (parcel, expected) in [
            (Parcel::new("t", "k").due_in(Duration::ZERO), "due_in must be greater than zero"),
            (Parcel::new("t", "k").expires_in(Duration::MAX), "expires_in is longer than ten years"),
            (Parcel::new("t", "k").due_in(HOUR).expires_in(HOUR), "expires_in must be more than due_in"),
        ] {
            assert_eq!(mailbox.send(parcel).await.unwrap_err().to_string(), expected);
        }
        let now = fixture.clock.now();
        for (key, parcel, expires) in [
            ("1", Parcel::new("t", "1").expires_in(2 * HOUR), HOUR),
            ("2", Parcel::new("t", "2").expires_in(HOUR / 2), HOUR / 2),
            ("3", Parcel::new("t", "3").due_in(2 * HOUR), 3 * HOUR),
        ] {
            let id = send(&mailbox, parcel).await;
            let content = mailbox.operator("test").show(id).await.unwrap().unwrap().content.unwrap();
            assert_eq!(content.expires, Some(now.after(expires)), "{key}");
        }
        let envelope = mailbox.receive(Receive::new("t").messages(1)).await.unwrap().envelopes.remove(0);
        assert_eq!(envelope.visible_until, now.after(2 * HOUR / 60), "that of the topic");
    });
}
