//! `pg-work`: claims, extends, settles, repeats and forgets, until it is killed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Batch, Budget, Claim, Error, Extended, Extension, Fence, Namespace, Owner, RequestId, Rng, Settlement,
    Span, Topic, Topics, Uid, Worked,
};
use oncebox_testkit::SplitMix;
use tokio::time::sleep;

use super::door::{Calls, Door};
use super::log::Log;
use super::mail::TOPICS;
use super::run_process;
use super::words::{delivery, settlement};
use crate::clock::now;
use crate::{Failure, say};

/// Callers in one process, and in one whose calls are merged: the third and the fourth wait for each other.
const LANES: u64 = 2;
const LANES_MERGED: u64 = 4;
/// Deliveries that a caller holds, at most.
const HELD_MAX: usize = 48;
const CLAIM_MAX: u64 = 24;
/// The shortest lease; the longest is four times as long.
const LEASE_MS: u64 = 600;
/// How often a call without an answer is repeated.
const REPEATS_MAX: u64 = 5;
/// The last settlements are kept, to be repeated.
const SETTLED_MAX: usize = 16;
const UPKEEP_ITEMS: u32 = 1_000;
/// So long after the end of its lease a delivery is settled by a worker that lies.
const STALE_MS: u64 = 700;

/// A worker: from which seed, where it writes what it does, and whether it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Worker {
    pub(crate) urls: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) seed: u64,
    /// Acknowledges what it has lost, and writes down that it counts: the judge must notice.
    pub(crate) lies: bool,
}

pub(crate) fn run(worker: &Worker) -> Result<(), Failure> {
    run_process(async {
        let (calls, count) = if worker.seed.is_multiple_of(2) {
            (Calls::Merged, LANES_MERGED)
        } else {
            (Calls::Single, LANES)
        };
        let door = Arc::new(Door::open(&worker.urls, calls)?);
        let log = Arc::new(Log::create(&worker.log)?);
        let mut lanes = Vec::new();
        for number in 0..count {
            let mut rng = SplitMix::new(worker.seed.wrapping_add(number.wrapping_mul(0x9E37_79B9)));
            let owner = Owner::new(u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64() | 1))?;
            let (door, log, lies) = (door.clone(), log.clone(), worker.lies);
            let lane = Lane {
                door,
                log,
                rng,
                owner,
                held: Vec::new(),
                settled: Vec::new(),
                stale: Vec::new(),
                lies,
            };
            lanes.push(tokio::spawn(lane.run()));
        }
        for lane in lanes {
            lane.await??;
        }
        Ok(())
    })
}

/// A delivery in hand.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) key: String,
    pub(super) uid: Uid,
    pub(super) fence: Fence,
    pub(super) until: u64,
    /// What was asked for it without an answer.
    pub(super) verdict: Option<&'static str>,
}

/// One caller: one call after another.
struct Lane {
    door: Arc<Door>,
    log: Arc<Log>,
    rng: SplitMix,
    owner: Owner,
    held: Vec<Held>,
    settled: Vec<Held>,
    stale: Vec<Held>,
    lies: bool,
}

/// One call of `work`, to be made again if no answer comes.
struct Round {
    settled: Vec<Held>,
    settlements: Vec<Settlement>,
    claims: Vec<Claim>,
    words: String,
}

impl Lane {
    async fn run(mut self) -> Result<(), Failure> {
        loop {
            match self.rng.below(100) {
                0..12 if self.lies => self.forget(),
                0..12 => self.extend().await?,
                12..15 => self.forget(),
                15..19 => self.repeat().await?,
                19..21 => self.upkeep().await?,
                _ => self.work().await?,
            }
            if self.rng.below(4) == 0 {
                sleep(Duration::from_millis(self.rng.below(10))).await;
            }
            self.lie().await?;
        }
    }

    /// Settles some of what is held, and claims some.
    async fn work(&mut self) -> Result<(), Failure> {
        let mut settled = Vec::new();
        for mut held in std::mem::take(&mut self.held) {
            if self.rng.below(10) < 6 {
                let verdict = held.verdict.filter(|_| self.rng.below(10) < 8);
                held.verdict = Some(verdict.unwrap_or_else(|| self.verdict()));
                settled.push(held);
            } else {
                self.held.push(held);
            }
        }
        let wants = self.held.len() < HELD_MAX && self.rng.below(10) < 8;
        let count = if wants { 1 + self.rng.below(CLAIM_MAX) } else { 0 };
        let claims = if wants { vec![self.claim(count)?] } else { Vec::new() };
        let round = self.round(settled, claims, count)?;
        if round.settled.is_empty() && !wants {
            return Ok(());
        }
        let came = self.carry_out(round).await?;
        if came == 0 && self.held.is_empty() {
            sleep(Duration::from_millis(10 + self.rng.below(30))).await;
        }
        Ok(())
    }

    /// Settles once more what was settled before.
    async fn repeat(&mut self) -> Result<(), Failure> {
        let count = self.settled.len() as u64;
        if count == 0 {
            return Ok(());
        }
        let held = self.settled.swap_remove(usize::try_from(self.rng.below(count))?);
        let round = self.round(vec![held], Vec::new(), 0)?;
        self.carry_out(round).await.map(drop)
    }

    fn verdict(&mut self) -> &'static str {
        match self.rng.below(100) {
            0..75 => "ack",
            75..85 => "abandon",
            85..93 => "release",
            _ => "fail",
        }
    }

    fn lease(&mut self) -> Result<Span, Failure> {
        Ok(Span::lease(Duration::from_millis(LEASE_MS + self.rng.below(3 * LEASE_MS)))?)
    }

    fn claim(&mut self, count: u64) -> Result<Claim, Failure> {
        let batch = Batch::new(u32::try_from(count)?)?;
        let mut claim = Claim::new(Namespace::Inbox, self.owner, self.lease()?, batch);
        if self.rng.below(3) == 0 {
            let topic = TOPICS[usize::try_from(self.rng.below(3))?];
            claim.topics = Topics::only([Topic::new(topic)?])?;
        }
        if self.rng.below(2) == 0 {
            claim.request = Some(RequestId::from_u128(u128::from(self.rng.next_u64()) << 64 | 1));
        }
        Ok(claim)
    }

    fn round(&mut self, settled: Vec<Held>, claims: Vec<Claim>, count: u64) -> Result<Round, Failure> {
        let mut words = vec![format!("work {:x} {count}", self.owner.as_u128())];
        let mut settlements = Vec::new();
        for held in &settled {
            let verdict = held.verdict.unwrap_or("ack");
            words.push(format!("{verdict},{},{}", held.key, held.fence.get()));
            let delay = Duration::from_millis(1 + self.rng.below(150));
            settlements.push(settlement(held, self.owner, verdict, delay)?);
        }
        Ok(Round { settled, settlements, claims, words: words.join(" ") })
    }

    /// Makes a call, more than once if no answer comes; tells how many deliveries came.
    async fn carry_out(&mut self, round: Round) -> Result<usize, Failure> {
        for _ in 0..=self.rng.below(REPEATS_MAX) {
            let id = self.log.ask(&round.words)?;
            match self.door.store().work(&round.settlements, &round.claims).await {
                Ok(worked) => return self.worked(id, round, worked),
                Err(error) => self.failed(id, error).await?,
            }
        }
        // Nobody knows; they are settled again in another call.
        self.held.extend(round.settled);
        Ok(0)
    }

    fn worked(&mut self, id: u64, round: Round, worked: Worked) -> Result<usize, Failure> {
        let deliveries: Vec<_> = worked.deliveries.into_iter().flatten().collect();
        let settled = worked.settled.iter().map(|outcome| say::settled(*outcome).to_owned());
        let told: Vec<_> = settled.chain(deliveries.iter().map(delivery)).collect();
        self.log.got(id, &told)?;
        self.settled.extend(round.settled);
        self.settled.drain(..self.settled.len().saturating_sub(SETTLED_MAX));
        for delivery in &deliveries {
            let (key, uid) = (delivery.key.id.as_str().to_owned(), delivery.uid);
            let (fence, until) = (delivery.lease.fence, delivery.lease.until.as_millis());
            // A claim that was repeated may bring what is held already.
            self.held.retain(|held| held.fence != fence);
            self.held.push(Held { key, uid, fence, until, verdict: None });
        }
        Ok(deliveries.len())
    }

    async fn extend(&mut self) -> Result<(), Failure> {
        let lease = self.lease()?;
        let extended: Vec<_> = self.held.iter().filter(|_| self.rng.below(2) == 0).cloned().collect();
        if extended.is_empty() {
            return Ok(());
        }
        let owner = self.owner;
        let mut words = vec![format!("extend {:x}", owner.as_u128())];
        words.extend(extended.iter().map(|held| format!("{},{}", held.key, held.fence.get())));
        let extension = |held: &Held| Extension { uid: held.uid, owner, fence: held.fence, lease };
        let extensions: Vec<_> = extended.iter().map(extension).collect();
        let id = self.log.ask(&words.join(" "))?;
        match self.door.store().extend(&extensions).await {
            Ok(outcomes) => {
                let told = |outcome: &Extended| match outcome {
                    Extended::Until(until) => format!("until,{}", until.as_millis()),
                    Extended::LeaseLost => "lost".to_owned(),
                };
                Ok(self.log.got(id, &outcomes.iter().map(told).collect::<Vec<_>>())?)
            }
            Err(error) => self.failed(id, error).await,
        }
    }

    /// Leaves a delivery to its end.
    fn forget(&mut self) {
        let forgotten = self.held.pop();
        if self.lies {
            self.stale.extend(forgotten);
        }
    }

    /// Acknowledges what it has lost, and writes down what it likes.
    async fn lie(&mut self) -> Result<(), Failure> {
        let Some(place) = self.stale.iter().position(|held| held.until + STALE_MS < now()) else {
            return Ok(());
        };
        let held = Held { verdict: Some("ack"), ..self.stale.swap_remove(place) };
        let round = self.round(vec![held], Vec::new(), 0)?;
        let id = self.log.ask(&round.words)?;
        match self.door.store().work(&round.settlements, &[]).await {
            Ok(_) => Ok(self.log.got(id, &["done".to_owned()])?),
            Err(error) => self.failed(id, error).await,
        }
    }

    async fn upkeep(&self) -> Result<(), Failure> {
        match self.door.store().upkeep(Budget::new(UPKEEP_ITEMS)).await {
            Err(error) if !error.is_retryable() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// No answer came. Most failures heal; the others end the process, and so the campaign.
    async fn failed(&mut self, id: u64, error: Error) -> Result<(), Failure> {
        if !error.is_retryable() {
            return Err(error.into());
        }
        self.log.none(id)?;
        self.door.look_again()?;
        sleep(Duration::from_millis(self.rng.below(50))).await;
        Ok(())
    }
}
