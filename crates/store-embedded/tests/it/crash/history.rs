//! Records callers that use a store, and what each of them knows after each call.

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Action, Batch, Begin, Begun, Budget, Claim, Clock, Delivery, Direction, Error, Hold, Id, Keep, Key,
    LastError, Lease, MessageRef, Namespace, NewMessage, Observation, Order, Owner, PageSize, Payload,
    Policy, Record, RecordId, RecordKind, RecordOp, RecordOutcome, RecordValue, Settlement, Snapshot, Source,
    Span, Store, StoreExt, Timestamp, Topic, Topics, Uid, Verdict, WhenFull, WriteCondition,
};
use oncebox_store_embedded::{EmbeddedOptions, EmbeddedStore};
use oncebox_testkit::{ManualClock, SplitMix, block_on};

use super::recording_disk::RecordingDisk;

const INBOX_KEYS: u64 = 20;
const LEDGER_KEYS: u64 = 4;
const RECORDS: u64 = 4;
const SEGMENT_BYTES: u64 = 64 << 10;

/// One call, and the caller's view of its own messages after it.
pub(crate) struct Step {
    /// Positions of the recording at which the call started and returned.
    pub(crate) started: usize,
    pub(crate) confirmed: usize,
    /// Whether the call promises to survive a power cut.
    pub(crate) durable: bool,
    pub(crate) time: Timestamp,
    pub(crate) view: Vec<Option<Snapshot>>,
    pub(crate) records: Vec<Record>,
}

/// The steps of each caller.
pub(crate) struct History {
    pub(crate) disk: RecordingDisk,
    pub(crate) callers: Vec<Vec<Step>>,
}

pub(crate) fn options(clock: &Arc<ManualClock>, boot: &str) -> EmbeddedOptions {
    let mut options = EmbeddedOptions::default();
    options.segment_bytes = SEGMENT_BYTES;
    options.clock = Some(clock.clone());
    options.boot_id = Some(boot.to_owned());
    options
}

pub(crate) fn keys(caller: u64) -> Vec<MessageRef> {
    let inbox = (0..INBOX_KEYS).map(|id| key(Namespace::Inbox, caller, id));
    let ledger = (0..LEDGER_KEYS).map(|id| key(Namespace::Ledger, caller, id));
    inbox.chain(ledger).map(MessageRef::Key).collect()
}

fn key(namespace: Namespace, caller: u64, id: u64) -> Key {
    let source = Source::inbox(source(caller)).unwrap();
    Key::new(namespace, source, Id::inbox(id.to_string()).unwrap())
}

/// All callers write records of one kind.
pub(crate) const KIND: RecordKind = RecordKind::new("state", 100, WhenFull::Refuse);

/// The records of a caller, which are those whose ids start with its name.
pub(crate) async fn records_of(store: &EmbeddedStore, caller: u64) -> Result<Vec<Record>, Error> {
    let list =
        RecordOp::List { kind: KIND, direction: Direction::OldestFirst, after: None, size: PageSize::MAX };
    let RecordOutcome::Listed(mut records) = store.record(list).await? else {
        panic!("a listing is answered with a list")
    };
    records.retain(|record| record.id.as_str().starts_with(&source(caller)));
    Ok(records)
}

fn source(caller: u64) -> String {
    format!("caller-{caller}")
}

/// Runs `callers` concurrently for `steps` calls each. A single caller also advances the clock.
pub(crate) fn record(seed: u64, callers: u64, steps: usize) -> History {
    let (disk, clock) = (RecordingDisk::default(), Arc::new(ManualClock::default()));
    let options = options(&clock, "first");
    let store = Arc::new(EmbeddedStore::open_on(Arc::new(disk.clone()), &options).unwrap());
    let work = |caller: u64| {
        let (store, disk, clock) = (store.clone(), disk.clone(), clock.clone());
        std::thread::spawn(move || {
            let rng = SplitMix::new(seed ^ (caller << 32));
            let caller =
                Caller { number: caller, alone: callers == 1, store, disk, clock, rng, held: Vec::new() };
            block_on(caller.run(steps)).unwrap()
        })
    };
    let threads: Vec<_> = (0..callers).map(work).collect();
    let callers = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    if seed.is_multiple_of(2) {
        block_on(store.close()).unwrap();
    }
    History { disk, callers }
}

struct Caller {
    number: u64,
    alone: bool,
    store: Arc<EmbeddedStore>,
    disk: RecordingDisk,
    clock: Arc<ManualClock>,
    rng: SplitMix,
    /// Leases that were granted to it and are not settled yet.
    held: Vec<(Uid, Lease)>,
}

impl Caller {
    async fn run(mut self, steps: usize) -> Result<Vec<Step>, Error> {
        let keys = keys(self.number);
        let (time, view, records) = (Clock::now(&*self.clock), vec![None; keys.len()], Vec::new());
        let mut history = vec![Step { started: 0, confirmed: 0, durable: true, time, view, records }];
        for _ in 0..steps {
            let pause = if self.alone && self.rng.below(8) == 0 { self.rng.below(700_000) } else { 1 };
            self.clock.advance(Duration::from_millis(pause));
            let (started, time) = (self.disk.position(), Clock::now(&*self.clock));
            let durable = self.call().await?;
            let confirmed = self.disk.position();
            let view = self.store.get(&keys).await?;
            let records = records_of(&self.store, self.number).await?;
            // A call without effect promises nothing.
            let changed = |before: &Step| before.view != view || before.records != records;
            let durable = durable && history.last().is_some_and(changed);
            history.push(Step { started, confirmed, durable, time, view, records });
        }
        Ok(history)
    }

    /// Makes one call. Returns whether it promises to survive a power cut.
    async fn call(&mut self) -> Result<bool, Error> {
        match self.rng.below(18) {
            0..5 => {
                let messages: Vec<_> = (0..=self.rng.below(4)).map(|_| self.message()).collect();
                self.store.accept(&messages).await?;
            }
            5..8 => {
                let claim = self.claim();
                let deliveries = self.store.claim(&claim).await?;
                self.held.extend(deliveries.iter().map(|delivery| (delivery.uid, delivery.lease)));
                return Ok(false);
            }
            8..11 => {
                let settlements = self.settlements();
                self.store.settle(&settlements).await?;
            }
            11 => {
                let (settlements, claim) = (self.settlements(), self.claim());
                let worked = self.store.work(&settlements, &[claim]).await?;
                let deliveries = worked.deliveries.iter().flatten();
                self.held.extend(deliveries.map(|delivery: &Delivery| (delivery.uid, delivery.lease)));
                return Ok(!settlements.is_empty());
            }
            12 => {
                let begin = self.begin();
                if let Begun::Acquired { uid, lease } = self.store.begin(&[begin]).await?.remove(0) {
                    self.held.push((uid, lease));
                }
            }
            13 => {
                let observation =
                    Observation { key: self.ledger_key(), hash: None, hold: Policy::LEDGER.hold };
                self.store.observe(&[observation]).await?;
            }
            14 => {
                let orders = [self.order(), self.order()];
                self.store.operate(&orders).await?;
            }
            15 => {
                self.store.maintain(Budget::new(20)).await?;
            }
            _ => {
                let ops = [self.record_op(), self.record_op()];
                self.store.records(&ops).await?;
            }
        }
        Ok(true)
    }

    fn lease(&mut self) -> Span {
        Span::lease(Duration::from_secs(1 + self.rng.below(60))).unwrap()
    }

    fn owner(&self) -> Owner {
        Owner::new(u128::from(self.number) + 1).unwrap()
    }

    fn inbox_key(&mut self) -> Key {
        key(Namespace::Inbox, self.number, self.rng.below(INBOX_KEYS))
    }

    fn ledger_key(&mut self) -> Key {
        key(Namespace::Ledger, self.number, self.rng.below(LEDGER_KEYS))
    }

    /// A message: mostly small, sometimes larger than a segment.
    fn message(&mut self) -> NewMessage {
        let length = match self.rng.below(60) {
            0 => 100_000,
            1..10 => 10_000,
            _ => self.rng.below(2_000),
        };
        let byte = u8::try_from(self.rng.below(256)).unwrap();
        let payload = Payload::new(vec![byte; usize::try_from(length).unwrap()]).unwrap();
        let topic = Topic::new(source(self.number)).unwrap();
        let mut message = NewMessage::new(self.inbox_key(), topic, payload);
        if self.rng.below(2) == 0 {
            message.policy.hold = Hold { window: Duration::ZERO, keep: Keep::After(Duration::ZERO) };
        }
        message
    }

    fn claim(&mut self) -> Claim {
        let lease = self.lease();
        let batch = Batch::new(1 + u32::try_from(self.rng.below(4)).unwrap()).unwrap();
        let topics = Topics::only([Topic::new(source(self.number)).unwrap()]).unwrap();
        Claim { topics, ..Claim::new(Namespace::Inbox, self.owner(), lease, batch) }
    }

    fn begin(&mut self) -> Begin {
        Begin { key: self.ledger_key(), owner: self.owner(), lease: self.lease(), hold: Policy::LEDGER.hold }
    }

    fn settlements(&mut self) -> Vec<Settlement> {
        let count = self.held.len().min(usize::try_from(1 + self.rng.below(3)).unwrap());
        let held: Vec<_> = self.held.drain(..count).collect();
        let settlement = |(uid, Lease { owner, fence, .. })| {
            let error = LastError::new("as planned");
            let verdict = match self.rng.below(8) {
                0 => Verdict::Release,
                1 => Verdict::Abandon { delay: Span::delay(Duration::from_millis(2)).unwrap(), error },
                2 => Verdict::Fail { reason: oncebox_core::DeadReason::Failed, error },
                _ => Verdict::Ack,
            };
            Settlement { uid, owner, fence, verdict }
        };
        held.into_iter().map(settlement).collect()
    }

    fn record_op(&mut self) -> RecordOp {
        let id = RecordId::new(format!("{}-{}", source(self.number), self.rng.below(RECORDS))).unwrap();
        let condition = match self.rng.below(4) {
            0 => return RecordOp::Delete { kind: KIND, id, version: None },
            1 => WriteCondition::Absent,
            _ => WriteCondition::Always,
        };
        let length = usize::try_from(self.rng.below(3_000)).unwrap();
        let value = RecordValue::new(vec![b'v'; length]).unwrap();
        RecordOp::Put { kind: KIND, id, value, condition, keep: None }
    }

    fn order(&mut self) -> Order {
        let action = match self.rng.below(6) {
            0 => Action::MarkProcessing,
            1 => Action::MarkProcessed { hold: Policy::LEDGER.hold },
            2 => Action::Cancel,
            3 => Action::Erase,
            4 => Action::MarkDead { error: None },
            _ => Action::REDRIVE,
        };
        Order { target: MessageRef::Key(self.inbox_key()), action }
    }
}
