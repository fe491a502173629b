//! One run: a phase with faults, then a recovery phase in which all messages must be finished.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oncebox::{Oncebox, message::Key};
use oncebox_core::{Namespace, Scope, Store};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::audit::{self, SimTally};
use crate::event::{Event, EventKind};
use crate::node::Node;
use crate::operator::{self, PausingOperator};
use crate::random::RandomStream;
use crate::sender::{SOURCE, Sender};
use crate::store::{Network, state_text};
use crate::time::NodeClock;
use crate::world::{Phase, World};

/// Timeout of the recovery phase.
const RECOVERY_MAX: Duration = Duration::from_secs(600);

/// Maximum delay of a delayed call.
const LATE_MAX: Duration = Duration::from_secs(5);

/// The result of a run.
pub struct SimRun {
    /// All events in order.
    pub trace: Vec<Event>,
    /// The verdict of the audit.
    pub verdict: Result<SimTally, audit::SimViolation>,
}

impl SimRun {
    /// Number of faults by kind.
    pub fn faults(&self) -> BTreeMap<&'static str, u64> {
        let mut faults = BTreeMap::new();
        for event in &self.trace {
            let kind = match &event.kind {
                EventKind::Fault { kind, .. } => kind,
                EventKind::ClockJumped { .. } => "clock jump",
                EventKind::Crashed { .. } => "crash",
                EventKind::Stopping { .. } => "stop",
                EventKind::Paused { .. } => "pause",
                EventKind::Drained { .. } => "drain",
                EventKind::TopicPaused { sending: true, .. } => "topic paused for sending",
                EventKind::TopicPaused { receiving: true, .. } => "topic paused for receiving",
                _ => continue,
            };
            *faults.entry(kind).or_default() += 1;
        }
        faults
    }
}

/// Runs the simulation with this seed.
pub fn run(seed: u64) -> SimRun {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let trace = runtime.expect("a runtime without I/O can be built").block_on(simulate(seed));
    let verdict = audit::check(&trace);
    SimRun { trace, verdict }
}

async fn simulate(seed: u64) -> Vec<Event> {
    let mut random = RandomStream::new(seed, "world");
    let world = Arc::new(World::new(seed, &mut random));
    let network = Network::new(seed, &world.journal);
    let attempts_max = random.percent(50).then(|| u32::try_from(random.between(3, 8)).unwrap_or(3));
    world.journal.record(EventKind::SenderPolicy { attempts_max });
    let (mut nodes, mut senders) = (JoinSet::new(), JoinSet::new());
    for number in 0..random.between(2, 4) {
        let oncebox = open(&world, &network, &mut random, number, attempts_max);
        if number < 2 {
            senders.spawn(Sender::new(world.clone(), &oncebox, number).run(random.between(5, 20)));
        }
        nodes.spawn(Node::new(world.clone(), oncebox, number).run());
    }
    let operator = world.pauses_topics.then(|| {
        let oncebox = open(&world, &network, &mut random, operator::NODE, attempts_max);
        tokio::spawn(PausingOperator::new(world.clone(), &oncebox).run())
    });
    inject_faults(&world, &network, &mut random).await;
    network.faults.stop();
    world.journal.record(EventKind::FaultsEnded);
    world.enter(Phase::Recovery);
    senders.join_all().await;
    if let Some(operator) = operator {
        operator.await.expect("the operator resumes all topics");
    }
    // Let all delayed calls finish.
    sleep(LATE_MAX).await;
    wait_until_idle(&network).await;
    world.enter(Phase::Finished);
    nodes.join_all().await;
    record_final_states(&world, &open(&world, &network, &mut random, u64::MAX, attempts_max)).await;
    world.journal.take()
}

/// An inbox like that of a separate process, with its own clock and its own connection to the store.
fn open(
    world: &World,
    network: &Network,
    random: &mut RandomStream,
    node: u64,
    attempts_max: Option<u32>,
) -> Oncebox {
    let store = world.journal.clock.clone();
    let (ahead_ms, behind_ms) = (random.between(0, 3_000), random.between(0, 3_000));
    let mut builder = Oncebox::builder()
        .clock(Arc::new(NodeClock { store, ahead_ms, behind_ms }))
        .rng(Box::new(random.fork()));
    if let Some(attempts_max) = attempts_max {
        builder = builder.attempts_max(attempts_max);
    }
    builder.on(network.link(node)).expect("the settings of the simulation are valid")
}

/// Makes the store unreachable and lets its clock jump, at random times.
async fn inject_faults(world: &World, network: &Network, random: &mut RandomStream) {
    let length = random.between(10_000, 45_000);
    while world.journal.clock.elapsed_ms() < length {
        sleep(random.millis(500, 12_000)).await;
        match random.between(0, 9) {
            0..3 => network.faults.make_unreachable(random.millis(100, 6_000)),
            3..6 => {
                let jump = random.millis(500, 15_000);
                world.journal.clock.jump_ahead(jump);
                world.journal.record(EventKind::ClockJumped { ms: crate::time::millis(jump) });
            }
            _ => {}
        }
    }
}

/// Waits until all messages are finished, or for [`RECOVERY_MAX`].
async fn wait_until_idle(network: &Network) {
    let scope = Scope::all(Namespace::Inbox);
    let deadline = tokio::time::Instant::now() + RECOVERY_MAX;
    while tokio::time::Instant::now() < deadline {
        let counts = network.inner().counts(&scope).await.expect("the store itself does not fail");
        if counts.ready + counts.waiting + counts.leased == 0 {
            return;
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Records the final state of every message.
async fn record_final_states(world: &World, oncebox: &Oncebox) {
    let operator = oncebox.operator("auditor");
    for key in world.keys() {
        let target = Key::inbox(SOURCE, key.as_str()).expect("keys of the simulation are valid");
        let found = operator.show(target).await.expect("nothing fails after the faults");
        let state = match found {
            Some(message) => EventKind::FinalState {
                key,
                uid: message.uid.to_string(),
                state: state_text(message.state, message.dead),
                attempts: message.attempts,
                deliveries: message.deliveries,
            },
            None => EventKind::FinalState {
                key,
                uid: String::new(),
                state: "unknown",
                attempts: 0,
                deliveries: 0,
            },
        };
        world.journal.record(state);
    }
}
