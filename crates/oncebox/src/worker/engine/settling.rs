//! Telling the store how deliveries went, and hearing what became of them.

use oncebox_core::limits::CALL_ITEMS_MAX;
use oncebox_core::{Error, Settled, Verdict, Worked};
use tokio::task::{self, JoinError};
use tokio::time::Instant;
use tracing::warn;

use super::Engine;
use crate::telemetry;
use crate::worker::attempt::{self, Ended, Ticket};
use crate::worker::calls::{Unanswered, Work, WorkCall};
use crate::worker::failure::Failure;
use crate::worker::held::Phase;
use crate::worker::verdict;

impl Engine {
    /// Makes the next call, if none is under way and there is something to say or to ask.
    pub(super) fn call_store(&mut self, now: Instant) {
        if self.work.is_some() || self.retry_at.is_some_and(|at| now < at) {
            return;
        }
        self.retry_at = None;
        let ((claims, wishes), claimed_at) = match self.unanswered.take() {
            Some(Unanswered { claims, wishes, since }) => ((claims, wishes), Some(since)),
            None => (self.claims(now), None),
        };
        let room = CALL_ITEMS_MAX - claims.len();
        let mut settled = Vec::new();
        let mut settlements = Vec::new();
        while settled.len() < room
            && let Some(ticket) = self.held.outbox.pop_front()
        {
            if let Some(settlement) = self.held.settlement(&ticket) {
                settlements.push(settlement);
                settled.push(ticket);
            }
        }
        if claims.is_empty() && settled.is_empty() {
            return;
        }
        let about = Work { settled, claims, wishes, claimed_at };
        let limit = self.options.call_timeout.min(self.mode.call_limit());
        self.work = Some(WorkCall::work(self.shared.store.clone(), settlements, about, limit));
    }

    pub(super) fn worked(
        &mut self,
        answer: Result<Worked, Error>,
        about: Work,
        sent_at: Instant,
    ) -> Result<(), Error> {
        match answer {
            Ok(worked) => {
                self.pulse.passed("work");
                self.failures = 0;
                for (ticket, settled) in about.settled.iter().zip(worked.settled) {
                    self.settled(ticket, settled);
                }
                self.claimed(&about, worked.deliveries, sent_at);
                Ok(())
            }
            Err(error) => {
                // Nobody knows whether it happened: the same again, which answers the same if it did.
                for ticket in about.settled.into_iter().rev() {
                    self.held.outbox.push_front(ticket);
                }
                if !about.claims.is_empty() {
                    let since = about.claimed_at.unwrap_or(sent_at);
                    self.unanswered = Some(Unanswered { claims: about.claims, wishes: about.wishes, since });
                }
                self.failures = self.failures.saturating_add(1);
                self.retry_at = Some(Instant::now() + self.pause_after_failure());
                self.failed("work", error)
            }
        }
    }

    fn settled(&mut self, ticket: &Ticket, settled: Settled) {
        let Some(item) = self.held.remove(ticket) else { return };
        let (ending, count) = match settled {
            Settled::Done => (telemetry::Ending::Done, &mut self.stopped.handled),
            Settled::Retrying { .. } => (telemetry::Ending::Retrying, &mut self.stopped.retrying),
            Settled::Dead { .. } => (telemetry::Ending::Dead, &mut self.stopped.dead),
            Settled::Released => (telemetry::Ending::Released, &mut self.stopped.released),
            Settled::Superseded => (telemetry::Ending::Superseded, &mut self.stopped.superseded),
            _ => (telemetry::Ending::Lost, &mut self.stopped.lost),
        };
        *count += 1;
        if let Some(lane) = item.lane {
            self.lanes.all[lane].metrics.ended(ending);
        }
        let (topic, id) = (&item.delivery.content.topic, &item.delivery.key.id);
        let store = &self.shared.name;
        match settled {
            Settled::Dead { reason } => warn!(%store, %topic, %id, ?reason, "the message is dead"),
            Settled::LeaseLost => warn!(%store, %topic, %id, "the lease was lost before the result was told"),
            // Newer content is ready.
            Settled::Superseded => self.appetite.woken(),
            _ => {}
        }
    }

    /// A handler has ended.
    pub(super) fn ended(&mut self, ended: Result<(task::Id, Ended), JoinError>) {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(ticket) = self.running.remove(&id) else { return };
        let (ending, ran) = match ended {
            Ok((_, Ended { ending, ran })) => (ending, ran),
            // What a handler does while it is dropped, when its time is up or it was cancelled, can panic, too.
            Err(error) => {
                let failure = match error.try_into_panic() {
                    Ok(panic) => Failure::panicked(&*panic),
                    Err(error) => Failure::retry(error),
                };
                tracing::error!(store = %self.shared.name, uid = %ticket.0, error = failure.text(), "the handler failed");
                (attempt::Ending::Finished(Err(failure)), None)
            }
        };
        self.held.busy.remove(&ticket.0);
        let Some(item) = self.held.get_mut(&ticket) else { return };
        let (Some(place), Phase::Running { lost, .. }) = (item.lane, &item.phase) else { return };
        let (lost, delivery) = (*lost, item.delivery.clone());
        let lane = &mut self.lanes.all[place];
        lane.running -= 1;
        if let Some(ran) = ran {
            lane.metrics.ran(ran);
            self.appetite.ran(ran);
        }
        if lane.is_limited() {
            // More of it may have been left where it was.
            self.appetite.woken();
        }
        if lost {
            lane.metrics.ended(telemetry::Ending::Lost);
            self.stopped.lost += 1;
            self.held.remove(&ticket);
            return;
        }
        let verdict = match ending {
            attempt::Ending::Told => return self.settled(&ticket, Settled::Done),
            attempt::Ending::Finished(Ok(())) => Verdict::Ack,
            attempt::Ending::Finished(Err(failure)) => {
                verdict::of_failure(&self.shared, &self.options, &lane.settings, &delivery, &failure)
            }
            attempt::Ending::Cancelled | attempt::Ending::NotBegun => Verdict::Release,
        };
        self.held.settle(ticket, verdict);
    }
}
