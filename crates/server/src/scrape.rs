//! What is counted when somebody asks: depths, fill, bounds.

use std::collections::BTreeMap;

use metrics::gauge;
use oncebox::mailbox::{Mailbox, MailboxSettings};
use oncebox::{Counts, Error, Kind, Namespace, TopicCounts};
use oncebox_core::limits::MAILBOX_EXTEND_FACTOR;
use oncebox_core::{Shard, Usage};

use crate::http::App;
use crate::meters::{OTHER, names};

/// `durable`, or `ephemeral`: then dead letters are gone with the process.
pub(crate) fn dlq_profile(app: &App) -> &'static str {
    if app.oncebox.capabilities().durable { "durable" } else { "ephemeral" }
}

/// Everything, as Prometheus reads it. What the store does not tell is `NaN`: the last value would look like the present one.
pub(crate) async fn render(app: &App) -> Result<String, Error> {
    gauge!(names::PROFILE, "dlq_profile" => dlq_profile(app)).set(1.0);
    let usage = known(app.oncebox.usage().await)?;
    gauge!(names::STORE_UP).set(if usage.is_some() { 1.0 } else { 0.0 });
    let live = app.live();
    let settings = live.mailbox.settings();
    for (shard, depth) in reorder_depths(usage.as_ref(), settings.shards) {
        gauge!(names::REORDER_DEPTH, "shard" => shard).set(depth.map_or(f64::NAN, number));
    }
    for (bound, share) in app.meters.bounds(usage.as_ref()) {
        gauge!(names::BOUND, "bound" => bound).set(share);
    }
    retention(settings);
    for topic in app.meters.topics() {
        let counts = known(app.operator(Namespace::Mailbox, "").topic(&topic).await)?;
        gauge!(names::OLDEST_SECONDS, "topic" => topic.to_string()).set(oldest(app, counts.as_ref()));
        depths(&live.mailbox, &topic, counts.as_ref()).await?;
    }
    let all = known(app.operator(Namespace::Mailbox, "").counts(None).await)?;
    gauge!(names::DLQ_DEPTH, "topic" => "").set(all.map_or(f64::NAN, |all| number(all.dead)));
    Ok(app.metrics.render())
}

/// For how many seconds the first message that can be delivered now has been there; 0 if there is none.
fn oldest(app: &App, counts: Option<&Option<TopicCounts>>) -> f64 {
    let Some(counts) = counts else { return f64::NAN };
    let accepted = counts.as_ref().and_then(|counts| counts.oldest_ready);
    accepted.map(|accepted| app.now().since(accepted)).unwrap_or_default().as_secs_f64()
}

/// What was read; none where the store does not answer.
fn known<T>(read: Result<T, Error>) -> Result<Option<T>, Error> {
    match read {
        Err(error) if error.kind() == Kind::Unavailable => Ok(None),
        read => read.map(Some),
    }
}

/// How many messages of a topic wait, are held, and are dead. What it has in all is known: where that is nothing, no shard is asked for.
async fn depths(mailbox: &Mailbox, topic: &str, all: Option<&Option<TopicCounts>>) -> Result<(), Error> {
    let settings = mailbox.settings();
    for shard in 0..settings.shards {
        let counts = match all {
            None => None,
            Some(None) => Some(Counts::default()),
            Some(Some(_)) => known(mailbox.counts(topic, Some(shard)).await)?,
        };
        let labels = [("topic", topic.to_owned()), ("shard", shard.to_string())];
        let depth = counts.map_or(f64::NAN, |counts| number(counts.ready + counts.waiting));
        let held = counts.map_or(f64::NAN, |counts| number(counts.leased));
        // The smaller one of a number and none would be the number.
        let share = (depth + held) / f64::from(settings.shard_capacity);
        gauge!(names::QUEUE_DEPTH, &labels).set(depth);
        gauge!(names::IN_FLIGHT, &labels).set(held);
        gauge!(names::SATURATION, &labels).set(if share > 1.0 { 1.0 } else { share });
    }
    let dead = all.map_or(f64::NAN, |all| number(all.as_ref().map_or(0, |all| all.dead)));
    gauge!(names::DLQ_DEPTH, "topic" => topic.to_owned()).set(dead);
    Ok(())
}

/// How far each shard ran ahead, if that is known. Messages may still be in shards beyond the number, if that was lowered: these have
/// one label.
fn reorder_depths(usage: Option<&Usage>, shards: u16) -> BTreeMap<String, Option<u64>> {
    let unmoved = usage.map(|_| 0);
    let mut depths: BTreeMap<_, _> = (0..shards).map(|shard| (shard.to_string(), unmoved)).collect();
    for (Shard(shard), depth) in usage.iter().flat_map(|usage| &usage.reorder_depths) {
        let label = if *shard < shards { shard.to_string() } else { OTHER.to_owned() };
        let most = depths.entry(label).or_default();
        *most = Some(*depth).max(*most);
    }
    depths
}

/// How long and how many, by topic; those without settings of their own under the empty name.
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
        let depths: Vec<_> = reorder_depths(Some(&usage), 2).into_iter().collect();
        assert_eq!(depths, [("0".into(), Some(0)), ("1".into(), Some(32)), ("other".into(), Some(7))]);
        let unknown: Vec<_> = reorder_depths(None, 1).into_iter().collect();
        assert_eq!(unknown, [("0".into(), None)]);
    }
}
