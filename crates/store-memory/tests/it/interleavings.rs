//! Concurrent RECV, ACK and SEND, in every order in which threads can acquire the locks of the store and of its
//! notifier. `cargo xtask loom` runs it: loom tries all interleavings, and reports deadlocks and lost wake-ups.

use std::sync::Arc;
use std::time::Duration;

use loom::future::block_on;
use loom::thread::{self, JoinHandle};
use oncebox_core::{
    Batch, Claim, Delivery, Id, Interest, Key, Namespace, NewMessage, Owner, Partition, Payload, Settled,
    Source, Span, Store, StoreExt, Topic, Topics,
};
use oncebox_store_memory::{MemoryOptions, MemoryStore};
use oncebox_testkit::{ManualClock, SplitMix};

const LEASE: Duration = Duration::from_secs(30);

/// The stack size of a thread, in words: a debug build of the machine needs more than loom's default.
const STACK_WORDS: usize = 0x1_0000;

fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::Builder::new().stack_size(STACK_WORDS).spawn(run).unwrap()
}

/// Tries every interleaving of a model. It runs in a thread of its own, because the first thread has the default stack.
fn model(run: fn()) {
    loom::model(move || spawn(run).join().unwrap());
}

/// A store that is shared by threads.
#[derive(Clone)]
struct Shared {
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
}

impl Shared {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let ids = Box::new(SplitMix::new(1));
        let store = MemoryStore::with(MemoryOptions::default(), clock.clone(), ids);
        Self { store: Arc::new(store), clock }
    }

    /// Spawns a thread that uses the store.
    fn spawn<T: Send + 'static>(&self, run: impl FnOnce(Self) -> T + Send + 'static) -> JoinHandle<T> {
        let shared = self.clone();
        spawn(move || run(shared))
    }

    fn send(&self, message: &NewMessage) {
        let accepted = block_on(self.store.accept_one(message)).unwrap();
        assert!(accepted.summary().is_some());
    }

    fn receive(&self, owner: u128) -> Option<Delivery> {
        block_on(self.store.claim(&claim(owner))).unwrap().pop()
    }

    /// Listens, claims, and waits if nothing was claimable, as a long poll does.
    fn receive_or_wait(&self, owner: u128) -> Delivery {
        let interest = Interest { namespace: Namespace::Mailbox, topics: topics() };
        let mut wakeups = self.store.wakeups(interest);
        loop {
            if let Some(delivery) = self.receive(owner) {
                return delivery;
            }
            block_on(wakeups.wait());
        }
    }

    fn ack(&self, delivery: &Delivery) -> Settled {
        block_on(self.store.settle(&[delivery.ack()])).unwrap()[0]
    }
}

fn topics() -> Topics {
    Topics::only([Topic::new("t").unwrap()]).unwrap()
}

fn claim(owner: u128) -> Claim {
    let (lease, batch) = (Span::lease(LEASE).unwrap(), Batch::new(1).unwrap());
    let mut claim = Claim::new(Namespace::Mailbox, Owner::new(owner).unwrap(), lease, batch);
    claim.topics = topics();
    claim
}

fn message(id: &str) -> NewMessage {
    let key = Key::new(Namespace::Mailbox, Source::new("t").unwrap(), Id::new(id).unwrap());
    NewMessage::new(key, Topic::new("t").unwrap(), Payload::new("x").unwrap())
}

/// Two receivers never get the same message, and the ack of the one that got it is final.
/// Holds: MBX-G-3.
#[test]
fn one_of_two_receivers_gets_a_message_and_its_ack_is_final() {
    model(|| {
        let shared = Shared::new();
        shared.send(&message("1"));
        let take = |shared: Shared, owner| {
            let delivery = shared.receive(owner)?;
            assert_eq!(shared.ack(&delivery), Settled::Done);
            Some(delivery.uid)
        };
        let other = shared.spawn(move |shared| take(shared, 2));
        let got = [take(shared.clone(), 1), other.join().unwrap()];
        assert_eq!(got.iter().flatten().count(), 1, "{got:?}");
        shared.clock.advance(LEASE);
        assert!(shared.receive(3).is_none(), "an acknowledged message was redelivered");
    });
}

/// At the end of a lease, either the ack takes effect or the message is redelivered: never both, never neither.
/// Holds: MBX-G-3.
#[test]
fn an_ack_and_a_takeover_exclude_each_other() {
    model(|| {
        let shared = Shared::new();
        shared.send(&message("1"));
        let delivery = shared.receive(1).unwrap();
        let taken = shared.spawn(|shared| {
            shared.clock.advance(LEASE);
            shared.receive(2)
        });
        let settled = shared.ack(&delivery);
        match taken.join().unwrap() {
            None => assert_eq!(settled, Settled::Done),
            Some(again) => {
                assert_eq!((settled, again.uid), (Settled::LeaseLost, delivery.uid));
                assert_eq!(shared.ack(&again), Settled::Done);
            }
        }
    });
}

/// Two concurrent repeats of an ack take effect once and have the same outcome.
/// Holds: MBX-G-3.
#[test]
fn concurrent_repeats_of_an_ack_have_the_same_outcome() {
    model(|| {
        let shared = Shared::new();
        shared.send(&message("1"));
        let delivery = shared.receive(1).unwrap();
        let repeat = delivery.clone();
        let other = shared.spawn(move |shared| shared.ack(&repeat));
        assert_eq!([shared.ack(&delivery), other.join().unwrap()], [Settled::Done; 2]);
        assert!(shared.receive(2).is_none());
    });
}

/// A message that is sent while a receiver claims, listens or waits reaches it: no wake-up is lost.
/// Holds: MBX-G-3.
#[test]
fn a_waiting_receiver_is_woken_by_a_send() {
    model(|| {
        let shared = Shared::new();
        let waiting = shared.spawn(|shared| shared.receive_or_wait(1));
        shared.send(&message("1"));
        let delivery = waiting.join().unwrap();
        assert_eq!(shared.ack(&delivery), Settled::Done);
    });
}

/// Two waiting receivers and two messages sent one after the other: each receiver gets one.
/// Three threads have too many interleavings to try all; those with up to two preemptions are tried.
/// Holds: MBX-G-3.
#[test]
fn two_waiting_receivers_get_a_message_each() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    let run = || {
        let shared = Shared::new();
        let other = shared.spawn(|shared| shared.receive_or_wait(1).uid);
        let sender = shared.spawn(|shared| ["1", "2"].iter().for_each(|id| shared.send(&message(id))));
        let own = shared.receive_or_wait(2).uid;
        assert_ne!(own, other.join().unwrap());
        sender.join().unwrap();
    };
    builder.check(move || spawn(run).join().unwrap());
}

/// The ack that frees a partition wakes the receiver that waits for its next message.
/// Holds: MBX-G-3.
#[test]
fn a_waiting_receiver_is_woken_by_the_ack_that_frees_its_partition() {
    model(|| {
        let shared = Shared::new();
        for id in ["1", "2"] {
            let mut message = message(id);
            message.content.partition = Some(Partition::new("p").unwrap());
            shared.send(&message);
        }
        let first = shared.receive(1).unwrap();
        let waiting = shared.spawn(|shared| shared.receive_or_wait(2));
        assert_eq!(shared.ack(&first), Settled::Done);
        assert_ne!(waiting.join().unwrap().uid, first.uid);
    });
}

/// Closing the store wakes a waiting receiver, and its next call fails with `Closed`.
/// Holds: MBX-G-3.
#[test]
fn closing_ends_every_wait() {
    model(|| {
        let shared = Shared::new();
        let waiting = shared.spawn(|shared| {
            let interest = Interest { namespace: Namespace::Mailbox, topics: topics() };
            let mut wakeups = shared.store.wakeups(interest);
            if block_on(shared.store.claim(&claim(1))).is_ok() {
                block_on(wakeups.wait());
            }
            block_on(shared.store.claim(&claim(1))).unwrap_err().kind()
        });
        block_on(shared.store.close()).unwrap();
        assert_eq!(waiting.join().unwrap(), oncebox_core::ErrorKind::Closed);
    });
}
