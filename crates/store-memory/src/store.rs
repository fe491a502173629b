//! [`MemoryStore`]: a [`Store`] around the state machine, with one lock that is held only while the machine decides.

use std::sync::{Arc, PoisonError};
#[cfg(not(oncebox_loom))]
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
#[cfg(oncebox_loom)]
use loom::sync::{Mutex, MutexGuard};
use oncebox_core::machine::{CallContext, Machine};
use oncebox_core::{
    Accepted, Begin, Begun, Budget, Capabilities, Clock, Counts, Error, ErrorKind, Extended, Extension,
    IdSource, Interest, Key, MaintenanceReport, MessagePage, MessageQuery, MessageRef, NewMessage, Notifier,
    Observation, Observed, Omitted, Operated, Order, PageSize, Payload, ReadyTopics, RecordOp, RecordOutcome,
    Scope, Settlement, Snapshot, Store, Topic, TopicPage, TopicQuery, Usage, Wakeups, Worked, check_call,
    check_records, check_work,
};
use oncebox_system::{SystemClock, SystemRng};
use zeroize::Zeroizing;

use crate::{MemoryOptions, Payloads};

/// A store that keeps everything in memory.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    payloads: Payloads,
    notifier: Notifier,
    /// `None` once the store is closed.
    open: Mutex<Option<Open>>,
}

struct Open {
    machine: Machine,
    ids: Box<dyn IdSource>,
}

impl MemoryStore {
    /// An empty store on the system's clock.
    pub fn new(options: MemoryOptions) -> Self {
        Self::with(options, Arc::new(SystemClock::default()), Box::new(SystemRng::default()))
    }

    /// An empty store with the given clock and source of ids.
    pub fn with(options: MemoryOptions, clock: Arc<dyn Clock>, ids: Box<dyn IdSource>) -> Self {
        let machine = Machine::new(options.capacity);
        let open = Mutex::new(Some(Open { machine, ids }));
        Self { clock, payloads: options.payloads, notifier: Notifier::default(), open }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        // A panic inside the machine is a broken invariant: the state it left must not be used any more.
        self.open.lock().unwrap_or_else(|poisoned| {
            let mut guard = PoisonError::into_inner(poisoned);
            *guard = None;
            self.notifier.close();
            guard
        })
    }

    /// Runs one call on the machine, then notifies the listeners of the topics that became claimable.
    fn call<T>(&self, run: impl FnOnce(&mut Machine, &mut CallContext<'_>) -> T) -> Result<T, Error> {
        let mut run = Some(run);
        loop {
            let mut woken = Vec::new();
            let outcome = {
                let mut guard = self.lock();
                let Some(Open { machine, ids }) = guard.as_mut() else {
                    return Err(Error::new(ErrorKind::Closed, "the store is closed: open a new one"));
                };
                let mut context = CallContext { now: self.clock.now(), ids: ids.as_mut(), journal: &mut () };
                // If very many timer events are due, other calls get the lock in between.
                let caught_up = machine.catch_up(&mut context, EVENTS_MAX);
                let outcome = run.take_if(|_| caught_up).map(|run| run(machine, &mut context));
                machine.take_wakeups(|namespace, topic| woken.push((namespace, topic.clone())));
                outcome
            };
            for (namespace, topic) in &woken {
                self.notifier.notify(*namespace, topic);
            }
            if let Some(outcome) = outcome {
                return Ok(outcome);
            }
        }
    }
}

/// The maximum number of timer events that are processed in one go under the lock.
const EVENTS_MAX: u32 = 10_000;

/// The message with its own copy of the payload, which is overwritten when the last handle to it is dropped.
fn with_wiped_payload(message: &NewMessage) -> NewMessage {
    let mut message = message.clone();
    let bytes = Zeroizing::new(message.content.payload.as_bytes().to_vec());
    let wiped = Payload::new(Bytes::from_owner(Wiped(bytes)));
    message.content.payload = wiped.expect("a copy of a payload is as long as the payload");
    message
}

struct Wiped(Zeroizing<Vec<u8>>);

impl AsRef<[u8]> for Wiped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::NONE;
        capabilities.atomic_calls = true;
        capabilities
    }

    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups> {
        self.notifier.listen(interest)
    }

    async fn observe(&self, observations: &[Observation]) -> Result<Vec<Observed>, Error> {
        check_call(observations.len())?;
        self.call(|machine, context| observations.iter().map(|item| machine.observe(context, item)).collect())
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        check_call(messages.len())?;
        let wiped: Vec<_> = match self.payloads {
            Payloads::Freed => Vec::new(),
            Payloads::Wiped => messages.iter().map(with_wiped_payload).collect(),
        };
        let messages = if wiped.is_empty() { messages } else { &wiped };
        self.call(|machine, context| messages.iter().map(|item| machine.accept(context, item)).collect())
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        check_call(begins.len())?;
        self.call(|machine, context| begins.iter().map(|item| machine.begin(context, item)).collect())
    }

    async fn work(
        &self,
        settlements: &[Settlement],
        claims: &[oncebox_core::Claim],
    ) -> Result<Worked, Error> {
        check_work(settlements.len(), claims)?;
        self.call(|machine, context| Worked {
            settled: settlements.iter().map(|item| machine.settle(context, item)).collect(),
            deliveries: claims.iter().map(|item| machine.claim(context, item)).collect(),
        })
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        check_call(extensions.len())?;
        self.call(|machine, context| extensions.iter().map(|item| machine.extend(context, item)).collect())
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        check_call(orders.len())?;
        self.call(|machine, context| orders.iter().map(|item| machine.operate(context, item)).collect())
    }

    async fn get(&self, refs: &[MessageRef]) -> Result<Vec<Option<Snapshot>>, Error> {
        check_call(refs.len())?;
        self.call(|machine, context| refs.iter().map(|item| machine.get(context, item)).collect())
    }

    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        self.call(|machine, context| machine.with_key(context, key, limit))
    }

    async fn page(&self, query: &MessageQuery) -> Result<MessagePage, Error> {
        self.call(|machine, context| machine.page(context, query))
    }

    async fn counts(&self, scope: &Scope) -> Result<Counts, Error> {
        self.call(|machine, context| machine.counts(context, scope))
    }

    async fn ready_topics(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error> {
        self.call(|machine, context| machine.ready_topics(context, query))
    }

    async fn topic_counts(&self, query: &TopicQuery) -> Result<TopicPage, Error> {
        self.call(|machine, context| machine.topic_counts(context, query))
    }

    async fn records(&self, ops: &[RecordOp]) -> Result<Vec<RecordOutcome>, Error> {
        check_records(ops)?;
        self.call(|machine, context| ops.iter().map(|op| machine.run_record_op(context, op)).collect())
    }

    async fn usage(&self) -> Result<Usage, Error> {
        self.call(Machine::usage)
    }

    async fn maintain(&self, budget: Budget) -> Result<MaintenanceReport, Error> {
        self.call(|machine, context| machine.maintain(context, budget))
    }

    async fn close(&self) -> Result<(), Error> {
        *self.lock() = None;
        self.notifier.close();
        Ok(())
    }
}
