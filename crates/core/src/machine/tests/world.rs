//! A machine with a clock, and random operations on a small set of keys, so that many of them collide.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::{ProptestConfig, Strategy, any, prop};

use crate::machine::message::Membership;
use crate::machine::{CallContext, Capacity, Journal, Machine};
use crate::{
    Action, AttemptCount, Batch, Begin, Budget, CallerHash, Claim, DeadLetters, Delivery, Divergence, Hold,
    Id, Keep, Key, LastError, Lease, MessageRef, Namespace, NewMessage, Observation, Order, Owner, Partition,
    Payload, RequestId, Retention, Rng, Shard, Source, Span, Timestamp, Topic, Topics, Uid, Verdict,
    WorkerName,
};

/// A random operation: its kind, its random choices, and how far time moves before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    kind: u8,
    choice: u32,
    later: u8,
}

/// The number of random histories per property; `PROPTEST_CASES` raises it.
pub(super) fn cases() -> u32 {
    ProptestConfig::default().cases.max(512)
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (any::<u8>(), any::<u32>(), any::<u8>());
    prop::collection::vec(step.prop_map(|(kind, choice, later)| Step { kind, choice, later }), 1..120)
}

/// Draws small numbers from a large one.
struct Choices(u32);

impl Choices {
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
    /// All leases ever granted.
    leases: Vec<(Uid, Lease)>,
    lanes: u32,
}

/// An operation with all its arguments.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    Observe(Observation),
    Accept(Box<NewMessage>),
    Begin(Begin),
    Settle(Uid, Lease, Verdict),
    Claim(Claim),
    Extend(Uid, Lease, Span),
    Operate(Order),
    Get(MessageRef),
    Maintain(Budget),
}

impl Operation {
    /// The uids and keys that the operation refers to.
    pub(super) fn refs(&self) -> Vec<MessageRef> {
        match self {
            Self::Observe(observation) => vec![observation.key.clone().into()],
            Self::Accept(message) => vec![message.key.clone().into()],
            Self::Begin(begin) => vec![begin.key.clone().into()],
            Self::Settle(uid, ..) | Self::Extend(uid, ..) => vec![(*uid).into()],
            Self::Operate(order) => vec![order.target.clone()],
            Self::Get(target) => vec![target.clone()],
            Self::Claim(_) | Self::Maintain(_) => Vec::new(),
        }
    }
}

fn millis(millis: u32) -> Duration {
    Duration::from_millis(millis.into())
}

impl World {
    /// A world with this number of lanes per namespace; the order across lanes is not guaranteed.
    pub(super) fn new(lanes: u32) -> Self {
        let machine = Machine::new(Capacity::default());
        Self { machine, now: Timestamp::from_millis(1_000_000), ids: Counter(0), leases: Vec::new(), lanes }
    }

    /// The operation that a step stands for; time moves first.
    pub(super) fn operation(&mut self, step: Step) -> Operation {
        let later = [0, 0, 0, 1, 1, 5, 20, 50, 200, 1_000_000];
        self.now = self.now.after(millis(later[step.later as usize % later.len()]));
        let mut rng = Choices(step.choice);
        match step.kind % 16 {
            0 => Operation::Observe(Observation {
                key: key(&mut rng),
                hash: hash(&mut rng),
                hold: hold(&mut rng),
            }),
            1..=4 => Operation::Accept(Box::new(self.message(&mut rng))),
            5 => Operation::Begin(Begin {
                key: key(&mut rng),
                owner: owner(&mut rng),
                lease: span(&mut rng),
                hold: hold(&mut rng),
            }),
            6..=8 => {
                let (uid, lease) = self.some_lease(&mut rng);
                Operation::Settle(uid, lease, verdict(&mut rng))
            }
            9..=11 => Operation::Claim(claim(&mut rng)),
            12 => {
                let (uid, lease) = self.some_lease(&mut rng);
                Operation::Extend(uid, lease, span(&mut rng))
            }
            13 => Operation::Operate(Order { target: self.target(&mut rng), action: action(&mut rng) }),
            14 => Operation::Get(self.target(&mut rng)),
            _ => Operation::Maintain(Budget {
                items_max: 100,
                seen_keep: rng.once_in(3).then(|| millis(100)),
                dead_keep: rng.once_in(3).then(|| millis(100)),
                dead_letters: rng.once_in(3).then(|| {
                    let default = Retention { keep: Some(millis(100)), messages_max: Some(2) };
                    Arc::new(DeadLetters { default, topics: BTreeMap::new() })
                }),
            }),
        }
    }

    /// Runs the operation, and returns its outcome as comparable text.
    pub(super) fn run(&mut self, operation: &Operation, journal: &mut dyn Journal) -> String {
        let mut context = CallContext { now: self.now, ids: &mut self.ids, journal };
        let machine = &mut self.machine;
        match operation {
            Operation::Observe(item) => format!("{:?}", machine.observe(&mut context, item)),
            Operation::Accept(item) => format!("{:?}", machine.accept(&mut context, item)),
            Operation::Begin(item) => {
                let begun = machine.begin(&mut context, item);
                if let crate::Begun::Acquired { uid, lease } = begun {
                    self.leases.push((uid, lease));
                }
                format!("{begun:?}")
            }
            Operation::Settle(uid, lease, verdict) => {
                let (owner, fence) = (lease.owner, lease.fence);
                let settlement = crate::Settlement { uid: *uid, owner, fence, verdict: verdict.clone() };
                format!("{:?}", machine.settle(&mut context, &settlement))
            }
            Operation::Claim(item) => {
                let deliveries: Vec<Delivery> = machine.claim(&mut context, item);
                self.leases.extend(deliveries.iter().map(|delivery| (delivery.uid, delivery.lease)));
                format!("{deliveries:?}")
            }
            Operation::Extend(uid, lease, span) => {
                let (owner, fence) = (lease.owner, lease.fence);
                let extension = crate::Extension { uid: *uid, owner, fence, lease: *span };
                format!("{:?}", machine.extend(&mut context, &extension))
            }
            Operation::Operate(item) => format!("{:?}", machine.operate(&mut context, item)),
            Operation::Get(item) => format!("{:?}", machine.get(&mut context, item)),
            Operation::Maintain(budget) => {
                machine.maintain(&mut context, budget.clone());
                String::new()
            }
        }
    }

    /// Processes the timer events that the last operation left.
    pub(super) fn advance(&mut self, journal: &mut dyn Journal) {
        self.machine.advance(&mut CallContext { now: self.now, ids: &mut self.ids, journal });
    }

    fn some_lease(&self, rng: &mut Choices) -> (Uid, Lease) {
        let newest = self.leases.iter().rev().take(6).collect::<Vec<_>>();
        if newest.is_empty() || rng.once_in(20) {
            let fence = crate::Fence::new(1).unwrap();
            return (Uid::from_u128(1), Lease { owner: owner(rng), fence, until: self.now });
        }
        *newest[rng.below(u32::try_from(newest.len()).unwrap()) as usize]
    }

    fn target(&self, rng: &mut Choices) -> MessageRef {
        if rng.once_in(2) { self.some_lease(rng).0.into() } else { key(rng).into() }
    }

    fn message(&self, rng: &mut Choices) -> NewMessage {
        let lane = rng.below(self.lanes);
        let topic = Topic::new(["a", "b", "c"][lane as usize % 3]).unwrap();
        let payload = Payload::new(vec![b'x'; rng.below(4) as usize]).unwrap();
        let mut message = NewMessage::new(key(rng), topic, payload);
        message.content.shard = Shard(u16::try_from(lane / 3).unwrap());
        message.content.partition =
            (rng.below(2) == 0).then(|| Partition::new(["p", "q"][rng.below(2) as usize]).unwrap());
        message.content.due = rng.once_in(4).then(|| self.now.after(millis(rng.below(100))));
        message.content.expires = rng.once_in(4).then(|| self.now.after(millis(rng.below(100))));
        message.hash = hash(rng);
        message.policy.attempts_max = NonZeroU32::new(rng.below(4));
        message.policy.hold = hold(rng);
        message.policy.keep_finished = rng.once_in(4);
        message.policy.divergence =
            [Divergence::Replace, Divergence::KeepFirst, Divergence::Conflict][rng.below(3) as usize];
        message
    }
}

fn namespace(rng: &mut Choices) -> Namespace {
    [Namespace::Inbox, Namespace::Inbox, Namespace::Mailbox][rng.below(3) as usize]
}

fn key(rng: &mut Choices) -> Key {
    let id = Id::new(rng.below(6).to_string()).unwrap();
    Key::new(namespace(rng), Source::new("s").unwrap(), id)
}

fn hash(rng: &mut Choices) -> Option<CallerHash> {
    rng.once_in(4).then(|| CallerHash::new("sha256", &[u8::try_from(rng.below(2)).unwrap()]).unwrap())
}

fn hold(rng: &mut Choices) -> Hold {
    let window = millis(rng.below(100));
    let keep = match rng.below(4) {
        0 => Keep::Window,
        1 => Keep::UntilFinished,
        _ => Keep::After(millis(rng.below(100))),
    };
    Hold { window, keep }
}

fn owner(rng: &mut Choices) -> Owner {
    Owner::new(u128::from(1 + rng.below(2))).unwrap()
}

fn span(rng: &mut Choices) -> Span {
    Span::lease(millis(1 + rng.below(60))).unwrap()
}

fn verdict(rng: &mut Choices) -> Verdict {
    let error = rng.once_in(2).then(|| LastError::new("broken").unwrap());
    match rng.below(5) {
        0 | 1 => Verdict::Ack,
        2 => Verdict::Abandon { delay: span(rng), error },
        3 => Verdict::Fail { reason: crate::DeadReason::Failed, error },
        _ => Verdict::Release,
    }
}

fn claim(rng: &mut Choices) -> Claim {
    let batch = Batch::new(1 + rng.below(4)).unwrap();
    let mut claim = Claim::new(namespace(rng), owner(rng), span(rng), batch);
    if rng.once_in(3) {
        claim.topics = Topics::only([Topic::new("a").unwrap(), Topic::new("b").unwrap()]).unwrap();
    }
    claim.bytes_max = rng.once_in(4).then(|| rng.below(5).into());
    claim.attempts_max = NonZeroU32::new(rng.below(3));
    claim.worker = rng.once_in(3).then(|| WorkerName::new(format!("w{}", rng.below(3))).unwrap());
    claim.request = rng.once_in(3).then(|| RequestId::from_u128(rng.below(2).into()));
    claim
}

fn action(rng: &mut Choices) -> Action {
    match rng.below(7) {
        0 => Action::MarkProcessing,
        1 => Action::MarkProcessed { hold: hold(rng) },
        2 => Action::MarkDead { error: LastError::new("marked") },
        3 => Action::Redrive { attempts: AttemptCount::Keep, times_max: None, lane_max: None },
        4 => Action::REDRIVE,
        5 => Action::Cancel,
        _ => Action::Erase,
    }
}

/// The complete state of a machine as comparable text.
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
            let with_key = machine.messages_with_key(&message.key, usize::MAX);
            let found = with_key.iter().filter(|other| **other == slot).count();
            assert_eq!(found, 1, "a key finds each message accepted under it once");
            assert!(with_key.iter().all(|other| machine.messages[*other].key == message.key));
            let (class, timer) = (message.class, message.timer);
            // Maintenance moves messages within a retention queue; that is not recorded.
            let membership = if message.membership == Membership::Discardable {
                Membership::Retained
            } else {
                message.membership
            };
            format!("{:?} {membership:?} {class:?} {timer:?}", machine.snapshot(slot))
        })
        .collect();
    lines.sort();
    lines.extend(machine.lanes.dump());
    lines.extend(machine.partitions.dump(name_of));
    lines.extend(machine.requests.iter().map(|(request, slot)| format!("{request:?} {}", name_of(*slot))));
    lines.extend(Namespace::ALL.map(|namespace| format!("{:?}", machine.totals.namespace(namespace))));
    let Machine { number_next, fence_next, .. } = machine;
    lines.push(format!(
        "{number_next} {fence_next} {} {}",
        machine.totals.bytes(),
        machine.totals.unfinished()
    ));
    lines
}
