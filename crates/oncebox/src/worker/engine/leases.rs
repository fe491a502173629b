//! Keeping leases, and letting go of what is lost.

use std::time::Duration;

use oncebox_core::limits::CALL_ITEMS_MAX;
use oncebox_core::{Error, Extended, Span, Verdict};
use tokio::time::Instant;
use tracing::warn;

use super::Engine;
use crate::telemetry::Ending;
use crate::worker::attempt::Ticket;
use crate::worker::calls::ExtendCall;
use crate::worker::held::Phase;

impl Engine {
    /// Asks for more time for all that is held, when a third of the lease has passed.
    pub(super) fn extend_leases(&mut self, now: Instant) {
        if self.extend.is_some() || now < self.next_beat.max(self.beat_after) {
            return;
        }
        let third = self.options.lease / 3;
        self.next_beat = now + third;
        let mut tickets = self.held.extendable();
        if tickets.is_empty() {
            return;
        }
        if tickets.len() > CALL_ITEMS_MAX {
            // The most urgent first, the others when a third of theirs has passed.
            let deadline = |ticket: &Ticket| self.held.item(ticket).map(|item| item.deadline);
            tickets.sort_by_key(deadline);
            let others = deadline(&tickets[CALL_ITEMS_MAX]).and_then(|end| end.checked_sub(third * 2));
            tickets.truncate(CALL_ITEMS_MAX);
            self.next_beat = others.map_or(now, |at| at.clamp(now, now + third));
        }
        let lease = Span::lease(self.options.lease).expect("the lease is checked when the worker is built");
        let extension = |ticket: &Ticket| Some(self.held.item(ticket)?.delivery.extend(lease));
        let extensions = tickets.iter().filter_map(extension).collect();
        let limit = self.options.call_timeout.min(third);
        self.extend = Some(ExtendCall::extend(self.shared.store.clone(), extensions, tickets, limit));
    }

    pub(super) fn extended(
        &mut self,
        answer: Result<Vec<Extended>, Error>,
        tickets: &[Ticket],
        sent_at: Instant,
    ) -> Result<(), Error> {
        let extended = match answer {
            Ok(extended) => extended,
            Err(error) => {
                let now = Instant::now();
                self.next_beat = now;
                self.beat_after = now + (self.options.lease / 12).min(Duration::from_secs(1));
                return self.failed("extend", error);
            }
        };
        self.pulse.passed("extend");
        for (ticket, extended) in tickets.iter().zip(extended) {
            match extended {
                Extended::Until(_) => self.held.prolong(ticket, sent_at + self.options.lease),
                Extended::LeaseLost => self.lose(*ticket),
            }
        }
        Ok(())
    }

    /// Lets go of what the store could not be asked about in time: by now another worker may have it. The store is told all
    /// the same, for it may know of a longer lease.
    pub(super) fn watch_leases(&mut self, now: Instant) {
        for ticket in self.held.lapsed(now) {
            let Some(item) = self.held.item(&ticket) else { continue };
            let (topic, id) = (&item.delivery.content.topic, &item.delivery.key.id);
            warn!(store = %self.shared.name, %topic, %id, uid = %item.delivery.uid, "the lease has ended");
            match &item.phase {
                Phase::Running { cancellation, .. } => cancellation.cancel(),
                Phase::Queued { .. } => {
                    self.unqueue(ticket);
                    self.held.settle(ticket, Verdict::Release);
                }
                Phase::Settling(_) => {}
            }
        }
    }

    /// It does not wait for a handler any more.
    fn unqueue(&mut self, ticket: Ticket) {
        self.held.queue.retain(|queued| *queued != ticket);
        if let Some(lane) = self.held.item(&ticket).and_then(|item| item.lane) {
            self.lanes.all[lane].queued -= 1;
        }
    }

    /// The store says that the lease is gone.
    fn lose(&mut self, ticket: Ticket) {
        let Some(item) = self.held.get_mut(&ticket) else { return };
        let (delivery, lane) = (item.delivery.clone(), item.lane);
        match &mut item.phase {
            Phase::Running { cancellation, lost } => {
                cancellation.cancel();
                *lost = true;
            }
            Phase::Queued { .. } => {
                self.unqueue(ticket);
                self.held.remove(&ticket);
                if let Some(lane) = lane {
                    self.lanes.all[lane].metrics.ended(Ending::Lost);
                }
                self.stopped.lost += 1;
            }
            // Whether its verdict counts, the store says when it hears it.
            Phase::Settling(_) => return,
        }
        let (topic, id) = (&delivery.content.topic, &delivery.key.id);
        warn!(store = %self.shared.name, %topic, %id, uid = %delivery.uid, "the lease was lost");
    }
}
