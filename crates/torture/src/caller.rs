//! One caller: one call after another on messages of its own, each told before and after.

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
use crate::held::{Held, Known, Messages};
use crate::say::say;

/// Messages of a kind that are kept; older ones are erased.
const KEPT_MAX: usize = 100;
/// Messages under leases and ready ones, above which none are taken in.
const OPEN_MAX: usize = 150;
/// Loose messages that one process takes in per caller: they stay for ten minutes.
const LOOSE_MAX: u64 = 3;
/// What an upkeep may do.
const UPKEEP_ITEMS: u32 = 1_000;

pub(crate) struct Caller<'a> {
    store: &'a EmbeddedStore,
    /// The calls of all callers are counted together.
    calls: &'a AtomicU64,
    rng: SplitMix,
    /// The caller's own, in keys and as topic.
    source: String,
    run: u64,
    keys: u64,
    loose: u64,
    /// About how many messages are ready.
    ready: usize,
    messages: Messages,
    /// The last settlements, for repeats.
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
            loose: 0,
            ready: 0,
            messages: Messages::default(),
            settled: Vec::new(),
        }
    }

    /// Takes over a message of its source that an earlier process left.
    pub(crate) fn adopt(&mut self, message: &Snapshot<Omitted>) {
        if message.key.source.as_str() == self.source {
            self.messages.adopt(message);
        }
    }

    /// Works until a call fails.
    pub(crate) async fn run(mut self) -> Result<Infallible, Failure> {
        loop {
            let full = self.messages.held.len() + self.ready > OPEN_MAX;
            match self.rng.below(100) {
                _ if self.messages.longest() > KEPT_MAX => self.erase_old().await?,
                0..25 if !full => self.accept().await?,
                25..33 => self.begin().await?,
                33..40 => self.extend().await?,
                40..55 => self.operate().await?,
                55..57 => self.upkeep().await?,
                _ => self.work().await?,
            }
        }
    }

    /// Tells a call, and returns the number to answer it under.
    fn call(&self, words: &str) -> u64 {
        let id = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        say(format!("call {id} {words}"));
        id
    }

    fn answer(id: u64, outcomes: &[String]) {
        say(format!("answer {id} {}", outcomes.join(" ")));
    }

    async fn upkeep(&self) -> Result<(), Failure> {
        let id = self.call("upkeep");
        self.store.upkeep(Budget::new(UPKEEP_ITEMS)).await?;
        Self::answer(id, &[]);
        Ok(())
    }

    /// An owner that no other call has.
    fn owner(&mut self) -> Result<Owner, Failure> {
        Ok(Owner::new(u128::from(self.rng.next_u64()) << 64 | u128::from(self.run | 1))?)
    }

    fn new_key(&mut self, namespace: Namespace, ending: &str) -> Result<Key, Failure> {
        self.keys += 1;
        let id = format!("{:x}-{}{ending}", self.run, self.keys);
        Ok(Key::new(namespace, Source::new(self.source.clone())?, Id::new(id)?))
    }

    /// A message with random content.
    fn message(&mut self, known: &Known) -> Result<NewMessage, Failure> {
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
            keep: if known.is_loose() { Keep::Window } else { Keep::After(Duration::from_secs(86_400)) },
        };
        message.policy = Policy { hold, divergence: Divergence::KeepFirst, ..Policy::INBOX };
        message.uid = Some(known.uid);
        Ok(message)
    }

    fn uid(&mut self) -> Uid {
        Uid::from_u128(u128::from(self.rng.next_u64()) << 64 | u128::from(self.rng.next_u64()))
    }
}
