//! Settles deliveries, and records what became of them.

use oncebox_core::limits::CALL_ITEMS_MAX;
use oncebox_core::{Error, Settled, Settlement, Verdict, Worked};
use tokio::task::{self, JoinError};
use tokio::time::Instant;
use tracing::warn;

use super::Engine;
use crate::telemetry;
use crate::worker::attempt::{self, DeliveryKey, Ended};
use crate::worker::calls::{Unanswered, WorkCall, WorkRequest};
use crate::worker::failure::Failure;
use crate::worker::in_flight::Phase;
use crate::worker::verdict;

impl Engine {
    /// Makes the next call, if none is in flight and there is something to settle or to claim.
    pub(super) fn call_store(&mut self, now: Instant) {
        if self.work.is_some() || self.retry_at.is_some_and(|at| now < at) {
            return;
        }
        self.retry_at = None;
        let repeat = if self.knows_pauses() { self.unanswered.take() } else { None };
        let ((claims, groups), claimed_at) = match repeat {
            Some(Unanswered { claims, groups, since }) => ((claims, groups), Some(since)),
            None if self.unanswered.is_some() => {
                self.read_pauses(now);
                Default::default()
            }
            None => (self.claims(now), None),
        };
        self.pauses_answered &= claims.is_empty();
        let capacity = CALL_ITEMS_MAX - claims.len();
        let mut settled = Vec::new();
        let mut settlements = Vec::new();
        while settled.len() < capacity
            && let Some(key) = self.in_flight.unsent.pop_front()
        {
            if let Some(settlement) = self.in_flight.settlement(&key) {
                settlements.push(settlement);
                settled.push(key);
            }
        }
        if claims.is_empty() && settled.is_empty() {
            return;
        }
        let pauses = &self.shared.pauses;
        let claims_follow = !settled.is_empty() && !claims.iter().all(|claim| pauses.decide_at_once(claim));
        let request = WorkRequest { settled, claims, groups, claimed_at, claims_follow };
        self.start_work(settlements, request);
    }

    fn start_work(&mut self, settlements: Vec<Settlement>, request: WorkRequest) {
        let limit = self.options.call_timeout.min(self.mode.call_limit());
        self.work = Some(WorkCall::work(self.shared.store.clone(), settlements, request, limit));
    }

    pub(super) fn worked(
        &mut self,
        response: Result<Worked, Error>,
        request: WorkRequest,
        sent_at: Instant,
    ) -> Result<(), Error> {
        match response {
            Ok(Worked { settled, deliveries }) => {
                for (key, settled) in request.settled.iter().zip(settled) {
                    self.settled(key, settled);
                }
                if request.claims_follow {
                    // A worker that stops makes no new claims, but still repeats those whose response was lost.
                    if self.mode.claims() || request.claimed_at.is_some() {
                        let claims = WorkRequest { settled: Vec::new(), claims_follow: false, ..request };
                        self.start_work(Vec::new(), claims);
                    }
                    return Ok(());
                }
                self.monitor.succeeded("work");
                if !request.claims.is_empty() {
                    // The paused topics were known, even if another caller has read them.
                    self.monitor.succeeded("records");
                }
                self.failures = 0;
                self.claimed(&request, deliveries, sent_at);
                Ok(())
            }
            Err(error) => {
                // The outcome of the call is unknown. It is repeated, with the same result if it took effect.
                for key in request.settled.iter().rev() {
                    self.in_flight.unsent.push_front(*key);
                }
                let made = !request.claims_follow || request.claimed_at.is_some();
                if !made {
                    self.polling.wake();
                } else if !request.claims.is_empty() {
                    let since = request.claimed_at.unwrap_or(sent_at);
                    self.unanswered =
                        Some(Unanswered { claims: request.claims, groups: request.groups, since });
                }
                self.failures = self.failures.saturating_add(1);
                self.retry_at = Some(Instant::now() + self.pause_after_failure());
                self.failed("work", error)
            }
        }
    }

    fn settled(&mut self, key: &DeliveryKey, settled: Settled) {
        let Some(item) = self.in_flight.remove(key) else { return };
        let (ending, count) = match settled {
            Settled::Done => (telemetry::DeliveryOutcome::Done, &mut self.summary.handled),
            Settled::Retrying { .. } => (telemetry::DeliveryOutcome::Retrying, &mut self.summary.retrying),
            Settled::Dead { .. } => (telemetry::DeliveryOutcome::Dead, &mut self.summary.dead),
            Settled::Released => (telemetry::DeliveryOutcome::Released, &mut self.summary.released),
            Settled::Superseded => (telemetry::DeliveryOutcome::Superseded, &mut self.summary.superseded),
            _ => (telemetry::DeliveryOutcome::Lost, &mut self.summary.lost),
        };
        *count += 1;
        if let Some(route) = item.route {
            self.routes.all[route].metrics.delivery_ended(ending);
        }
        let (topic, id) = (&item.delivery.content.topic, &item.delivery.key.id);
        let store = &self.shared.name;
        match settled {
            Settled::Dead { reason } => warn!(%store, %topic, %id, ?reason, "message is dead"),
            Settled::LeaseLost => warn!(%store, %topic, %id, "lease lost before the result was sent"),
            // The newer content is ready.
            Settled::Superseded => self.polling.wake(),
            _ => {}
        }
    }

    /// Records the end of a handler, and queues its verdict.
    pub(super) fn ended(&mut self, ended: Result<(task::Id, Ended), JoinError>) {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(key) = self.running.remove(&id) else { return };
        let (ending, ran) = match ended {
            Ok((_, Ended { ending, ran })) => (ending, ran),
            // The destructors of a handler can panic too, when it is dropped after a timeout or a cancellation.
            Err(error) => {
                let failure = match error.try_into_panic() {
                    Ok(panic) => Failure::panicked(&*panic),
                    Err(error) => Failure::retry(error),
                };
                tracing::error!(store = %self.shared.name, uid = %key.0, error = failure.text(), "handler failed");
                (attempt::Ending::Finished(Err(failure)), None)
            }
        };
        self.in_flight.busy.remove(&key.0);
        let Some(item) = self.in_flight.get_mut(&key) else { return };
        let (Some(index), Phase::Running { lost, .. }) = (item.route, &item.phase) else { return };
        let (lost, delivery) = (*lost, item.delivery.clone());
        let route = &mut self.routes.all[index];
        route.running -= 1;
        if let Some(ran) = ran {
            route.metrics.handler_ran(ran);
            self.polling.record_run(ran);
        }
        if route.is_limited() {
            // The limit of this topic may have kept messages from being claimed.
            self.polling.wake();
        }
        if lost {
            route.metrics.delivery_ended(telemetry::DeliveryOutcome::Lost);
            self.summary.lost += 1;
            self.in_flight.remove(&key);
            return;
        }
        let verdict = match ending {
            attempt::Ending::Committed => return self.settled(&key, Settled::Done),
            attempt::Ending::Finished(Ok(())) => Verdict::Ack,
            attempt::Ending::Finished(Err(failure)) => {
                verdict::of_failure(&self.shared, &self.options, &route.settings, &delivery, &failure)
            }
            attempt::Ending::Cancelled | attempt::Ending::NotBegun => Verdict::Release,
        };
        self.in_flight.settle(key, verdict);
    }
}
