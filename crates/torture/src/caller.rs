//! A caller: makes one call after another on its own messages, and emits a trace line before and after each.

mod calls;
mod orders;

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oncebox_core::{
    Budget, Divergence, Hold, Id, Keep, Key, Namespace, NewMessage, Omitted, Owner, Payload, Policy, Rng,
    Snapshot, Source, Store, Topic, Uid,
};
use oncebox_store_embedded::EmbeddedStore;
use oncebox_testkit::SplitMix;

use crate::Failure;
use crate::held::{Held, KnownMessage, Messages};
use crate::trace::emit;

/// Long enough that no lease expires during a campaign.
pub(crate) const LEASE: Duration = Duration::from_secs(3 * 24 * 60 * 60);

/// Maximum number of messages kept per group; older ones are erased.
const RETAINED_MAX: usize = 100;
/// Number of leased and ready messages above which the caller accepts no new ones.
const OPEN_MAX: usize = 150;
/// Transient messages that a caller accepts per process: they stay for ten minutes.
const TRANSIENT_MAX: u64 = 3;
/// Budget of a maintenance call.
const MAINTENANCE_ITEMS: u32 = 1_000;

pub(crate) struct Caller<'a> {
    store: &'a EmbeddedStore,
    /// Call counter, shared by all callers.
    calls: &'a AtomicU64,
    rng: SplitMix,
    /// Unique to this caller; the source of its keys and its topic.
    source: String,
    run: u64,
    keys: u64,
    transient: u64,
    /// Estimated number of ready messages.
    ready: usize,
    messages: Messages,
    /// The latest settlements, to be repeated.
    settled: Vec<(Held, &'static str)>,
}

impl<'a> Caller<'a> {
    pub(crate) fn new(store: &'a EmbeddedStore, calls: &'a AtomicU64, seed: u64, number: u64) -> Self {
        Self {
            store,
            calls,
            rng: SplitMix::new(seed.wrapping_add(number.wrapping_mul(0x9E37_79B9))),
            source: format!("c{number}"),
            run: seed,
            keys: 0,
            transient: 0,
            ready: 0,
            messages: Messages::default(),
            settled: Vec::new(),
        }
    }

    /// Takes over a message of its source that an earlier process left in the store.
    pub(crate) fn adopt(&mut self, message: &Snapshot<Omitted>) {
        if message.key.source.as_str() == self.source {
            self.messages.adopt(message);
        }
    }

    /// Makes calls until one fails.
    pub(crate) async fn run(mut self) -> Result<Infallible, Failure> {
        loop {
            let full = self.messages.held.len() + self.ready > OPEN_MAX;
            match self.rng.below(100) {
                _ if self.messages.largest_group() > RETAINED_MAX => self.erase_old().await?,
                0..25 if !full => self.accept().await?,
                25..33 => self.begin().await?,
                33..40 => self.extend().await?,
                40..55 => self.operate().await?,
                55..57 => self.maintain().await?,
                _ => self.work().await?,
            }
        }
    }

    /// Emits a call, and returns its id for the answer.
    fn call(&self, request: &str) -> u64 {
        let id = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        emit(format!("call {id} {request}"));
        id
    }

    fn answer(id: u64, outcomes: &[String]) {
        emit(format!("answer {id} {}", outcomes.join(" ")));
    }

    async fn maintain(&self) -> Result<(), Failure> {
        let id = self.call("maintain");
        self.store.maintain(Budget::new(MAINTENANCE_ITEMS)).await?;
        Self::answer(id, &[]);
        Ok(())
    }

    /// An owner that is unique to this call.
    fn owner(&mut self) -> Result<Owner, Failure> {
        Ok(Owner::new(u128::from(self.rng.next_u64()) << 64 | u128::from(self.run | 1))?)
    }

    fn new_key(&mut self, namespace: Namespace, suffix: &str) -> Result<Key, Failure> {
        self.keys += 1;
        let id = format!("{:x}-{}{suffix}", self.run, self.keys);
        Ok(Key::new(namespace, Source::new(self.source.clone())?, Id::new(id)?))
    }

    /// A message with random content.
    fn message(&mut self, known: &KnownMessage) -> Result<NewMessage, Failure> {
        let longest = match self.rng.below(100) {
            0 => 100_000,
            1..20 => 4_000,
            _ => 200,
        };
        let count = usize::try_from(self.rng.below(longest))?;
        let start = self.rng.next_u64().to_le_bytes();
        let bytes: Vec<u8> = start.into_iter().cycle().take(count).collect();
        let topic = Topic::new(self.source.clone())?;
        let mut message = NewMessage::new(known.key.clone(), topic, Payload::new(bytes)?);
        let hold = Hold {
            window: Duration::ZERO,
            keep: if known.is_transient() { Keep::Window } else { Keep::After(Duration::from_secs(86_400)) },
        };
        message.policy = Policy { hold, divergence: Divergence::KeepFirst, ..Policy::INBOX };
        message.uid = Some(known.uid);
        Ok(message)
    }

    fn uid(&mut self) -> Uid {
        Uid::from_u128(u128::from(self.rng.next_u64()) << 64 | u128::from(self.rng.next_u64()))
    }
}
