//! One decision: what was loaded goes in, what is to be written comes out.

use std::collections::{BTreeSet, HashSet};

use oncebox_core::machine::{Capacity, Journal, Machine, Record, Resume, Turn};
use oncebox_core::{
    Budget, Error, Fence, IdSource, Namespace, Number, PayloadHandle, Shard, Snapshot, State, Timestamp,
    Topic, Uid, Upkept,
};

use super::Body;
use crate::hints::LaneOf;

/// Whether a message or key can be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    Enough,
    /// None: what would add one is saturated.
    Full,
}

/// A machine without bounds: the tables have their own.
const UNBOUNDED: Capacity = Capacity { messages_max: u64::MAX, keys_max: u64::MAX, live_bytes_max: u64::MAX };

/// What is decided about.
pub(crate) struct Loaded {
    pub(crate) messages: Vec<Snapshot<Body>>,
    pub(crate) now: Timestamp,
    /// No number or fence below this is given out.
    pub(crate) floor: u64,
    pub(crate) room: Room,
    /// How many unfinished messages lanes have beside those that were loaded.
    pub(crate) elsewhere: Vec<(LaneOf, u64)>,
}

/// A message to be written as it stands now.
pub(crate) enum Write {
    /// It was loaded.
    Changed(Snapshot<Body>),
    /// It was not.
    Added(Snapshot<Body>),
    Removed(Uid),
}

/// What a decision brought about beside what is written; of interest once that is committed.
#[derive(Default)]
pub(crate) struct Events {
    /// Lanes in which something may be claimable now, at its place among others.
    pub(crate) ready: BTreeSet<(Namespace, Topic, Shard)>,
    /// Topics that became claimable.
    pub(crate) woken: BTreeSet<(Namespace, Topic)>,
    /// Something of a partition changed, so other messages of it may be free now, in any lane.
    pub(crate) partition_changed: bool,
    /// What time ended, and what died.
    pub(crate) upkept: Upkept,
}

/// What was decided.
pub(crate) struct Decision<T> {
    pub(crate) answer: T,
    pub(crate) writes: Vec<Write>,
    /// The moment at which it was decided.
    pub(crate) now: Timestamp,
    pub(crate) events: Events,
}

/// Notes which messages changed, in order of their first change.
#[derive(Default)]
struct Changes {
    order: Vec<Uid>,
    known: HashSet<Uid>,
}

impl<P> Journal<P> for Changes {
    fn record(&mut self, record: Record<'_, P>) {
        if self.known.insert(record.uid) {
            self.order.push(record.uid);
        }
    }
}

/// A machine that holds exactly these messages.
pub(crate) fn machine<P: PayloadHandle>(
    messages: &[Snapshot<P>],
    now: Timestamp,
    floor: u64,
    room: Room,
) -> Result<Machine<P>, Error> {
    let capacity = match room {
        Room::Enough => UNBOUNDED,
        Room::Full => Capacity { keys_max: 0, ..UNBOUNDED },
    };
    let mut machine = Machine::new(capacity);
    for message in messages {
        machine.recall(message);
    }
    let floor = floor.max(1);
    let (number_floor, fence_floor) = (Number(floor), Fence::new(floor)?);
    machine.resume(Resume { now, number_floor, fence_floor, held_until: Timestamp::EPOCH });
    machine.number_from(number_floor);
    Ok(machine)
}

/// Which of the loaded messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rewrite {
    Changed,
    /// All: each was loaded because time had something in store for it, and says when it has again.
    All,
}

/// Lets the machine decide about what was loaded, and notes what it changed.
pub(crate) fn decide<T>(
    loaded: &Loaded,
    rewrite: Rewrite,
    ids: &mut dyn IdSource,
    decide: impl FnOnce(&mut Machine<Body>, &mut Turn<'_, Body>) -> T,
) -> Result<Decision<T>, Error> {
    let Loaded { messages, now, floor, room, elsewhere } = loaded;
    let mut machine = machine(messages, *now, *floor, *room)?;
    for ((namespace, topic, shard), unfinished) in elsewhere {
        machine.lane_elsewhere(*namespace, topic, *shard, *unfinished);
    }
    let mut changes = Changes::default();
    let mut turn = Turn { now: *now, ids, journal: &mut changes };
    let answer = decide(&mut machine, &mut turn);
    // Time may have brought something also for messages that nothing was asked about.
    machine.catch_up(&mut turn, u32::MAX);
    let mut events = Events { upkept: machine.upkeep(&mut turn, Budget::new(0)), ..Events::default() };
    machine.take_woken(|namespace, topic| {
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
fn ready_lane(write: &Write, now: Timestamp) -> Option<(Namespace, Topic, Shard)> {
    let (Write::Changed(message) | Write::Added(message)) = write else { return None };
    let content = message.content.as_ref()?;
    let waits = content.due.into_iter().chain(message.retry_at).any(|at| at > now);
    let is_ready = message.state == State::Processing && !waits && message.lease().is_none();
    is_ready.then(|| (message.key.namespace, content.topic.clone(), content.shard))
}

fn has_partition(message: &Snapshot<Body>) -> bool {
    let busy = message.grant.as_ref().and_then(|grant| grant.partition.as_ref());
    busy.or(message.content.as_ref().and_then(|content| content.partition.as_ref())).is_some()
}
