//! Opens what a crash left, and compares it with what was confirmed to the callers.

use std::collections::BTreeSet;
use std::sync::Arc;

use oncebox_core::machine::{CallContext, Capacity, Machine, Resume};
use oncebox_core::{
    Accepted, Batch, Claim, Delivery, Error, ErrorKind, Fence, Key, MessageRef, MessageState, Namespace,
    NewMessage, Number, Owner, Payload, Record, RecordId, RecordOp, RecordOutcome, RecordValue, Snapshot,
    Span, Store, StoreExt, Timestamp, Topic, Uid, WriteCondition,
};
use oncebox_store_embedded::EmbeddedStore;
use oncebox_testkit::{ManualClock, SplitMix, block_on};

use super::history::{History, KIND, Step, keys, options, records_of};
use super::recording_disk::{Playback, RecordingDisk};

/// The range of steps in which a caller's last surviving step must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    floor: usize,
    /// The last confirmed step.
    confirmed: usize,
    ceiling: usize,
    /// Time that has passed since the last step, if the caller has read its effects.
    elapsed_to: Option<Timestamp>,
}

/// The last surviving step of a caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    step: usize,
    /// The time of the next step if its timer events survived: a step starts with them, and they may have been written
    /// before the effects of the call.
    elapsed_to: Option<Timestamp>,
}

impl Position {
    fn view(&self, steps: &[Step]) -> Vec<Option<Snapshot>> {
        let step = &steps[self.step];
        self.elapsed_to.map_or_else(|| step.view.clone(), |now| after(step, now))
    }
}

/// The bounds of each caller after a crash at a position.
pub(crate) fn bounds(history: &History, position: usize, power_cut: bool) -> Vec<Bounds> {
    let bounds = |steps: &Vec<Step>| {
        let is_confirmed = |step: &&Step| step.confirmed <= position;
        let ceiling = steps.iter().take_while(|step| step.started <= position).count() - 1;
        let last = steps.iter().take_while(is_confirmed).count() - 1;
        let durable = steps[..=last].iter().rposition(|step| step.durable).unwrap();
        Bounds { floor: if power_cut { durable } else { last }, confirmed: last, ceiling, elapsed_to: None }
    };
    history.callers.iter().map(bounds).collect()
}

/// The bounds of each caller once it has read its position.
pub(crate) fn exactly(positions: &[Position]) -> Vec<Bounds> {
    let exactly = |&Position { step, elapsed_to }: &Position| Bounds {
        floor: step,
        confirmed: step,
        ceiling: step,
        elapsed_to,
    };
    positions.iter().map(exactly).collect()
}

/// The bounds after damage that looks like a torn tail: the last confirmed step may be lost; after `wide` damage, which
/// can destroy several frames, more steps, but still only the most recent ones.
pub(crate) fn lower(history: &History, bounds: &[Bounds], wide: bool) -> Vec<Bounds> {
    let lower = |(steps, bounds): (&Vec<Step>, &Bounds)| {
        let durable = steps[..=bounds.floor].iter().rposition(|step| step.durable).unwrap();
        let before = steps[..durable].iter().rposition(|step| step.durable);
        Bounds { floor: before.filter(|_| !wide).unwrap_or(0), ..*bounds }
    };
    history.callers.iter().zip(bounds).map(lower).collect()
}

fn open(
    disk: &RecordingDisk,
    history: &History,
    bounds: &[Bounds],
    boot: &str,
) -> Result<EmbeddedStore, Error> {
    let floors = history.callers.iter().zip(bounds).map(|(steps, bounds)| steps[bounds.floor].time);
    let clock = Arc::new(ManualClock::new(floors.max().unwrap()));
    EmbeddedStore::open_on(Arc::new(disk.clone()), &options(&clock, boot))
}

/// Compares the store with the bounds. Returns the position of each caller.
fn compare(store: &EmbeddedStore, history: &History, bounds: &[Bounds]) -> Result<Vec<Position>, String> {
    let mut positions = Vec::new();
    for (number, (steps, bounds)) in (0..).zip(history.callers.iter().zip(bounds)) {
        let view = block_on(store.get(&keys(number))).map_err(|error| error.to_string())?;
        let records = block_on(records_of(store, number)).map_err(|error| error.to_string())?;
        let is_at = |position: &Position| {
            steps[position.step].records == records && difference(&position.view(steps), &view).is_none()
        };
        let found = candidates(steps, *bounds).find(is_at);
        positions.push(found.ok_or_else(|| {
            let differences = (bounds.floor..=bounds.ceiling)
                .map(|step| format!("{step}: {}", different(&steps[step], &view, &records)));
            let differences: Vec<_> = differences.collect();
            format!("caller {number} is at no step in {bounds:?}:\n{}", differences.join("\n"))
        })?);
    }
    Ok(positions)
}

/// All positions within the bounds: first those at a step, then those with the timer events of the next step.
fn candidates(steps: &[Step], bounds: Bounds) -> impl Iterator<Item = Position> {
    let Bounds { floor, ceiling, elapsed_to, .. } = bounds;
    let at = (floor..=ceiling).filter(move |_| elapsed_to.is_none());
    let at = at.map(|step| Position { step, elapsed_to: None });
    let between = (floor..ceiling).map(|step| Position { step, elapsed_to: Some(steps[step + 1].time) });
    let last = elapsed_to.map(|now| Position { step: ceiling, elapsed_to: Some(now) });
    at.chain(between).chain(last)
}

/// The caller's view after a step if only time has passed since.
fn after(step: &Step, now: Timestamp) -> Vec<Option<Snapshot>> {
    let most = u64::MAX / 2;
    let mut machine = Machine::new(Capacity { messages_max: most, keys_max: most, live_bytes_max: most });
    for message in step.view.iter().flatten() {
        machine.recall(message);
    }
    let (number_floor, fence_floor) = (Number(most), Fence::new(most).unwrap());
    machine.resume(Resume { now: step.time, number_floor, fence_floor, held_until: Timestamp::EPOCH });
    let mut context = CallContext { now, ids: &mut SplitMix::new(1), journal: &mut () };
    let mut get = |message: &Snapshot| machine.get(&mut context, &MessageRef::Key(message.key.clone()));
    step.view.iter().map(|message| get(message.as_ref()?)).collect()
}

/// What differs from a step.
fn different(step: &Step, view: &[Option<Snapshot>], records: &[Record]) -> String {
    let versions = |records: &[Record]| {
        records.iter().map(|record| (record.id.to_string(), record.version.0)).collect::<Vec<_>>()
    };
    difference(&step.view, view).unwrap_or_else(|| {
        format!("records before {:?}, now {:?}", versions(&step.records), versions(records))
    })
}

/// The first message that differs. The end of a current lease is ignored: it depends on when the store was opened.
fn difference(before: &[Option<Snapshot>], now: &[Option<Snapshot>]) -> Option<String> {
    let plain = |snapshot: &Option<Snapshot>| {
        let mut snapshot = snapshot.clone()?;
        if let Some(grant) = snapshot.grant.as_mut().filter(|grant| grant.end.is_none()) {
            grant.lease.until = Timestamp::NEVER;
        }
        Some(snapshot)
    };
    let differs = |(before, now): &(&Option<Snapshot>, &Option<Snapshot>)| plain(before) != plain(now);
    let (before, now) = before.iter().zip(now).find(differs)?;
    let brief = |snapshot: &Option<Snapshot>| {
        snapshot.as_ref().map(|found| {
            (found.key.clone(), found.uid, found.state, found.number, found.attempts, found.grant.clone())
        })
    };
    Some(format!("before {:?}, now {:?}", brief(before), brief(now)))
}

/// Checks that the opened store works: no finished or leased message is delivered, and no fence and no
/// version of a record is reused.
fn check_usable(
    store: &EmbeddedStore,
    history: &History,
    bounds: &[Bounds],
    positions: &[Position],
) -> Result<(), String> {
    let mut used: BTreeSet<Fence> = BTreeSet::new();
    let lease = Span::lease(std::time::Duration::from_secs(30)).unwrap();
    let claim = Claim::new(Namespace::Inbox, Owner::new(99).unwrap(), lease, Batch::new(1_000).unwrap());
    let deliveries = block_on(store.claim(&claim)).map_err(|error| error.to_string())?;
    for ((steps, bounds), position) in history.callers.iter().zip(bounds).zip(positions) {
        // A confirmed lease is binding even if the store lost it in a power cut.
        let confirmed = Position { step: bounds.confirmed, elapsed_to: None };
        let newest = if position.step < confirmed.step { &confirmed } else { position };
        let view = newest.view(steps);
        let messages = view.iter().flatten();
        let unclaimable: BTreeSet<Uid> =
            messages.filter(|message| is_unclaimable(message)).map(|message| message.uid).collect();
        if let Some(wrong) = deliveries.iter().find(|delivery| unclaimable.contains(&delivery.uid)) {
            let known = view.iter().flatten().find(|message| message.uid == wrong.uid);
            let known = known.map(|message| (message.state, &message.grant));
            return Err(format!(
                "{:?} was delivered in {bounds:?} from {position:?}, although {known:?}",
                wrong.key
            ));
        }
        let fences = steps[..=bounds.ceiling].iter().flat_map(|step| step.view.iter().flatten());
        used.extend(fences.filter_map(|message| Some(message.grant.as_ref()?.lease.fence)));
    }
    for Delivery { key, lease, .. } in &deliveries {
        if !used.insert(lease.fence) {
            return Err(format!("{key:?} was delivered with a fence that was used before"));
        }
    }
    let confirmed =
        history.callers.iter().zip(bounds).flat_map(|(steps, bounds)| &steps[..=bounds.confirmed]);
    let newest = confirmed.flat_map(|step| &step.records).map(|record| record.version).max();
    let id = RecordId::new("after the crash").unwrap();
    let (value, condition) = (RecordValue::default(), WriteCondition::Absent);
    let put = RecordOp::Put { kind: KIND, id, value, condition, keep: None };
    match block_on(store.record(put)) {
        Ok(RecordOutcome::Written(version)) if newest.is_none_or(|newest| newest < version) => {}
        other => return Err(format!("writing a record after version {newest:?} returned {other:?}")),
    }
    let key = Key::inbox("after", "the crash").unwrap();
    let new = NewMessage::new(key, Topic::new("after").unwrap(), Payload::new(vec![1]).unwrap());
    match block_on(store.accept_one(&new)) {
        Ok(Accepted::New { .. }) => Ok(()),
        other => Err(format!("accepting a new message returned {other:?}")),
    }
}

fn is_unclaimable(message: &Snapshot) -> bool {
    message.lease().is_some() || matches!(message.state, MessageState::Done | MessageState::Dead)
}

/// A store that was opened and checked after a crash.
pub(crate) struct Reopened {
    pub(crate) disk: RecordingDisk,
    /// The position of its recording after the first read returned.
    pub(crate) confirmed: usize,
    /// The last surviving step of each caller.
    pub(crate) positions: Vec<Position>,
}

/// Opens what a crash left: it must open, and contain what the bounds require.
pub(crate) fn check(
    left: Playback,
    history: &History,
    bounds: &[Bounds],
    boot: &str,
) -> Result<Reopened, String> {
    let disk = RecordingDisk::new(left);
    let store = open(&disk, history, bounds, boot).map_err(|error| format!("opening: {error}"))?;
    let positions = compare(&store, history, bounds)?;
    let confirmed = disk.position();
    check_usable(&store, history, bounds, &positions)?;
    Ok(Reopened { disk, confirmed, positions })
}

/// Opens damaged files: they are rejected as corrupt (false), or contain what the bounds require (true).
pub(crate) fn check_damaged(left: Playback, history: &History, bounds: &[Bounds]) -> Result<bool, String> {
    let store = match open(&RecordingDisk::new(left), history, bounds, "first") {
        Ok(store) => store,
        Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(false),
        Err(error) => return Err(format!("opening: {error}")),
    };
    compare(&store, history, bounds)?;
    Ok(true)
}
