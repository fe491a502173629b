//! The port on engine and journal: callers apply under the lock, then wait for the journal.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use oncebox_core::limits::{check_call, check_work};
use oncebox_core::machine::{Machine, Turn};
use oncebox_core::{
    Accepted, Begin, Begun, Bell, Bound, Budget, Capabilities, Claim, Counts, Error, Extended, Extension,
    Interest, Kind, NewMessage, Observed, Operated, Order, Page, Query, ReadyTopics, Ref, Scope, Settlement,
    Sighting, Snapshot, Store, Topic, Upkept, Usage, Wakeups, Worked,
};

use tokio::sync::oneshot::Receiver;

use crate::lock::DirectoryLock;
use crate::options::Durability;
use crate::recovery::Cut;
use crate::shared::{GROUP_BYTES_MAX, Goal, Life, Shared, State};
use crate::size;
use crate::trouble::Trouble;

/// Room that settlements leave for what time brings.
const SLACK_BYTES: u64 = 16 << 10;
/// Events that time has brought and that one hold of the lock works off, at most.
const EVENTS_MAX: u32 = 4_096;
/// Messages that one upkeep forgets, at most, and what each of them takes of the journal.
const FORGOTTEN_MAX: u32 = 10_000;
const FORGOTTEN_BYTES: u64 = 32;
/// When to come again while the disk is full.
const DISK_FULL_RETRY: Duration = Duration::from_secs(1);

/// A durable store in a directory of its own.
pub struct EmbeddedStore {
    pub(crate) shared: Arc<Shared>,
    pub(crate) bell: Bell,
    pub(crate) durability: Durability,
    /// Room that only settlements and operators may use.
    pub(crate) reserve_bytes: u64,
    pub(crate) cut: Option<Cut>,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) lock: Mutex<Option<DirectoryLock>>,
}

impl std::fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStore").field("durability", &self.durability).finish_non_exhaustive()
    }
}

/// What a call does to the journal, and so what its answer waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// Takes in something new; refused when room is short.
    Intake,
    /// Ends or changes something; may use the reserve.
    Solid,
    /// As `Solid`, and works off what time has brought by itself.
    Upkeep,
    /// Grants or extends leases: written before the answer, on disk soon after.
    Light,
}

/// Why a call was not run.
enum Refused {
    /// There is no room in the journal, and it cannot grow.
    NoRoom {
        trouble: Trouble,
        bound: Bound,
    },
    Failed(Error),
}

impl EmbeddedStore {
    /// Where the journal was cut when it was opened, if its last frames were not whole: the mark of a crash.
    pub fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// Waits until nobody touches the directory any more, and lets others open it.
    fn leave(&self) {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads.into_iter().rev() {
            let _ = thread.join();
        }
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Runs one call on the machine and waits for the journal.
    async fn call<T>(
        &self,
        items: usize,
        weight: Weight,
        bytes: u64,
        run: impl FnOnce(&mut Machine, &mut Turn<'_>) -> T + Send,
        lease: Duration,
    ) -> Result<T, Refused> {
        check_call(items).map_err(Refused::Failed)?;
        let needed =
            bytes + bytes / 32 + SLACK_BYTES + if weight == Weight::Intake { self.reserve_bytes } else { 0 };
        let (answer, goal) = loop {
            let pause = {
                let mut state = self.shared.lock();
                self.check_open(&state)?;
                let current = weight == Weight::Upkeep || self.catch_up(&mut state);
                match current.then(|| self.obstacle(&mut state, needed)).transpose()? {
                    Some(None) => break self.apply(&mut state, weight, run, lease),
                    Some(unblocked) => unblocked,
                    None => None,
                }
            };
            match pause {
                Some(unblocked) => drop(unblocked.await),
                None => yield_now().await,
            }
        };
        self.shared.wait(goal).await.map_err(Refused::Failed)?;
        Ok(answer)
    }

    fn check_open(&self, state: &State) -> Result<(), Refused> {
        if state.life != Life::Open {
            return Err(Refused::Failed(Error::new(Kind::Closed, "the store is closed: open it again")));
        }
        self.shared.failure().map_or(Ok(()), |failure| Err(Refused::Failed(failure)))
    }

    /// What keeps a call from running now, if anything does: to be waited for.
    fn obstacle(&self, state: &mut State, needed: u64) -> Result<Option<Receiver<()>>, Refused> {
        let room = state.room >= needed;
        if room && state.engine.group.bytes.0.len() < GROUP_BYTES_MAX {
            return Ok(None);
        }
        if !room {
            state.room_wanted = state.room_wanted.max(needed);
            state.prepared = true;
            self.shared.call_syncer(state);
            if let Some(trouble) = state.trouble.clone() {
                return Err(Refused::NoRoom { trouble, bound: disk_bound(state) });
            }
        }
        Ok(Some(self.shared.block()))
    }

    /// Works off a piece of what time has brought. Answers whether that was all.
    fn catch_up(&self, state: &mut State) -> bool {
        let before = state.engine.group.timed;
        let all = state.engine.catch_up(EVENTS_MAX);
        if state.engine.group.timed && !before {
            state.solid = state.group_number;
            self.shared.call_syncer(state);
        }
        all
    }

    fn apply<T>(
        &self,
        state: &mut State,
        weight: Weight,
        run: impl FnOnce(&mut Machine, &mut Turn<'_>) -> T,
        lease: Duration,
    ) -> (T, Goal) {
        let (before, timed) = (state.engine.group.bytes.0.len(), state.engine.group.timed);
        let raised = state.engine.note_lease(lease);
        let answer = state.engine.run(run);
        state.engine.machine.take_woken(|namespace, topic| self.bell.ring(namespace, topic));
        let written = state.engine.group.bytes.0.len() - before;
        state.room = state.room.saturating_sub(written as u64 + written as u64 / 64);
        let timed = state.engine.group.timed && !timed;
        if timed || (written > 0 && (weight != Weight::Light || raised)) {
            state.solid = state.group_number;
        }
        if written > 0 || timed {
            state.calls += 1;
            state.comeback.call();
            self.shared.call_syncer(state);
        }
        // Whoever wrote nothing has still read what the group holds.
        let nothing_new = state.engine.group.is_empty();
        let goal = Goal {
            written: state.group_number - u64::from(nothing_new),
            durable: state.solid,
            wrote: written > 0 || timed,
        };
        (answer, goal)
    }

    async fn solid<T>(
        &self,
        items: usize,
        bytes: u64,
        run: impl FnOnce(&mut Machine, &mut Turn<'_>) -> T + Send,
    ) -> Result<T, Error> {
        self.call(items, Weight::Solid, bytes, run, Duration::ZERO).await.map_err(refused)
    }
}

/// Lets others have a turn.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A refusal where no outcome says it.
fn refused(refused: Refused) -> Error {
    match refused {
        Refused::Failed(error) => error,
        Refused::NoRoom { trouble, .. } => Error::new(Kind::Unavailable, trouble.text),
    }
}

/// Every item's outcome, or that the disk has no room for any of them.
fn or_full<T: Clone>(
    outcome: Result<Vec<T>, Refused>,
    items: usize,
    full: impl Fn(Bound) -> T,
) -> Result<Vec<T>, Error> {
    match outcome {
        Ok(outcomes) => Ok(outcomes),
        Err(Refused::NoRoom { trouble, bound }) if trouble.full => Ok(vec![full(bound); items]),
        Err(other) => Err(refused(other)),
    }
}

/// What the journal has on disk while it cannot have more.
fn disk_bound(state: &State) -> Bound {
    Bound::new(Bound::DISK_BYTES, state.disk_bytes, state.disk_bytes)
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if state.life == Life::Open {
            state.life = Life::Closing;
        }
        drop(state);
        self.shared.work.notify_all();
        self.leave();
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for EmbeddedStore {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::NONE;
        capabilities.atomic_calls = true;
        capabilities.durable = true;
        capabilities
    }

    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups> {
        self.bell.listen(interest)
    }

    async fn observe(&self, sightings: &[Sighting]) -> Result<Vec<Observed>, Error> {
        let bytes = sightings.iter().map(size::sighting).sum();
        let run = |machine: &mut Machine, turn: &mut Turn<'_>| {
            sightings.iter().map(|item| machine.observe(turn, item)).collect()
        };
        let outcome = self.call(sightings.len(), Weight::Intake, bytes, run, Duration::ZERO).await;
        or_full(outcome, sightings.len(), |bound| Observed::Saturated { retry_after: DISK_FULL_RETRY, bound })
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        let bytes = messages.iter().map(size::message).sum();
        let run = |machine: &mut Machine, turn: &mut Turn<'_>| {
            messages.iter().map(|item| machine.accept(turn, item)).collect()
        };
        let outcome = self.call(messages.len(), Weight::Intake, bytes, run, Duration::ZERO).await;
        or_full(outcome, messages.len(), |bound| Accepted::Saturated { retry_after: DISK_FULL_RETRY, bound })
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        let bytes = begins.iter().map(|begin| size::key(&begin.key)).sum();
        let lease = begins.iter().map(|begin| begin.lease.get()).max().unwrap_or_default();
        let run = |machine: &mut Machine, turn: &mut Turn<'_>| {
            begins.iter().map(|item| machine.begin(turn, item)).collect()
        };
        let outcome = self.call(begins.len(), Weight::Intake, bytes, run, lease).await;
        or_full(outcome, begins.len(), |bound| Begun::Saturated { retry_after: DISK_FULL_RETRY, bound })
    }

    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        let settled: u64 = settlements.iter().map(size::settlement).sum();
        let bytes = settled + claims.iter().map(size::claim).sum::<u64>();
        let lease = claims.iter().map(|claim| claim.lease.get()).max().unwrap_or_default();
        let weight = if settlements.is_empty() { Weight::Light } else { Weight::Solid };
        let run = |machine: &mut Machine, turn: &mut Turn<'_>| Worked {
            settled: settlements.iter().map(|item| machine.settle(turn, item)).collect(),
            deliveries: claims.iter().map(|item| machine.claim(turn, item)).collect(),
        };
        check_work(settlements.len(), claims)?;
        self.call(0, weight, bytes, run, lease).await.map_err(refused)
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        let bytes = extensions.len() as u64 * size::RECORD_BYTES;
        let lease = extensions.iter().map(|extension| extension.lease.get()).max().unwrap_or_default();
        let run = |machine: &mut Machine, turn: &mut Turn<'_>| {
            extensions.iter().map(|item| machine.extend(turn, item)).collect()
        };
        self.call(extensions.len(), Weight::Light, bytes, run, lease).await.map_err(refused)
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        let bytes = orders.iter().map(size::order).sum();
        self.solid(orders.len(), bytes, |machine, turn| {
            orders.iter().map(|item| machine.operate(turn, item)).collect()
        })
        .await
    }

    async fn get(&self, refs: &[Ref]) -> Result<Vec<Option<Snapshot>>, Error> {
        self.solid(refs.len(), 0, |machine, turn| refs.iter().map(|item| machine.get(turn, item)).collect())
            .await
    }

    async fn page(&self, query: &Query) -> Result<Page, Error> {
        self.solid(1, 0, |machine, turn| machine.page(turn, query)).await
    }

    async fn counts(&self, scope: &Scope) -> Result<Counts, Error> {
        self.solid(1, 0, |machine, turn| machine.counts(turn, scope)).await
    }

    async fn ready_topics(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error> {
        self.solid(1, 0, |machine, turn| machine.ready_topics(turn, query)).await
    }

    async fn usage(&self) -> Result<Usage, Error> {
        let mut usage = self.solid(1, 0, Machine::usage).await?;
        let state = self.shared.lock();
        if state.trouble.is_some() {
            usage.bounds.push(disk_bound(&state));
        }
        Ok(usage)
    }

    async fn upkeep(&self, budget: Budget) -> Result<Upkept, Error> {
        // As much as half of the room allows: a full disk makes the pieces smaller.
        let room = self.shared.lock().room.saturating_sub(SLACK_BYTES) / 2 / FORGOTTEN_BYTES;
        let room = u32::try_from(room).unwrap_or(u32::MAX).clamp(1, FORGOTTEN_MAX);
        let items_max = budget.items_max.min(room);
        let bytes = u64::from(items_max) * FORGOTTEN_BYTES;
        let run =
            |machine: &mut Machine, turn: &mut Turn<'_>| machine.upkeep(turn, Budget { items_max, ..budget });
        self.call(1, Weight::Upkeep, bytes, run, Duration::ZERO).await.map_err(refused)
    }

    async fn close(&self) -> Result<(), Error> {
        let goal = {
            let mut state = self.shared.lock();
            if state.life == Life::Open {
                state.life = Life::Closing;
                // The group that is being filled, and the mark after it.
                state.last_group = state.group_number + 1;
                self.shared.work.notify_all();
            }
            self.bell.close();
            // Whoever closes again waits for the same mark.
            Goal { written: state.last_group, durable: state.last_group, wrote: false }
        };
        self.shared.wait(goal).await?;
        self.leave();
        Ok(())
    }
}
