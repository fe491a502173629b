//! Settings of a mailbox and its topics.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use oncebox_core::limits::{DURATION_MAX, MAILBOX_ATTEMPTS_DEFAULT, PAYLOAD_BYTES_MAX, RETENTION_TOPICS_MAX};
use oncebox_core::{Backoff, DeadLetters, Error, Growth, Hold, Invalid, Jitter, Keep, Retention, Topic};

use crate::auto_pause::DeathLimits;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Settings of a mailbox. Start from the default and change fields.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MailboxSettings {
    /// Number of shards per topic; each shard keeps its own order. Do not change it while messages wait.
    pub shards: u16,
    /// Maximum number of unfinished messages in a shard.
    pub shard_capacity: u32,
    /// Maximum number of messages that receivers hold at the same time, over all topics.
    pub global_in_flight: u64,
    /// Minimum visibility timeout that a receiver can request.
    pub visibility_min: Duration,
    /// Visibility timeout when the receiver requests none and the topic sets none.
    pub visibility_default: Duration,
    /// Number of messages that one call receives when the receiver sets no limit.
    pub messages_default: u32,
    /// Number of payload bytes that one call receives when the receiver sets no limit.
    pub bytes_default: u64,
    /// Settings of topics that are not in `topics`.
    pub topic: TopicSettings,
    /// Topics with their own settings.
    pub topics: BTreeMap<String, TopicSettings>,
}

/// Settings of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicSettings {
    /// Maximum number of attempts: deliveries that end with a nack or by their visibility timeout. A message keeps the limit that it was sent with.
    pub attempts_max: u32,
    /// Base of the retry backoff: the delay is at most twice this after the first delivery and doubles with each
    /// further one; full jitter spreads it from one millisecond upwards.
    pub backoff_base: Duration,
    /// Maximum retry delay.
    pub backoff_max: Duration,
    /// Visibility timeout when the receiver requests none. Default: [`MailboxSettings::visibility_default`].
    pub visibility_default: Option<Duration>,
    /// The deduplication window of an idempotency key, from acceptance.
    pub replay_window: Duration,
    /// Whether a message holds its key beyond that window.
    pub key_hold: KeyHold,
    /// How long a message may wait, counted from the time it is due; then it becomes a dead letter.
    pub ready_keep: Duration,
    /// Maximum payload size.
    pub payload_bytes_max: usize,
    /// Retention of dead letters, counted from the time they were dead-lettered.
    pub dlq_keep: Duration,
    /// Maximum number of dead letters kept; the newest are kept. A dead letter of the last ten minutes, or one whose
    /// idempotency key is still within its window, is kept in addition.
    pub dlq_messages_max: u32,
    /// Number of dead letters per minute above which the delivery of the topic is paused; 0, the default, pauses nothing.
    /// Messages that expire or are cancelled do not count. The process that runs maintenance counts.
    pub dlq_pause_per_minute: u32,
    /// Number of dead letters per minute above which to warn; 0 means no warning. The mailbox itself does not use this
    /// setting; the server does.
    pub dlq_alert_per_minute: u32,
}

/// How long the idempotency key of a message is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum KeyHold {
    /// For the replay window from acceptance only: a message that waits longer can be sent a second time.
    #[default]
    Window,
    /// At least until the message is acknowledged or becomes a dead letter; after that, the window from acceptance
    /// applies.
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
            dlq_pause_per_minute: 0,
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
    /// All invalid settings; each error names the setting. Empty if the settings are valid.
    pub fn problems(&self) -> Vec<Invalid> {
        let mut problems = Vec::new();
        let mut expect = |valid: bool, field: &'static str, problem: &'static str| {
            if !valid {
                problems.push(Invalid::new(field, problem));
            }
        };
        expect(self.shards > 0, "shards", "must be greater than zero");
        expect(self.shard_capacity > 0, "shard_capacity", "must be greater than zero");
        let in_flight = self.global_in_flight >= u64::from(self.shard_capacity);
        expect(in_flight, "global_in_flight", "must be at least shard_capacity");
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
            expect(ready, "ready_keep", "must be greater than zero and at most ten years");
            let payload = (1..=PAYLOAD_BYTES_MAX).contains(&topic.payload_bytes_max);
            expect(payload, "payload_bytes_max", "must be from 1 byte to 64 MiB");
            let keep = !topic.dlq_keep.is_zero() && topic.dlq_keep <= DURATION_MAX;
            expect(keep, "dlq_keep", "must be greater than zero and at most ten years");
            expect(topic.dlq_messages_max > 0, "dlq_messages_max", "must be greater than zero");
        }
        let topics = self.topics.len() <= RETENTION_TOPICS_MAX;
        expect(topics, "topics", "must have at most 1,000 entries");
        problems
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        self.problems().into_iter().next().map_or(Ok(()), |invalid| Err(invalid.into()))
    }

    /// The retention of dead letters that maintenance applies.
    pub(super) fn dead_letters(&self) -> Result<DeadLetters, Error> {
        let own = self.topics.iter().map(|(name, own)| Ok((Topic::new(name.as_str())?, own.retention())));
        let topics = own.collect::<Result<_, Invalid>>()?;
        Ok(DeadLetters { default: self.topic.retention(), topics })
    }

    /// When topics are paused by themselves.
    pub(super) fn death_limits(&self) -> DeathLimits {
        let own = self.topics.iter().map(|(name, own)| (name.clone(), own.dlq_pause_per_minute));
        DeathLimits { default: self.topic.dlq_pause_per_minute, topics: own.collect() }
    }

    /// The settings of a topic.
    pub fn topic(&self, name: &str) -> &TopicSettings {
        self.topics.get(name).unwrap_or(&self.topic)
    }

    pub(super) fn shard_capacity(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.shard_capacity)
    }

    /// The visibility timeout for receivers of this topic that request none.
    pub fn visibility_of(&self, topic: &str) -> Duration {
        self.topic(topic).visibility_default.unwrap_or(self.visibility_default)
    }

    /// Rejects a requested visibility timeout below the minimum.
    pub(super) fn checked_visibility(&self, visibility: Duration) -> Result<Duration, Error> {
        if visibility < self.visibility_min {
            let text = format!(
                "visibility is {} ms, the minimum is {} ms",
                visibility.as_millis(),
                self.visibility_min.as_millis()
            );
            return Err(Error::new(oncebox_core::ErrorKind::Invalid, text));
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
    fn defaults_match_the_requirements_and_errors_name_every_invalid_setting() {
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
                "global_in_flight must be at least shard_capacity",
                "attempts_max must be greater than zero",
                "replay_window must be at least twice visibility_default",
                "ready_keep must be greater than zero and at most ten years",
                "dlq_keep must be greater than zero and at most ten years",
                "dlq_messages_max must be greater than zero",
            ]
        );
    }
}
