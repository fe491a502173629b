//! Operations on messages: list, redrive, cancel, erase. Every change is written to the audit log.

mod audit;
mod pause;
mod sweep;
mod target;

use std::num::NonZeroU32;
use std::sync::Arc;

use oncebox_core::{Action, AttemptCount, Error, Key, Namespace, Omitted, Order, Scope, StoreExt, Topic};

use crate::shared::{Oncebox, Shared};

pub use crate::pauses::{Pause, PausedTopic};
use audit::AuditEvent;
pub use oncebox_core::{
    Counts, Cursor, Direction, Grant, GrantEnd, MessagePage, MessageQuery, MessageRef, Operated, PageSize,
    Snapshot, TopicCounts, TopicPage, TopicQuery, TopicRange, VerdictKind,
};
pub use sweep::{Sweep, SweepCursor, SweepFilter};
use target::Target;

/// Lists, redrives, cancels and erases messages, and pauses topics, on behalf of an actor. Needs no lease.
///
/// Every change is logged as a `tracing` event with the target `oncebox::audit`: what happened to which message, the
/// actor, the reason, and the last error of the message.
#[derive(Clone)]
pub struct Operator {
    shared: Arc<Shared>,
    namespace: Namespace,
    actor: Arc<str>,
    reason: Arc<str>,
    lane_max: Option<NonZeroU32>,
}

impl Oncebox {
    /// The handle for operations on messages. `actor` is the person or program that audit events name.
    pub fn operator(&self, actor: impl AsRef<str>) -> Operator {
        Operator::new(self.shared(), Namespace::Inbox, actor.as_ref().into())
    }
}

impl Operator {
    pub(crate) fn new(shared: Arc<Shared>, namespace: Namespace, actor: Arc<str>) -> Self {
        Self { shared, namespace, actor, reason: "".into(), lane_max: None }
    }

    /// Selects the messages of another namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = namespace;
        self
    }

    /// Sets the reason in audit events.
    #[must_use]
    pub fn because(mut self, reason: impl AsRef<str>) -> Self {
        self.reason = reason.as_ref().into();
        self
    }

    /// Limits the number of unfinished messages in a shard of a topic when messages are redriven: those that do not fit
    /// stay Dead, and are reported. An operator of a mailbox uses the mailbox's `shard_capacity`.
    #[must_use]
    pub fn shard_capacity(mut self, messages: NonZeroU32) -> Self {
        self.lane_max = Some(messages);
        self
    }

    /// Returns one page of a listing. Start with [`MessageQuery::all`], and continue with the cursor of the previous
    /// page. The namespace of the query is ignored: the listing is always of the operator's own namespace.
    pub async fn page(&self, query: &MessageQuery) -> Result<MessagePage, Error> {
        self.shared.store.page(&MessageQuery { namespace: self.namespace, ..query.clone() }).await
    }

    /// Counts messages by state, of one topic or of all.
    pub async fn counts(&self, topic: Option<&str>) -> Result<Counts, Error> {
        let topic = topic.map(Topic::new).transpose()?;
        self.shared.store.counts(&Scope { namespace: self.namespace, topic, shard: None }).await
    }

    /// Returns one page of topics with their counts. Start with [`TopicQuery::first`], and continue where the previous
    /// page ended. The namespace of the query is ignored: the topics are always those of the operator's own namespace.
    pub async fn topics(&self, query: &TopicQuery) -> Result<TopicPage, Error> {
        self.shared.store.topic_counts(&TopicQuery { namespace: self.namespace, ..query.clone() }).await
    }

    /// The counts of one topic; none if all of its messages are Done.
    pub async fn topic(&self, name: &str) -> Result<Option<TopicCounts>, Error> {
        let query = TopicQuery::only(self.namespace, Topic::new(name)?);
        let page = self.shared.store.topic_counts(&query).await?;
        Ok(page.topics.into_iter().next())
    }

    /// The stored messages with this key, including those that no longer hold it: the newest first, at most `limit`,
    /// without payloads. [`Snapshot::keyed`] says which of them holds the key now.
    pub async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        self.shared.store.with_key(key, limit).await
    }

    /// Everything that is stored about a message. A key refers to the message that holds it now; [`Operator::with_key`]
    /// finds the others.
    pub async fn show(&self, target: impl Into<MessageRef>) -> Result<Option<Snapshot>, Error> {
        self.shared.store.get_one(&target.into()).await
    }

    /// Redrives a Dead message: it becomes ready as the newest message of its topic, and its attempts start again from
    /// zero.
    pub async fn redrive(&self, target: impl Into<MessageRef>) -> Result<Operated, Error> {
        self.order_one(target.into(), self.redrive_action(None)).await
    }

    /// Redrives several messages, and returns one outcome for each, in order.
    pub async fn redrive_all(&self, targets: &[MessageRef]) -> Result<Vec<Operated>, Error> {
        self.order_all(targets, &self.redrive_action(None)).await
    }

    /// Redrives all messages that match and existed when the sweep started, up to the filter's limit. Messages of a
    /// full shard are skipped ([`Sweep::stopped`]); a sweep that continues with [`SweepFilter::after`] and
    /// [`Sweep::next`] retries them at the end.
    pub async fn redrive_where(&self, filter: &SweepFilter) -> Result<Sweep, Error> {
        let redrive = self.redrive_action(filter.times_max());
        self.sweep(filter, Some(&redrive)).await
    }

    /// Cancels an unfinished message: it becomes Dead with reason `cancelled`.
    pub async fn cancel(&self, target: impl Into<MessageRef>) -> Result<Operated, Error> {
        self.order_one(target.into(), Action::Cancel).await
    }

    /// Erases a message, including its key: a message that is enqueued with the same key later is new.
    pub async fn erase(&self, target: impl Into<MessageRef>) -> Result<Operated, Error> {
        self.order_one(target.into(), Action::Erase).await
    }

    /// Erases several messages, and returns one outcome for each, in order.
    pub async fn erase_all(&self, targets: &[MessageRef]) -> Result<Vec<Operated>, Error> {
        self.order_all(targets, &Action::Erase).await
    }

    /// Erases all messages that match and existed when the sweep started, up to the filter's limit.
    pub async fn purge(&self, filter: &SweepFilter) -> Result<Sweep, Error> {
        self.sweep(filter, Some(&Action::Erase)).await
    }

    /// Counts the messages that [`Operator::redrive_where`] or [`Operator::purge`] would process. Changes nothing.
    pub async fn preview(&self, filter: &SweepFilter) -> Result<Sweep, Error> {
        self.sweep(filter, None).await
    }

    fn redrive_action(&self, times_max: Option<u32>) -> Action {
        Action::Redrive { attempts: AttemptCount::Reset, times_max, lane_max: self.lane_max }
    }

    async fn order_one(&self, target: MessageRef, action: Action) -> Result<Operated, Error> {
        match self.order_all(&[target], &action).await?.pop() {
            Some(Operated::Saturated { retry_after, bound }) => Err(Error::saturated(retry_after, bound)),
            Some(operated) => Ok(operated),
            None => unreachable!("a store returns one outcome per item"),
        }
    }

    async fn order(&self, targets: Vec<Target>, action: &Action) -> Result<Vec<Operated>, Error> {
        let order = |target: &Target| Order { target: target.message.clone(), action: action.clone() };
        let orders: Vec<_> = targets.iter().map(order).collect();
        let operated = self.shared.store.operate(&orders).await?;
        for (operated, target) in operated.iter().zip(&targets) {
            if let Operated::Changed(summary) = operated {
                AuditEvent::of(action).log(self, summary, target.error.as_ref());
            }
        }
        Ok(operated)
    }
}
