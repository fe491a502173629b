//! Checks handlers: the lease they start under, how many run at once, when they must end, and the verdict that follows.

use super::leases::clock_jumped;
use super::{Auditor, CheckResult, Lease, ensure};
use crate::event::SimContent;

impl Auditor {
    pub(super) fn handler_started(
        &mut self,
        worker: u64,
        uid: &str,
        delivery: u32,
        content: &SimContent,
    ) -> CheckResult {
        let fence = self.deliveries.get(&(uid.to_owned(), delivery)).copied();
        let fence =
            fence.ok_or_else(|| format!("delivery {delivery} of {uid} started but was never granted"))?;
        self.check_may_start(worker, fence)?;
        self.check_partition_exclusive(fence)?;
        let now = self.now;
        let Some(lease) = self.leases.get_mut(&fence) else { return Ok(()) };
        let key = &lease.key;
        let granted = lease.content == *content || lease.earlier_contents.contains(content);
        ensure(granted, || format!("{key} started with other content than was granted"))?;
        lease.content = content.clone();
        ensure(content.topic != "orphan", || format!("{key} started, but its topic has no handler"))?;
        let readable = content.topic != "number" || content.payload.parse::<u64>().is_ok();
        ensure(readable, || format!("{key} started, but its payload is not a number"))?;
        lease.started_at = Some(now.at);
        self.tally.handlers += 1;
        self.check_limits(worker, fence)
    }

    /// The worker holds this delivery, and no other of the same message.
    fn check_may_start(&self, worker: u64, fence: u64) -> CheckResult {
        let (Some(lease), Some(state)) = (self.leases.get(&fence), self.workers.get(&worker)) else {
            return Err(format!("worker {worker} has not started"));
        };
        let key = &lease.key;
        ensure(lease.worker == worker, || {
            format!("{key} started in worker {worker}, not in {}", lease.worker)
        })?;
        ensure(lease.received_at.is_some(), || format!("{key} started before its worker received it"))?;
        ensure(lease.started_at.is_none(), || format!("{key} started twice under one lease"))?;
        ensure(lease.verdict.is_none(), || format!("{key} started after its delivery was settled"))?;
        ensure(lease.lost_at.is_none(), || format!("{key} started after its lease was lost"))?;
        let twice = state.running.iter().filter_map(|other| self.leases.get(other));
        let twice = twice.filter(|other| other.key == *key).count();
        ensure(twice == 0, || format!("{key} runs twice in worker {worker}"))?;
        let idle = state.paused_at.or(state.stopping_at).is_some_and(|since| since < self.now.at);
        ensure(!idle, || format!("{key} started in worker {worker}, which is paused or stopping"))?;
        ensure(!state.stopped && !state.crashed, || {
            format!("{key} started in worker {worker}, which has ended")
        })?;
        let valid = self.is_current(fence) || clock_jumped(lease, self.now);
        ensure(valid, || format!("{key} started under a lease that had ended"))
    }

    /// No other message of the partition is in a handler under a current lease.
    fn check_partition_exclusive(&self, fence: u64) -> CheckResult {
        let Some(lease) = self.leases.get(&fence) else { return Ok(()) };
        if lease.partition.is_none() || !self.is_current(fence) {
            return Ok(());
        }
        let running = self.workers.values().flat_map(|worker| &worker.running);
        let other =
            running.filter(|other| self.is_current(**other)).filter_map(|other| self.leases.get(other));
        let other =
            other.filter(|other| other.key != lease.key).find(|other| other.partition == lease.partition);
        other.map_or(Ok(()), |other| {
            Err(format!("{} and {} of one partition run at once", lease.key, other.key))
        })
    }

    /// The worker respects its limits of concurrency and rate.
    fn check_limits(&mut self, number: u64, fence: u64) -> CheckResult {
        let now = self.now.at;
        self.worker(number)?.running.insert(fence);
        let Some(worker) = self.workers.get(&number) else { return Ok(()) };
        let count = worker.running.len();
        ensure(count <= worker.setup.concurrency, || format!("worker {number} runs {count} handlers"))?;
        let topic = |topic: &str| {
            let leases = worker.running.iter().filter_map(|fence| self.leases.get(fence));
            leases.filter(|lease| lease.content.topic == topic).count()
        };
        let narrow = topic("narrow");
        ensure(narrow <= worker.setup.narrow, || format!("worker {number} runs {narrow} of `narrow`"))?;
        if self.leases.get(&fence).is_none_or(|lease| lease.content.topic != "rated") {
            return Ok(());
        }
        let worker = self.worker(number)?;
        worker.rated.push_back(now);
        worker.rated.retain(|at| now - at < 1_000);
        let (started, rate) = (worker.rated.len(), worker.setup.rated);
        // The rate allows a burst of one second's worth, and as many in the second after it.
        ensure(started <= rate.saturating_mul(2), || {
            format!("worker {number} started {started} of `rated` in a second")
        })
    }

    pub(super) fn handler_ended(
        &mut self,
        worker: u64,
        uid: &str,
        delivery: u32,
        how: &'static str,
    ) -> CheckResult {
        let now = self.now;
        let fence = self.deliveries.get(&(uid.to_owned(), delivery)).copied().unwrap_or_default();
        let state = self.worker(worker)?;
        let ran = state.running.remove(&fence);
        let lease = self.leases.get_mut(&fence).filter(|lease| ran && lease.started_at.is_some());
        let lease = lease.ok_or_else(|| format!("a handler of {uid} ended without a start"))?;
        lease.ended = Some((how, now.at));
        let key = &lease.key;
        let known = lease.lost_at.is_none_or(|lost| now.at <= lost);
        ensure(known, || format!("{key} continued after its worker knew that the lease was lost"))?;
        ensure(now.at <= lease.deadline, || format!("{key} continued after the deadline of its lease"))
    }

    /// The verdict matches the end of the handler.
    pub(super) fn check_verdict(&self, lease: &Lease, verdict: &str) -> CheckResult {
        let Some(worker) = self.workers.get(&lease.worker) else { return Ok(()) };
        let (key, content) = (&lease.key, &lease.content);
        let unreadable = content.topic == "number" && content.payload.parse::<u64>().is_err();
        let valid = match (lease.started_at, lease.ended) {
            (None, _) if content.topic == "orphan" => ["unhandled", "release"].contains(&verdict),
            (None, _) if unreadable => ["undecodable", "release"].contains(&verdict),
            (None, _) => verdict == "release",
            (Some(_), None) => false,
            (Some(_), Some(("ok", _))) => verdict == "ack",
            (Some(_), Some(("retry" | "panic", _))) => verdict == "abandon",
            (Some(_), Some(("dead", _))) => verdict == "failed",
            (Some(started), Some((_, ended))) => {
                let timed_out = worker.setup.timeout_ms.is_some_and(|limit| ended - started >= limit);
                verdict == "release" || (timed_out && verdict == "abandon")
            }
        };
        let ended = lease.ended.map(|(how, _)| how);
        ensure(valid, || format!("{key} got the verdict {verdict}, but its handler ended with {ended:?}"))
    }
}
