//! Handlers: under which lease they begin, how many at once, when they have to end, and what the store is told after.

use super::leases::leapt;
use super::{Auditor, Checked, Lease, expect};
use crate::event::Content;

impl Auditor {
    pub(super) fn began(&mut self, worker: u64, uid: &str, delivery: u32, content: &Content) -> Checked {
        let fence = self.deliveries.get(&(uid.to_owned(), delivery)).copied();
        let fence =
            fence.ok_or_else(|| format!("delivery {delivery} of {uid} began and was never granted"))?;
        self.may_begin(worker, fence)?;
        self.alone_in_partition(fence)?;
        let now = self.now;
        let Some(lease) = self.leases.get_mut(&fence) else { return Ok(()) };
        let key = &lease.key;
        let granted = lease.content == *content || lease.others.contains(content);
        expect(granted, || format!("{key} began with another content than was granted"))?;
        lease.content = content.clone();
        expect(content.topic != "orphan", || format!("{key} began, and nobody handles its topic"))?;
        let readable = content.topic != "number" || content.payload.parse::<u64>().is_ok();
        expect(readable, || format!("{key} began, and its payload is no number"))?;
        lease.began = Some(now.at);
        self.tally.handlers += 1;
        self.within_limits(worker, fence)
    }

    /// Whether the worker has this delivery, and none of the same message.
    fn may_begin(&self, worker: u64, fence: u64) -> Checked {
        let (Some(lease), Some(state)) = (self.leases.get(&fence), self.workers.get(&worker)) else {
            return Err(format!("worker {worker} has not started"));
        };
        let key = &lease.key;
        expect(lease.worker == worker, || {
            format!("{key} began in worker {worker}, not in {}", lease.worker)
        })?;
        expect(lease.told_at.is_some(), || format!("{key} began before its worker got it"))?;
        expect(lease.began.is_none(), || format!("{key} began twice under one lease"))?;
        expect(lease.verdict.is_none(), || format!("{key} began after its delivery was settled"))?;
        expect(lease.lost_at.is_none(), || format!("{key} began after its lease was lost"))?;
        let twice = state.running.iter().filter_map(|other| self.leases.get(other));
        let twice = twice.filter(|other| other.key == *key).count();
        expect(twice == 0, || format!("{key} runs twice in worker {worker}"))?;
        let idle = state.paused_at.or(state.stopping_at).is_some_and(|since| since < self.now.at);
        expect(!idle, || format!("{key} began in worker {worker}, which was told to begin nothing"))?;
        expect(!state.stopped && !state.crashed, || {
            format!("{key} began in worker {worker}, which has ended")
        })?;
        let valid = self.is_current(fence) || leapt(lease, self.now);
        expect(valid, || format!("{key} began under a lease that had ended"))
    }

    /// Whether no other message of its partition is in a handler under a current lease.
    fn alone_in_partition(&self, fence: u64) -> Checked {
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

    /// Whether the worker runs no more at once, and starts no more per second, than it is set to.
    fn within_limits(&mut self, number: u64, fence: u64) -> Checked {
        let now = self.now.at;
        self.worker(number)?.running.insert(fence);
        let Some(worker) = self.workers.get(&number) else { return Ok(()) };
        let count = worker.running.len();
        expect(count <= worker.setup.concurrency, || format!("worker {number} runs {count} handlers"))?;
        let topic = |topic: &str| {
            let leases = worker.running.iter().filter_map(|fence| self.leases.get(fence));
            leases.filter(|lease| lease.content.topic == topic).count()
        };
        let narrow = topic("narrow");
        expect(narrow <= worker.setup.narrow, || format!("worker {number} runs {narrow} of `narrow`"))?;
        if self.leases.get(&fence).is_none_or(|lease| lease.content.topic != "rated") {
            return Ok(());
        }
        let worker = self.worker(number)?;
        worker.rated.push_back(now);
        worker.rated.retain(|at| now - at < 1_000);
        let (started, rate) = (worker.rated.len(), worker.setup.rated);
        // A second's worth at once, and another in the second that follows.
        expect(started <= rate.saturating_mul(2), || {
            format!("worker {number} started {started} of `rated` in a second")
        })
    }

    pub(super) fn ended(&mut self, worker: u64, uid: &str, delivery: u32, how: &'static str) -> Checked {
        let now = self.now;
        let fence = self.deliveries.get(&(uid.to_owned(), delivery)).copied().unwrap_or_default();
        let state = self.worker(worker)?;
        let ran = state.running.remove(&fence);
        let lease = self.leases.get_mut(&fence).filter(|lease| ran && lease.began.is_some());
        let lease = lease.ok_or_else(|| format!("a handler of {uid} ended that had not begun"))?;
        lease.ended = Some((how, now.at));
        let key = &lease.key;
        let known = lease.lost_at.is_none_or(|lost| now.at <= lost);
        expect(known, || format!("{key} went on after its worker was told that the lease is lost"))?;
        expect(now.at <= lease.deadline, || format!("{key} went on after its lease had to be given up"))
    }

    /// Whether a verdict is what the end of the handler asks for.
    pub(super) fn follows(&self, lease: &Lease, verdict: &str) -> Checked {
        let Some(worker) = self.workers.get(&lease.worker) else { return Ok(()) };
        let (key, content) = (&lease.key, &lease.content);
        let unreadable = content.topic == "number" && content.payload.parse::<u64>().is_err();
        let right = match (lease.began, lease.ended) {
            (None, _) if content.topic == "orphan" => ["unhandled", "release"].contains(&verdict),
            (None, _) if unreadable => ["undecodable", "release"].contains(&verdict),
            (None, _) => verdict == "release",
            (Some(_), None) => false,
            (Some(_), Some(("ok", _))) => verdict == "ack",
            (Some(_), Some(("retry" | "panic", _))) => verdict == "abandon",
            (Some(_), Some(("dead", _))) => verdict == "failed",
            (Some(began), Some((_, ended))) => {
                let timed_out = worker.setup.timeout_ms.is_some_and(|limit| ended - began >= limit);
                verdict == "release" || (timed_out && verdict == "abandon")
            }
        };
        let ended = lease.ended.map(|(how, _)| how);
        expect(right, || format!("{key} got the verdict {verdict}, and its handler ended {ended:?}"))
    }
}
