//! The model behind the port, with choices of its own, and ways to deviate.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use oncebox_core::{
    Accepted, Batch, Begin, Begun, Budget, Capabilities, Claim, Clock, Counts, Cursor, Delivery, Error,
    Extended, Extension, Fence, Interest, Key, Lease, NewMessage, Observed, Omitted, Operated, Order, Page,
    PageSize, Query, ReadyTopics, Receipt, Ref, Scope, Settled, Settlement, Sighting, Snapshot, State, Store,
    Timestamp, Topic, TopicPage, TopicQuery, Trace, Uid, Upkept, Usage, Wakeups, Worked,
};

use crate::fixture::{Fixture, ManualClock};
use crate::model::Model;
use crate::model::tests::told;

/// How a store deviates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lie {
    /// Not at all.
    None,
    /// Its time is a millisecond late.
    Late,
    /// It gives other messages to the repeat of a claim.
    NoRepeats,
    /// It stops claims one message too early.
    ShortClaims,
    /// It grants a fence that it has granted before.
    OldFences,
    /// It leaves out a last page of one message.
    ShortListing,
    /// It finds by key only what holds the key.
    HeldKeysOnly,
    /// It does not name the last of several ready topics.
    ShortTopics,
    /// It forgets nothing.
    NoUpkeep,
}

impl Lie {
    /// All deviations.
    pub(super) const ALL: [Self; 8] = [
        Self::Late,
        Self::NoRepeats,
        Self::ShortClaims,
        Self::OldFences,
        Self::ShortListing,
        Self::HeldKeysOnly,
        Self::ShortTopics,
        Self::NoUpkeep,
    ];
}

/// A fresh one.
pub(super) async fn open(lie: Lie) -> Fixture {
    let clock = Arc::new(ManualClock::default());
    let state = Mutex::new((Model::new(Timestamp::EPOCH), 1_000));
    Fixture { store: Arc::new(ModelStore { clock: clock.clone(), lie, state }), time: clock }
}

struct ModelStore {
    clock: Arc<ManualClock>,
    lie: Lie,
    state: Mutex<(Model, u64)>,
}

impl ModelStore {
    /// Runs `call` with the model and a number that was not drawn before.
    fn with<T>(&self, call: impl FnOnce(&mut Model, u64) -> T) -> T {
        let mut state = self.state.lock().unwrap();
        let (model, drawn) = &mut *state;
        *drawn += 1;
        let late = u64::from(self.lie == Lie::Late);
        model.pass_to(Timestamp::from_millis(self.clock.now().as_millis() - late));
        call(model, *drawn)
    }

    fn claim(&self, claim: &Claim) -> Vec<Delivery> {
        let request = claim.request.filter(|_| self.lie != Lie::NoRepeats);
        let mut claim = Claim { request, ..claim.clone() };
        let mut chosen = Vec::new();
        while self.with(|model, _| model.clone().claim(&claim, &chosen).is_err()) {
            let next = self.with(|model, drawn| next_delivery(model, &claim, &chosen, drawn));
            chosen.push(next.expect("one more is claimable"));
        }
        if self.lie == Lie::ShortClaims && chosen.len() > 1 {
            chosen.pop();
            claim.batch = Batch::new(u32::try_from(chosen.len()).unwrap()).unwrap();
        }
        self.with(|model, _| model.claim(&claim, &chosen)).unwrap()
    }
}

/// Some message that may be claimed after the chosen ones.
fn next_delivery(model: &Model, claim: &Claim, chosen: &[Delivery], drawn: u64) -> Option<Delivery> {
    let batch = Batch::new(u32::try_from(chosen.len() + 1).unwrap()).unwrap();
    // It is not a repeat, or nothing would be missing; with this batch it could be one.
    let claim = Claim { batch, request: None, ..claim.clone() };
    model.uids().iter().find_map(|uid| {
        let message = model.clone().get(&Ref::Uid(*uid), None).unwrap()?;
        let delivery = told(message, drawn)?;
        let with_it = [chosen, std::slice::from_ref(&delivery)].concat();
        model.clone().claim(&claim, &with_it).is_ok().then_some(delivery)
    })
}

/// What a store tells that drew this number as a uid.
fn receipt(drawn: u64) -> Receipt {
    Receipt {
        uid: Uid::from_u128(u128::from(drawn)),
        accepted_at: Timestamp::EPOCH,
        dedup_until: Timestamp::EPOCH,
        state: State::Seen,
        trace: Trace::default(),
    }
}

#[async_trait]
impl Store for ModelStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE
    }

    fn wakeups(&self, _: Interest) -> Box<dyn Wakeups> {
        unreachable!("the comparison does not wait")
    }

    async fn observe(&self, items: &[Sighting]) -> Result<Vec<Observed>, Error> {
        let one =
            |item| self.with(|model, drawn| model.observe(item, &Observed::First(receipt(drawn))).unwrap());
        Ok(items.iter().map(one).collect())
    }

    async fn accept(&self, items: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        let one = |item| {
            self.with(|model, drawn| {
                let told = Accepted::New { receipt: receipt(drawn), diverged: false };
                model.accept(item, &told).unwrap()
            })
        };
        Ok(items.iter().map(one).collect())
    }

    async fn begin(&self, items: &[Begin]) -> Result<Vec<Begun>, Error> {
        let one = |item: &Begin| {
            self.with(|model, drawn| {
                let fence = Fence::new(drawn).unwrap();
                let lease = Lease { owner: item.owner, fence, until: Timestamp::EPOCH };
                model.begin(item, &Begun::Acquired { uid: receipt(drawn).uid, lease }).unwrap()
            })
        };
        let mut begun: Vec<_> = items.iter().map(one).collect();
        if let (Lie::OldFences, Some(Begun::Acquired { lease, .. })) = (self.lie, begun.first_mut()) {
            lease.fence = Fence::new(1_000).unwrap();
        }
        Ok(begun)
    }

    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        let settled: Vec<Settled> =
            settlements.iter().map(|item| self.with(|model, _| model.settle(item))).collect();
        Ok(Worked { settled, deliveries: claims.iter().map(|claim| self.claim(claim)).collect() })
    }

    async fn extend(&self, items: &[Extension]) -> Result<Vec<Extended>, Error> {
        Ok(items.iter().map(|item| self.with(|model, _| model.extend(item))).collect())
    }

    async fn operate(&self, items: &[Order]) -> Result<Vec<Operated>, Error> {
        let one =
            |item| self.with(|model, drawn| model.operate(item, &Operated::Changed(receipt(drawn))).unwrap());
        Ok(items.iter().map(one).collect())
    }

    async fn get(&self, refs: &[Ref]) -> Result<Vec<Option<Snapshot>>, Error> {
        Ok(refs.iter().map(|target| self.with(|model, _| model.get(target, None).unwrap())).collect())
    }

    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        let mut found = self.with(|model, _| model.with_key(key, limit, &[]).unwrap());
        if self.lie == Lie::HeldKeysOnly {
            found.retain(|message| message.keyed);
        }
        Ok(found)
    }

    async fn page(&self, query: &Query) -> Result<Page, Error> {
        let mut messages = self.with(|model, _| model.list(query, &[]).unwrap());
        if let Some(after) = query.after {
            let place = messages.iter().position(|message| message.number == after.0);
            messages.drain(..=place.expect("nothing changes during a listing"));
        }
        let left = messages.split_off(messages.len().min(query.size.get() as usize));
        let hidden = usize::from(self.lie == Lie::ShortListing);
        let more = left.len() > hidden;
        let next = messages.last().filter(|_| more).map(|message| Cursor(message.number));
        Ok(Page { messages, next })
    }

    async fn counts(&self, scope: &Scope) -> Result<Counts, Error> {
        Ok(self.with(|model, _| model.counts(scope)))
    }

    async fn ready_topics(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error> {
        let mut topics = self.with(|model, _| model.ready_topics(query));
        if self.lie == Lie::ShortTopics && topics.len() > 1 {
            topics.pop();
        }
        Ok(topics)
    }

    async fn topic_counts(&self, query: &TopicQuery) -> Result<TopicPage, Error> {
        Ok(self.with(|model, _| model.topic_counts(query)))
    }

    async fn usage(&self) -> Result<Usage, Error> {
        Ok(Usage::default())
    }

    async fn upkeep(&self, budget: Budget) -> Result<Upkept, Error> {
        if self.lie == Lie::NoUpkeep {
            return Ok(Upkept::default());
        }
        Ok(self.with(|model, _| Upkept {
            forgotten: model.upkeep(&budget),
            next_due: model.next_upkeep(&budget),
            ..Upkept::default()
        }))
    }

    async fn close(&self) -> Result<(), Error> {
        Ok(())
    }
}
