//! The messages of a campaign, derived from their sender and number.

use std::time::Duration;

use oncebox_audit::server::payload;
use oncebox_core::{
    Divergence, Hold, Id, Keep, Key, Namespace, NewMessage, Partition, Payload, Policy, Source, Topic,
};

use crate::{Failure, trace};

/// Number of sender processes.
pub(super) const SENDERS: u64 = 2;
pub(super) const TOPICS: [&str; 3] = ["orders", "mails", "bills"];
const SOURCE: &str = "torture";
/// One message in three has a partition; this is the number of partitions.
const PARTITIONS: u64 = 240;
const KEEP: Duration = Duration::from_secs(24 * 60 * 60);

/// One message of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TestMessage {
    pub(super) sender: u64,
    pub(super) number: u64,
}

impl TestMessage {
    pub(super) fn id(self) -> String {
        format!("{}-{}", self.sender, self.number)
    }

    pub(super) fn parse(id: &str) -> Option<Self> {
        let (sender, number) = id.split_once('-')?;
        Some(Self { sender: sender.parse().ok()?, number: number.parse().ok()? })
    }

    fn partition(self) -> Option<String> {
        let is_partitioned = self.number.is_multiple_of(3);
        is_partitioned.then(|| format!("p{}", self.number / 3 % PARTITIONS))
    }

    /// The message as an item of a logged `accept` call.
    pub(super) fn log_item(self) -> String {
        let (id, partition) = (self.id(), self.partition().unwrap_or_else(|| "-".to_owned()));
        let hash = trace::hash(payload(&id).as_bytes());
        format!("{id},{partition},{hash}")
    }

    pub(super) fn build(self) -> Result<NewMessage, Failure> {
        let id = self.id();
        let payload = Payload::new(payload(&id))?;
        let topic = TOPICS[usize::try_from(self.number % 5 % 3)?];
        let key = Key::new(Namespace::Inbox, Source::new(SOURCE)?, Id::new(id)?);
        let mut message = NewMessage::new(key, Topic::new(topic)?, payload);
        message.content.partition = self.partition().map(Partition::new).transpose()?;
        // Unlimited attempts: only a `fail` verdict makes it dead.
        let (attempts_max, hold) = (None, Hold { window: Duration::ZERO, keep: Keep::After(KEEP) });
        message.policy =
            Policy { attempts_max, hold, divergence: Divergence::KeepFirst, keep_finished: false };
        Ok(message)
    }
}
