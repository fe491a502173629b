//! The kinds of calls that are coalesced: what is in a call, how calls become one, and how its answer is dealt.

use std::hash::{BuildHasher, RandomState};
use std::marker::PhantomData;
use std::pin::Pin;

use oncebox_core::{
    Accepted, Begin, Begun, Claim, Error, Extended, Extension, NewMessage, Observed, Settlement, Sighting,
    Store, Worked,
};

use super::queue::{Name, Weight};

/// An answer to come.
pub(super) type Coming<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A place in the items of a group: so many settlements, or items of any other kind, and so many claims are before it.
pub(super) type Mark = (usize, usize);

/// One kind of call.
pub(super) trait Kind: 'static {
    /// What is in a call, borrowed from its caller or from its group.
    type Borrowed<'a>: Copy + Send;
    /// What is in a call that waits, or in a group.
    type Owned: Default + Send + Sync;
    type Answer: Send;

    fn weigh(items: Self::Borrowed<'_>) -> Weight;
    /// What no other call under way may be about, in any order, perhaps twice.
    fn names(items: Self::Borrowed<'_>, hasher: &RandomState) -> Vec<Name>;
    fn own(items: Self::Borrowed<'_>) -> Self::Owned;
    fn append(group: &mut Self::Owned, call: Self::Owned);
    fn end(group: &Self::Owned) -> Mark;
    fn between(group: &Self::Owned, from: Mark, to: Mark) -> Self::Borrowed<'_>;
    fn make<'a>(store: &'a dyn Store, items: Self::Borrowed<'a>) -> Coming<'a, Self::Answer>;
    /// Deals the answer to the items from `from` on, to the calls that end at `ends`.
    fn deal(answer: Self::Answer, from: Mark, ends: &[Mark]) -> Vec<Self::Answer>;
}

/// Calls that are lists of items, with an outcome for each.
pub(super) struct Items<T>(PhantomData<T>);

/// An item of such a list.
pub(super) trait Item: Clone + Send + Sync + 'static {
    type Outcome: Send;

    fn name(&self, hasher: &RandomState) -> Name;
    /// Another thing that it is about.
    fn second_name(&self, _hasher: &RandomState) -> Option<Name> {
        None
    }
    fn bytes(&self) -> usize {
        0
    }
    fn make<'a>(store: &'a dyn Store, items: &'a [Self]) -> Coming<'a, Vec<Self::Outcome>>;
}

impl<T: Item> Kind for Items<T> {
    type Borrowed<'a> = &'a [T];
    type Owned = Vec<T>;
    type Answer = Vec<T::Outcome>;

    fn weigh(items: &[T]) -> Weight {
        let bytes = items.iter().map(|item| item.bytes() as u64).sum();
        Weight { items: items.len(), messages: 0, bytes }
    }

    fn names(items: &[T], hasher: &RandomState) -> Vec<Name> {
        let seconds = items.iter().filter_map(|item| item.second_name(hasher));
        items.iter().map(|item| item.name(hasher)).chain(seconds).collect()
    }

    fn own(items: &[T]) -> Vec<T> {
        items.to_vec()
    }

    fn append(group: &mut Vec<T>, call: Vec<T>) {
        group.extend(call);
    }

    fn end(group: &Vec<T>) -> Mark {
        (group.len(), 0)
    }

    fn between(group: &Vec<T>, from: Mark, to: Mark) -> &[T] {
        &group[from.0..to.0]
    }

    fn make<'a>(store: &'a dyn Store, items: &'a [T]) -> Coming<'a, Vec<T::Outcome>> {
        T::make(store, items)
    }

    fn deal(answer: Vec<T::Outcome>, from: Mark, ends: &[Mark]) -> Vec<Vec<T::Outcome>> {
        deal(answer, from.0, ends.iter().map(|end| end.0))
    }
}

/// Splits outcomes at `ends`, the first of them being that of the item `from`.
fn deal<T>(outcomes: Vec<T>, from: usize, ends: impl Iterator<Item = usize>) -> Vec<Vec<T>> {
    let mut outcomes = outcomes.into_iter();
    let mut start = from;
    let dealt = ends.map(|end| {
        let (count, hand) = (end - start, outcomes.by_ref().take(end - start).collect::<Vec<_>>());
        assert_eq!(hand.len(), count, "a store gives one outcome per item");
        start = end;
        hand
    });
    let dealt = dealt.collect();
    assert!(outcomes.next().is_none(), "a store gives one outcome per item");
    dealt
}

impl Item for NewMessage {
    type Outcome = Accepted;

    fn name(&self, hasher: &RandomState) -> Name {
        hasher.hash_one(&self.key)
    }

    fn second_name(&self, hasher: &RandomState) -> Option<Name> {
        self.uid.map(|uid| hasher.hash_one(uid))
    }

    fn bytes(&self) -> usize {
        self.content.payload.len() + self.content.attributes.bytes()
    }

    fn make<'a>(store: &'a dyn Store, messages: &'a [Self]) -> Coming<'a, Vec<Accepted>> {
        store.accept(messages)
    }
}

impl Item for Sighting {
    type Outcome = Observed;

    fn name(&self, hasher: &RandomState) -> Name {
        hasher.hash_one(&self.key)
    }

    fn make<'a>(store: &'a dyn Store, sightings: &'a [Self]) -> Coming<'a, Vec<Observed>> {
        store.observe(sightings)
    }
}

impl Item for Begin {
    type Outcome = Begun;

    fn name(&self, hasher: &RandomState) -> Name {
        hasher.hash_one(&self.key)
    }

    fn make<'a>(store: &'a dyn Store, begins: &'a [Self]) -> Coming<'a, Vec<Begun>> {
        store.begin(begins)
    }
}

impl Item for Extension {
    type Outcome = Extended;

    fn name(&self, hasher: &RandomState) -> Name {
        hasher.hash_one(self.uid)
    }

    fn make<'a>(store: &'a dyn Store, extensions: &'a [Self]) -> Coming<'a, Vec<Extended>> {
        store.extend(extensions)
    }
}

/// Settlements and claims. All settlements of a group come before all of its claims, as in a single call.
pub(super) struct Working;

impl Kind for Working {
    type Borrowed<'a> = (&'a [Settlement], &'a [Claim]);
    type Owned = (Vec<Settlement>, Vec<Claim>);
    type Answer = Worked;

    fn weigh((settlements, claims): (&[Settlement], &[Claim])) -> Weight {
        Weight {
            items: settlements.len() + claims.len(),
            messages: claims.iter().map(|claim| u64::from(claim.batch.get())).sum(),
            // Error texts are short, and there are not many in a group.
            bytes: 0,
        }
    }

    fn names((settlements, claims): (&[Settlement], &[Claim]), hasher: &RandomState) -> Vec<Name> {
        let requests = claims.iter().filter_map(|claim| {
            claim.request.map(|request| hasher.hash_one((claim.namespace, claim.owner, request)))
        });
        settlements.iter().map(|settlement| hasher.hash_one(settlement.uid)).chain(requests).collect()
    }

    fn own((settlements, claims): (&[Settlement], &[Claim])) -> Self::Owned {
        (settlements.to_vec(), claims.to_vec())
    }

    fn append(group: &mut Self::Owned, call: Self::Owned) {
        group.0.extend(call.0);
        group.1.extend(call.1);
    }

    fn end(group: &Self::Owned) -> Mark {
        (group.0.len(), group.1.len())
    }

    fn between(group: &Self::Owned, from: Mark, to: Mark) -> (&[Settlement], &[Claim]) {
        (&group.0[from.0..to.0], &group.1[from.1..to.1])
    }

    fn make<'a>(
        store: &'a dyn Store,
        (settlements, claims): (&'a [Settlement], &'a [Claim]),
    ) -> Coming<'a, Worked> {
        store.work(settlements, claims)
    }

    fn deal(answer: Worked, from: Mark, ends: &[Mark]) -> Vec<Worked> {
        let settled = deal(answer.settled, from.0, ends.iter().map(|end| end.0));
        let deliveries = deal(answer.deliveries, from.1, ends.iter().map(|end| end.1));
        let both = settled.into_iter().zip(deliveries);
        both.map(|(settled, deliveries)| Worked { settled, deliveries }).collect()
    }
}
