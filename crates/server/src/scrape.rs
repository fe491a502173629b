//! Gauges computed at each scrape: depths, saturation, bounds, retention, paused topics.

use std::collections::BTreeMap;

use metrics::gauge;
use metrics_exporter_prometheus::PrometheusHandle;
use oncebox::mailbox::{Mailbox, MailboxSettings};
use oncebox::{
    Error, ErrorKind, Oncebox,
    message::Namespace,
    operator::{Counts, Pause, PausedTopic, TopicCounts},
    store::Clock,
};
use oncebox_core::limits::MAILBOX_EXTEND_FACTOR;
use oncebox_core::{Shard, Usage};
use oncebox_system::SystemClock;

use crate::config_handle::ConfigHandle;
use crate::server_metrics::{OTHER, ServerMetrics, names};

/// `durable`, or `ephemeral` if dead letters are lost with the process.
pub(crate) fn dlq_profile(oncebox: &Oncebox) -> &'static str {
    if oncebox.capabilities().durable { "durable" } else { "ephemeral" }
}

/// What a scrape reads.
pub(crate) struct Scrape<'a> {
    pub(crate) oncebox: &'a Oncebox,
    pub(crate) config: &'a ConfigHandle,
    pub(crate) metrics: &'a ServerMetrics,
    pub(crate) prometheus: &'a PrometheusHandle,
    pub(crate) clock: &'a SystemClock,
}

impl Scrape<'_> {
    /// Renders all metrics in the Prometheus text format. Values that the store does not return are `NaN`: the last
    /// value would pass for the current one.
    pub(crate) async fn render(&self) -> Result<String, Error> {
        gauge!(names::PROFILE, "dlq_profile" => dlq_profile(self.oncebox)).set(1.0);
        let usage = available(self.oncebox.usage().await)?;
        gauge!(names::STORE_UP).set(if usage.is_some() { 1.0 } else { 0.0 });
        let active = self.config.get();
        let settings = active.mailbox.settings();
        for (shard, depth) in reorder_depths(usage.as_ref(), settings.shards) {
            gauge!(names::REORDER_DEPTH, "shard" => shard).set(depth.map_or(f64::NAN, to_f64));
        }
        for (bound, share) in self.metrics.bounds(usage.as_ref()) {
            gauge!(names::BOUND, "bound" => bound).set(share);
        }
        retention(settings);
        for topic in self.metrics.topics() {
            let counts = available(active.mailbox.operator("").topic(&topic).await)?;
            gauge!(names::OLDEST_SECONDS, "topic" => topic.to_string())
                .set(self.oldest_ready_seconds(counts.as_ref()));
            depths(&active.mailbox, &topic, counts.as_ref()).await?;
        }
        let all = available(active.mailbox.operator("").counts(None).await)?;
        gauge!(names::DLQ_DEPTH, "topic" => "").set(all.map_or(f64::NAN, |all| to_f64(all.dead)));
        paused_topics(self.oncebox).await?;
        Ok(self.prometheus.render())
    }

    /// Age of the oldest deliverable message in seconds; 0 if there is none.
    fn oldest_ready_seconds(&self, counts: Option<&Option<TopicCounts>>) -> f64 {
        let Some(counts) = counts else { return f64::NAN };
        let accepted = counts.as_ref().and_then(|counts| counts.oldest_ready);
        accepted.map(|accepted| self.clock.now().since(accepted)).unwrap_or_default().as_secs_f64()
    }
}

/// Returns what was read, or `None` if the store is unavailable.
fn available<T>(read: Result<T, Error>) -> Result<Option<T>, Error> {
    match read {
        Err(error) if error.kind() == ErrorKind::Unavailable => Ok(None),
        read => read.map(Some),
    }
}

/// Sets the gauges of waiting, in-flight and dead messages of a topic. If the topic has no messages at all, its shards
/// are not queried.
async fn depths(mailbox: &Mailbox, topic: &str, all: Option<&Option<TopicCounts>>) -> Result<(), Error> {
    let settings = mailbox.settings();
    for shard in 0..settings.shards {
        let counts = match all {
            None => None,
            Some(None) => Some(Counts::default()),
            Some(Some(_)) => available(mailbox.counts(topic, Some(shard)).await)?,
        };
        let labels = [("topic", topic.to_owned()), ("shard", shard.to_string())];
        let depth = counts.map_or(f64::NAN, |counts| to_f64(counts.ready + counts.waiting));
        let held = counts.map_or(f64::NAN, |counts| to_f64(counts.leased));
        // `f64::min` would turn `NaN` into 1.
        let share = (depth + held) / f64::from(settings.shard_capacity);
        gauge!(names::QUEUE_DEPTH, &labels).set(depth);
        gauge!(names::IN_FLIGHT, &labels).set(held);
        gauge!(names::SATURATION, &labels).set(if share > 1.0 { 1.0 } else { share });
    }
    let dead = all.map_or(f64::NAN, |all| to_f64(all.as_ref().map_or(0, |all| all.dead)));
    gauge!(names::DLQ_DEPTH, "topic" => topic.to_owned()).set(dead);
    Ok(())
}

/// Sets the number of paused topics in each namespace that has topics.
async fn paused_topics(oncebox: &Oncebox) -> Result<(), Error> {
    for namespace in [Namespace::Mailbox, Namespace::Inbox, Namespace::Commands] {
        let paused = available(oncebox.operator("").in_namespace(namespace).paused().await)?;
        for pause in [Pause::Sending, Pause::Receiving, Pause::Both] {
            let labels = [("namespace", namespace.to_string()), ("pause", pause.as_str().to_owned())];
            let count =
                |paused: &Vec<PausedTopic>| paused.iter().filter(|topic| topic.pause == pause).count();
            let count = paused.as_ref().map_or(f64::NAN, |paused| to_f64(count(paused) as u64));
            gauge!(names::PAUSED_TOPICS, &labels).set(count);
        }
    }
    Ok(())
}

/// The reorder depth of each shard, or `None` if unknown. After the number of shards was lowered, messages may remain
/// in shards beyond it: these share one label.
fn reorder_depths(usage: Option<&Usage>, shards: u16) -> BTreeMap<String, Option<u64>> {
    let none_reordered = usage.map(|_| 0);
    let mut depths: BTreeMap<_, _> = (0..shards).map(|shard| (shard.to_string(), none_reordered)).collect();
    for (Shard(shard), depth) in usage.iter().flat_map(|usage| &usage.reorder_depths) {
        let label = if *shard < shards { shard.to_string() } else { OTHER.to_owned() };
        let max = depths.entry(label).or_default();
        *max = Some(*depth).max(*max);
    }
    depths
}

/// Sets the retention gauges of each topic with settings of its own, and of all other topics under the empty name.
fn retention(settings: &MailboxSettings) {
    let own = settings.topics.iter().map(|(name, own)| (name.as_str(), own));
    for (topic, own) in own.chain([("", &settings.topic)]) {
        let visibility = own.visibility_default.unwrap_or(settings.visibility_default);
        let held = visibility.saturating_mul(MAILBOX_EXTEND_FACTOR);
        let waiting = u64::from(settings.shards) * u64::from(settings.shard_capacity);
        for (stage, keep, messages) in [
            ("ready", own.ready_keep, waiting),
            ("inflight", held, settings.global_in_flight),
            ("dlq", own.dlq_keep, u64::from(own.dlq_messages_max)),
        ] {
            let labels = [("topic", topic.to_owned()), ("stage", stage.to_owned())];
            gauge!(names::RETENTION_SECONDS, &labels).set(keep.as_secs_f64());
            gauge!(names::RETENTION_MESSAGES, &labels).set(to_f64(messages));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge need not be exact beyond 2^53")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use oncebox_core::{Shard, Usage};

    use super::reorder_depths;

    /// Holds: MBX-C-5, RULE-22.
    #[test]
    fn every_shard_has_its_reorder_depth_and_removed_shards_share_a_label() {
        let mut usage = Usage::default();
        usage.reorder_depths.extend([(Shard(1), 32), (Shard(2), 5), (Shard(700), 7)]);
        let depths: Vec<_> = reorder_depths(Some(&usage), 2).into_iter().collect();
        assert_eq!(depths, [("0".into(), Some(0)), ("1".into(), Some(32)), ("other".into(), Some(7))]);
        let unknown: Vec<_> = reorder_depths(None, 1).into_iter().collect();
        assert_eq!(unknown, [("0".into(), None)]);
    }
}
