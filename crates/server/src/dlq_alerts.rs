//! Alerts for topics with too many new dead letters: a log entry when an alert starts and one when it ends, and a
//! finding in between.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox::message::DeadReason;
use tokio::time::Instant;
use tracing::{info, warn};

/// Time window in which dead letters are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// Granularity of the window.
const BUCKET: Duration = Duration::from_secs(5);
/// Number of buckets in a window.
const BUCKETS: usize = 12;

/// An active alert for a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DlqAlert {
    /// The topic's label in the metrics; `None` for all topics that share the label `other`.
    pub(crate) topic: Option<Box<str>>,
    /// Dead letters in the last minute.
    pub(crate) count: u64,
    /// The most frequent reason.
    pub(crate) reason: DeadReason,
}

impl DlqAlert {
    /// The text of the finding: what happened and what to do.
    pub(crate) fn text(&self) -> String {
        let (name, list) = match &self.topic {
            Some(topic) => {
                (format!("topic {}", shell_quoted(topic)), format!(" --topic {}", shell_quoted(topic)))
            }
            None => ("topics without a label of their own".to_owned(), String::new()),
        };
        let Self { count, reason, .. } = self;
        format!(
            "{count} dead letters in {name} in the last minute, most with reason {}: list them with \
             `oncebox dlq list{list}`, fix the receiver, then run `oncebox dlq redrive{list}`",
            reason.as_str()
        )
    }
}

/// Quotes a name for a shell command line where necessary.
fn shell_quoted(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@+".contains(&byte);
    if name.bytes().all(plain) { name.to_owned() } else { format!("'{}'", name.replace('\'', r"'\''")) }
}

/// Dead letters of the last minute, by topic. Topics without a label of their own in the metrics share one entry, which
/// bounds the number of entries.
pub(crate) struct DlqAlerts {
    started: Instant,
    topics: Mutex<BTreeMap<Option<Box<str>>, TopicWindow>>,
}

#[derive(Default)]
struct TopicWindow {
    buckets: [Bucket; BUCKETS],
    alerting: bool,
    /// Alert limit of the topic, as of its last report.
    limit: u64,
}

/// Dead letters of one bucket of the window.
#[derive(Default)]
struct Bucket {
    /// Number of the bucket since the server started.
    number: u64,
    by_reason: BTreeMap<&'static str, (DeadReason, u64)>,
}

impl DlqAlerts {
    pub(crate) fn new(now: Instant) -> Self {
        Self { started: now, topics: Mutex::default() }
    }

    fn topics(&self) -> MutexGuard<'_, BTreeMap<Option<Box<str>>, TopicWindow>> {
        // No update can panic halfway.
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bucket(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.started).as_secs() / BUCKET.as_secs()
    }

    /// Records dead messages of a topic. More than `limit` within the window start an alert; a limit of 0 disables
    /// alerts.
    pub(crate) fn died(&self, topic: Option<&str>, reason: DeadReason, count: u64, limit: u32, now: Instant) {
        if count == 0 {
            return;
        }
        let (bucket, mut topics) = (self.bucket(now), self.topics());
        let window = topics.entry(topic.map(Into::into)).or_default();
        window.limit = u64::from(limit);
        window.add(bucket, reason, count);
        let (sum, reason) = window.sum(bucket);
        if window.alerting || limit == 0 || sum <= window.limit {
            return;
        }
        window.alerting = true;
        let alert = DlqAlert { topic: topic.map(Into::into), count: sum, reason };
        let (topic, reason) = (topic.unwrap_or(crate::server_metrics::OTHER), reason.as_str());
        warn!(topic, count = sum, reason, limit, "dead letter rate above limit: {}", alert.text());
    }

    /// Returns the active alerts. An alert ends, which is logged, once the count is at most half of the limit.
    pub(crate) fn current(&self, now: Instant) -> Vec<DlqAlert> {
        let (bucket, mut alerts) = (self.bucket(now), Vec::new());
        self.topics().retain(|topic, window| {
            let (count, reason) = window.sum(bucket);
            if window.alerting && (window.limit == 0 || count <= window.limit / 2) {
                window.alerting = false;
                let topic = topic.as_deref().unwrap_or(crate::server_metrics::OTHER);
                info!(topic, count, "dead letter rate back to normal");
            }
            if window.alerting {
                alerts.push(DlqAlert { topic: topic.clone(), count, reason });
            }
            window.alerting || count > 0
        });
        alerts
    }
}

impl TopicWindow {
    fn add(&mut self, number: u64, reason: DeadReason, count: u64) {
        let slot = usize::try_from(number % BUCKETS as u64).unwrap_or_default();
        let Some(bucket) = self.buckets.get_mut(slot) else { return };
        if bucket.number != number {
            *bucket = Bucket { number, by_reason: BTreeMap::new() };
        }
        bucket.by_reason.entry(reason.as_str()).or_insert((reason, 0)).1 += count;
    }

    /// The number of messages that died in the window that ends with this bucket, and the most frequent reason.
    fn sum(&self, number: u64) -> (u64, DeadReason) {
        let mut by_reason: BTreeMap<&str, (DeadReason, u64)> = BTreeMap::new();
        for bucket in self.buckets.iter().filter(|bucket| bucket.number + BUCKETS as u64 > number) {
            for (name, (reason, count)) in &bucket.by_reason {
                by_reason.entry(name).or_insert((*reason, 0)).1 += count;
            }
        }
        let most_frequent = by_reason.values().max_by_key(|(_, count)| *count);
        let reason = most_frequent.map_or(DeadReason::Failed, |(reason, _)| *reason);
        (by_reason.values().map(|(_, count)| count).sum(), reason)
    }
}

const _: () =
    assert!(WINDOW.as_secs() == BUCKET.as_secs() * BUCKETS as u64, "the buckets must cover the window");

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oncebox::message::DeadReason;
    use tokio::time::Instant;

    use super::{DlqAlerts, shell_quoted};

    #[test]
    fn an_alert_starts_above_the_limit_and_ends_at_half_of_it() {
        let started = Instant::now();
        let at = |seconds| started + Duration::from_secs(seconds);
        let alerts = DlqAlerts::new(started);
        let died = |reason, count, seconds| alerts.died(Some("t"), reason, count, 10, at(seconds));
        died(DeadReason::Failed, 4, 0);
        died(DeadReason::Exhausted, 6, 30);
        assert_eq!(alerts.current(at(30)), [], "ten dead letters do not exceed the limit of ten");
        died(DeadReason::Exhausted, 1, 59);
        let [alert] = &alerts.current(at(59))[..] else { panic!("eleven dead letters exceed the limit") };
        assert_eq!((alert.count, alert.reason), (11, DeadReason::Exhausted));
        let text = alert.text();
        assert!(
            text.contains("11 dead letters in topic t") && text.contains("most with reason exhausted"),
            "{text}"
        );
        assert!(text.contains("`oncebox dlq list --topic t`"), "{text}");
        assert_eq!(alerts.current(at(70)).len(), 1, "seven are more than half of the limit");
        assert_eq!(alerts.current(at(95)), [], "one is less than half of the limit");
        assert!(!alerts.topics().is_empty(), "the topic still has recent dead letters");
        alerts.current(at(200));
        assert!(alerts.topics().is_empty(), "topics without recent dead letters are removed");
    }

    #[test]
    fn a_limit_of_zero_disables_alerts_and_topics_are_counted_separately() {
        let now = Instant::now();
        let alerts = DlqAlerts::new(now);
        alerts.died(Some("quiet"), DeadReason::Failed, 1_000, 0, now);
        alerts.died(Some("a"), DeadReason::Failed, 3, 4, now);
        alerts.died(None, DeadReason::Expired, 5, 4, now);
        let active = alerts.current(now);
        assert_eq!(active.len(), 1, "{active:?}");
        assert!(active[0].text().contains("`oncebox dlq list`"), "{active:?}");
    }

    #[test]
    fn names_are_quoted_for_the_shell() {
        assert_eq!(shell_quoted("orders.eu/1"), "orders.eu/1");
        assert_eq!(shell_quoted("it's $HOME"), r"'it'\''s $HOME'");
    }
}
