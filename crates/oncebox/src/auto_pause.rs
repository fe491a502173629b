//! Pauses topics by themselves when too many of their messages die.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox_core::{DeadReason, Deaths, Namespace, Topic};
use tokio::time::Instant;

/// The time in which dead letters are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// Granularity of the window.
const BUCKET: Duration = Duration::from_secs(5);
/// Maximum number of topics that are counted. Messages of further topics are not.
const TOPICS_MAX: usize = 10_000;

/// How many messages of a topic may die within a minute; 0 is no limit.
#[derive(Debug, Default)]
pub(crate) struct DeathLimits {
    /// The limit of topics that are not in `topics`.
    pub(crate) default: u32,
    /// Topics with their own limits.
    pub(crate) topics: BTreeMap<String, u32>,
}

impl DeathLimits {
    fn of(&self, topic: &Topic) -> u64 {
        self.topics.get(topic.as_str()).copied().unwrap_or(self.default).into()
    }
}

/// Counts dead letters by topic.
pub(crate) struct AutoPause {
    /// The limits of the inbox and the commands.
    limits: DeathLimits,
    /// The limits of the mailbox that was opened last.
    mailbox_limits: Mutex<DeathLimits>,
    counted: Mutex<HashMap<(Namespace, Topic), Vec<Bucket>>>,
}

/// Messages that died within [`BUCKET`].
struct Bucket {
    began: Instant,
    deaths: u64,
}

/// A topic with too many dead letters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    pub(crate) namespace: Namespace,
    pub(crate) topic: Topic,
    /// The number of messages that died within the last minute.
    pub(crate) deaths: u64,
    pub(crate) limit: u64,
}

impl AutoPause {
    pub(crate) fn new(default: u32) -> Self {
        let limits = DeathLimits { default, topics: BTreeMap::new() };
        Self { limits, mailbox_limits: Mutex::default(), counted: Mutex::default() }
    }

    pub(crate) fn set_mailbox_limits(&self, limits: DeathLimits) {
        *self.mailbox_limits() = limits;
    }

    fn mailbox_limits(&self) -> MutexGuard<'_, DeathLimits> {
        // The value is replaced as a whole, so it is valid even if the lock is poisoned.
        self.mailbox_limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn limit(&self, namespace: Namespace, topic: &Topic) -> u64 {
        match namespace {
            Namespace::Mailbox => self.mailbox_limits().of(topic),
            _ => self.limits.of(topic),
        }
    }

    /// Counts messages that died, except by expiry and cancellation. Returns the topics that exceed their limits.
    pub(crate) fn record(&self, died: &[Deaths], now: Instant) -> Vec<Exceeded> {
        // No update panics halfway, so the counts are usable even if the lock is poisoned.
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.retain(|_, buckets| {
            buckets.retain(|bucket| now.saturating_duration_since(bucket.began) < WINDOW);
            !buckets.is_empty()
        });
        let mut exceeded = Vec::new();
        for Deaths { namespace, topic, reason, count } in died {
            let Some(topic) = topic else { continue };
            let limit = self.limit(*namespace, topic);
            if limit == 0 || matches!(reason, DeadReason::Expired | DeadReason::Cancelled) {
                continue;
            }
            let key = (*namespace, topic.clone());
            if counted.len() >= TOPICS_MAX && !counted.contains_key(&key) {
                continue;
            }
            let buckets = counted.entry(key.clone()).or_default();
            match buckets.last_mut() {
                Some(last) if now.saturating_duration_since(last.began) < BUCKET => last.deaths += count,
                _ => buckets.push(Bucket { began: now, deaths: *count }),
            }
            let deaths = buckets.iter().map(|bucket| bucket.deaths).sum();
            if deaths > limit {
                let (namespace, topic) = key;
                exceeded.push(Exceeded { namespace, topic, deaths, limit });
            }
        }
        exceeded
    }
}

impl AutoPause {
    /// Starts to count from zero for a topic that was paused.
    pub(crate) fn reset(&self, namespace: Namespace, topic: &Topic) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.remove(&(namespace, topic.clone()));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oncebox_core::{DeadReason, Deaths, Namespace, Topic};
    use tokio::time::Instant;

    use super::{AutoPause, DeathLimits};

    fn deaths(namespace: Namespace, topic: &str, reason: DeadReason, count: u64) -> [Deaths; 1] {
        [Deaths { namespace, topic: Some(Topic::new(topic).unwrap()), reason, count }]
    }

    #[test]
    fn a_topic_is_paused_when_more_messages_die_within_a_minute_than_its_limit() {
        let (auto, start) = (AutoPause::new(10), Instant::now());
        let record = |count, seconds| {
            let died = deaths(Namespace::Inbox, "t", DeadReason::Failed, count);
            auto.record(&died, start + Duration::from_secs(seconds)).len()
        };
        assert_eq!(record(6, 0), 0);
        assert_eq!(record(4, 59), 0, "ten do not exceed ten");
        assert_eq!(record(6, 61), 0, "the first six are older than a minute");
        assert_eq!(record(1, 62), 1, "eleven within a minute");
        assert_eq!(record(1, 62), 1, "it is not paused yet");
        auto.reset(Namespace::Inbox, &Topic::new("t").unwrap());
        assert_eq!(record(10, 63), 0, "counted from zero again");
        assert_eq!(record(1, 64), 1);
    }

    #[test]
    fn expired_and_cancelled_messages_do_not_count_and_zero_is_no_limit() {
        let now = Instant::now();
        let auto = AutoPause::new(1);
        for reason in [DeadReason::Expired, DeadReason::Cancelled] {
            assert_eq!(auto.record(&deaths(Namespace::Inbox, "t", reason, 100), now), []);
        }
        let failed = deaths(Namespace::Inbox, "t", DeadReason::Failed, 2);
        assert_eq!(auto.record(&failed, now).len(), 1);
        assert_eq!(AutoPause::new(0).record(&failed, now), []);
    }

    #[test]
    fn topics_of_the_mailbox_have_their_own_limits() {
        let (now, auto) = (Instant::now(), AutoPause::new(0));
        auto.set_mailbox_limits(DeathLimits { default: 5, topics: [("t".to_owned(), 2)].into() });
        let record = |topic| auto.record(&deaths(Namespace::Mailbox, topic, DeadReason::Exhausted, 3), now);
        assert_eq!(record("t")[0].limit, 2);
        assert_eq!(record("u"), []);
        assert_eq!(record("u")[0].deaths, 6);
    }
}
