//! How long a parcel may wait.

use std::time::Duration;

use oncebox::mailbox::{MailboxSettings, Parcel, Receive, Sent};
use oncebox::{DeadReason, MessageState};

use crate::fixture::on_every_store;

/// A topic with a retention of its own has that one, and all others the usual one.
/// Holds: MBX-P-9.
#[test]
fn a_parcel_waits_as_long_as_its_topic_says() {
    on_every_store(async |fixture| {
        let mut settings = MailboxSettings::default();
        let mut own = settings.topic.clone();
        own.ready_keep = Duration::from_secs(3_600);
        settings.topics.insert("short".to_owned(), own);
        let mailbox = fixture.oncebox.mailbox(settings).unwrap();
        let mut ids = Vec::new();
        for topic in ["short", "usual"] {
            let sent = mailbox.send(Parcel::new(topic, "k").bytes("x")).await.unwrap();
            let Sent::Accepted(ticket) = sent else { panic!("{sent:?}") };
            ids.push(ticket.msg_id);
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
