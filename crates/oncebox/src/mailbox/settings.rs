//! What a mailbox is set to.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use oncebox_core::limits::{DURATION_MAX, MAILBOX_ATTEMPTS_DEFAULT, PAYLOAD_BYTES_MAX, RETENTION_TOPICS_MAX};
use oncebox_core::{Backoff, DeadLetters, Error, Growth, Hold, Invalid, Jitter, Keep, Retention, Topic};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a mailbox is set to; begin with the default, which is the design's.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MailboxSettings {
    /// Slices of each topic; each keeps its own order. Do not change it while messages wait.
    pub shards: u16,
    /// Unfinished messages in a shard, at most.
    pub shard_capacity: u32,
    /// Messages that receivers hold at once, at most, over all topics.
    pub global_in_flight: u64,
    /// The shortest visibility that a receiver may ask for.
    pub visibility_min: Duration,
    /// The visibility of a receiver that asks for none, of topics that have none of their own.
    pub visibility_default: Duration,
    /// Messages that one call receives, if it does not say.
    pub messages_default: u32,
    /// Payload bytes that one call receives, if it does not say.
    pub bytes_default: u64,
    /// What holds for a topic that has no settings of its own.
    pub topic: TopicSettings,
    /// Topics with settings of their own.
    pub topics: BTreeMap<String, TopicSettings>,
}

/// What holds for one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicSettings {
    /// Deliveries of a message, at most; it keeps the limit that it was sent with.
    pub attempts_max: u32,
    /// What the delay of a message that was not acknowledged grows from: up to twice this after the first delivery, twice as much
    /// after each further one, spread from a millisecond on.
    pub backoff_base: Duration,
    /// The longest such delay.
    pub backoff_max: Duration,
    /// The visibility of a receiver that asks for none; [`MailboxSettings::visibility_default`] if none is set.
    pub visibility_default: Option<Duration>,
    /// How long a repeated idempotency key is known as such, from acceptance.
    pub replay_window: Duration,
    /// What holds the key of a message beyond that window.
    pub key_hold: KeyHold,
    /// How long a message may wait, from when it is due; then it is a dead letter.
    pub ready_keep: Duration,
    /// The largest payload.
    pub payload_bytes_max: usize,
    /// How long a dead letter is kept, from when it died.
    pub dlq_keep: Duration,
    /// Dead letters that are kept, at most: the newest. One that died within the last ten minutes, or whose idempotency key is still
    /// known, stays beside them.
    pub dlq_messages_max: u32,
    /// More dead letters than this within a minute are worth a warning; 0 stands for no warning. The mailbox itself does not look
    /// at it: the server does.
    pub dlq_alert_per_minute: u32,
}

/// What holds the idempotency key of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum KeyHold {
    /// The replay window from acceptance, and nothing else: a message that waits longer can be sent a second time.
    #[default]
    Window,
    /// The message too, while it is unfinished. Once it is acknowledged or a dead letter, the window from acceptance decides.
    UntilFinished,
}

impl TopicSettings {
    pub(super) fn hold(&self) -> Hold {
        let keep = match self.key_hold {
            KeyHold::Window => Keep::Window,
            KeyHold::UntilFinished => Keep::UntilFinished,
        };
        Hold { window: self.replay_window, keep }
    }

    pub(super) fn attempts_max(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.attempts_max)
    }

    pub(super) fn backoff(&self) -> Result<Backoff, Invalid> {
        Backoff::new(self.backoff_base, self.backoff_max, Growth::Exponential, Jitter::Full)
    }

    fn retention(&self) -> Retention {
        Retention { keep: Some(self.dlq_keep), messages_max: Some(self.dlq_messages_max) }
    }
}

impl Default for TopicSettings {
    fn default() -> Self {
        let (replay_window, ready_keep) = (Duration::from_secs(300), DAY.saturating_mul(7));
        let (dlq_keep, dlq_messages_max) = (DAY.saturating_mul(14), 10_000);
        Self {
            attempts_max: MAILBOX_ATTEMPTS_DEFAULT,
            backoff_base: Duration::from_secs(1),
            backoff_max: Duration::from_secs(60),
            visibility_default: None,
            replay_window,
            key_hold: KeyHold::Window,
            ready_keep,
            payload_bytes_max: 1024 * 1024,
            dlq_keep,
            dlq_messages_max,
            dlq_alert_per_minute: 10,
        }
    }
}

impl Default for MailboxSettings {
    fn default() -> Self {
        Self {
            shards: 8,
            shard_capacity: 4_096,
            global_in_flight: 8_192,
            visibility_min: Duration::from_millis(250),
            visibility_default: Duration::from_secs(30),
            messages_default: 32,
            bytes_default: 512 * 1024,
            topic: TopicSettings::default(),
            topics: BTreeMap::new(),
        }
    }
}

impl MailboxSettings {
    /// Everything that is wrong, each as a sentence that names the setting; none if all is well.
    pub fn problems(&self) -> Vec<Invalid> {
        let mut problems = Vec::new();
        let mut expect = |right: bool, field: &'static str, problem: &'static str| {
            if !right {
                problems.push(Invalid::new(field, problem));
            }
        };
        expect(self.shards > 0, "shards", "must be greater than zero");
        expect(self.shard_capacity > 0, "shard_capacity", "must be greater than zero");
        let in_flight = self.global_in_flight >= u64::from(self.shard_capacity);
        expect(in_flight, "global_in_flight", "must not be below shard_capacity");
        expect(!self.visibility_min.is_zero(), "visibility_min", "must be greater than zero");
        let visibility =
            self.visibility_default >= self.visibility_min && self.visibility_default <= DURATION_MAX;
        expect(visibility, "visibility_default", "must be from visibility_min to ten years");
        let messages = (1..=256).contains(&self.messages_default);
        expect(messages, "messages_default", "must be from 1 to 256");
        expect(self.bytes_default > 0, "bytes_default", "must be greater than zero");
        for topic in self.topics.values().chain([&self.topic]) {
            expect(topic.attempts_max > 0, "attempts_max", "must be greater than zero");
            expect(!topic.backoff_base.is_zero(), "backoff_base", "must be greater than zero");
            let backoff = topic.backoff_max >= topic.backoff_base && topic.backoff_max <= DURATION_MAX;
            expect(backoff, "backoff_max", "must be from backoff_base to ten years");
            let own = topic.visibility_default.unwrap_or(self.visibility_default);
            let visibility = own >= self.visibility_min && own <= DURATION_MAX;
            let checked = topic.visibility_default.is_none();
            expect(checked || visibility, "visibility_default", "must be from visibility_min to ten years");
            let replay = topic.replay_window >= own.saturating_mul(2);
            expect(replay, "replay_window", "must be at least twice visibility_default");
            let ready = !topic.ready_keep.is_zero() && topic.ready_keep <= DURATION_MAX;
            expect(ready, "ready_keep", "must be greater than zero, and ten years at most");
            let payload = (1..=PAYLOAD_BYTES_MAX).contains(&topic.payload_bytes_max);
            expect(payload, "payload_bytes_max", "must be from 1 byte to 64 MiB");
            let keep = !topic.dlq_keep.is_zero() && topic.dlq_keep <= DURATION_MAX;
            expect(keep, "dlq_keep", "must be greater than zero, and ten years at most");
            expect(topic.dlq_messages_max > 0, "dlq_messages_max", "must be greater than zero");
        }
        let topics = self.topics.len() <= RETENTION_TOPICS_MAX;
        expect(topics, "topics", "may hold 1,000 topics with settings of their own at most");
        problems
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        self.problems().into_iter().next().map_or(Ok(()), |invalid| Err(invalid.into()))
    }

    /// What upkeep keeps dead letters by.
    pub(super) fn dead_letters(&self) -> Result<DeadLetters, Error> {
        let own = self.topics.iter().map(|(name, own)| Ok((Topic::new(name.as_str())?, own.retention())));
        let topics = own.collect::<Result<_, Invalid>>()?;
        Ok(DeadLetters { default: self.topic.retention(), topics })
    }

    /// What holds for the topic of this name.
    pub fn topic(&self, name: &str) -> &TopicSettings {
        self.topics.get(name).unwrap_or(&self.topic)
    }

    pub(super) fn shard_capacity(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.shard_capacity)
    }

    /// The visibility of a receiver of this topic that asks for none.
    pub fn visibility_of(&self, topic: &str) -> Duration {
        self.topic(topic).visibility_default.unwrap_or(self.visibility_default)
    }

    /// A visibility that a receiver asks for, if it is not too short.
    pub(super) fn checked_visibility(&self, visibility: Duration) -> Result<Duration, Error> {
        if visibility < self.visibility_min {
            let text = format!(
                "visibility is {} ms, the least is {} ms",
                visibility.as_millis(),
                self.visibility_min.as_millis()
            );
            return Err(Error::new(oncebox_core::Kind::Invalid, text));
        }
        Ok(visibility)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Backoff, MailboxSettings};

    /// Holds: MBX-C-12, MBX-P-7, MBX-P-9, RULE-10.
    #[test]
    fn the_defaults_are_the_designs_and_every_mistake_is_named() {
        let mut settings = MailboxSettings::default();
        assert_eq!(settings.problems(), []);
        assert_eq!(settings.topic.replay_window, Duration::from_secs(300));
        assert_eq!((settings.visibility_min.as_millis(), settings.topic.backoff_max.as_secs()), (250, 60));
        assert_eq!(settings.topic.backoff(), Ok(Backoff::MAILBOX));
        assert_eq!(settings.topic.attempts_max, 16);
        assert_eq!(settings.topic.ready_keep.as_secs(), 7 * 24 * 3_600);
        assert_eq!(settings.topic.dlq_keep.as_secs(), 14 * 24 * 3_600);
        assert_eq!(settings.topic.dlq_messages_max, 10_000);
        settings.shard_capacity = 9_000;
        settings.topic.attempts_max = 0;
        settings.topic.replay_window = Duration::from_secs(9);
        settings.topic.ready_keep = Duration::MAX;
        settings.topic.dlq_keep = Duration::ZERO;
        settings.topic.dlq_messages_max = 0;
        let problems: Vec<_> = settings.problems().iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "global_in_flight must not be below shard_capacity",
                "attempts_max must be greater than zero",
                "replay_window must be at least twice visibility_default",
                "ready_keep must be greater than zero, and ten years at most",
                "dlq_keep must be greater than zero, and ten years at most",
                "dlq_messages_max must be greater than zero",
            ]
        );
    }
}
