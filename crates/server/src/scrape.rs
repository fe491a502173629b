//! What is counted when somebody asks: depths, fill, bounds.

use std::collections::BTreeMap;
use std::time::Duration;

use metrics::gauge;
use oncebox::mailbox::MailboxSettings;
use oncebox::{Error, Namespace};
use oncebox_core::limits::MAILBOX_EXTEND_FACTOR;
use oncebox_core::{Shard, Usage};

use crate::http::App;
use crate::meters::{OTHER, names};

/// `durable`, or `ephemeral`: then dead letters are gone with the process.
pub(crate) fn dlq_profile(app: &App) -> &'static str {
    if app.oncebox.capabilities().durable { "durable" } else { "ephemeral" }
}

/// Everything, as Prometheus reads it.
pub(crate) async fn render(app: &App) -> Result<String, Error> {
    gauge!(names::PROFILE, "dlq_profile" => dlq_profile(app)).set(1.0);
    let usage = app.oncebox.usage().await?;
    for (shard, depth) in reorder_depths(&usage, app.live().mailbox.settings().shards) {
        gauge!(names::REORDER_DEPTH, "shard" => shard).set(number(depth));
    }
    for bound in usage.bounds {
        gauge!(names::BOUND, "bound" => bound.name).set(bound.share());
    }
    let mailbox = &app.live().mailbox;
    let settings = mailbox.settings();
    retention(settings);
    for topic in app.meters.topics() {
        let mut dead = 0;
        for shard in 0..settings.shards {
            let counts = mailbox.counts(&topic, Some(shard)).await?;
            dead += counts.dead;
            let labels = [("topic", topic.to_string()), ("shard", shard.to_string())];
            let depth = counts.ready + counts.waiting;
            gauge!(names::QUEUE_DEPTH, &labels).set(number(depth));
            gauge!(names::IN_FLIGHT, &labels).set(number(counts.leased));
            let capacity = f64::from(settings.shard_capacity);
            gauge!(names::SATURATION, &labels).set((number(depth + counts.leased) / capacity).min(1.0));
        }
        gauge!(names::DLQ_DEPTH, "topic" => topic.to_string()).set(number(dead));
        gauge!(names::OLDEST_SECONDS, "topic" => topic.to_string())
            .set(oldest(app, &topic).await?.as_secs_f64());
    }
    let all = app.operator(Namespace::Mailbox, "").counts(None).await?;
    gauge!(names::DLQ_DEPTH, "topic" => "").set(number(all.dead));
    Ok(app.metrics.render())
}

/// For how long the first message that can be delivered now has been there; nothing if there is none.
async fn oldest(app: &App, topic: &str) -> Result<Duration, Error> {
    let operator = app.operator(Namespace::Mailbox, "");
    let accepted = operator.topic(topic).await?.and_then(|counts| counts.oldest_ready);
    Ok(accepted.map(|accepted| app.now().since(accepted)).unwrap_or_default())
}

/// How far each shard ran ahead. Messages may still be in shards beyond the number, if that was lowered: these have one label.
fn reorder_depths(usage: &Usage, shards: u16) -> BTreeMap<String, u64> {
    let mut depths: BTreeMap<_, _> = (0..shards).map(|shard| (shard.to_string(), 0)).collect();
    for (Shard(shard), depth) in &usage.reorder_depths {
        let label = if *shard < shards { shard.to_string() } else { OTHER.to_owned() };
        let most = depths.entry(label).or_default();
        *most = *depth.max(most);
    }
    depths
}

/// How long and how many, by topic; those without settings of their own under the empty name.
fn retention(settings: &MailboxSettings) {
    let own = settings.topics.iter().map(|(name, own)| (name.as_str(), own));
    for (topic, own) in own.chain([("", &settings.topic)]) {
        let held = settings.visibility_default.saturating_mul(MAILBOX_EXTEND_FACTOR);
        let waiting = u64::from(settings.shards) * u64::from(settings.shard_capacity);
        for (stage, keep, messages) in [
            ("ready", own.ready_keep, waiting),
            ("inflight", held, settings.global_in_flight),
            ("dlq", own.dlq_keep, u64::from(own.dlq_messages_max)),
        ] {
            let labels = [("topic", topic.to_owned()), ("stage", stage.to_owned())];
            gauge!(names::RETENTION_SECONDS, &labels).set(keep.as_secs_f64());
            gauge!(names::RETENTION_MESSAGES, &labels).set(number(messages));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge need not be exact beyond 2^53")]
fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use oncebox_core::{Shard, Usage};

    use super::reorder_depths;

    /// Holds: MBX-C-5, RULE-22.
    #[test]
    fn every_shard_has_its_depth_and_those_beyond_the_number_share_a_label() {
        let mut usage = Usage::default();
        usage.reorder_depths.extend([(Shard(1), 32), (Shard(2), 5), (Shard(700), 7)]);
        let depths: Vec<_> = reorder_depths(&usage, 2).into_iter().collect();
        assert_eq!(depths, [("0".into(), 0), ("1".into(), 32), ("other".into(), 7)]);
    }
}
