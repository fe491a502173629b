//! The port on the machine: one lock around it, held only while it decides.

use std::sync::{Arc, PoisonError};
#[cfg(not(oncebox_loom))]
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
#[cfg(oncebox_loom)]
use loom::sync::{Mutex, MutexGuard};
use oncebox_core::limits::{check_call, check_work};
use oncebox_core::machine::{Machine, Turn};
use oncebox_core::{
    Accepted, Begin, Begun, Bell, Budget, Capabilities, Clock, Counts, Error, Extended, Extension, IdSource,
    Interest, Key, Kind, NewMessage, Observed, Omitted, Operated, Order, Page, PageSize, Payload, Query,
    ReadyTopics, Ref, Scope, Settlement, Sighting, Snapshot, Store, Topic, TopicPage, TopicQuery, Upkept,
    Usage, Wakeups, Worked,
};
use oncebox_system::{SystemClock, SystemRng};
use zeroize::Zeroizing;

use crate::{Options, Payloads};

/// A store that keeps everything in memory.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    payloads: Payloads,
    bell: Bell,
    /// `None` once the store is closed.
    open: Mutex<Option<Open>>,
}

struct Open {
    machine: Machine,
    ids: Box<dyn IdSource>,
}

impl MemoryStore {
    /// An empty store on the system's clock.
    pub fn new(options: Options) -> Self {
        Self::with(options, Arc::new(SystemClock::default()), Box::new(SystemRng::default()))
    }

    /// An empty store with its own clock and source of ids.
    pub fn with(options: Options, clock: Arc<dyn Clock>, ids: Box<dyn IdSource>) -> Self {
        let machine = Machine::new(options.capacity);
        let open = Mutex::new(Some(Open { machine, ids }));
        Self { clock, payloads: options.payloads, bell: Bell::default(), open }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        // A panic inside the machine is a broken invariant. What it left behind must not be served.
        self.open.lock().unwrap_or_else(|poisoned| {
            let mut guard = PoisonError::into_inner(poisoned);
            *guard = None;
            self.bell.close();
            guard
        })
    }

    /// Runs one call on the machine, then rings for the topics that became claimable.
    fn call<T>(&self, run: impl FnOnce(&mut Machine, &mut Turn<'_>) -> T) -> Result<T, Error> {
        let mut run = Some(run);
        loop {
            let mut woken = Vec::new();
            let answer = {
                let mut guard = self.lock();
                let Some(Open { machine, ids }) = guard.as_mut() else {
                    return Err(Error::new(Kind::Closed, "the store is closed: open a new one"));
                };
                let mut turn = Turn { now: self.clock.now(), ids: ids.as_mut(), journal: &mut () };
                // When time has brought very much, others get a turn in between.
                let caught_up = machine.catch_up(&mut turn, EVENTS_MAX);
                let answer = run.take_if(|_| caught_up).map(|run| run(machine, &mut turn));
                machine.take_woken(|namespace, topic| woken.push((namespace, topic.clone())));
                answer
            };
            for (namespace, topic) in &woken {
                self.bell.ring(*namespace, topic);
            }
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
    }
}

/// Events of time that happen under the lock at once, at most.
const EVENTS_MAX: u32 = 10_000;

/// The message with a payload of its own, which is overwritten when the last handle to it goes.
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
        self.bell.listen(interest)
    }

    async fn observe(&self, sightings: &[Sighting]) -> Result<Vec<Observed>, Error> {
        check_call(sightings.len())?;
        self.call(|machine, turn| sightings.iter().map(|item| machine.observe(turn, item)).collect())
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        check_call(messages.len())?;
        let wiped: Vec<_> = match self.payloads {
            Payloads::Freed => Vec::new(),
            Payloads::Wiped => messages.iter().map(with_wiped_payload).collect(),
        };
        let messages = if wiped.is_empty() { messages } else { &wiped };
        self.call(|machine, turn| messages.iter().map(|item| machine.accept(turn, item)).collect())
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        check_call(begins.len())?;
        self.call(|machine, turn| begins.iter().map(|item| machine.begin(turn, item)).collect())
    }

    async fn work(
        &self,
        settlements: &[Settlement],
        claims: &[oncebox_core::Claim],
    ) -> Result<Worked, Error> {
        check_work(settlements.len(), claims)?;
        self.call(|machine, turn| Worked {
            settled: settlements.iter().map(|item| machine.settle(turn, item)).collect(),
            deliveries: claims.iter().map(|item| machine.claim(turn, item)).collect(),
        })
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        check_call(extensions.len())?;
        self.call(|machine, turn| extensions.iter().map(|item| machine.extend(turn, item)).collect())
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        check_call(orders.len())?;
        self.call(|machine, turn| orders.iter().map(|item| machine.operate(turn, item)).collect())
    }

    async fn get(&self, refs: &[Ref]) -> Result<Vec<Option<Snapshot>>, Error> {
        check_call(refs.len())?;
        self.call(|machine, turn| refs.iter().map(|item| machine.get(turn, item)).collect())
    }

    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        self.call(|machine, turn| machine.with_key(turn, key, limit))
    }

    async fn page(&self, query: &Query) -> Result<Page, Error> {
        self.call(|machine, turn| machine.page(turn, query))
    }

    async fn counts(&self, scope: &Scope) -> Result<Counts, Error> {
        self.call(|machine, turn| machine.counts(turn, scope))
    }

    async fn ready_topics(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error> {
        self.call(|machine, turn| machine.ready_topics(turn, query))
    }

    async fn topic_counts(&self, query: &TopicQuery) -> Result<TopicPage, Error> {
        self.call(|machine, turn| machine.topic_counts(turn, query))
    }

    async fn usage(&self) -> Result<Usage, Error> {
        self.call(Machine::usage)
    }

    async fn upkeep(&self, budget: Budget) -> Result<Upkept, Error> {
        self.call(|machine, turn| machine.upkeep(turn, budget))
    }

    async fn close(&self) -> Result<(), Error> {
        *self.lock() = None;
        self.bell.close();
        Ok(())
    }
}
