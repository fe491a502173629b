//! The bounds of a store: their names, how full they are, and what an operator can do about a full one.

/// A bound of a store, and how much of it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bound {
    /// The name in labels and responses; it never changes.
    pub name: &'static str,
    /// How much is used; more than the limit if the limit was lowered.
    pub used: u64,
    /// How much may be used.
    pub limit: u64,
}

impl Bound {
    /// Name of the bound on messages that are not Done.
    pub const MESSAGES: &'static str = "messages";
    /// Name of the bound on keys and records of any kind, including Done ones.
    pub const KEYS: &'static str = "keys";
    /// Name of the bound on payloads, texts and the fixed cost of each record together.
    pub const LIVE_BYTES: &'static str = "live_bytes";
    /// Name of the bound on unfinished messages of one lane, which the sender sets.
    pub const LANE_MESSAGES: &'static str = "lane_messages";
    /// Name of the bound on deliveries in flight, which the claimer sets.
    pub const IN_FLIGHT: &'static str = "in_flight";
    /// Name of the bound that the disk imposes on the size of a store's files. Its limit is their current size once the
    /// disk is full.
    pub const DISK_BYTES: &'static str = "disk_bytes";
    /// Name of the bound on the records of one kind.
    pub const RECORDS: &'static str = "records";
    /// Name of the bound on the total size of the records of one kind.
    pub const RECORD_BYTES: &'static str = "record_bytes";

    /// Name of the bound of a topic that is paused for sending. It has no numbers.
    pub const PAUSED: &'static str = "paused";

    /// A bound and how much of it is used.
    pub const fn new(name: &'static str, used: u64, limit: u64) -> Self {
        Self { name, used, limit }
    }

    /// The problem while the bound is reached: the first half of an error message.
    pub fn problem(&self) -> &'static str {
        match self.name {
            Self::MESSAGES => "the store has reached its limit of messages that are not Done",
            Self::KEYS => "the store has reached its limit of keys",
            Self::LIVE_BYTES => "the store has reached its memory limit",
            Self::LANE_MESSAGES => "the shard has reached its limit of unfinished messages",
            Self::IN_FLIGHT => "the limit of messages in flight is reached",
            Self::DISK_BYTES => "the disk is full",
            Self::RECORDS => "there are too many records of this kind",
            Self::RECORD_BYTES => "the records of this kind are too large together",
            Self::PAUSED => "sending to this topic is paused",
            _ => "a limit is reached",
        }
    }

    /// What an operator can do about it: the second half of the error message.
    pub fn remedy(&self) -> &'static str {
        match self.name {
            Self::MESSAGES => "let consumers catch up, or raise `messages_max` in the URL of the store",
            Self::KEYS => "keep keys for a shorter time, or raise `keys_max` in the URL of the store",
            Self::LIVE_BYTES => "let consumers catch up, or raise `live_bytes_max` in the URL of the store",
            Self::LANE_MESSAGES => {
                "let consumers catch up, spread the topic by a shard key, or raise `mailbox.shard_capacity`"
            }
            Self::IN_FLIGHT => "acknowledge what was received, or raise `mailbox.global_in_flight`",
            Self::DISK_BYTES => "free space on the disk that the store is on",
            Self::RECORDS | Self::RECORD_BYTES => "delete records that are no longer needed",
            Self::PAUSED => "resume the topic, for example with `oncebox resume`",
            _ => "raise it",
        }
    }

    /// The used share of the limit: 0 is nothing, 1 is all of it. A limit of zero counts as used up.
    #[expect(clippy::cast_precision_loss, reason = "a share need not be exact to the last of 2^53 units")]
    pub fn share(&self) -> f64 {
        if self.limit == 0 { 1.0 } else { self.used as f64 / self.limit as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::Bound;

    #[test]
    fn a_share_may_exceed_the_limit() {
        let shares = [(0, 10), (8, 10), (15, 10), (0, 0), (u64::MAX, u64::MAX)];
        let shares = shares.map(|(used, limit)| format!("{:.2}", Bound::new("keys", used, limit).share()));
        assert_eq!(shares, ["0.00", "0.80", "1.50", "1.00", "1.00"]);
    }
}
