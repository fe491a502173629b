//! One run: a storm in which everything goes wrong, then a calm in which all must come to rest.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use oncebox::{Key, Oncebox};
use oncebox_core::{Namespace, Scope, Store};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::audit::{self, Tally};
use crate::chance::Dice;
use crate::event::{Event, What};
use crate::journal::Journal;
use crate::node::Node;
use crate::sender::{SOURCE, Sender};
use crate::store::{Network, state_text};
use crate::time::{NodeClock, StoreClock};

/// After so long in the calm whatever is not at rest never will be.
const CALM_MAX: Duration = Duration::from_secs(600);

/// No call is made later than this after it was asked for.
const LATE_MAX: Duration = Duration::from_secs(5);

/// What a run was like.
pub struct Run {
    /// Everything that happened, in order.
    pub trace: Vec<Event>,
    /// What the audit says.
    pub verdict: Result<Tally, audit::Fault>,
}

impl Run {
    /// How often each kind of fault happened.
    pub fn faults(&self) -> BTreeMap<&'static str, u64> {
        let mut faults = BTreeMap::new();
        for event in &self.trace {
            let kind = match &event.what {
                What::Fault { kind, .. } => kind,
                What::Leapt { .. } => "leap",
                What::Crashed { .. } => "crash",
                What::Stopping { .. } => "stop",
                What::Paused { .. } => "pause",
                What::Drained { .. } => "drain",
                _ => continue,
            };
            *faults.entry(kind).or_default() += 1;
        }
        faults
    }
}

/// Simulates the world of this seed.
pub fn run(seed: u64) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let trace = runtime.expect("a runtime without I/O starts anywhere").block_on(simulate(seed));
    let verdict = audit::judge(&trace);
    Run { trace, verdict }
}

/// What everybody in a world knows.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) journal: Journal,
    /// Most handlers are quick.
    pub(crate) brisk: bool,
    phase: Mutex<Phase>,
    /// Wakes those who wait for the next phase, in the order they came.
    changed: Notify,
    workers: AtomicU64,
    /// Every key that was ever sent.
    keys: Mutex<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Storm,
    Calm,
    Finished,
}

impl World {
    fn new(seed: u64, dice: &mut Dice) -> Self {
        Self {
            seed,
            journal: Journal::new(Arc::new(StoreClock::new())),
            brisk: dice.percent(40),
            phase: Mutex::new(Phase::Storm),
            changed: Notify::new(),
            workers: AtomicU64::new(0),
            keys: Mutex::default(),
        }
    }

    pub(crate) fn next_worker(&self) -> u64 {
        self.workers.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Notes a key that is being sent.
    pub(crate) fn know(&self, key: &str) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if !keys.iter().any(|known| known == key) {
            keys.push(key.to_owned());
        }
    }

    fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.phase() >= Phase::Calm
    }

    pub(crate) async fn calmed(&self) {
        self.reached(Phase::Calm).await;
    }

    pub(crate) async fn finished(&self) {
        self.reached(Phase::Finished).await;
    }

    async fn reached(&self, wanted: Phase) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.phase() >= wanted {
                return;
            }
            changed.await;
        }
    }

    fn enter(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        self.changed.notify_waiters();
    }
}

async fn simulate(seed: u64) -> Vec<Event> {
    let mut dice = Dice::new(seed, "world");
    let world = Arc::new(World::new(seed, &mut dice));
    let network = Network::new(seed, &world.journal);
    let attempts_max = dice.percent(50).then(|| u32::try_from(dice.between(3, 8)).unwrap_or(3));
    world.journal.tell(What::Rules { attempts_max });
    let (mut nodes, mut senders) = (JoinSet::new(), JoinSet::new());
    for number in 0..dice.between(2, 4) {
        let oncebox = open(&world, &network, &mut dice, number, attempts_max);
        if number < 2 {
            senders.spawn(Sender::new(world.clone(), &oncebox, number).run(dice.between(5, 20)));
        }
        nodes.spawn(Node::new(world.clone(), oncebox, number).run());
    }
    storm(&world, &network, &mut dice).await;
    network.faults.cease();
    world.journal.tell(What::Calm);
    world.enter(Phase::Calm);
    senders.join_all().await;
    // What is late by now comes before the end.
    sleep(LATE_MAX).await;
    rest(&network).await;
    world.enter(Phase::Finished);
    nodes.join_all().await;
    read(&world, &open(&world, &network, &mut dice, u64::MAX, attempts_max)).await;
    world.journal.take()
}

/// An inbox of a process of its own: with its own clock, and its own way to the store.
fn open(world: &World, network: &Network, dice: &mut Dice, node: u64, attempts_max: Option<u32>) -> Oncebox {
    let store = world.journal.clock.clone();
    let (ahead_ms, behind_ms) = (dice.between(0, 3_000), dice.between(0, 3_000));
    let mut builder = Oncebox::builder()
        .clock(Arc::new(NodeClock { store, ahead_ms, behind_ms }))
        .rng(Box::new(dice.fork()));
    if let Some(attempts_max) = attempts_max {
        builder = builder.attempts_max(attempts_max);
    }
    builder.on(network.link(node)).expect("the simulation's settings are right")
}

/// The store goes away, and its clock leaps.
async fn storm(world: &World, network: &Network, dice: &mut Dice) {
    let length = dice.between(10_000, 45_000);
    while world.journal.clock.elapsed_ms() < length {
        sleep(dice.millis(500, 12_000)).await;
        match dice.between(0, 9) {
            0..3 => network.faults.interrupt(dice.millis(100, 6_000)),
            3..6 => {
                let leap = dice.millis(500, 15_000);
                world.journal.clock.leap(leap);
                world.journal.tell(What::Leapt { ms: crate::time::millis(leap) });
            }
            _ => {}
        }
    }
}

/// Waits until nothing is to be done any more.
async fn rest(network: &Network) {
    let scope = Scope::all(Namespace::Inbox);
    let deadline = tokio::time::Instant::now() + CALM_MAX;
    while tokio::time::Instant::now() < deadline {
        let counts = network.sound().counts(&scope).await.expect("the store itself is sound");
        if counts.ready + counts.waiting + counts.leased == 0 {
            return;
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Reads how every message stands.
async fn read(world: &World, oncebox: &Oncebox) {
    let operator = oncebox.operator("auditor");
    for key in world.keys() {
        let target = Key::inbox(SOURCE, key.as_str()).expect("keys of the simulation are short");
        let found = operator.show(target).await.expect("nothing fails in the calm");
        let stands = match found {
            Some(message) => What::Stands {
                key,
                uid: message.uid.to_string(),
                state: state_text(message.state, message.dead),
                attempts: message.attempts,
                deliveries: message.deliveries,
            },
            None => What::Stands { key, uid: String::new(), state: "unknown", attempts: 0, deliveries: 0 },
        };
        world.journal.tell(stands);
    }
}
