//! A machine, its time, and random operations on it from a small universe in which everything collides.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::{ProptestConfig, Strategy, any, prop};

use crate::machine::message::Place;
use crate::machine::{Capacity, Journal, Machine, Turn};
use crate::{
    Action, AttemptCount, Batch, Begin, Budget, CallerHash, Claim, DeadLetters, Delivery, Divergence, Hold,
    Id, Keep, Key, LastError, Lease, Namespace, NewMessage, Order, Owner, Partition, Payload, Ref, RequestId,
    Retention, Rng, Shard, Sighting, Source, Span, Timestamp, Topic, Topics, Uid, Verdict, WorkerName,
};

/// A random operation: what to do, with what, and how much later.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    kind: u8,
    choice: u32,
    later: u8,
}

/// How many random histories a property is tried on; `PROPTEST_CASES` asks for more.
pub(super) fn cases() -> u32 {
    ProptestConfig::default().cases.max(512)
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (any::<u8>(), any::<u32>(), any::<u8>());
    prop::collection::vec(step.prop_map(|(kind, choice, later)| Step { kind, choice, later }), 1..120)
}

/// Takes small numbers out of a large one.
struct Dice(u32);

impl Dice {
    fn below(&mut self, bound: u32) -> u32 {
        let drawn = self.0 % bound;
        self.0 = (self.0 / bound).wrapping_mul(0x9E37_79B9) ^ self.0.rotate_left(7);
        drawn
    }

    fn once_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }
}

/// Uids in sequence.
struct Counter(u64);

impl Rng for Counter {
    fn next_u64(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

pub(super) struct World {
    pub(super) machine: Machine,
    pub(super) now: Timestamp,
    ids: Counter,
    /// What was delivered or begun, ever.
    leases: Vec<(Uid, Lease)>,
    lanes: u32,
}

/// An operation with everything that it names.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    Observe(Sighting),
    Accept(Box<NewMessage>),
    Begin(Begin),
    Settle(Uid, Lease, Verdict),
    Claim(Claim),
    Extend(Uid, Lease, Span),
    Operate(Order),
    Get(Ref),
    Upkeep(Budget),
}

impl Operation {
    /// The uids and keys that the operation names.
    pub(super) fn refs(&self) -> Vec<Ref> {
        match self {
            Self::Observe(sighting) => vec![sighting.key.clone().into()],
            Self::Accept(message) => vec![message.key.clone().into()],
            Self::Begin(begin) => vec![begin.key.clone().into()],
            Self::Settle(uid, ..) | Self::Extend(uid, ..) => vec![(*uid).into()],
            Self::Operate(order) => vec![order.target.clone()],
            Self::Get(target) => vec![target.clone()],
            Self::Claim(_) | Self::Upkeep(_) => Vec::new(),
        }
    }
}

fn millis(millis: u32) -> Duration {
    Duration::from_millis(millis.into())
}

impl World {
    /// A world with so many lanes in a namespace; between lanes, order is nobody's promise.
    pub(super) fn new(lanes: u32) -> Self {
        let machine = Machine::new(Capacity::default());
        Self { machine, now: Timestamp::from_millis(1_000_000), ids: Counter(0), leases: Vec::new(), lanes }
    }

    /// The operation that a step means in this world; time moves first.
    pub(super) fn operation(&mut self, step: Step) -> Operation {
        let later = [0, 0, 0, 1, 1, 5, 20, 50, 200, 1_000_000];
        self.now = self.now.after(millis(later[step.later as usize % later.len()]));
        let mut dice = Dice(step.choice);
        match step.kind % 16 {
            0 => Operation::Observe(Sighting {
                key: key(&mut dice),
                hash: hash(&mut dice),
                hold: hold(&mut dice),
            }),
            1..=4 => Operation::Accept(Box::new(self.message(&mut dice))),
            5 => Operation::Begin(Begin {
                key: key(&mut dice),
                owner: owner(&mut dice),
                lease: span(&mut dice),
                hold: hold(&mut dice),
            }),
            6..=8 => {
                let (uid, lease) = self.some_lease(&mut dice);
                Operation::Settle(uid, lease, verdict(&mut dice))
            }
            9..=11 => Operation::Claim(claim(&mut dice)),
            12 => {
                let (uid, lease) = self.some_lease(&mut dice);
                Operation::Extend(uid, lease, span(&mut dice))
            }
            13 => Operation::Operate(Order { target: self.target(&mut dice), action: action(&mut dice) }),
            14 => Operation::Get(self.target(&mut dice)),
            _ => Operation::Upkeep(Budget {
                items_max: 100,
                seen_keep: dice.once_in(3).then(|| millis(100)),
                dead_keep: dice.once_in(3).then(|| millis(100)),
                dead_letters: dice.once_in(3).then(|| {
                    let default = Retention { keep: Some(millis(100)), messages_max: Some(2) };
                    Arc::new(DeadLetters { default, topics: BTreeMap::new() })
                }),
            }),
        }
    }

    /// Does it, and tells the outcome in words that can be compared.
    pub(super) fn run(&mut self, operation: &Operation, journal: &mut dyn Journal) -> String {
        let mut turn = Turn { now: self.now, ids: &mut self.ids, journal };
        let machine = &mut self.machine;
        match operation {
            Operation::Observe(item) => format!("{:?}", machine.observe(&mut turn, item)),
            Operation::Accept(item) => format!("{:?}", machine.accept(&mut turn, item)),
            Operation::Begin(item) => {
                let begun = machine.begin(&mut turn, item);
                if let crate::Begun::Acquired { uid, lease } = begun {
                    self.leases.push((uid, lease));
                }
                format!("{begun:?}")
            }
            Operation::Settle(uid, lease, verdict) => {
                let (owner, fence) = (lease.owner, lease.fence);
                let settlement = crate::Settlement { uid: *uid, owner, fence, verdict: verdict.clone() };
                format!("{:?}", machine.settle(&mut turn, &settlement))
            }
            Operation::Claim(item) => {
                let deliveries: Vec<Delivery> = machine.claim(&mut turn, item);
                self.leases.extend(deliveries.iter().map(|delivery| (delivery.uid, delivery.lease)));
                format!("{deliveries:?}")
            }
            Operation::Extend(uid, lease, span) => {
                let (owner, fence) = (lease.owner, lease.fence);
                let extension = crate::Extension { uid: *uid, owner, fence, lease: *span };
                format!("{:?}", machine.extend(&mut turn, &extension))
            }
            Operation::Operate(item) => format!("{:?}", machine.operate(&mut turn, item)),
            Operation::Get(item) => format!("{:?}", machine.get(&mut turn, item)),
            Operation::Upkeep(budget) => {
                machine.upkeep(&mut turn, budget.clone());
                String::new()
            }
        }
    }

    /// Lets time take effect on what the last operation left.
    pub(super) fn pass_time(&mut self, journal: &mut dyn Journal) {
        self.machine.advance(&mut Turn { now: self.now, ids: &mut self.ids, journal });
    }

    fn some_lease(&self, dice: &mut Dice) -> (Uid, Lease) {
        let newest = self.leases.iter().rev().take(6).collect::<Vec<_>>();
        if newest.is_empty() || dice.once_in(20) {
            let fence = crate::Fence::new(1).unwrap();
            return (Uid::from_u128(1), Lease { owner: owner(dice), fence, until: self.now });
        }
        *newest[dice.below(u32::try_from(newest.len()).unwrap()) as usize]
    }

    fn target(&self, dice: &mut Dice) -> Ref {
        if dice.once_in(2) { self.some_lease(dice).0.into() } else { key(dice).into() }
    }

    fn message(&self, dice: &mut Dice) -> NewMessage {
        let lane = dice.below(self.lanes);
        let topic = Topic::new(["a", "b", "c"][lane as usize % 3]).unwrap();
        let payload = Payload::new(vec![b'x'; dice.below(4) as usize]).unwrap();
        let mut message = NewMessage::new(key(dice), topic, payload);
        message.content.shard = Shard(u16::try_from(lane / 3).unwrap());
        message.content.partition =
            (dice.below(2) == 0).then(|| Partition::new(["p", "q"][dice.below(2) as usize]).unwrap());
        message.content.due = dice.once_in(4).then(|| self.now.after(millis(dice.below(100))));
        message.content.expires = dice.once_in(4).then(|| self.now.after(millis(dice.below(100))));
        message.hash = hash(dice);
        message.policy.attempts_max = NonZeroU32::new(dice.below(4));
        message.policy.hold = hold(dice);
        message.policy.keep_finished = dice.once_in(4);
        message.policy.divergence =
            [Divergence::Replace, Divergence::KeepFirst, Divergence::Conflict][dice.below(3) as usize];
        message
    }
}

fn namespace(dice: &mut Dice) -> Namespace {
    [Namespace::Inbox, Namespace::Inbox, Namespace::Mailbox][dice.below(3) as usize]
}

fn key(dice: &mut Dice) -> Key {
    let id = Id::new(dice.below(6).to_string()).unwrap();
    Key::new(namespace(dice), Source::new("s").unwrap(), id)
}

fn hash(dice: &mut Dice) -> Option<CallerHash> {
    dice.once_in(4).then(|| CallerHash::new("sha256", &[u8::try_from(dice.below(2)).unwrap()]).unwrap())
}

fn hold(dice: &mut Dice) -> Hold {
    let window = millis(dice.below(100));
    let keep = match dice.below(4) {
        0 => Keep::Window,
        1 => Keep::UntilFinished,
        _ => Keep::After(millis(dice.below(100))),
    };
    Hold { window, keep }
}

fn owner(dice: &mut Dice) -> Owner {
    Owner::new(u128::from(1 + dice.below(2))).unwrap()
}

fn span(dice: &mut Dice) -> Span {
    Span::lease(millis(1 + dice.below(60))).unwrap()
}

fn verdict(dice: &mut Dice) -> Verdict {
    let error = dice.once_in(2).then(|| LastError::new("broken").unwrap());
    match dice.below(5) {
        0 | 1 => Verdict::Ack,
        2 => Verdict::Abandon { delay: span(dice), error },
        3 => Verdict::Fail { reason: crate::DeadReason::Failed, error },
        _ => Verdict::Release,
    }
}

fn claim(dice: &mut Dice) -> Claim {
    let batch = Batch::new(1 + dice.below(4)).unwrap();
    let mut claim = Claim::new(namespace(dice), owner(dice), span(dice), batch);
    if dice.once_in(3) {
        claim.topics = Topics::only([Topic::new("a").unwrap(), Topic::new("b").unwrap()]).unwrap();
    }
    claim.bytes_max = dice.once_in(4).then(|| dice.below(5).into());
    claim.attempts_max = NonZeroU32::new(dice.below(3));
    claim.worker = dice.once_in(3).then(|| WorkerName::new(format!("w{}", dice.below(3))).unwrap());
    claim.request = dice.once_in(3).then(|| RequestId::from_u128(dice.below(2).into()));
    claim
}

fn action(dice: &mut Dice) -> Action {
    match dice.below(7) {
        0 => Action::MarkProcessing,
        1 => Action::MarkProcessed { hold: hold(dice) },
        2 => Action::MarkDead { error: LastError::new("marked") },
        3 => Action::Redrive { attempts: AttemptCount::Keep, times_max: None, lane_max: None },
        4 => Action::REDRIVE,
        5 => Action::Cancel,
        _ => Action::Erase,
    }
}

/// Everything that a machine knows, in words that can be compared.
pub(super) fn dump(machine: &Machine) -> Vec<String> {
    let name_of = |slot| machine.messages[slot].uid.to_string();
    let mut lines: Vec<_> = machine
        .messages
        .iter()
        .map(|(slot, message)| {
            let Some(found) = machine.find_uid(message.uid) else {
                panic!("every message is found by its uid")
            };
            assert!(found == slot, "a uid finds its own message");
            let entry = machine.entry(machine.hash_key(&message.key), &message.key);
            assert_eq!(message.keyed, entry == Some(slot), "a message is keyed iff it has the key's entry");
            let bearers = machine.bearers(&message.key, usize::MAX);
            let found = bearers.iter().filter(|bearer| **bearer == slot).count();
            assert_eq!(found, 1, "a key finds each message that came under it once");
            assert!(bearers.iter().all(|bearer| machine.messages[*bearer].key == message.key));
            let (class, timer) = (message.class, message.timer);
            // Upkeep moves what is on a shelf; that is not recorded.
            let place = if message.place == Place::Free { Place::Aside } else { message.place };
            format!("{:?} {place:?} {class:?} {timer:?}", machine.snapshot(slot))
        })
        .collect();
    lines.sort();
    lines.extend(machine.lanes.dump());
    lines.extend(machine.partitions.dump(name_of));
    lines.extend(machine.requests.iter().map(|(request, slot)| format!("{request:?} {}", name_of(*slot))));
    lines.extend(Namespace::ALL.map(|namespace| format!("{:?}", machine.tally.namespace(namespace))));
    let Machine { number_next, fence_next, .. } = machine;
    lines.push(format!(
        "{number_next} {fence_next} {} {}",
        machine.tally.bytes(),
        machine.tally.unfinished()
    ));
    lines
}
