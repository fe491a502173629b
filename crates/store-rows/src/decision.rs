//! One decision: takes the loaded messages, returns the writes.

use std::collections::{BTreeSet, HashSet};

use oncebox_core::machine::{
    CallContext, Capacity, Journal, Machine, RecordChange, RecordJournal, Resume, TimedEffect,
};
use oncebox_core::{
    Budget, Error, Fence, IdSource, MaintenanceReport, MessageState, Namespace, Number, PayloadHandle,
    Snapshot, Timestamp, Topic, Uid,
};

use crate::body::Body;
use crate::lane::{LaneKey, lane_key_of_snapshot};
use crate::ticket::{Admission, Ticket};

/// A machine without limits: the tables have their own.
const UNBOUNDED: Capacity = Capacity { messages_max: u64::MAX, keys_max: u64::MAX, live_bytes_max: u64::MAX };

/// The input of a decision.
pub(crate) struct Loaded {
    pub(crate) messages: Vec<Snapshot<Body>>,
    pub(crate) ticket: Ticket,
    /// The number of unfinished messages per lane, without the loaded ones.
    pub(crate) elsewhere: Vec<(LaneKey, u64)>,
}

/// A message to be written in its current state.
#[derive(Debug)]
pub enum Write {
    /// The message was loaded.
    Changed(Snapshot<Body>),
    /// The message is new.
    Added(Snapshot<Body>),
    /// The message was loaded and is deleted.
    Removed(Uid),
}

/// Effects of a decision besides its writes, to be applied after the commit.
#[derive(Debug, Default)]
pub struct Events {
    /// Lanes in which a message may have become claimable, at its old position.
    pub ready: BTreeSet<LaneKey>,
    /// Topics that became claimable.
    pub woken: BTreeSet<(Namespace, Topic)>,
    /// A message of a partition changed, so other messages of the partition may be claimable now, in any lane.
    pub partition_changed: bool,
    /// Lapsed leases, expired messages and deaths.
    pub report: MaintenanceReport,
}

/// The result of a decision.
pub(crate) struct Decision<T> {
    pub(crate) answer: T,
    pub(crate) writes: Vec<Write>,
    /// The time of the decision.
    pub(crate) now: Timestamp,
    pub(crate) events: Events,
}

/// Records which messages changed, in order of their first change.
#[derive(Default)]
struct Changes {
    order: Vec<Uid>,
    known: HashSet<Uid>,
}

impl RecordJournal for Changes {
    /// The store changes its records without a machine.
    fn record_change(&mut self, _: &str, _: RecordChange<'_>) {}
}

impl<P> Journal<P> for Changes {
    fn record(&mut self, record: TimedEffect<'_, P>) {
        if self.known.insert(record.uid) {
            self.order.push(record.uid);
        }
    }
}

/// Creates a machine that holds exactly these messages.
pub fn machine<P: PayloadHandle>(
    messages: &[Snapshot<P>],
    now: Timestamp,
    floor: u64,
    admission: Admission,
) -> Result<Machine<P>, Error> {
    let capacity = match admission {
        Admission::Open => UNBOUNDED,
        Admission::Full => Capacity { keys_max: 0, ..UNBOUNDED },
    };
    let mut machine = Machine::new(capacity);
    for message in messages {
        machine.recall(message);
    }
    let floor = floor.max(1);
    let (number_floor, fence_floor) = (Number(floor), Fence::new(floor)?);
    machine.resume(Resume { now, number_floor, fence_floor, held_until: Timestamp::EPOCH });
    machine.set_next_number(number_floor);
    Ok(machine)
}

/// Which of the loaded messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rewrite {
    Changed,
    /// All: each was loaded because a timer was due, and its row stores when the next one is.
    All,
}

/// Runs the state machine on the loaded messages and collects its changes.
pub(crate) fn decide<T>(
    loaded: &Loaded,
    rewrite: Rewrite,
    ids: &mut dyn IdSource,
    decide: impl FnOnce(&mut Machine<Body>, &mut CallContext<'_, Body>) -> T,
) -> Result<Decision<T>, Error> {
    let Loaded { messages, ticket: Ticket { now, floor, admission }, elsewhere } = loaded;
    let mut machine = machine(messages, *now, *floor, *admission)?;
    for ((namespace, topic, shard), unfinished) in elsewhere {
        machine.set_lane_unloaded(*namespace, topic, *shard, *unfinished);
    }
    let mut changes = Changes::default();
    let mut context = CallContext { now: *now, ids, journal: &mut changes };
    let answer = decide(&mut machine, &mut context);
    // Timers may be due for messages that the call did not concern.
    machine.catch_up(&mut context, u32::MAX);
    let mut events = Events { report: machine.maintain(&mut context, Budget::new(0)), ..Events::default() };
    machine.take_wakeups(|namespace, topic| {
        events.woken.insert((namespace, topic.clone()));
    });
    let is_changed = |message: &&Snapshot<Body>| changes.known.contains(&message.uid);
    events.partition_changed = messages.iter().filter(is_changed).any(has_partition);
    let known: HashSet<Uid> = messages.iter().map(|message| message.uid).collect();
    let unchanged = messages.iter().map(|message| message.uid).filter(|uid| !changes.known.contains(uid));
    let unchanged = unchanged.filter(|_| rewrite == Rewrite::All);
    let write = |uid: Uid| match machine.peek(uid) {
        Some(message) if known.contains(&uid) => Some(Write::Changed(message)),
        Some(message) => Some(Write::Added(message)),
        None => known.contains(&uid).then_some(Write::Removed(uid)),
    };
    let writes: Vec<Write> = changes.order.iter().copied().chain(unchanged).filter_map(write).collect();
    let now = machine.now();
    events.ready = writes.iter().filter_map(|write| ready_lane(write, now)).collect();
    Ok(Decision { answer, writes, now, events })
}

/// The lane of a message that may be claimable.
fn ready_lane(write: &Write, now: Timestamp) -> Option<LaneKey> {
    let (Write::Changed(message) | Write::Added(message)) = write else { return None };
    let content = message.content.as_ref()?;
    let waits = content.due.into_iter().chain(message.retry_at).any(|at| at > now);
    let is_ready = message.state == MessageState::Processing && !waits && message.lease().is_none();
    if is_ready { lane_key_of_snapshot(message) } else { None }
}

fn has_partition(message: &Snapshot<Body>) -> bool {
    let busy = message.grant.as_ref().and_then(|grant| grant.partition.as_ref());
    busy.or(message.content.as_ref().and_then(|content| content.partition.as_ref())).is_some()
}
