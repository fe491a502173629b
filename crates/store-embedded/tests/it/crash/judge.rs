//! Opens what a crash left, and compares it with what the callers were answered.

use std::collections::BTreeSet;
use std::sync::Arc;

use oncebox_core::machine::{Capacity, Machine, Resume, Turn};
use oncebox_core::{
    Accepted, Batch, Claim, Delivery, Error, Fence, Key, Kind, Namespace, NewMessage, Number, Owner, Payload,
    Ref, Snapshot, Span, State, Store, StoreExt, Timestamp, Topic, Uid,
};
use oncebox_store_embedded::EmbeddedStore;
use oncebox_testkit::{ManualClock, SplitMix, block_on};

use super::history::{History, Step, keys, options};
use super::tape::{Playback, Tape};

/// Where a caller may stand after a crash: the first and the last step that can be the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    floor: usize,
    /// The last step that was answered.
    answered: usize,
    ceiling: usize,
    /// The time that is known to have passed since the last step, if the caller was told so.
    passed: Option<Timestamp>,
}

/// Where a caller was found to stand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    step: usize,
    /// The time that has passed since that step, if that is recorded: a step begins with the time that has passed, which may be
    /// written before what the step did.
    passed: Option<Timestamp>,
}

impl Standing {
    fn view(&self, steps: &[Step]) -> Vec<Option<Snapshot>> {
        let step = &steps[self.step];
        self.passed.map_or_else(|| step.view.clone(), |now| after(step, now))
    }
}

/// What each caller can expect after a crash at a position.
pub(crate) fn bounds(history: &History, position: usize, power_cut: bool) -> Vec<Bounds> {
    let bounds = |steps: &Vec<Step>| {
        let answered = |step: &&Step| step.answered <= position;
        let ceiling = steps.iter().take_while(|step| step.started <= position).count() - 1;
        let last = steps.iter().take_while(answered).count() - 1;
        let solid = steps[..=last].iter().rposition(|step| step.solid).unwrap();
        Bounds { floor: if power_cut { solid } else { last }, answered: last, ceiling, passed: None }
    };
    history.callers.iter().map(bounds).collect()
}

/// What each caller can expect once it has been told where it stands.
pub(crate) fn exactly(standing: &[Standing]) -> Vec<Bounds> {
    let exactly =
        |Standing { step, passed }: Standing| Bounds { floor: step, answered: step, ceiling: step, passed };
    standing.iter().copied().map(exactly).collect()
}

/// The same after damage that looks like a torn end: what was answered last may be gone; after `wide` damage, which can
/// take several frames at once, more than that, but still nothing but an end.
pub(crate) fn lower(history: &History, bounds: &[Bounds], wide: bool) -> Vec<Bounds> {
    let lower = |(steps, bounds): (&Vec<Step>, &Bounds)| {
        let solid = steps[..=bounds.floor].iter().rposition(|step| step.solid).unwrap();
        let before = steps[..solid].iter().rposition(|step| step.solid);
        Bounds { floor: before.filter(|_| !wide).unwrap_or(0), ..*bounds }
    };
    history.callers.iter().zip(bounds).map(lower).collect()
}

fn open(tape: &Tape, history: &History, bounds: &[Bounds], boot: &str) -> Result<EmbeddedStore, Error> {
    let floors = history.callers.iter().zip(bounds).map(|(steps, bounds)| steps[bounds.floor].time);
    let clock = Arc::new(ManualClock::new(floors.max().unwrap()));
    EmbeddedStore::open_on(Arc::new(tape.clone()), &options(&clock, boot))
}

/// Compares what was found with what may be there. Answers with where each caller stands.
fn compare(store: &EmbeddedStore, history: &History, bounds: &[Bounds]) -> Result<Vec<Standing>, String> {
    let mut standing = Vec::new();
    for (number, (steps, bounds)) in (0..).zip(history.callers.iter().zip(bounds)) {
        let view = block_on(store.get(&keys(number))).map_err(|error| error.to_string())?;
        let mut candidates = candidates(steps, bounds);
        let found = candidates.find(|standing| difference(&standing.view(steps), &view).is_none());
        standing.push(found.ok_or_else(|| {
            let differences = (bounds.floor..=bounds.ceiling)
                .filter_map(|step| Some(format!("{step}: {}", difference(&steps[step].view, &view)?)));
            let differences: Vec<_> = differences.collect();
            format!("caller {number} stands nowhere in {bounds:?}:\n{}", differences.join("\n"))
        })?);
    }
    Ok(standing)
}

/// Everywhere that a caller may stand: at a step before what only time has made of one.
fn candidates<'a>(steps: &'a [Step], bounds: &Bounds) -> impl Iterator<Item = Standing> + 'a {
    let Bounds { floor, ceiling, passed, .. } = *bounds;
    let at = (floor..=ceiling).filter(move |_| passed.is_none()).map(|step| Standing { step, passed: None });
    let between = (floor..ceiling).map(|step| Standing { step, passed: Some(steps[step + 1].time) });
    let told = passed.map(|now| Standing { step: ceiling, passed: Some(now) });
    at.chain(between).chain(told)
}

/// What a caller would have seen after a step, had only time passed since.
fn after(step: &Step, now: Timestamp) -> Vec<Option<Snapshot>> {
    let most = u64::MAX / 2;
    let mut machine = Machine::new(Capacity { messages_max: most, keys_max: most, live_bytes_max: most });
    for message in step.view.iter().flatten() {
        machine.recall(message);
    }
    let (number_floor, fence_floor) = (Number(most), Fence::new(most).unwrap());
    machine.resume(Resume { now: step.time, number_floor, fence_floor, held_until: Timestamp::EPOCH });
    let mut turn = Turn { now, ids: &mut SplitMix::new(1), journal: &mut () };
    let mut get = |message: &Snapshot| machine.get(&mut turn, &Ref::Key(message.key.clone()));
    step.view.iter().map(|message| get(message.as_ref()?)).collect()
}

/// The first message that is not as it was. How long a lease runs depends on when the store was opened.
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

/// Works with the store that was opened: nothing finished is given out, nothing leased, and no fence again.
fn go_on(
    store: &EmbeddedStore,
    history: &History,
    bounds: &[Bounds],
    standing: &[Standing],
) -> Result<(), String> {
    let mut used: BTreeSet<Fence> = BTreeSet::new();
    let lease = Span::lease(std::time::Duration::from_secs(30)).unwrap();
    let claim = Claim::new(Namespace::Inbox, Owner::new(99).unwrap(), lease, Batch::new(1_000).unwrap());
    let deliveries = block_on(store.claim(&claim)).map_err(|error| error.to_string())?;
    for ((steps, bounds), stand) in history.callers.iter().zip(bounds).zip(standing) {
        // An answered lease binds even if a power cut has made the store forget it.
        let newest = if stand.step < bounds.answered {
            Standing { step: bounds.answered, passed: None }
        } else {
            *stand
        };
        let known = newest.view(steps);
        let kept = known.iter().flatten();
        let taken: BTreeSet<Uid> =
            kept.filter(|message| is_out_of_reach(message)).map(|message| message.uid).collect();
        if let Some(wrong) = deliveries.iter().find(|delivery| taken.contains(&delivery.uid)) {
            let known = known.iter().flatten().find(|message| message.uid == wrong.uid);
            let known = known.map(|message| (message.state, &message.grant));
            return Err(format!(
                "{:?} was given out in {bounds:?} from {stand:?}, though {known:?}",
                wrong.key
            ));
        }
        let fences = steps[..=bounds.ceiling].iter().flat_map(|step| step.view.iter().flatten());
        used.extend(fences.filter_map(|message| Some(message.grant.as_ref()?.lease.fence)));
    }
    for Delivery { key, lease, .. } in &deliveries {
        if !used.insert(lease.fence) {
            return Err(format!("{key:?} was given out under a fence that was used before"));
        }
    }
    let key = Key::inbox("after", "the crash").unwrap();
    let new = NewMessage::new(key, Topic::new("after").unwrap(), Payload::new(vec![1]).unwrap());
    match block_on(store.accept_one(&new)) {
        Ok(Accepted::New { .. }) => Ok(()),
        other => Err(format!("a new message was answered {other:?}")),
    }
}

fn is_out_of_reach(message: &Snapshot) -> bool {
    message.lease().is_some() || matches!(message.state, State::Done | State::Dead)
}

/// A store that was opened after a crash, and looked at.
pub(crate) struct Reopened {
    pub(crate) tape: Tape,
    /// The position of its tape when what it holds had been answered.
    pub(crate) answered: usize,
    /// Where each caller stands.
    pub(crate) standing: Vec<Standing>,
}

/// Opens what a crash has left: it must open, and hold what it has to.
pub(crate) fn check(
    left: Playback,
    history: &History,
    bounds: &[Bounds],
    boot: &str,
) -> Result<Reopened, String> {
    let tape = Tape::new(left);
    let store = open(&tape, history, bounds, boot).map_err(|error| format!("opening: {error}"))?;
    let standing = compare(&store, history, bounds)?;
    let answered = tape.position();
    go_on(&store, history, bounds, &standing)?;
    Ok(Reopened { tape, answered, standing })
}

/// Opens what was damaged: it is refused as corrupt, or it holds what it has to.
pub(crate) fn check_damaged(left: Playback, history: &History, bounds: &[Bounds]) -> Result<bool, String> {
    let store = match open(&Tape::new(left), history, bounds, "first") {
        Ok(store) => store,
        Err(error) if error.kind() == Kind::Corrupt => return Ok(false),
        Err(error) => return Err(format!("opening: {error}")),
    };
    compare(&store, history, bounds)?;
    Ok(true)
}
