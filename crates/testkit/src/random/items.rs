//! The items of calls, drawn from the small universe.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Action, AttemptCount, Attributes, Batch, Begin, Budget, CallerHash, Claim, DeadLetters, DeadReason,
    Direction, Divergence, Extension, Fence, Fingerprint, LastError, MessageQuery, MessageRef, MessageState,
    Namespace, NewMessage, Observation, Order, PageSize, Partition, Payload, Policy, Retention, Scope, Seal,
    Settlement, Shard, Timestamp, Topics, Trace, Uid, Verdict, WorkerName,
};

use super::universe::{LeaseRef, Universe, all_topics};
use crate::model::Model;

const PAYLOADS: [&str; 4] = ["", "abc", "xyz", "a payload that is longer than the others"];

impl Universe {
    pub(super) fn observation(&mut self) -> Observation {
        Observation { key: self.key(), hash: self.hash(), hold: self.hold() }
    }

    pub(super) fn begin(&mut self) -> Begin {
        Begin { key: self.key(), owner: self.owner(), lease: self.lease(), hold: self.hold() }
    }

    pub(super) fn message(&mut self, model: &Model) -> NewMessage {
        let payload = Payload::new(self.pick(&PAYLOADS)).expect("it is in bounds");
        let mut message = NewMessage::new(self.key(), self.topic(), payload);
        message.uid = match self.below(10) {
            0..5 => None,
            5..8 => Some(Uid::from_u128(u128::from(1 + self.below(40)))),
            _ => Some(self.uid(model)),
        };
        message.hash = self.hash();
        message.trace = self.trace();
        message.policy = self.policy();
        message.lane_max = self.maybe(20, |universe| NonZeroU32::new(universe.pick(&[1, 2, 4]))).flatten();
        let content = &mut message.content;
        content.shard = Shard(u16::from(self.chance(30)));
        content.partition = self
            .maybe(60, |universe| Partition::new(universe.pick(&["p", "q", "r"])).expect("it is in bounds"));
        let note = self.maybe(20, |universe| universe.pick(&["x", "y"]));
        content.attributes = Attributes::new(note.map(|value| ("note", value))).expect("it is in bounds");
        let from = model.now().as_millis() - 5;
        let instant = |millis: u64| Timestamp::from_millis(from + millis);
        content.seal = self.maybe(30, |universe| Seal {
            at: instant(universe.pick(&[0, 7])),
            chain: Fingerprint::of_bytes(&[universe.pick(&[1, 2])]),
        });
        content.due = self.maybe(30, |universe| instant(universe.pick(&[0, 5, 6, 15, 45, 505])));
        content.expires = self.maybe(25, |universe| instant(universe.pick(&[0, 5, 6, 15, 45, 505])));
        message
    }

    fn hash(&mut self) -> Option<CallerHash> {
        self.maybe(50, |universe| {
            let algorithm = universe.pick(&["sha256", "sha256", "md5"]);
            let byte = universe.pick(&[1, 2]);
            CallerHash::new(algorithm, &[byte; 16]).expect("it is in bounds")
        })
    }

    fn trace(&mut self) -> Trace {
        let id = self.pick(&["", "story-1", "story-2"]);
        Trace::default().with_correlation(id).expect("it is in bounds")
    }

    fn policy(&mut self) -> Policy {
        Policy {
            attempts_max: NonZeroU32::new(self.pick(&[0, 1, 2, 3])),
            hold: self.hold(),
            divergence: self.pick(&[Divergence::Replace, Divergence::KeepFirst, Divergence::Conflict]),
            keep_finished: self.chance(30),
        }
    }

    fn error(&mut self) -> Option<LastError> {
        let text = self.pick(&["", "Timeout: slow", "Refused: no"]);
        LastError::new(text)
    }

    /// A current or past lease; occasionally with another owner, fence or message.
    fn some_lease(&mut self, model: &Model) -> LeaseRef {
        let past = self.leases.clone();
        let current: Vec<_> = model
            .leases()
            .iter()
            .map(|(uid, lease)| LeaseRef { uid: *uid, owner: lease.owner, fence: lease.fence })
            .collect();
        let drawn = if self.chance(60) { self.pick_recent(&current) } else { self.pick_recent(&past) };
        let mut lease =
            drawn.unwrap_or(LeaseRef { uid: self.uid(model), owner: self.owner(), fence: fence(1) });
        match self.below(20) {
            0 => lease.owner = self.owner(),
            1 => lease.fence = fence(lease.fence.get() + 1),
            2 => lease.uid = self.uid(model),
            _ => {}
        }
        lease
    }

    pub(super) fn settlement(&mut self, model: &Model) -> Settlement {
        let earlier = self.settled.clone();
        if let Some(repeat) = self.pick_recent(&earlier).filter(|_| self.chance(20)) {
            return repeat;
        }
        let LeaseRef { uid, owner, fence } = self.some_lease(model);
        let verdict = match self.below(10) {
            0..3 => Verdict::Ack,
            3..6 => Verdict::Abandon { delay: self.delay(), error: self.error() },
            6..8 => Verdict::Fail { reason: self.reason(), error: self.error() },
            _ => Verdict::Release,
        };
        Settlement { uid, owner, fence, verdict }
    }

    fn reason(&mut self) -> DeadReason {
        self.pick(&[
            DeadReason::Failed,
            DeadReason::Integrity,
            DeadReason::Unhandled,
            DeadReason::Undecodable,
        ])
    }

    /// A new claim, the repeat of an earlier one, or an earlier request id for other work.
    pub(super) fn claim(&mut self) -> Claim {
        let earlier = self.maybe(25, Self::earlier_claim).flatten();
        if let Some(repeat) = earlier.clone().filter(|_| self.chance(70)) {
            return repeat;
        }
        let mut claim = self.new_claim();
        if let Some(earlier) = earlier {
            (claim.owner, claim.request) = (earlier.owner, earlier.request);
        }
        if claim.request.is_some() {
            self.remember_claim(&claim);
        }
        claim
    }

    fn new_claim(&mut self) -> Claim {
        let batch = Batch::new(self.pick(&[1, 2, 3, 10])).expect("it is in bounds");
        let mut claim = Claim::new(self.namespace(), self.owner(), self.lease(), batch);
        if self.chance(40) {
            let topics = [self.topic(), self.topic()];
            claim.topics = Topics::only(topics).expect("they are in bounds");
        }
        claim.bytes_max = self.maybe(40, |universe| universe.pick(&[0, 3, 6, 40, 43, 80]));
        claim.in_flight_max = self.maybe(20, |universe| universe.pick(&[0, 1, 2, 5]));
        claim.attempts_max = NonZeroU32::new(self.pick(&[0, 0, 1, 2, 4]));
        claim.worker = self
            .maybe(30, |universe| universe.pick(&["w1", "w2", "a longer name of a worker"]))
            .map(|name| WorkerName::new(name).expect("it is in bounds"));
        claim.request = self.maybe(40, Self::request);
        claim
    }

    pub(super) fn extension(&mut self, model: &Model) -> Extension {
        let LeaseRef { uid, owner, fence } = self.some_lease(model);
        Extension { uid, owner, fence, lease: self.lease() }
    }

    pub(super) fn order(&mut self, model: &Model) -> Order {
        let target =
            if self.chance(50) { MessageRef::Key(self.key()) } else { MessageRef::Uid(self.uid(model)) };
        let action = match self.below(100) {
            0..20 => Action::MarkProcessing,
            20..35 => Action::MarkProcessed { hold: self.hold() },
            35..50 => Action::MarkDead { error: self.error() },
            50..75 => Action::Redrive {
                attempts: self.pick(&[AttemptCount::Reset, AttemptCount::Keep]),
                times_max: self.pick(&[None, None, Some(1), Some(2)]),
                lane_max: self.pick(&[None, None, NonZeroU32::new(1), NonZeroU32::new(2)]),
            },
            75..90 => Action::Cancel,
            _ => Action::Erase,
        };
        Order { target, action }
    }

    pub(super) fn budget(&mut self) -> Budget {
        let mut budget = Budget::new(self.pick(&[1, 2, 1_000]));
        budget.seen_keep = self.maybe(40, Self::keep);
        budget.dead_keep = self.maybe(40, Self::keep);
        budget.dead_letters = self.maybe(60, |universe| {
            let default = universe.retention();
            let own = universe.maybe(50, |universe| (universe.topic(), universe.retention()));
            Arc::new(DeadLetters { default, topics: own.into_iter().collect() })
        });
        budget
    }

    fn retention(&mut self) -> Retention {
        let keep = self.maybe(50, Self::keep);
        Retention { keep, messages_max: self.maybe(50, |universe| universe.pick(&[0, 1, 2])) }
    }

    /// Occasionally not a whole number of milliseconds: then it is rounded up.
    fn keep(&mut self) -> Duration {
        self.millis(&[0, 10, 500, 5_000]) + Duration::from_micros(self.pick(&[0, 1]))
    }

    /// The scopes of a namespace: everything, and each topic.
    pub(super) fn scopes(&mut self) -> Vec<Scope> {
        let namespace = self.namespace();
        let topics = all_topics().map(Some).into_iter().chain([None]);
        let shard = self.maybe(50, |universe| Shard(u16::from(universe.chance(50))));
        topics.map(|topic| Scope { namespace, topic, shard }).collect()
    }

    /// A listing of some messages of a namespace.
    pub(super) fn query(&mut self, namespace: Namespace) -> MessageQuery {
        let states = [MessageState::Seen, MessageState::Processing, MessageState::Done, MessageState::Dead];
        MessageQuery {
            state: self.maybe(40, |universe| universe.pick(&states)),
            dead: self.maybe(15, |universe| universe.pick(&[DeadReason::Exhausted, DeadReason::Expired])),
            topic: self.maybe(30, Self::topic),
            source: self.maybe(30, Self::source),
            ..self.query_all(namespace)
        }
    }

    /// A listing of all messages of a namespace.
    pub(super) fn query_all(&mut self, namespace: Namespace) -> MessageQuery {
        MessageQuery {
            direction: self.pick(&[Direction::OldestFirst, Direction::NewestFirst]),
            size: PageSize::new(self.pick(&[1, 2, 3, 7, 1_000])).expect("it is in bounds"),
            ..MessageQuery::all(namespace)
        }
    }
}

fn fence(value: u64) -> Fence {
    Fence::new(value).expect("it is not zero")
}
