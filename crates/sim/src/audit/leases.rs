//! Checks leases: which worker holds each, how it ended, and whether it was allowed to lapse.

use super::{Auditor, CheckResult, Lease, Message, Now, ensure};
use crate::event::{EventKind, SimContent};

/// A failed call may still take effect for this long.
pub(super) const FAULT_EFFECT_MS: u64 = 6_000;
/// A read of pauses that fails may delay a claim for this long: until its time limit, and some latency.
const READ_EFFECT_MS: u64 = 11_000;
/// The inbox's limit of attempts if neither sender nor worker sets one.
const INBOX_ATTEMPTS: u32 = 10;

impl Auditor {
    /// The store granted a lease, or returned it again.
    pub(super) fn granted(&mut self, kind: &EventKind) -> CheckResult {
        let EventKind::Granted { worker, fence, uid, delivery, attempts, until, asked_at, content } = kind
        else {
            return Ok(());
        };
        let key = self.uids.get(uid).cloned().ok_or_else(|| format!("{uid} was granted but never stored"))?;
        self.worker(*worker)?;
        if let Some(lease) = self.leases.get_mut(fence) {
            ensure(lease.worker == *worker, || format!("{key} was granted again to another worker"))?;
            let same = (&lease.content.topic, &lease.content.payload) == (&content.topic, &content.payload);
            ensure(same, || format!("{key} was granted again with newer content"))?;
            if lease.content != *content {
                let before = std::mem::replace(&mut lease.content, content.clone());
                lease.earlier_contents.push(before);
            }
            return Ok(());
        }
        self.check_delivering(&key, content, *asked_at)?;
        self.lapse_latest(&key)?;
        self.check_partition_order(&key, content)?;
        let Some(message) = self.messages.get_mut(&key) else { return Ok(()) };
        ensure(message.end.is_none(), || format!("{key} was granted although it is {:?}", message.end))?;
        message.deliveries += 1;
        let counted = (message.deliveries, message.attempts);
        ensure(counted == (*delivery, *attempts), || {
            format!("{key} has delivery {delivery} and {attempts} attempts, but {counted:?} were expected")
        })?;
        message.fence = Some(*fence);
        self.deliveries.insert((uid.clone(), *delivery), *fence);
        self.tally.deliveries += 1;
        let lease = Lease {
            worker: *worker,
            key,
            content: content.clone(),
            partition: content.partition.clone(),
            until: *until,
            renewed: self.now,
            late: self.late,
            ..Lease::default()
        };
        self.leases.insert(*fence, lease);
        Ok(())
    }

    /// A message of a partition is granted after all earlier messages that are due have ended.
    fn check_partition_order(&self, key: &str, content: &SimContent) -> CheckResult {
        let (Some(partition), Some(message)) = (&content.partition, self.messages.get(key)) else {
            return Ok(());
        };
        if message.repeated {
            return Ok(());
        }
        let before = self.messages.iter().find(|(_, other)| {
            other.number < message.number
                && other.content.partition.as_ref() == Some(partition)
                && other.end.is_none()
                && !self.may_be_exhausted(other)
                && !other.repeated
                && !other.may_expire
                && other.content.due.is_none()
        });
        before.map_or(Ok(()), |(other, _)| {
            Err(format!("{key} was granted before {other} in partition {partition}"))
        })
    }

    /// Whether a message is exhausted if its latest lease has lapsed.
    fn may_be_exhausted(&self, message: &Message) -> bool {
        let lease = message.fence.and_then(|fence| self.leases.get(&fence));
        let lapsed = lease.is_some_and(|lease| lease.outcome.is_none() && lease.until <= self.now.store);
        message.attempts + u32::from(lapsed) >= self.limit(message.fence)
    }

    /// The limit of attempts: that of the sender, else of the worker that had the message last, else of the inbox.
    pub(super) fn limit(&self, fence: Option<u64>) -> u32 {
        let lease = fence.and_then(|fence| self.leases.get(&fence));
        let worker = lease.and_then(|lease| self.workers.get(&lease.worker));
        self.attempts_max.or(worker.and_then(|worker| worker.setup.attempts_max)).unwrap_or(INBOX_ATTEMPTS)
    }

    pub(super) fn extended(&mut self, fence: u64, until: Option<u64>) {
        let now = self.now;
        if let (Some(lease), Some(until)) = (self.leases.get_mut(&fence), until) {
            (lease.until, lease.renewed) = (until, now);
        }
    }

    /// A worker received an answer.
    pub(super) fn answer_received(&mut self, kind: &EventKind) -> CheckResult {
        let EventKind::AnswerReceived {
            worker,
            asked_at,
            called_at,
            claimed,
            delivered,
            extended,
            lost,
            settled,
        } = kind
        else {
            return Ok(());
        };
        if *claimed {
            self.check_repeats_claim(*worker, delivered)?;
        }
        let (now, lease_ms) = (self.now.at, self.worker(*worker)?.setup.lease_ms);
        for (fence, outcome) in settled {
            let Some(lease) = self.leases.get_mut(fence) else { continue };
            if !std::mem::replace(&mut lease.outcome_received, true) {
                self.count_outcome(*worker, outcome)?;
            }
        }
        if *claimed || !settled.is_empty() {
            self.check_settles_all(*worker, *asked_at)?;
        } else {
            self.check_extends_all(*worker, *called_at, extended, lost)?;
        }
        for fence in delivered {
            if let Some(lease) = self.leases.get_mut(fence) {
                lease.received_at.get_or_insert(now);
                // After a repeated claim, the lease may be old: a heartbeat must confirm it within a third of its
                // duration.
                let (from_call, from_answer) = (called_at + lease_ms, now + lease_ms / 3);
                lease.deadline = lease.deadline.max(from_call).max(from_answer);
                lease.kept_until = lease.kept_until.max(from_call.min(from_answer));
            }
        }
        for fence in extended {
            if let Some(lease) = self.leases.get_mut(fence) {
                lease.deadline = lease.deadline.max(called_at + lease_ms);
                // A late answer extends nothing: the worker has given the lease up.
                if now < lease.kept_until {
                    lease.kept_until = lease.kept_until.max(called_at + lease_ms);
                }
            }
        }
        for fence in lost {
            if let Some(lease) = self.leases.get_mut(fence) {
                lease.lost_at.get_or_insert(now);
            }
        }
        Ok(())
    }

    /// A call settles all deliveries that were finished when the worker asked for it.
    fn check_settles_all(&self, worker: u64, asked_at: u64) -> CheckResult {
        let Some(state) = self.workers.get(&worker) else { return Ok(()) };
        let idle = state.paused_at.or(state.stopping_at).is_some_and(|since| since < asked_at);
        let unsettled =
            self.leases.values().filter(|lease| lease.worker == worker && !lease.outcome_received);
        let unsettled = unsettled.filter(|lease| lease.lost_at.is_none());
        let mut unsettled = unsettled.filter(|lease| match (lease.started_at, lease.ended) {
            (None, _) => idle && lease.is_held(asked_at) && lease.is_held(self.now.at),
            (_, Some(("dropped", _)) | None) => false,
            (_, Some((_, ended))) => ended < asked_at && ended < lease.kept_until,
        });
        let forgotten = unsettled.next();
        forgotten.map_or(Ok(()), |lease| Err(format!("worker {worker} does not settle {}", lease.key)))
    }

    /// A heartbeat extends all leases that the worker holds.
    fn check_extends_all(&self, worker: u64, called_at: u64, extended: &[u64], lost: &[u64]) -> CheckResult {
        let mut held = self.leases.iter().filter(|(_, lease)| {
            lease.worker == worker
                && !lease.outcome_received
                && lease.lost_at.is_none()
                && lease.is_held(called_at)
        });
        let forgotten = held.find(|(fence, _)| !extended.contains(fence) && !lost.contains(fence));
        forgotten.map_or(Ok(()), |(_, lease)| Err(format!("worker {worker} does not extend {}", lease.key)))
    }

    /// The next answered claim returns the deliveries of a claim whose answer was lost.
    fn check_repeats_claim(&self, worker: u64, delivered: &[u64]) -> CheckResult {
        let missing = self.leases.iter().find(|(fence, lease)| {
            let unknown =
                lease.worker == worker && lease.received_at.is_none() && !lease.late && !lease.superseded;
            unknown && self.is_current(**fence) && !delivered.contains(fence)
        });
        missing.map_or(Ok(()), |(_, lease)| {
            Err(format!("{} was granted to worker {worker}, which did not repeat the claim", lease.key))
        })
    }

    /// The latest lease of a message has ended: if it was not settled, it has lapsed.
    pub(super) fn lapse_latest(&mut self, key: &str) -> CheckResult {
        let Some(fence) = self.messages.get(key).and_then(|message| message.fence) else { return Ok(()) };
        let attempts_max = self.limit(Some(fence));
        let Some(message) = self.messages.get_mut(key) else { return Ok(()) };
        let Some(lease) = self.leases.get_mut(&fence) else { return Ok(()) };
        if lease.outcome.is_some() {
            return Ok(());
        }
        lease.outcome = Some("lapsed");
        message.attempts += 1;
        if message.attempts >= attempts_max {
            // The message may have expired at the same time.
            message.end = (!message.may_expire).then_some("exhausted");
        }
        self.tally.lapses += 1;
        let lease = lease.clone();
        ensure(self.now.store >= lease.until, || {
            format!("{key} was granted again before the lease of worker {} ended", lease.worker)
        })?;
        ensure(self.is_excused(&lease), || format!("worker {} let the lease of {key} lapse", lease.worker))
    }

    /// Whether a lease was allowed to lapse: the worker crashed, the clock jumped, or calls failed.
    fn is_excused(&self, lease: &Lease) -> bool {
        let Some(worker) = self.workers.get(&lease.worker) else { return false };
        let since = lease.renewed.at.saturating_sub(worker.setup.lease_ms.max(FAULT_EFFECT_MS));
        worker.crashed
            || clock_jumped(lease, self.now)
            || worker.faults.iter().any(|at| *at >= since)
            || lease.received_at.is_none() && self.was_read_delayed(worker.node, lease.renewed.at)
    }

    /// Whether a claim of this node may have waited for the pauses, until its worker had stopped.
    fn was_read_delayed(&self, node: u64, granted_at: u64) -> bool {
        let delays = |(by, at): &(u64, u64)| *by == node && at + READ_EFFECT_MS >= granted_at;
        self.failed_reads.iter().any(delays)
    }

    /// The store settled a delivery.
    pub(super) fn settled(
        &mut self,
        fence: u64,
        verdict: &'static str,
        outcome: &'static str,
    ) -> CheckResult {
        let lease =
            self.leases.get(&fence).ok_or_else(|| format!("lease {fence} was settled but never granted"))?;
        let key = lease.key.clone();
        self.check_verdict(lease, verdict)?;
        let before = lease.verdict;
        ensure(before.is_none_or(|before| before == verdict), || {
            format!("{key} was settled with {verdict} after {before:?}")
        })?;
        let (current, attempts_max) = (self.is_current(fence), self.limit(Some(fence)));
        let Some(lease) = self.leases.get_mut(&fence) else { return Ok(()) };
        lease.verdict = Some(verdict);
        if outcome == "lost" {
            return Ok(());
        }
        if let Some(before) = lease.outcome {
            return ensure(before == outcome, || {
                format!("{key} was {before}, but a repeat returned {outcome}")
            });
        }
        ensure(current, || format!("{key} was settled under a lease that had ended"))?;
        lease.outcome = Some(outcome);
        let Some(message) = self.messages.get_mut(&key) else { return Ok(()) };
        let same = (&message.content.topic, &message.content.payload)
            == (&lease.content.topic, &lease.content.payload);
        match outcome {
            "released" | "superseded" => {}
            "retrying" => message.attempts += 1,
            "done" => {
                ensure(same, || format!("{key} is done, but newer content was accepted meanwhile"))?;
                message.end = Some(outcome);
            }
            "expired" => {
                ensure(message.may_expire, || format!("{key} expired, but has no expiry"))?;
                message.end = Some(outcome);
            }
            _ => {
                message.attempts += u32::from(verdict == "abandon");
                message.end = Some(outcome);
                let spent =
                    outcome != "exhausted" || verdict != "abandon" || message.attempts >= attempts_max;
                ensure(spent, || format!("{key} is exhausted after {} attempts", message.attempts))?;
            }
        }
        Ok(())
    }
}

impl Lease {
    /// Whether the worker received the lease before this time and must still hold it.
    pub(super) fn is_held(&self, at: u64) -> bool {
        self.received_at.is_some_and(|received| received < at) && at < self.kept_until
    }
}

/// Whether the store's clock jumped since the lease was granted or extended.
pub(super) fn clock_jumped(lease: &Lease, now: Now) -> bool {
    now.jumps() > lease.renewed.jumps()
}
