//! `pg-work`: claims, extends and settles messages, repeats settlements and lets leases lapse, until killed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Batch, Budget, Claim, Error, Extended, Extension, Namespace, Owner, RequestId, Rng, Settlement, Span,
    Topic, Topics, Worked,
};
use oncebox_testkit::SplitMix;
use tokio::time::sleep;

use super::held::Held;
use super::log::Log;
use super::message::TOPICS;
use super::protocol::{delivery, settlement};
use super::run_process;
use super::store_handle::{CallMode, StoreHandle};
use crate::clock::now;
use crate::{Failure, trace};

/// Callers in a process with single calls, and in one with coalesced calls: enough that some calls share a batch.
const CALLERS: u64 = 2;
const CALLERS_COALESCED: u64 = 4;
/// Maximum number of deliveries that a caller holds.
const HELD_MAX: usize = 48;
const CLAIM_MAX: u64 = 24;
/// The shortest lease; the longest is four times this.
const LEASE_MS: u64 = 600;
/// Maximum number of repeats of a call without an answer.
const REPEATS_MAX: u64 = 5;
/// Number of latest settlements kept for repeats.
const SETTLED_MAX: usize = 16;
const MAINTENANCE_ITEMS: u32 = 1_000;
/// A worker with `fake_acks` settles a delivery this long after its lease ended.
const STALE_MS: u64 = 700;

/// The arguments of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Worker {
    pub(crate) url_file: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) seed: u64,
    /// Acknowledges under lost leases and logs a success, which the auditor must detect.
    pub(crate) fake_acks: bool,
}

pub(crate) fn run(worker: &Worker) -> Result<(), Failure> {
    run_process(async {
        let (mode, count) = if worker.seed.is_multiple_of(2) {
            (CallMode::Coalesced, CALLERS_COALESCED)
        } else {
            (CallMode::Single, CALLERS)
        };
        let handle = Arc::new(StoreHandle::open(&worker.url_file, mode)?);
        let log = Arc::new(Log::create(&worker.log)?);
        let mut loops = Vec::new();
        for number in 0..count {
            let mut rng = SplitMix::new(worker.seed.wrapping_add(number.wrapping_mul(0x9E37_79B9)));
            let owner = Owner::new(u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64() | 1))?;
            let (handle, log, fake_acks) = (handle.clone(), log.clone(), worker.fake_acks);
            let work_loop = WorkLoop {
                handle,
                log,
                rng,
                owner,
                held: Vec::new(),
                settled: Vec::new(),
                stale: Vec::new(),
                fake_acks,
            };
            loops.push(tokio::spawn(work_loop.run()));
        }
        for work_loop in loops {
            work_loop.await??;
        }
        Ok(())
    })
}

/// A caller, which makes one call after another.
struct WorkLoop {
    handle: Arc<StoreHandle>,
    log: Arc<Log>,
    rng: SplitMix,
    owner: Owner,
    held: Vec<Held>,
    settled: Vec<Held>,
    stale: Vec<Held>,
    fake_acks: bool,
}

/// A call of `work`, repeated if no answer comes.
struct WorkCall {
    settled: Vec<Held>,
    settlements: Vec<Settlement>,
    claims: Vec<Claim>,
    request: String,
}

impl WorkLoop {
    async fn run(mut self) -> Result<(), Failure> {
        loop {
            match self.rng.below(100) {
                0..12 if self.fake_acks => self.forget(),
                0..12 => self.extend().await?,
                12..15 => self.forget(),
                15..19 => self.repeat().await?,
                19..21 => self.maintain().await?,
                _ => self.work().await?,
            }
            if self.rng.below(4) == 0 {
                sleep(Duration::from_millis(self.rng.below(10))).await;
            }
            self.fake_ack().await?;
        }
    }

    /// Settles some of the held deliveries, and claims others.
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
        let claims_some = self.held.len() < HELD_MAX && self.rng.below(10) < 8;
        let count = if claims_some { 1 + self.rng.below(CLAIM_MAX) } else { 0 };
        let claims = if claims_some { vec![self.claim(count)?] } else { Vec::new() };
        let call = self.call(settled, claims, count)?;
        if call.settled.is_empty() && !claims_some {
            return Ok(());
        }
        let received = self.execute(call).await?;
        if received == 0 && self.held.is_empty() {
            sleep(Duration::from_millis(10 + self.rng.below(30))).await;
        }
        Ok(())
    }

    /// Repeats a settlement.
    async fn repeat(&mut self) -> Result<(), Failure> {
        let count = self.settled.len() as u64;
        if count == 0 {
            return Ok(());
        }
        let held = self.settled.swap_remove(usize::try_from(self.rng.below(count))?);
        let call = self.call(vec![held], Vec::new(), 0)?;
        self.execute(call).await.map(drop)
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

    fn call(&mut self, settled: Vec<Held>, claims: Vec<Claim>, count: u64) -> Result<WorkCall, Failure> {
        let mut fields = vec![format!("work {:x} {count}", self.owner.as_u128())];
        let mut settlements = Vec::new();
        for held in &settled {
            let verdict = held.verdict.unwrap_or("ack");
            fields.push(format!("{verdict},{},{}", held.key, held.fence.get()));
            let delay = Duration::from_millis(1 + self.rng.below(150));
            settlements.push(settlement(held, self.owner, verdict, delay)?);
        }
        Ok(WorkCall { settled, settlements, claims, request: fields.join(" ") })
    }

    /// Makes a call, repeatedly if no answer comes. Returns the number of deliveries.
    async fn execute(&mut self, call: WorkCall) -> Result<usize, Failure> {
        for _ in 0..=self.rng.below(REPEATS_MAX) {
            let id = self.log.call(&call.request)?;
            match self.handle.store().work(&call.settlements, &call.claims).await {
                Ok(worked) => return self.worked(id, call, worked),
                Err(error) => self.failed(id, error).await?,
            }
        }
        // The outcome is unknown; another call settles these deliveries again.
        self.held.extend(call.settled);
        Ok(0)
    }

    fn worked(&mut self, id: u64, call: WorkCall, worked: Worked) -> Result<usize, Failure> {
        let deliveries: Vec<_> = worked.deliveries.into_iter().flatten().collect();
        let settled = worked.settled.iter().map(|outcome| trace::settled(*outcome).to_owned());
        let answer: Vec<_> = settled.chain(deliveries.iter().map(delivery)).collect();
        self.log.answer(id, &answer)?;
        self.settled.extend(call.settled);
        self.settled.drain(..self.settled.len().saturating_sub(SETTLED_MAX));
        for delivery in &deliveries {
            let (key, uid) = (delivery.key.id.as_str().to_owned(), delivery.uid);
            let (fence, until) = (delivery.lease.fence, delivery.lease.until.as_millis());
            // A repeated claim may return deliveries that are already held.
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
        let mut fields = vec![format!("extend {:x}", owner.as_u128())];
        fields.extend(extended.iter().map(|held| format!("{},{}", held.key, held.fence.get())));
        let extension = |held: &Held| Extension { uid: held.uid, owner, fence: held.fence, lease };
        let extensions: Vec<_> = extended.iter().map(extension).collect();
        let id = self.log.call(&fields.join(" "))?;
        match self.handle.store().extend(&extensions).await {
            Ok(outcomes) => {
                let item = |outcome: &Extended| match outcome {
                    Extended::Until(until) => format!("until,{}", until.as_millis()),
                    Extended::LeaseLost => "lost".to_owned(),
                    Extended::Locked => "locked".to_owned(),
                };
                Ok(self.log.answer(id, &outcomes.iter().map(item).collect::<Vec<_>>())?)
            }
            Err(error) => self.failed(id, error).await,
        }
    }

    /// Drops a delivery without settling it: its lease will lapse.
    fn forget(&mut self) {
        let forgotten = self.held.pop();
        if self.fake_acks {
            self.stale.extend(forgotten);
        }
    }

    /// Acknowledges under a lost lease, and logs a success whatever the answer is.
    async fn fake_ack(&mut self) -> Result<(), Failure> {
        let Some(index) = self.stale.iter().position(|held| held.until + STALE_MS < now()) else {
            return Ok(());
        };
        let held = Held { verdict: Some("ack"), ..self.stale.swap_remove(index) };
        let call = self.call(vec![held], Vec::new(), 0)?;
        let id = self.log.call(&call.request)?;
        match self.handle.store().work(&call.settlements, &[]).await {
            Ok(_) => Ok(self.log.answer(id, &["done".to_owned()])?),
            Err(error) => self.failed(id, error).await,
        }
    }

    async fn maintain(&self) -> Result<(), Failure> {
        match self.handle.store().maintain(Budget::new(MAINTENANCE_ITEMS)).await {
            Err(error) if !error.is_retryable() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Handles a failed call. An error that is not retryable ends the process, and with it the campaign.
    async fn failed(&mut self, id: u64, error: Error) -> Result<(), Failure> {
        if !error.is_retryable() {
            return Err(error.into());
        }
        self.log.error(id)?;
        self.handle.refresh()?;
        sleep(Duration::from_millis(self.rng.below(50))).await;
        Ok(())
    }
}
