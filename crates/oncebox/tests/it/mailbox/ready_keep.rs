//! Expiry of messages that are not received.

use std::time::Duration;

use oncebox::mailbox::{MailboxSettings, OutgoingMessage, Receive, SendOutcome};
use oncebox::{MessageState, message::DeadReason};

use crate::fixture::on_every_store;

/// The setting of the topic applies if there is one, otherwise the default.
/// Holds: MBX-P-9.
#[test]
fn an_unreceived_message_expires_after_the_ready_keep_of_its_topic() {
    on_every_store(async |fixture| {
        let mut settings = MailboxSettings::default();
        let mut own = settings.topic.clone();
        own.ready_keep = Duration::from_secs(3_600);
        settings.topics.insert("short".to_owned(), own);
        let mailbox = fixture.oncebox.mailbox(settings).unwrap();
        let mut ids = Vec::new();
        for topic in ["short", "usual"] {
            let outcome = mailbox.send(OutgoingMessage::new(topic, "k").bytes("x")).await.unwrap();
            let SendOutcome::Accepted(receipt) = outcome else { panic!("{outcome:?}") };
            ids.push(receipt.msg_id);
        }
        let operator = mailbox.operator("test");
        fixture.advance(Duration::from_millis(3_599_999));
        for id in &ids {
            assert_eq!(operator.show(*id).await.unwrap().unwrap().state, MessageState::Processing);
        }
        fixture.advance(Duration::from_millis(1));
        assert_eq!(operator.show(ids[0]).await.unwrap().unwrap().dead, Some(DeadReason::Expired));
        assert_eq!(mailbox.receive(Receive::new("short")).await.unwrap().envelopes, []);
        assert_eq!(mailbox.receive(Receive::new("usual")).await.unwrap().envelopes.len(), 1);
    });
}
