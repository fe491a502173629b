//! Checks workers: that they pause, how fast they stop, the totals they report, and how often they call.

use super::leases::FAULT_EFFECT_MS;
use super::{Auditor, CheckResult, Worker, ensure};
use crate::event::{EventKind, WorkerTotals};

/// Time after the stop budget for a worker to release its deliveries.
const GRACE_MS: u64 = 5_000;
/// A paused worker releases its unstarted deliveries within this time.
const PAUSED_MS: u64 = 500;
/// Maximum number of calls of one kind per node and second.
const CALLS_PER_SECOND_MAX: u64 = 200;

impl Auditor {
    pub(super) fn apply_worker(&mut self, kind: &EventKind) -> CheckResult {
        let now = self.now.at;
        match kind {
            EventKind::Started { worker, node, setup } => {
                let state = Worker { node: *node, setup: setup.clone(), ..Worker::default() };
                let before = self.workers.insert(*worker, state);
                return ensure(before.is_none(), || format!("worker {worker} started twice"));
            }
            EventKind::Fault { worker: Some(worker), .. } => self.worker(*worker)?.faults.push(now),
            EventKind::Fault { node, call: "records", .. } => self.failed_reads.push((*node, now)),
            EventKind::CallRate { node, call, calls } => {
                return ensure(*calls <= CALLS_PER_SECOND_MAX, || {
                    format!("node {node} called {call} {calls} times in a second")
                });
            }
            EventKind::Paused { worker } => self.worker(*worker)?.paused_at = Some(now),
            EventKind::Resumed { worker } => return self.resumed(*worker),
            EventKind::Drained { worker } => {
                let running = self.worker(*worker)?.running.len();
                return ensure(running == 0, || {
                    format!("worker {worker} is drained, but {running} handlers are running")
                });
            }
            EventKind::Stopping { worker } => self.worker(*worker)?.stopping_at = Some(now),
            EventKind::Stopped { worker, totals } => return self.stopped(*worker, *totals),
            EventKind::Crashed { worker } => self.worker(*worker)?.crashed = true,
            EventKind::WorkerFailed { worker, error } => {
                return Err(format!("worker {worker} failed: {error}"));
            }
            _ => {}
        }
        Ok(())
    }

    /// A paused worker releases the deliveries that no handler has started.
    fn resumed(&mut self, number: u64) -> CheckResult {
        let now = self.now.at;
        let worker = self.worker(number)?;
        let Some(paused) = worker.paused_at.take() else { return Ok(()) };
        let disturbed = worker.faults.iter().any(|at| *at + FAULT_EFFECT_MS >= paused);
        let kept = self.leases.values().find(|lease| {
            let waits = lease.worker == number && lease.started_at.is_none() && lease.verdict.is_none();
            waits && lease.lost_at.is_none() && lease.is_held(paused) && lease.is_held(now)
        });
        let kept = kept.filter(|_| !disturbed && now > paused + PAUSED_MS);
        kept.map_or(Ok(()), |lease| Err(format!("worker {number} kept {} while it was paused", lease.key)))
    }

    fn stopped(&mut self, number: u64, totals: WorkerTotals) -> CheckResult {
        let now = self.now.at;
        let worker = self.worker(number)?;
        worker.stopped = true;
        let since = worker.stopping_at.ok_or_else(|| format!("worker {number} stopped without a request"))?;
        let (took, budget) = (now - since, worker.setup.stop_budget_ms);
        ensure(took <= budget + GRACE_MS, || {
            format!("worker {number} took {took} ms to stop, its budget is {budget} ms")
        })?;
        let expected = WorkerTotals { unsettled: totals.unsettled, ..worker.totals };
        ensure(totals == expected, || format!("worker {number} reports {totals:?}, expected {expected:?}"))
    }

    /// Counts the outcome of a delivery, which the worker received.
    pub(super) fn count_outcome(&mut self, worker: u64, outcome: &str) -> CheckResult {
        let totals = &mut self.worker(worker)?.totals;
        let sum = match outcome {
            "done" => &mut totals.handled,
            "retrying" => &mut totals.retrying,
            "released" => &mut totals.released,
            "superseded" => &mut totals.superseded,
            "lost" => return Ok(()),
            _ => &mut totals.dead,
        };
        *sum += 1;
        Ok(())
    }

    pub(super) fn close_workers(&self) -> CheckResult {
        for (number, worker) in &self.workers {
            ensure(worker.stopped || worker.crashed, || format!("worker {number} has not stopped"))?;
            let running = worker.running.len();
            ensure(running == 0, || format!("{running} handlers of worker {number} never ended"))?;
        }
        Ok(())
    }
}
