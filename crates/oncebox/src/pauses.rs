//! Paused topics. A pause is a record of the store, so it survives restarts and applies to all processes that share the
//! store. Each process reads the records again when it uses the store and its copy is older than [`REFRESH_AGE`].

mod change;
mod paused_topic;
mod reads;
mod wakeups;

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Accepted, Bound, Claim, Clock, Direction, Error, Namespace, NewMessage, PageSize, RecordKind, RecordOp,
    RecordOutcome, Store, StoreExt, Wakeups, WhenFull,
};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use reads::{READ_TIMEOUT, Reads};
use wakeups::PausingWakeups;

pub(crate) use paused_topic::PausedTopics;
pub use paused_topic::{Pause, PausedTopic};

/// Maximum number of paused topics in a namespace: one page of a listing.
const PAUSED_MAX: u32 = 1_000;
/// A copy of this age is read again in the background when a call uses it.
const REFRESH_AGE: Duration = Duration::from_millis(400);
/// A copy of this age is not used any more: calls wait for a new one. So a pause applies everywhere within a second.
const STALE_AGE: Duration = Duration::from_millis(900);
/// A copy of this age is read again before a claim, so that the call itself need not wait.
const KNOWN_AGE: Duration = Duration::from_millis(700);
/// The bound of a topic that is paused for sending.
const BOUND: Bound = Bound::new(Bound::PAUSED, 0, 0);
/// When senders should try again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

const INBOX: RecordKind = RecordKind::new("paused_inbox", PAUSED_MAX, WhenFull::Refuse);
const COMMANDS: RecordKind = RecordKind::new("paused_commands", PAUSED_MAX, WhenFull::Refuse);
const MAILBOX: RecordKind = RecordKind::new("paused_mailbox", PAUSED_MAX, WhenFull::Refuse);

/// Paused topics, and when they were read.
#[derive(Debug, Default)]
struct Snapshot {
    read_at: Option<Instant>,
    topics: PausedTopics,
}

/// The paused topics of one namespace.
struct NamespacePauses {
    kind: RecordKind,
    snapshot: watch::Sender<Snapshot>,
    /// Calls that wait for a read fail with it, instead of waiting for another one each.
    reads: Reads,
}

impl NamespacePauses {
    fn new(kind: RecordKind) -> Self {
        Self { kind, snapshot: watch::Sender::default(), reads: Reads::default() }
    }

    /// The copy, if reading it began at this moment or later.
    fn read_since(&self, moment: Instant) -> Option<PausedTopics> {
        let snapshot = self.snapshot.borrow();
        snapshot.read_at.is_some_and(|at| at >= moment).then(|| snapshot.topics.clone())
    }

    /// The copy, if it is younger than this.
    fn younger_than(&self, age: Duration) -> Option<PausedTopics> {
        let snapshot = self.snapshot.borrow();
        snapshot.read_at.is_some_and(|at| at.elapsed() < age).then(|| snapshot.topics.clone())
    }
}

/// The paused topics of a store.
pub(crate) struct Pauses {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    inbox: NamespacePauses,
    commands: NamespacePauses,
    mailbox: NamespacePauses,
}

impl Pauses {
    /// What the sender of a message to a paused topic gets.
    pub(crate) const REJECTED: Accepted = Accepted::Saturated { retry_after: RETRY_AFTER, bound: BOUND };

    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let [inbox, commands, mailbox] = [INBOX, COMMANDS, MAILBOX].map(NamespacePauses::new);
        Self { store, clock, inbox, commands, mailbox }
    }

    /// Keys of the ledger have no topics.
    fn of(&self, namespace: Namespace) -> Option<&NamespacePauses> {
        match namespace {
            Namespace::Inbox => Some(&self.inbox),
            Namespace::Commands => Some(&self.commands),
            Namespace::Mailbox => Some(&self.mailbox),
            _ => None,
        }
    }

    /// Whether the paused topics of a namespace are known, so that [`Self::current`] returns them at once.
    pub(crate) fn are_known(&self, namespace: Namespace) -> bool {
        self.of(namespace).is_none_or(|pauses| pauses.younger_than(KNOWN_AGE).is_some())
    }

    /// Whether it is known at once what a claim leaves out: it names its topics, or none is paused.
    pub(crate) fn decide_at_once(&self, claim: &Claim) -> bool {
        self.are_known(claim.namespace)
            && (claim.topics.named().is_some() || self.none_is_paused(claim.namespace))
    }

    /// Whether no topic of a namespace was paused when this was read last.
    pub(crate) fn none_is_paused(&self, namespace: Namespace) -> bool {
        self.of(namespace).is_none_or(|pauses| pauses.snapshot.borrow().topics.all_delivered())
    }

    /// The paused topics of a namespace, as of less than a second ago.
    pub(crate) async fn current(self: &Arc<Self>, namespace: Namespace) -> Result<PausedTopics, Error> {
        let Some(pauses) = self.of(namespace) else { return Ok(PausedTopics::default()) };
        if let Some(topics) = pauses.younger_than(STALE_AGE) {
            if pauses.younger_than(REFRESH_AGE).is_none() {
                // A failure shows in the first call that has to wait for a newer copy.
                pauses.reads.start(Arc::downgrade(self), namespace);
            }
            return Ok(topics);
        }
        self.renewed(namespace).await
    }

    /// The paused topics of a namespace, read again unless another call has just read them.
    pub(crate) async fn renewed(self: &Arc<Self>, namespace: Namespace) -> Result<PausedTopics, Error> {
        let Some(pauses) = self.of(namespace) else { return Ok(PausedTopics::default()) };
        let (called_at, failures) = (Instant::now(), pauses.reads.failures());
        loop {
            let ended = pauses.reads.ended();
            // Another call may have read them, or failed to, while this one waited.
            if let Some(topics) = pauses.read_since(called_at).or_else(|| pauses.younger_than(REFRESH_AGE)) {
                return Ok(topics);
            }
            if let Some(error) = pauses.reads.failure_after(failures) {
                return Err(error);
            }
            // The read in flight may have begun before this call, so it may take another one.
            if called_at.elapsed() > READ_TIMEOUT * 2 {
                return Err(reads::unanswered());
            }
            let driven_until = pauses.reads.start(Arc::downgrade(self), namespace);
            // Either way, the next round decides.
            let _ = timeout_at(driven_until, ended).await;
        }
    }

    /// Whether the topic of each message is paused for sending; none if all messages can be accepted.
    pub(crate) async fn rejected(
        self: &Arc<Self>,
        messages: &[NewMessage],
    ) -> Result<Option<Vec<bool>>, Error> {
        let mut rejected = None;
        let mut namespace_topics = None;
        for (index, message) in messages.iter().enumerate() {
            let namespace = message.key.namespace;
            let topics = match &namespace_topics {
                Some((of, topics)) if *of == namespace => topics,
                _ => &namespace_topics.insert((namespace, self.current(namespace).await?)).1,
            };
            if !topics.accepts(&message.content.topic) {
                rejected.get_or_insert_with(|| vec![false; messages.len()])[index] = true;
            }
        }
        Ok(rejected)
    }

    /// Fails with [`ErrorKind::Saturated`] if the topic of one of these messages is paused for sending.
    pub(crate) async fn check(self: &Arc<Self>, messages: &[NewMessage]) -> Result<(), Error> {
        match self.rejected(messages).await? {
            Some(_) => Err(Error::saturated(RETRY_AFTER, BOUND)),
            None => Ok(()),
        }
    }

    /// Adds wake-ups for changes of the pauses to the wake-ups of the store.
    pub(crate) fn wakeups(
        self: &Arc<Self>,
        inner: Box<dyn Wakeups>,
        namespace: Namespace,
    ) -> Box<dyn Wakeups> {
        match self.of(namespace) {
            Some(pauses) => {
                Box::new(PausingWakeups::new(inner, self.clone(), namespace, pauses.snapshot.subscribe()))
            }
            None => inner,
        }
    }

    async fn read(&self, pauses: &NamespacePauses) -> Result<PausedTopics, Error> {
        let read_at = Instant::now();
        let list = RecordOp::List {
            kind: pauses.kind,
            direction: Direction::OldestFirst,
            after: None,
            size: PageSize::MAX,
        };
        let RecordOutcome::Listed(records) = self.store.record(list).await? else {
            unreachable!("a listing is answered with a list")
        };
        let topics = records.iter().map(PausedTopic::try_from).collect::<Result<PausedTopics, Error>>()?;
        pauses.snapshot.send_if_modified(|snapshot| {
            // A change by this process may have read a newer state in the meantime.
            if snapshot.read_at.is_some_and(|newer| newer > read_at) {
                return false;
            }
            let changed = snapshot.topics != topics;
            *snapshot = Snapshot { read_at: Some(read_at), topics };
            changed
        });
        Ok(pauses.snapshot.borrow().topics.clone())
    }
}
