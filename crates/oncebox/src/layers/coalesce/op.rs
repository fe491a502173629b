//! The operations that are coalesced: what a call contains, how calls are merged, and how the result is split.

use std::hash::{BuildHasher, RandomState};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use oncebox_core::limits::CLAIM_MESSAGES_MAX;
use oncebox_core::{
    Accepted, Begin, Begun, Claim, Error, ErrorKind, Extended, Extension, NewMessage, Observation, Observed,
    Settlement, Store, Worked,
};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::{BATCH_BYTES_MAX, BATCH_ITEMS_MAX, CALL_TIME_MAX, EXTEND_TIME_MAX};

/// A pending store call.
pub(super) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A position in the items of a batch: the number of settlements, or of items of another operation, and the number of
/// claims before it.
pub(super) type Offset = (usize, usize);

/// The hash of something that only one call at a time may contain. After a hash collision, calls wait for each other
/// without need, which does no harm.
pub(super) type ConflictKey = u64;

/// How much is in a call.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CallSize {
    pub(super) items: usize,
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

impl CallSize {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            items: self.items + other.items,
            messages: self.messages + other.messages,
            bytes: self.bytes + other.bytes,
        }
    }

    /// Whether a batch of this size is within its limits.
    pub(super) fn fits(self) -> bool {
        self.items <= BATCH_ITEMS_MAX
            && self.messages <= u64::from(CLAIM_MESSAGES_MAX)
            && self.bytes <= BATCH_BYTES_MAX
    }
}

/// An operation whose calls can be merged into batches.
pub(super) trait BatchOp: 'static {
    /// The items of a call, borrowed from its caller or from its batch.
    type Borrowed<'a>: Copy + Send;
    /// The items of a waiting call, or of a batch.
    type Owned: Default + Send + Sync;
    type Output: Send;

    /// Time limit of a call to the store.
    const TIME_MAX: Duration;

    fn size(items: Self::Borrowed<'_>) -> CallSize;
    /// What no other call in flight may contain; in any order, possibly with duplicates.
    fn conflict_keys(items: Self::Borrowed<'_>, hasher: &RandomState) -> Vec<ConflictKey>;
    fn owned(items: Self::Borrowed<'_>) -> Self::Owned;
    fn append(batch: &mut Self::Owned, call: Self::Owned);
    /// The position after the last item.
    fn end(batch: &Self::Owned) -> Offset;
    fn slice(batch: &Self::Owned, from: Offset, to: Offset) -> Self::Borrowed<'_>;
    fn execute<'a>(store: &'a dyn Store, items: Self::Borrowed<'a>) -> BoxFuture<'a, Self::Output>;
    /// Splits the output for the items after `from` into one output for each call; `ends` are the positions where the
    /// calls end.
    fn split(output: Self::Output, from: Offset, ends: &[Offset]) -> Vec<Self::Output>;
}

/// Makes a call, which fails at its time limit: a store that never answers must not hold keys and slots for ever.
pub(super) async fn execute_in_time<'a, O: BatchOp>(
    store: &'a dyn Store,
    items: O::Borrowed<'a>,
) -> Result<O::Output, Error> {
    let call = O::execute(store, items);
    // A call that runs directly needs no runtime, if its store needs none.
    if Handle::try_current().is_err() {
        return call.await;
    }
    timeout(O::TIME_MAX, call).await.unwrap_or_else(|_| {
        let limit = O::TIME_MAX;
        let text = format!("the store did not answer within {limit:?}; the outcome is unknown: retry it");
        Err(Error::new(ErrorKind::Unavailable, text))
    })
}

/// An operation whose calls are lists of items, with one outcome for each item.
pub(super) struct ItemsOp<T>(PhantomData<T>);

/// An item of such a list.
pub(super) trait BatchItem: Clone + Send + Sync + 'static {
    type Outcome: Send;

    /// Time limit of a call to the store.
    const TIME_MAX: Duration = CALL_TIME_MAX;

    fn conflict_key(&self, hasher: &RandomState) -> ConflictKey;
    /// A second key, if the item has one.
    fn second_conflict_key(&self, _hasher: &RandomState) -> Option<ConflictKey> {
        None
    }
    fn bytes(&self) -> usize {
        0
    }
    fn execute<'a>(store: &'a dyn Store, items: &'a [Self]) -> BoxFuture<'a, Vec<Self::Outcome>>;
}

impl<T: BatchItem> BatchOp for ItemsOp<T> {
    type Borrowed<'a> = &'a [T];
    type Owned = Vec<T>;
    type Output = Vec<T::Outcome>;

    const TIME_MAX: Duration = T::TIME_MAX;

    fn size(items: &[T]) -> CallSize {
        let bytes = items.iter().map(|item| item.bytes() as u64).sum();
        CallSize { items: items.len(), messages: 0, bytes }
    }

    fn conflict_keys(items: &[T], hasher: &RandomState) -> Vec<ConflictKey> {
        let seconds = items.iter().filter_map(|item| item.second_conflict_key(hasher));
        items.iter().map(|item| item.conflict_key(hasher)).chain(seconds).collect()
    }

    fn owned(items: &[T]) -> Vec<T> {
        items.to_vec()
    }

    fn append(batch: &mut Vec<T>, call: Vec<T>) {
        batch.extend(call);
    }

    fn end(batch: &Vec<T>) -> Offset {
        (batch.len(), 0)
    }

    fn slice(batch: &Vec<T>, from: Offset, to: Offset) -> &[T] {
        &batch[from.0..to.0]
    }

    fn execute<'a>(store: &'a dyn Store, items: &'a [T]) -> BoxFuture<'a, Vec<T::Outcome>> {
        T::execute(store, items)
    }

    fn split(output: Vec<T::Outcome>, from: Offset, ends: &[Offset]) -> Vec<Vec<T::Outcome>> {
        split(output, from.0, ends.iter().map(|end| end.0))
    }
}

/// Splits `outcomes` at `ends`; the first outcome is that of the item at `from`.
fn split<T>(outcomes: Vec<T>, from: usize, ends: impl Iterator<Item = usize>) -> Vec<Vec<T>> {
    let mut outcomes = outcomes.into_iter();
    let mut start = from;
    let parts = ends.map(|end| {
        let (count, part) = (end - start, outcomes.by_ref().take(end - start).collect::<Vec<_>>());
        assert_eq!(part.len(), count, "a store returns one outcome per item");
        start = end;
        part
    });
    let parts = parts.collect();
    assert!(outcomes.next().is_none(), "a store returns one outcome per item");
    parts
}

impl BatchItem for NewMessage {
    type Outcome = Accepted;

    fn conflict_key(&self, hasher: &RandomState) -> ConflictKey {
        hasher.hash_one(&self.key)
    }

    fn second_conflict_key(&self, hasher: &RandomState) -> Option<ConflictKey> {
        self.uid.map(|uid| hasher.hash_one(uid))
    }

    fn bytes(&self) -> usize {
        self.content.payload.len() + self.content.attributes.bytes()
    }

    fn execute<'a>(store: &'a dyn Store, messages: &'a [Self]) -> BoxFuture<'a, Vec<Accepted>> {
        store.accept(messages)
    }
}

impl BatchItem for Observation {
    type Outcome = Observed;

    fn conflict_key(&self, hasher: &RandomState) -> ConflictKey {
        hasher.hash_one(&self.key)
    }

    fn execute<'a>(store: &'a dyn Store, observations: &'a [Self]) -> BoxFuture<'a, Vec<Observed>> {
        store.observe(observations)
    }
}

impl BatchItem for Begin {
    type Outcome = Begun;

    fn conflict_key(&self, hasher: &RandomState) -> ConflictKey {
        hasher.hash_one(&self.key)
    }

    fn execute<'a>(store: &'a dyn Store, begins: &'a [Self]) -> BoxFuture<'a, Vec<Begun>> {
        store.begin(begins)
    }
}

impl BatchItem for Extension {
    type Outcome = Extended;

    const TIME_MAX: Duration = EXTEND_TIME_MAX;

    fn conflict_key(&self, hasher: &RandomState) -> ConflictKey {
        hasher.hash_one(self.uid)
    }

    fn execute<'a>(store: &'a dyn Store, extensions: &'a [Self]) -> BoxFuture<'a, Vec<Extended>> {
        store.extend(extensions)
    }
}

/// Settlements and claims. All settlements of a batch come before all of its claims, as in a single call.
pub(super) struct WorkOp;

impl BatchOp for WorkOp {
    type Borrowed<'a> = (&'a [Settlement], &'a [Claim]);
    type Owned = (Vec<Settlement>, Vec<Claim>);
    type Output = Worked;

    const TIME_MAX: Duration = CALL_TIME_MAX;

    fn size((settlements, claims): (&[Settlement], &[Claim])) -> CallSize {
        CallSize {
            items: settlements.len() + claims.len(),
            messages: claims.iter().map(|claim| u64::from(claim.batch.get())).sum(),
            // Error texts are short, and a batch has few of them.
            bytes: 0,
        }
    }

    fn conflict_keys(
        (settlements, claims): (&[Settlement], &[Claim]),
        hasher: &RandomState,
    ) -> Vec<ConflictKey> {
        let requests = claims.iter().filter_map(|claim| {
            claim.request.map(|request| hasher.hash_one((claim.namespace, claim.owner, request)))
        });
        settlements.iter().map(|settlement| hasher.hash_one(settlement.uid)).chain(requests).collect()
    }

    fn owned((settlements, claims): (&[Settlement], &[Claim])) -> Self::Owned {
        (settlements.to_vec(), claims.to_vec())
    }

    fn append(batch: &mut Self::Owned, call: Self::Owned) {
        batch.0.extend(call.0);
        batch.1.extend(call.1);
    }

    fn end(batch: &Self::Owned) -> Offset {
        (batch.0.len(), batch.1.len())
    }

    fn slice(batch: &Self::Owned, from: Offset, to: Offset) -> (&[Settlement], &[Claim]) {
        (&batch.0[from.0..to.0], &batch.1[from.1..to.1])
    }

    fn execute<'a>(
        store: &'a dyn Store,
        (settlements, claims): (&'a [Settlement], &'a [Claim]),
    ) -> BoxFuture<'a, Worked> {
        store.work(settlements, claims)
    }

    fn split(output: Worked, from: Offset, ends: &[Offset]) -> Vec<Worked> {
        let settled = split(output.settled, from.0, ends.iter().map(|end| end.0));
        let deliveries = split(output.deliveries, from.1, ends.iter().map(|end| end.1));
        let both = settled.into_iter().zip(deliveries);
        both.map(|(settled, deliveries)| Worked { settled, deliveries }).collect()
    }
}
