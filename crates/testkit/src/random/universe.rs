//! A small universe, so that operations collide: few keys, topics and owners, short times.

use std::time::Duration;

use oncebox_core::{
    Claim, Delivery, Fence, Hold, Id, Keep, Key, Namespace, Owner, RequestId, Settlement, Source, Span,
    Topic, Uid,
};

use crate::fixture::SplitMix;
use crate::model::Model;

/// The number of past leases, settlements and claims that are remembered.
const MEMORY_ITEMS_MAX: usize = 40;
const SOURCES: [&str; 2] = ["stripe", "github"];
const IDS: [&str; 3] = ["a", "b", "c"];
const TOPICS: [&str; 3] = ["order", "invoice", "Order"];

/// Identifies a lease that was granted at some time.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeaseRef {
    pub(super) uid: Uid,
    pub(super) owner: Owner,
    pub(super) fence: Fence,
}

impl LeaseRef {
    /// Whether the delivery has this lease.
    pub(super) fn is_of(&self, delivery: &Delivery) -> bool {
        self.uid == delivery.uid && self.fence == delivery.lease.fence
    }
}

/// Draws everything that a case needs from one seed.
#[derive(Debug)]
pub(super) struct Universe {
    random: SplitMix,
    /// The namespace that most operations of a case use.
    favourite: Namespace,
    /// Past leases, the newest last.
    pub(super) leases: Vec<LeaseRef>,
    /// Past settlements that took effect, the newest last.
    pub(super) settled: Vec<Settlement>,
    /// Past claims that can be repeated, the newest last.
    claimed: Vec<Claim>,
}

impl Universe {
    pub(super) fn new(seed: u64) -> Self {
        let mut universe = Self {
            random: SplitMix::new(seed),
            favourite: Namespace::Inbox,
            leases: Vec::new(),
            settled: Vec::new(),
            claimed: Vec::new(),
        };
        universe.favourite = universe.pick(&Namespace::ALL);
        universe
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// True with this probability.
    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of the options.
    pub(super) fn pick<T: Clone>(&mut self, options: &[T]) -> T {
        let index = usize::try_from(self.below(options.len() as u64)).expect("it is below a length");
        options[index].clone()
    }

    /// One of the options, preferably a recent one; none if there are none.
    pub(super) fn pick_recent<T: Clone>(&mut self, options: &[T]) -> Option<T> {
        if options.is_empty() {
            return None;
        }
        let recent = options.len().saturating_sub(6);
        Some(if self.chance(70) { self.pick(&options[recent..]) } else { self.pick(options) })
    }

    /// `value` with this probability.
    pub(super) fn maybe<T>(&mut self, percent: u64, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.chance(percent).then(|| value(self))
    }

    /// Remembers a lease, to settle it in time or too late.
    pub(super) fn remember_lease(&mut self, lease: LeaseRef) {
        remember(&mut self.leases, lease);
    }

    /// Remembers a settlement, to repeat it.
    pub(super) fn remember_settled(&mut self, settlement: &Settlement) {
        remember(&mut self.settled, settlement.clone());
    }

    /// Remembers a claim, to repeat it.
    pub(super) fn remember_claim(&mut self, claim: &Claim) {
        remember(&mut self.claimed, claim.clone());
    }

    /// A past claim with a request id.
    pub(super) fn earlier_claim(&mut self) -> Option<Claim> {
        let earlier = self.claimed.clone();
        self.pick_recent(&earlier)
    }

    pub(super) fn namespace(&mut self) -> Namespace {
        if self.chance(70) { self.favourite } else { self.pick(&Namespace::ALL) }
    }

    pub(super) fn key(&mut self) -> Key {
        let namespace = self.namespace();
        let (source, id) = (self.source(), self.pick(&IDS));
        key(namespace, source, id)
    }

    pub(super) fn source(&mut self) -> Source {
        source(self.pick(&SOURCES))
    }

    pub(super) fn topic(&mut self) -> Topic {
        topic(self.pick(&TOPICS))
    }

    pub(super) fn owner(&mut self) -> Owner {
        Owner::new(1 + u128::from(self.below(3))).expect("it is not zero")
    }

    pub(super) fn request(&mut self) -> RequestId {
        RequestId::from_u128(u128::from(self.below(3)))
    }

    /// A uid that the case has used, or an unknown one.
    pub(super) fn uid(&mut self, model: &Model) -> Uid {
        let met = self.pick_recent(model.uids());
        met.filter(|_| self.chance(95)).unwrap_or(Uid::from_u128(999))
    }

    pub(super) fn lease(&mut self) -> Span {
        Span::lease(self.millis(&[1, 10, 40, 200, 2_000, 10_000])).expect("it is in bounds")
    }

    pub(super) fn delay(&mut self) -> Span {
        Span::delay(self.millis(&[1, 2, 10, 40, 500])).expect("it is in bounds")
    }

    pub(super) fn hold(&mut self) -> Hold {
        let window = self.millis(&[0, 0, 10, 40, 500, 900_000]);
        let keep = match self.below(100) {
            0..25 => Keep::Window,
            25..40 => Keep::UntilFinished,
            _ => Keep::After(self.millis(&[0, 10, 500, 900_000])),
        };
        Hold { window, keep }
    }

    pub(super) fn millis(&mut self, options: &[u64]) -> Duration {
        Duration::from_millis(self.pick(options))
    }

    /// How far time moves: mostly to the next change that the model expects, or to just before it.
    pub(super) fn jump(&mut self, model: &Model) -> Duration {
        let instants = model.instants();
        let near = &instants[..instants.len().min(4)];
        let instant = if near.is_empty() { model.now() } else { self.pick(near) };
        let exact = instant.since(model.now());
        match self.below(100) {
            0..45 => exact,
            45..65 => exact.saturating_sub(Duration::from_millis(1)),
            65..80 => Duration::from_millis(1),
            80..95 => Duration::from_millis(self.below(60)),
            95..98 => Duration::from_mins(10),
            _ => Duration::from_secs(86_400 + self.below(86_400)),
        }
    }
}

/// Every key that a case uses.
pub(super) fn all_keys() -> Vec<Key> {
    let namespaces = Namespace::ALL.into_iter();
    let pairs = namespaces.flat_map(|namespace| SOURCES.map(|name| (namespace, name)));
    pairs.flat_map(|(namespace, name)| IDS.map(|id| key(namespace, source(name), id))).collect()
}

/// Every topic that a case uses.
pub(super) fn all_topics() -> [Topic; 3] {
    TOPICS.map(topic)
}

fn key(namespace: Namespace, source: Source, id: &'static str) -> Key {
    Key::new(namespace, source, Id::new(id).expect("it is in bounds"))
}

fn source(name: &'static str) -> Source {
    Source::new(name).expect("it is in bounds")
}

fn topic(name: &'static str) -> Topic {
    Topic::new(name).expect("it is in bounds")
}

fn remember<T>(memory: &mut Vec<T>, item: T) {
    memory.push(item);
    if memory.len() > MEMORY_ITEMS_MAX {
        memory.remove(0);
    }
}
