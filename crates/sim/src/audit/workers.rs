//! Workers: when they may begin nothing, how fast they stop, what they say that they did, and how often they call.

use super::leases::FAULT_MS;
use super::{Auditor, Checked, Worker, expect};
use crate::event::{Sums, What};

/// After the budget a worker has so long to give everything back.
const GRACE_MS: u64 = 5_000;
/// Within this time a worker that pauses gives back what no handler has begun.
const PAUSED_MS: u64 = 500;
/// No node makes one kind of call more often than this in a second.
const CALLS_PER_SECOND_MAX: u64 = 200;

impl Auditor {
    pub(super) fn hear_worker(&mut self, what: &What) -> Checked {
        let now = self.now.at;
        match what {
            What::Started { worker, setup } => {
                let state = Worker { setup: setup.clone(), ..Worker::default() };
                let before = self.workers.insert(*worker, state);
                return expect(before.is_none(), || format!("worker {worker} started twice"));
            }
            What::Fault { worker: Some(worker), .. } => self.worker(*worker)?.faults.push(now),
            What::Hurry { node, call, calls } => {
                return expect(*calls <= CALLS_PER_SECOND_MAX, || {
                    format!("node {node} called {call} {calls} times in a second")
                });
            }
            What::Paused { worker } => self.worker(*worker)?.paused_at = Some(now),
            What::Resumed { worker } => return self.resumed(*worker),
            What::Drained { worker } => {
                let running = self.worker(*worker)?.running.len();
                return expect(running == 0, || {
                    format!("worker {worker} is drained, and {running} handlers run")
                });
            }
            What::Stopping { worker } => self.worker(*worker)?.stopping_at = Some(now),
            What::Stopped { worker, sums } => return self.stopped(*worker, *sums),
            What::Crashed { worker } => self.worker(*worker)?.crashed = true,
            What::Broke { worker, why } => return Err(format!("worker {worker} ended by itself: {why}")),
            _ => {}
        }
        Ok(())
    }

    /// What waited for a handler when the worker was paused went to others.
    fn resumed(&mut self, number: u64) -> Checked {
        let now = self.now.at;
        let worker = self.worker(number)?;
        let Some(paused) = worker.paused_at.take() else { return Ok(()) };
        let disturbed = worker.faults.iter().any(|at| *at + FAULT_MS >= paused);
        let kept = self.leases.values().find(|lease| {
            let waits = lease.worker == number && lease.began.is_none() && lease.verdict.is_none();
            waits && lease.lost_at.is_none() && lease.is_held(paused) && lease.is_held(now)
        });
        let kept = kept.filter(|_| !disturbed && now > paused + PAUSED_MS);
        kept.map_or(Ok(()), |lease| Err(format!("worker {number} kept {} while it was paused", lease.key)))
    }

    fn stopped(&mut self, number: u64, sums: Sums) -> Checked {
        let now = self.now.at;
        let worker = self.worker(number)?;
        worker.stopped = true;
        let since =
            worker.stopping_at.ok_or_else(|| format!("worker {number} stopped, and nobody asked it to"))?;
        let (took, budget) = (now - since, worker.setup.stop_budget_ms);
        expect(took <= budget + GRACE_MS, || {
            format!("worker {number} took {took} ms to stop, its budget is {budget}")
        })?;
        let seen = Sums { unsettled: sums.unsettled, ..worker.sums };
        expect(sums == seen, || format!("worker {number} says {sums:?}, and was told {seen:?}"))
    }

    /// A worker heard what became of a delivery.
    pub(super) fn sum(&mut self, worker: u64, outcome: &str) -> Checked {
        let sums = &mut self.worker(worker)?.sums;
        let sum = match outcome {
            "done" => &mut sums.handled,
            "retrying" => &mut sums.retrying,
            "released" => &mut sums.released,
            "superseded" => &mut sums.superseded,
            "lost" => return Ok(()),
            _ => &mut sums.dead,
        };
        *sum += 1;
        Ok(())
    }

    pub(super) fn close_workers(&self) -> Checked {
        for (number, worker) in &self.workers {
            expect(worker.stopped || worker.crashed, || format!("worker {number} has not stopped"))?;
            let running = worker.running.len();
            expect(running == 0, || format!("{running} handlers of worker {number} never ended"))?;
        }
        Ok(())
    }
}
