//! Concurrency: rules that hold for every interleaving of calls from several threads.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oncebox_core::{
    Accepted, Begin, Begun, Claim, Delivery, Number, Observed, Policy, RequestId, Settled, Store, StoreExt,
    Uid,
};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{Checked, Draft, LEASE, claim, key, message, observation, owner, race, span};

const RACERS: u128 = 16;

/// A task that can be mixed with tasks of other types.
type Task<T> = Pin<Box<dyn Future<Output = Checked<T>> + Send>>;

/// Of sixteen concurrent senders of one message, one gets `New`, all get the same summary, and one message is stored.
/// Holds: IBX-014, IBX-105, MBX-I-2.
pub async fn one_of_many_senders_is_first(fixture: Fixture) -> TestResult {
    let tasks = (0..RACERS).map(|_| {
        let store = fixture.store.clone();
        async move { Ok(store.accept_one(&message("1")).await?) }
    });
    let outcomes: Vec<Accepted> = race(tasks.collect()).await?;
    let new = outcomes.iter().filter(|outcome| matches!(outcome, Accepted::New { .. })).count();
    let summaries: Vec<_> = outcomes.iter().filter_map(Accepted::summary).collect();
    assert_eq!((new, summaries.len()), (1, outcomes.len()));
    assert!(summaries.windows(2).all(|pair| pair[0] == pair[1]), "{summaries:?}");
    assert_eq!(fixture.claim(&claim(100)).await?.len(), 1);
    Ok(())
}

/// Of sixteen concurrent observers of a key, one is first, and none finds it processed.
/// Holds: IBX-002, IBX-006, IBX-105.
pub async fn one_of_many_observations_is_first(fixture: Fixture) -> TestResult {
    let tasks = (0..RACERS).map(|_| {
        let store = fixture.store.clone();
        async move { Ok(store.observe(&[observation(key("1"))]).await?) }
    });
    let outcomes: Vec<Observed> = race(tasks.collect()).await?.concat();
    assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, Observed::First(_))).count(), 1);
    assert!(!outcomes.iter().any(Observed::is_processed));
    Ok(())
}

/// Of sixteen concurrent callers that begin a key, one acquires it and the others find it busy.
/// Holds: LDG-05, RULE-16.
pub async fn one_of_many_begins_acquires(fixture: Fixture) -> TestResult {
    let tasks = (1..=RACERS).map(|number| {
        let store = fixture.store.clone();
        let hold = Policy::LEDGER.hold;
        let begin = Begin { key: key("1"), owner: owner(number), lease: span(LEASE), hold };
        async move { Ok(store.begin(&[begin]).await?) }
    });
    let outcomes: Vec<Begun> = race(tasks.collect()).await?.concat();
    assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, Begun::Acquired { .. })).count(), 1);
    assert_eq!(
        outcomes.iter().filter(|outcome| matches!(outcome, Begun::Busy { .. })).count(),
        outcomes.len() - 1
    );
    Ok(())
}

/// Of several workers that claim one message, exactly one gets it.
/// Holds: IBX-030, IBX-105, IBX-106, CMD-20.
/// Replays I-T10.
pub async fn one_of_many_workers_gets_a_message(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let tasks = (1..=RACERS).map(|number| {
        let store = fixture.store.clone();
        async move { Ok(store.claim(&Claim { owner: owner(number), ..claim(1) }).await?) }
    });
    assert_eq!(race(tasks.collect()).await?.concat().len(), 1);
    Ok(())
}

/// Two workers with batches of four share eight messages: all of them, none twice, each under its own lease.
/// Holds: IBX-039, IBX-105, IBX-106, CMD-20.
/// Replays L-T46.
pub async fn two_workers_share_the_work(fixture: Fixture) -> TestResult {
    fixture.accept_all(&["1", "2", "3", "4", "5", "6", "7", "8"].map(message)).await?;
    let tasks = [1, 2].map(|number| {
        let store = fixture.store.clone();
        async move { Ok(store.claim(&Claim { owner: owner(number), ..claim(4) }).await?) }
    });
    let batches = race(tasks.into()).await?;
    for (batch, number) in batches.iter().zip([1, 2]) {
        assert_eq!(batch.len(), 4);
        assert!(batch.iter().all(|delivery| delivery.lease.owner == owner(number)));
    }
    let uids: BTreeSet<Uid> = batches.concat().iter().map(|delivery| delivery.uid).collect();
    assert_eq!(uids.len(), 8);
    Ok(())
}

/// Many workers empty a store together: every message is processed once, and every acknowledgement takes effect.
/// Holds: IBX-105, IBX-106, CMD-20.
/// Replays I-T36.
pub async fn many_workers_handle_each_message_once(fixture: Fixture) -> TestResult {
    for number in 0..100 {
        fixture.accept(&message(&number.to_string()).shard(number % 4)).await?;
    }
    let tasks = (1..=8).map(|number| {
        let store = fixture.store.clone();
        async move {
            let mut handled = Vec::new();
            loop {
                let deliveries = store.claim(&Claim { owner: owner(number), ..claim(3) }).await?;
                if deliveries.is_empty() {
                    return Ok(handled);
                }
                let acks: Vec<_> = deliveries.iter().map(Delivery::ack).collect();
                assert!(store.settle(&acks).await?.iter().all(|settled| *settled == Settled::Done));
                handled.extend(deliveries.into_iter().map(|delivery| delivery.uid));
            }
        }
    });
    let handled: Vec<Uid> = race(tasks.collect()).await?.concat();
    assert_eq!((handled.len(), handled.into_iter().collect::<BTreeSet<_>>().len()), (100, 100));
    Ok(())
}

/// The state that the workers of one partition share.
#[derive(Default)]
struct Shared {
    in_flight: AtomicUsize,
    handled: Mutex<Vec<Number>>,
    /// A worker has failed: no other worker waits for the messages that it holds.
    failed: AtomicBool,
}

impl Shared {
    fn handled(&self) -> MutexGuard<'_, Vec<Number>> {
        self.handled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn handle(&self, store: Arc<dyn Store>, claim: Claim, messages: usize) -> TestResult {
        while self.handled().len() < messages && !self.failed.load(Ordering::SeqCst) {
            for delivery in store.claim(&claim).await? {
                if self.in_flight.fetch_add(1, Ordering::SeqCst) > 0 {
                    return Err("two messages of one partition are in flight".into());
                }
                self.handled().push(delivery.number);
                self.in_flight.fetch_sub(1, Ordering::SeqCst);
                store.settle(&[delivery.ack()]).await?;
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

/// However many workers there are, a partition's messages are processed one at a time and in order.
/// Holds: RULE-11, RULE-23.
pub async fn many_workers_keep_a_partition_in_order(fixture: Fixture) -> TestResult {
    for number in 0..40 {
        fixture.accept(&message(&number.to_string()).partition("p").shard(number % 3)).await?;
    }
    let shared = Arc::new(Shared::default());
    let tasks = (1..=6).map(|number| {
        let (store, shared, claim) = (fixture.store.clone(), shared.clone(), claim(5));
        async move {
            let outcome = shared.handle(store, Claim { owner: owner(number), ..claim }, 40).await;
            shared.failed.fetch_or(outcome.is_err(), Ordering::SeqCst);
            outcome
        }
    });
    race(tasks.collect()).await?;
    let handled = shared.handled();
    assert!(handled.len() == 40 && handled.is_sorted(), "{handled:?}");
    Ok(())
}

/// An acknowledgement at the end of its lease takes effect, or the message is taken over; never both. A takeover may
/// skip a message that a late acknowledgement has locked; then the next claim gets it, so one of the two always
/// happens.
/// Holds: CMD-20, MBX-G-3, MBX-I-3, RULE-05.
pub async fn an_ack_and_a_takeover_exclude_each_other(fixture: Fixture) -> TestResult {
    for round in 0..20 {
        fixture.accept(&message(&round.to_string())).await?;
        let delivery = fixture.claim_one().await?;
        let (worker, rival, time) = (fixture.store.clone(), fixture.store.clone(), fixture.time.clone());
        let ack = delivery.ack();
        let tasks: Vec<Task<bool>> = vec![
            Box::pin(async move { Ok(worker.settle(&[ack]).await? == [Settled::Done]) }),
            Box::pin(async move {
                time.advance(LEASE).await;
                let taken = rival.claim(&Claim { owner: owner(2), ..claim(1) }).await?;
                Ok(!taken.is_empty() && rival.settle(&[taken[0].ack()]).await? == [Settled::Done])
            }),
        ];
        let outcomes = race(tasks).await?;
        let ended = outcomes.iter().filter(|ended| **ended).count();
        assert!(ended <= 1, "acknowledged and taken over: {outcomes:?}");
        let left = fixture.claim(&Claim { owner: owner(2), ..claim(1) }).await?;
        assert_eq!(left.len(), 1 - ended, "{outcomes:?}, and then {left:?}");
        for delivery in left {
            assert_eq!(fixture.settle(delivery.ack()).await?, Settled::Done);
        }
    }
    Ok(())
}

/// A claim and its concurrent repeat get the same deliveries.
/// Holds: RULE-06.
pub async fn a_claim_and_its_concurrent_repeat_get_the_same_deliveries(fixture: Fixture) -> TestResult {
    fixture.accept_all(&["1", "2", "3", "4", "5", "6"].map(message)).await?;
    let request = Claim { request: Some(RequestId::from_u128(5)), ..claim(2) };
    let tasks = (0..4).map(|_| {
        let (store, request) = (fixture.store.clone(), request.clone());
        async move { Ok(store.claim(&request).await?) }
    });
    let outcomes = race(tasks.collect()).await?;
    assert!(outcomes.iter().all(|outcome| outcome.len() == 2 && *outcome == outcomes[0]), "{outcomes:?}");
    Ok(())
}

/// Calls that name the same keys in opposite orders do not deadlock; each key is new once.
/// Holds: IBX-104, IBX-105, RULE-13.
pub async fn opposite_orders_of_keys_do_not_deadlock(fixture: Fixture) -> TestResult {
    let forward: Vec<_> = (0..50).map(|number| message(&number.to_string())).collect();
    let backward: Vec<_> = forward.iter().rev().cloned().collect();
    let tasks = (0..8).map(|number| {
        let messages = if number % 2 == 0 { forward.clone() } else { backward.clone() };
        let store = fixture.store.clone();
        async move {
            for _ in 0..1_000 {
                match store.accept(&messages).await {
                    Err(error) if error.is_retryable() => tokio::task::yield_now().await,
                    outcome => return Ok(outcome?),
                }
            }
            Err("the keys stay blocked".into())
        }
    });
    let outcomes: Vec<Accepted> = race(tasks.collect()).await?.concat();
    assert!(outcomes.iter().filter(|outcome| matches!(outcome, Accepted::New { .. })).count() <= 50);
    let uids: BTreeSet<_> =
        outcomes.iter().filter_map(|outcome| outcome.summary().map(|summary| summary.uid)).collect();
    assert_eq!(uids.len(), 50);
    Ok(())
}

/// If calls are atomic, no reader sees half of one.
/// Holds: IBX-102, RULE-13.
pub async fn no_reader_sees_half_a_call(fixture: Fixture) -> TestResult {
    if !fixture.store.capabilities().atomic_calls {
        return Ok(());
    }
    let pairs: Vec<_> = (0..40).map(|number| [format!("{number} a"), format!("{number} b")]).collect();
    let (writer, reader, read) = (fixture.store.clone(), fixture.store.clone(), pairs.clone());
    let written = Arc::new(AtomicBool::new(false));
    let done = written.clone();
    let tasks: Vec<Task<()>> = vec![
        Box::pin(async move {
            let mut outcome = Ok(());
            for [first, second] in pairs {
                outcome = outcome.and(writer.accept(&[message(&first), message(&second)]).await.map(drop));
            }
            written.store(true, Ordering::SeqCst);
            Ok(outcome?)
        }),
        Box::pin(async move {
            for [first, second] in read {
                loop {
                    let all_written = done.load(Ordering::SeqCst);
                    if reader.get_one(&key(&first).into()).await?.is_some() {
                        break;
                    }
                    if all_written {
                        return Err("a call was lost".into());
                    }
                    tokio::task::yield_now().await;
                }
                assert!(reader.get_one(&key(&second).into()).await?.is_some(), "half of a call is visible");
            }
            Ok(())
        }),
    ];
    race(tasks).await?;
    Ok(())
}
