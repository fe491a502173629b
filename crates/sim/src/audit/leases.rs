//! Leases: who has which, how each ended, and whether it had to be lost.

use super::{Auditor, Checked, Lease, Message, Now, expect};
use crate::event::{Content, What};

/// A call that went wrong so long before may still be under way.
pub(super) const FAULT_MS: u64 = 6_000;
/// How often the inbox tries a message if neither its sender nor its worker says how often.
const INBOX_ATTEMPTS: u32 = 10;

impl Auditor {
    /// The store granted a lease, or gave it out again.
    pub(super) fn granted(&mut self, what: &What) -> Checked {
        let What::Granted { worker, fence, uid, delivery, attempts, until, content } = what else {
            return Ok(());
        };
        let key = self.uids.get(uid).cloned().ok_or_else(|| format!("{uid} was granted and never stored"))?;
        self.worker(*worker)?;
        if let Some(lease) = self.leases.get_mut(fence) {
            expect(lease.worker == *worker, || format!("{key} was granted to another worker again"))?;
            let same = (&lease.content.topic, &lease.content.payload) == (&content.topic, &content.payload);
            expect(same, || format!("{key} was granted again with newer content"))?;
            if lease.content != *content {
                let before = std::mem::replace(&mut lease.content, content.clone());
                lease.others.push(before);
            }
            return Ok(());
        }
        self.lapse_newest(&key)?;
        self.in_turn(&key, content)?;
        let Some(message) = self.messages.get_mut(&key) else { return Ok(()) };
        expect(message.end.is_none(), || format!("{key} is {:?} and was granted", message.end))?;
        message.deliveries += 1;
        let counted = (message.deliveries, message.attempts);
        expect(counted == (*delivery, *attempts), || {
            format!("{key} has delivery {delivery} and {attempts} attempts, and {counted:?} were seen")
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

    /// A message of a partition is granted when all that came before it, and are due, have ended.
    fn in_turn(&self, key: &str, content: &Content) -> Checked {
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
        before.map_or(Ok(()), |(other, _)| Err(format!("{key} was granted before {other}, in {partition}")))
    }

    /// Whether a message is given up, if its newest lease has ended by itself.
    fn may_be_exhausted(&self, message: &Message) -> bool {
        let lease = message.fence.and_then(|fence| self.leases.get(&fence));
        let lapsed = lease.is_some_and(|lease| lease.outcome.is_none() && lease.until <= self.now.store);
        message.attempts + u32::from(lapsed) >= self.limit(message.fence)
    }

    /// How often a message may be tried: as its sender said, else as the worker that had it last, else as the inbox says.
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

    /// A worker got an answer.
    pub(super) fn told(&mut self, what: &What) -> Checked {
        let What::Told { worker, asked_at, claimed, brought, kept, lost, settled } = what else {
            return Ok(());
        };
        if *claimed {
            self.brings_all(*worker, brought)?;
        }
        let (now, lease_ms) = (self.now.at, self.worker(*worker)?.setup.lease_ms);
        for (fence, outcome) in settled {
            let Some(lease) = self.leases.get_mut(fence) else { continue };
            if !std::mem::replace(&mut lease.outcome_told, true) {
                self.sum(*worker, outcome)?;
            }
        }
        if *claimed || !settled.is_empty() {
            self.says_all(*worker, *asked_at)?;
        } else {
            self.keeps_all(*worker, *asked_at, kept, lost)?;
        }
        for fence in brought {
            if let Some(lease) = self.leases.get_mut(fence) {
                lease.told_at.get_or_insert(now);
                // If the claim was a repeat, the lease may be an old one: a heartbeat has to tell, and has a third of it.
                let (from_asking, from_answer) = (asked_at + lease_ms, now + lease_ms / 3);
                lease.deadline = lease.deadline.max(from_asking).max(from_answer);
                lease.kept_until = lease.kept_until.max(from_asking.min(from_answer));
            }
        }
        for fence in kept {
            if let Some(lease) = self.leases.get_mut(fence) {
                lease.deadline = lease.deadline.max(asked_at + lease_ms);
                // An answer that comes too late keeps nothing: the worker has let go.
                if now < lease.kept_until {
                    lease.kept_until = lease.kept_until.max(asked_at + lease_ms);
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

    /// What was owed to the store when the worker asked, it has said.
    fn says_all(&self, worker: u64, asked_at: u64) -> Checked {
        let Some(state) = self.workers.get(&worker) else { return Ok(()) };
        let idle = state.paused_at.or(state.stopping_at).is_some_and(|since| since < asked_at);
        let owed = self.leases.values().filter(|lease| lease.worker == worker && !lease.outcome_told);
        let owed = owed.filter(|lease| lease.lost_at.is_none());
        let mut owed = owed.filter(|lease| match (lease.began, lease.ended) {
            (None, _) => idle && lease.is_held(asked_at) && lease.is_held(self.now.at),
            (_, Some(("dropped", _)) | None) => false,
            (_, Some((_, ended))) => ended < asked_at && ended < lease.kept_until,
        });
        let forgotten = owed.next();
        forgotten
            .map_or(Ok(()), |lease| Err(format!("worker {worker} does not say what became of {}", lease.key)))
    }

    /// A heartbeat is for all that a worker holds.
    fn keeps_all(&self, worker: u64, asked_at: u64, kept: &[u64], lost: &[u64]) -> Checked {
        let mut held = self.leases.iter().filter(|(_, lease)| {
            lease.worker == worker
                && !lease.outcome_told
                && lease.lost_at.is_none()
                && lease.is_held(asked_at)
        });
        let forgotten = held.find(|(fence, _)| !kept.contains(fence) && !lost.contains(fence));
        forgotten.map_or(Ok(()), |(_, lease)| Err(format!("worker {worker} does not extend {}", lease.key)))
    }

    /// What a claim got whose answer was lost, the next one that is answered brings.
    fn brings_all(&self, worker: u64, brought: &[u64]) -> Checked {
        let missing = self.leases.iter().find(|(fence, lease)| {
            let unknown =
                lease.worker == worker && lease.told_at.is_none() && !lease.late && !lease.superseded;
            unknown && self.is_current(**fence) && !brought.contains(fence)
        });
        missing.map_or(Ok(()), |(_, lease)| {
            Err(format!("{} was granted to worker {worker}, which never asked for it again", lease.key))
        })
    }

    /// The newest lease of a message has ended, and if nobody has settled it, by itself.
    pub(super) fn lapse_newest(&mut self, key: &str) -> Checked {
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
            // It may have expired at the same time.
            message.end = (!message.may_expire).then_some("exhausted");
        }
        self.tally.lapses += 1;
        let lease = lease.clone();
        expect(self.now.store >= lease.until, || format!("{key} was taken from worker {}", lease.worker))?;
        expect(self.is_excused(&lease), || format!("worker {} let the lease of {key} lapse", lease.worker))
    }

    /// Whether a lease may have lapsed: the worker crashed, the clock leapt, or calls went wrong.
    fn is_excused(&self, lease: &Lease) -> bool {
        let Some(worker) = self.workers.get(&lease.worker) else { return false };
        let since = lease.renewed.at.saturating_sub(worker.setup.lease_ms.max(FAULT_MS));
        worker.crashed || leapt(lease, self.now) || worker.faults.iter().any(|at| *at >= since)
    }

    /// The store heard a verdict.
    pub(super) fn settled(&mut self, fence: u64, verdict: &'static str, outcome: &'static str) -> Checked {
        let lease =
            self.leases.get(&fence).ok_or_else(|| format!("lease {fence} was settled and never granted"))?;
        let key = lease.key.clone();
        self.follows(lease, verdict)?;
        let before = lease.verdict;
        expect(before.is_none_or(|before| before == verdict), || {
            format!("{key} got {verdict} after {before:?}")
        })?;
        let (current, attempts_max) = (self.is_current(fence), self.limit(Some(fence)));
        let Some(lease) = self.leases.get_mut(&fence) else { return Ok(()) };
        lease.verdict = Some(verdict);
        if outcome == "lost" {
            return Ok(());
        }
        if let Some(before) = lease.outcome {
            return expect(before == outcome, || format!("{key} was {before} and is {outcome}"));
        }
        expect(current, || format!("{key} was settled under a lease that has ended"))?;
        lease.outcome = Some(outcome);
        let Some(message) = self.messages.get_mut(&key) else { return Ok(()) };
        let same = (&message.content.topic, &message.content.payload)
            == (&lease.content.topic, &lease.content.payload);
        match outcome {
            "released" | "superseded" => {}
            "retrying" => message.attempts += 1,
            "done" => {
                expect(same, || format!("{key} is done, but newer content came meanwhile"))?;
                message.end = Some(outcome);
            }
            "expired" => {
                expect(message.may_expire, || format!("{key} has no expiry and expired"))?;
                message.end = Some(outcome);
            }
            _ => {
                message.attempts += u32::from(verdict == "abandon");
                message.end = Some(outcome);
                let spent =
                    outcome != "exhausted" || verdict != "abandon" || message.attempts >= attempts_max;
                expect(spent, || format!("{key} is exhausted after {} attempts", message.attempts))?;
            }
        }
        Ok(())
    }
}

impl Lease {
    /// Whether the worker had it before this moment, and need not let go of it yet.
    pub(super) fn is_held(&self, at: u64) -> bool {
        self.told_at.is_some_and(|told| told < at) && at < self.kept_until
    }
}

/// Whether the store's clock has leapt since the lease was granted or extended.
pub(super) fn leapt(lease: &Lease, now: Now) -> bool {
    now.leaps() > lease.renewed.leaps()
}
