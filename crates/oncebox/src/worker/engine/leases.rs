//! Extends leases, and gives up deliveries whose leases are lost.

use std::time::Duration;

use oncebox_core::limits::CALL_ITEMS_MAX;
use oncebox_core::{Error, Extended, Span, Verdict};
use tokio::time::Instant;
use tracing::warn;

use super::Engine;
use crate::telemetry::DeliveryOutcome;
use crate::worker::attempt::DeliveryKey;
use crate::worker::calls::ExtendCall;
use crate::worker::in_flight::Phase;

impl Engine {
    /// Extends the leases of all deliveries in flight when a third of the lease has passed.
    pub(super) fn extend_leases(&mut self, now: Instant) {
        if self.extend.is_some() || now < self.next_extend.max(self.extend_not_before) {
            return;
        }
        let third = self.options.lease / 3;
        self.next_extend = now + third;
        let mut keys = self.in_flight.extendable();
        if keys.is_empty() {
            // A heartbeat that failed is not repeated.
            self.monitor.succeeded("extend");
            return;
        }
        if keys.len() > CALL_ITEMS_MAX {
            // The most urgent first. The others follow when a third of their lease has passed.
            let deadline = |key: &DeliveryKey| self.in_flight.item(key).map(|item| item.deadline);
            keys.sort_by_key(deadline);
            let others = deadline(&keys[CALL_ITEMS_MAX]).and_then(|end| end.checked_sub(third * 2));
            keys.truncate(CALL_ITEMS_MAX);
            self.next_extend = others.map_or(now, |at| at.clamp(now, now + third));
        }
        let lease = Span::lease(self.options.lease).expect("the lease is checked when the worker is built");
        let extension = |key: &DeliveryKey| Some(self.in_flight.item(key)?.delivery.extend(lease));
        let extensions = keys.iter().filter_map(extension).collect();
        let limit = self.options.call_timeout.min(third);
        self.extend = Some(ExtendCall::extend(self.shared.store.clone(), extensions, keys, limit));
    }

    pub(super) fn extended(
        &mut self,
        response: Result<Vec<Extended>, Error>,
        keys: &[DeliveryKey],
        sent_at: Instant,
    ) -> Result<(), Error> {
        let extended = match response {
            Ok(extended) => extended,
            Err(error) => {
                let now = Instant::now();
                self.next_extend = now;
                self.extend_not_before = now + self.extend_retry();
                return self.failed("extend", error);
            }
        };
        self.monitor.succeeded("extend");
        for (key, extended) in keys.iter().zip(extended) {
            match extended {
                Extended::Until(_) => self.in_flight.extend_deadline(key, sent_at + self.options.lease),
                Extended::LeaseLost => self.lose(*key),
                Extended::Locked => {
                    self.next_extend = self.next_extend.min(Instant::now() + self.extend_retry());
                }
            }
        }
        Ok(())
    }

    /// The delay before leases that were not extended are extended again.
    fn extend_retry(&self) -> Duration {
        (self.options.lease / 12).min(Duration::from_secs(1))
    }

    /// Cancels deliveries whose leases could not be extended in time: another worker may have claimed them by now. They
    /// are settled all the same, because the store may have recorded a longer lease.
    pub(super) fn check_lapsed_leases(&mut self, now: Instant) {
        for key in self.in_flight.lapsed(now) {
            let Some(item) = self.in_flight.item(&key) else { continue };
            let (topic, id) = (&item.delivery.content.topic, &item.delivery.key.id);
            warn!(store = %self.shared.name, %topic, %id, uid = %item.delivery.uid, "lease ended");
            match &item.phase {
                Phase::Running { cancellation, .. } => cancellation.cancel(),
                Phase::Queued { .. } => {
                    self.unqueue(key);
                    self.in_flight.settle(key, Verdict::Release);
                }
                Phase::Settling(_) => {}
            }
        }
    }

    /// Removes a delivery from the queue of those that wait for a handler.
    fn unqueue(&mut self, key: DeliveryKey) {
        self.in_flight.queue.retain(|queued| *queued != key);
        if let Some(route) = self.in_flight.item(&key).and_then(|item| item.route) {
            self.routes.all[route].queued -= 1;
        }
    }

    /// Gives up a delivery after the store reported that its lease is lost.
    fn lose(&mut self, key: DeliveryKey) {
        let Some(item) = self.in_flight.get_mut(&key) else { return };
        let (delivery, route) = (item.delivery.clone(), item.route);
        match &mut item.phase {
            Phase::Running { cancellation, lost } => {
                cancellation.cancel();
                *lost = true;
            }
            Phase::Queued { .. } => {
                self.unqueue(key);
                self.in_flight.remove(&key);
                if let Some(route) = route {
                    self.routes.all[route].metrics.delivery_ended(DeliveryOutcome::Lost);
                }
                self.summary.lost += 1;
            }
            // The store decides whether the verdict counts when it gets it.
            Phase::Settling(_) => return,
        }
        let (topic, id) = (&delivery.content.topic, &delivery.key.id);
        warn!(store = %self.shared.name, %topic, %id, uid = %delivery.uid, "lease lost");
    }
}
