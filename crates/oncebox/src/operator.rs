//! Operating: looking, redriving, cancelling, erasing; every change is told to the audit log.

mod audit;
mod sweep;
mod target;

use std::num::NonZeroU32;
use std::sync::Arc;

use oncebox_core::{
    Action, AttemptCount, Counts, Error, Key, Namespace, Omitted, Operated, Order, Page, PageSize, Query,
    Ref, Scope, Snapshot, StoreExt, Topic, TopicCounts, TopicPage, TopicQuery,
};

use crate::shared::Shared;

use audit::Event;
pub use sweep::{Filter, Sweep, SweepCursor};
use target::Target;

/// Looks at messages and changes what becomes of them, on behalf of an actor. Needs no lease.
///
/// Every change is an event of `tracing` with the target `oncebox::audit`: what happened, to which message, by whom, why,
/// and the last error that the message had.
#[derive(Clone)]
pub struct Operator {
    shared: Arc<Shared>,
    namespace: Namespace,
    actor: Arc<str>,
    reason: Arc<str>,
    lane_max: Option<NonZeroU32>,
}

impl Operator {
    pub(crate) fn new(shared: Arc<Shared>, namespace: Namespace, actor: Arc<str>) -> Self {
        Self { shared, namespace, actor, reason: "".into(), lane_max: None }
    }

    /// The same for messages of another face of the store.
    #[must_use]
    pub fn of(mut self, namespace: Namespace) -> Self {
        self.namespace = namespace;
        self
    }

    /// Why: the audit events say so.
    #[must_use]
    pub fn because(mut self, reason: impl AsRef<str>) -> Self {
        self.reason = reason.as_ref().into();
        self
    }

    /// A redrive leaves no more than this many unfinished messages in a shard of a topic: what does not fit stays Dead, and the answer
    /// says so. An operator of a mailbox has the mailbox's `shard_capacity`.
    #[must_use]
    pub fn shard_capacity(mut self, messages: NonZeroU32) -> Self {
        self.lane_max = Some(messages);
        self
    }

    /// One page of a listing. Begin with [`Query::all`], and go on with the cursor that a page gives. It is a listing of the inbox,
    /// or the mailbox, that the operator is for, whatever namespace the query names.
    pub async fn page(&self, query: &Query) -> Result<Page, Error> {
        self.shared.store.page(&Query { namespace: self.namespace, ..query.clone() }).await
    }

    /// How many messages stand where, of one topic or of all.
    pub async fn counts(&self, topic: Option<&str>) -> Result<Counts, Error> {
        let topic = topic.map(Topic::new).transpose()?;
        self.shared.store.counts(&Scope { namespace: self.namespace, topic, shard: None }).await
    }

    /// How the topics stand, a page at a time. Begin with [`TopicQuery::first`], and go on from where a page says. They are the topics
    /// of the inbox, or the mailbox, that the operator is for, whatever namespace the query names.
    pub async fn topics(&self, query: &TopicQuery) -> Result<TopicPage, Error> {
        self.shared.store.topic_counts(&TopicQuery { namespace: self.namespace, ..query.clone() }).await
    }

    /// How one topic stands; none if it has no message that is not Done.
    pub async fn topic(&self, name: &str) -> Result<Option<TopicCounts>, Error> {
        let query = TopicQuery::only(self.namespace, Topic::new(name)?);
        let page = self.shared.store.topic_counts(&query).await?;
        Ok(page.topics.into_iter().next())
    }

    /// The stored messages that came under a key, also those whose key is not held any more: the newest first, so many at most, without
    /// their payloads. [`Snapshot::keyed`] says which one holds the key now.
    pub async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        self.shared.store.with_key(key, limit).await
    }

    /// Everything that is known about a message; a key finds the message that holds it now. [`Operator::with_key`] finds the others.
    pub async fn show(&self, target: impl Into<Ref>) -> Result<Option<Snapshot>, Error> {
        self.shared.store.get_one(&target.into()).await
    }

    /// A Dead message comes back: its attempts count anew, and it takes the newest place of its topic.
    pub async fn redrive(&self, target: impl Into<Ref>) -> Result<Operated, Error> {
        self.order_one(target.into(), self.redriven(None)).await
    }

    /// The same for many, one outcome each, in order.
    pub async fn redrive_all(&self, targets: &[Ref]) -> Result<Vec<Operated>, Error> {
        self.order_named(targets, &self.redriven(None)).await
    }

    /// The same for all that match: those that were there when it began, up to the filter's limit. Those of a full shard are skipped
    /// ([`Sweep::stopped`]): [`Filter::after`] with [`Sweep::next`] comes back to them at the end.
    pub async fn redrive_where(&self, filter: &Filter) -> Result<Sweep, Error> {
        let redrive = self.redriven(filter.times_max());
        self.sweep(filter, Some(&redrive)).await
    }

    /// A message that is not finished becomes Dead with reason `cancelled`.
    pub async fn cancel(&self, target: impl Into<Ref>) -> Result<Operated, Error> {
        self.order_one(target.into(), Action::Cancel).await
    }

    /// Nothing remains of a message, not even that it was there: should it come again, it is new.
    pub async fn erase(&self, target: impl Into<Ref>) -> Result<Operated, Error> {
        self.order_one(target.into(), Action::Erase).await
    }

    /// The same for many, one outcome each, in order.
    pub async fn erase_all(&self, targets: &[Ref]) -> Result<Vec<Operated>, Error> {
        self.order_named(targets, &Action::Erase).await
    }

    /// Erases all that match: those that were there when it began, up to the filter's limit.
    pub async fn purge(&self, filter: &Filter) -> Result<Sweep, Error> {
        self.sweep(filter, Some(&Action::Erase)).await
    }

    /// How many [`Operator::redrive_where`] or [`Operator::purge`] would look at; changes nothing.
    pub async fn preview(&self, filter: &Filter) -> Result<Sweep, Error> {
        self.sweep(filter, None).await
    }

    fn redriven(&self, times_max: Option<u32>) -> Action {
        Action::Redrive { attempts: AttemptCount::Reset, times_max, lane_max: self.lane_max }
    }

    async fn order_one(&self, target: Ref, action: Action) -> Result<Operated, Error> {
        match self.order_named(&[target], &action).await?.pop() {
            Some(Operated::Saturated { retry_after, bound }) => Err(Error::saturated(retry_after, bound)),
            Some(operated) => Ok(operated),
            None => unreachable!("a store gives one outcome per item"),
        }
    }

    async fn order(&self, targets: Vec<Target>, action: &Action) -> Result<Vec<Operated>, Error> {
        let order = |target: &Target| Order { target: target.at.clone(), action: action.clone() };
        let orders: Vec<_> = targets.iter().map(order).collect();
        let operated = self.shared.store.operate(&orders).await?;
        for (operated, target) in operated.iter().zip(&targets) {
            if let Operated::Changed(receipt) = operated {
                Event::of(action).tell(self, receipt, target.error.as_ref());
            }
        }
        Ok(operated)
    }
}
