//! A store made of the model, with its own choices, and with ways to deviate.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use oncebox_core::{
    Accepted, Batch, Begin, Begun, Budget, Capabilities, Claim, Clock, Counts, Cursor, Delivery, Error,
    Extended, Extension, Fence, Interest, Key, Lease, MaintenanceReport, MessagePage, MessageQuery,
    MessageRef, MessageState, MessageSummary, NewMessage, Observation, Observed, Omitted, Operated, Order,
    PageSize, ReadyTopics, RecordOp, RecordOutcome, Scope, Settled, Settlement, Snapshot, Store, Timestamp,
    Topic, TopicPage, TopicQuery, Trace, Uid, Usage, Wakeups, Worked, check_records,
};

use crate::fixture::{Fixture, ManualClock};
use crate::model::Model;
use crate::model::tests::delivered;

/// How a store deviates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deviation {
    /// It does not deviate.
    None,
    /// Its clock is a millisecond late.
    Late,
    /// It returns other messages to the repeat of a claim.
    NoRepeats,
    /// Its claims deliver one message too few.
    ShortClaims,
    /// It grants a fence that it has granted before.
    OldFences,
    /// It leaves out a last page of one message.
    ShortListing,
    /// It finds by key only the message that holds the key.
    HeldKeysOnly,
    /// It does not list the last of several ready topics.
    ShortTopics,
    /// It forgets nothing.
    NoMaintenance,
}

impl Deviation {
    /// All deviations.
    pub(super) const ALL: [Self; 8] = [
        Self::Late,
        Self::NoRepeats,
        Self::ShortClaims,
        Self::OldFences,
        Self::ShortListing,
        Self::HeldKeysOnly,
        Self::ShortTopics,
        Self::NoMaintenance,
    ];
}

/// Opens a fresh store.
pub(super) async fn open(deviation: Deviation) -> Fixture {
    let clock = Arc::new(ManualClock::default());
    let state = Mutex::new((Model::new(Timestamp::EPOCH), 1_000));
    Fixture { store: Arc::new(ModelStore { clock: clock.clone(), deviation, state }), time: clock }
}

struct ModelStore {
    clock: Arc<ManualClock>,
    deviation: Deviation,
    state: Mutex<(Model, u64)>,
}

impl ModelStore {
    /// Runs `call` with the model and a number that was not used before.
    fn with<T>(&self, call: impl FnOnce(&mut Model, u64) -> T) -> T {
        let mut state = self.state.lock().unwrap();
        let (model, generated) = &mut *state;
        *generated += 1;
        let late = u64::from(self.deviation == Deviation::Late);
        model.advance_to(Timestamp::from_millis(self.clock.now().as_millis() - late));
        call(model, *generated)
    }

    fn claim(&self, claim: &Claim) -> Vec<Delivery> {
        let request = claim.request.filter(|_| self.deviation != Deviation::NoRepeats);
        let mut claim = Claim { request, ..claim.clone() };
        let mut chosen = Vec::new();
        while self.with(|model, _| model.clone().claim(&claim, &chosen).is_err()) {
            let next = self.with(|model, generated| next_delivery(model, &claim, &chosen, generated));
            chosen.push(next.expect("one more is claimable"));
        }
        if self.deviation == Deviation::ShortClaims && chosen.len() > 1 {
            chosen.pop();
            claim.batch = Batch::new(u32::try_from(chosen.len()).unwrap()).unwrap();
        }
        self.with(|model, _| model.claim(&claim, &chosen)).unwrap()
    }
}

/// Some message that may be claimed after the chosen ones.
fn next_delivery(model: &Model, claim: &Claim, chosen: &[Delivery], generated: u64) -> Option<Delivery> {
    let batch = Batch::new(u32::try_from(chosen.len() + 1).unwrap()).unwrap();
    // This claim is not a repeat, or no delivery would be missing; with this batch it could become one.
    let claim = Claim { batch, request: None, ..claim.clone() };
    model.uids().iter().find_map(|uid| {
        let message = model.clone().get(&MessageRef::Uid(*uid), None).unwrap()?;
        let delivery = delivered(message, generated)?;
        let with_it = [chosen, std::slice::from_ref(&delivery)].concat();
        model.clone().claim(&claim, &with_it).is_ok().then_some(delivery)
    })
}

/// The summary of a store that generated this number as a uid.
fn summary(generated: u64) -> MessageSummary {
    MessageSummary {
        uid: Uid::from_u128(u128::from(generated)),
        accepted_at: Timestamp::EPOCH,
        dedup_until: Timestamp::EPOCH,
        state: MessageState::Seen,
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

    async fn observe(&self, items: &[Observation]) -> Result<Vec<Observed>, Error> {
        let one = |item| {
            self.with(|model, generated| model.observe(item, &Observed::First(summary(generated))).unwrap())
        };
        Ok(items.iter().map(one).collect())
    }

    async fn accept(&self, items: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        let one = |item| {
            self.with(|model, generated| {
                let actual = Accepted::New { summary: summary(generated), diverged: false };
                model.accept(item, &actual).unwrap()
            })
        };
        Ok(items.iter().map(one).collect())
    }

    async fn begin(&self, items: &[Begin]) -> Result<Vec<Begun>, Error> {
        let one = |item: &Begin| {
            self.with(|model, generated| {
                let fence = Fence::new(generated).unwrap();
                let lease = Lease { owner: item.owner, fence, until: Timestamp::EPOCH };
                model.begin(item, &Begun::Acquired { uid: summary(generated).uid, lease }).unwrap()
            })
        };
        let mut begun: Vec<_> = items.iter().map(one).collect();
        if let (Deviation::OldFences, Some(Begun::Acquired { lease, .. })) =
            (self.deviation, begun.first_mut())
        {
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
        let one = |item| {
            self.with(|model, generated| model.operate(item, &Operated::Changed(summary(generated))).unwrap())
        };
        Ok(items.iter().map(one).collect())
    }

    async fn get(&self, refs: &[MessageRef]) -> Result<Vec<Option<Snapshot>>, Error> {
        Ok(refs.iter().map(|target| self.with(|model, _| model.get(target, None).unwrap())).collect())
    }

    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        let mut found = self.with(|model, _| model.with_key(key, limit, &[]).unwrap());
        if self.deviation == Deviation::HeldKeysOnly {
            found.retain(|message| message.keyed);
        }
        Ok(found)
    }

    async fn page(&self, query: &MessageQuery) -> Result<MessagePage, Error> {
        let mut messages = self.with(|model, _| model.list(query, &[]).unwrap());
        if let Some(after) = query.after {
            let index = messages.iter().position(|message| message.number == after.0);
            messages.drain(..=index.expect("nothing changes during a listing"));
        }
        let left = messages.split_off(messages.len().min(query.size.get() as usize));
        let hidden = usize::from(self.deviation == Deviation::ShortListing);
        let more = left.len() > hidden;
        let next = messages.last().filter(|_| more).map(|message| Cursor(message.number));
        Ok(MessagePage { messages, next })
    }

    async fn counts(&self, scope: &Scope) -> Result<Counts, Error> {
        Ok(self.with(|model, _| model.counts(scope)))
    }

    async fn ready_topics(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error> {
        let mut topics = self.with(|model, _| model.ready_topics(query));
        if self.deviation == Deviation::ShortTopics && topics.len() > 1 {
            topics.pop();
        }
        Ok(topics)
    }

    async fn topic_counts(&self, query: &TopicQuery) -> Result<TopicPage, Error> {
        Ok(self.with(|model, _| model.topic_counts(query)))
    }

    async fn records(&self, ops: &[RecordOp]) -> Result<Vec<RecordOutcome>, Error> {
        check_records(ops)?;
        Ok(self.with(|model, _| ops.iter().map(|op| model.record(op)).collect()))
    }

    async fn usage(&self) -> Result<Usage, Error> {
        Ok(Usage::default())
    }

    async fn maintain(&self, budget: Budget) -> Result<MaintenanceReport, Error> {
        if self.deviation == Deviation::NoMaintenance {
            return Ok(MaintenanceReport::default());
        }
        Ok(self.with(|model, _| MaintenanceReport {
            forgotten: model.maintain(&budget),
            next_due: model.next_maintenance(&budget),
            ..MaintenanceReport::default()
        }))
    }

    async fn close(&self) -> Result<(), Error> {
        Ok(())
    }
}
