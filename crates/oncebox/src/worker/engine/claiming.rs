//! Decides when to claim and how much, and starts handlers for claimed messages.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::limits::CALL_ITEMS_MAX;
use oncebox_core::{Batch, Claim, Delivery, Error, Namespace, RequestId, Span, Verdict};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{Engine, Mode};
use crate::worker::attempt::{Attempt, DeliveryKey, TransactionStart};
use crate::worker::calls::{PausesCall, WorkRequest};
use crate::worker::context::Context;
use crate::worker::failure::Failure;
use crate::worker::in_flight::{Item, Phase};
use crate::worker::options::Unhandled;
use crate::worker::route::{RouteSettings, Share};
use crate::worker::verdict;

/// Slower handlers gain nothing from prefetched messages, which would wait here while another worker is idle.
const PREFETCH_HANDLER_MAX: Duration = Duration::from_millis(100);

/// When to claim next, and how fast handlers are.
pub(super) struct PollState {
    /// Claim at the next opportunity: there may be messages.
    pub(super) claim_now: bool,
    /// The claim groups that returned fewer messages than requested since the last wake-up.
    drained: BTreeSet<usize>,
    /// When the drained groups are claimed again even if the others always have more.
    drained_until: Instant,
    /// When to claim even without a wake-up.
    next_poll: Instant,
    /// The current poll interval, which grows while claims return nothing.
    interval: Duration,
    /// When a topic that has used up its rate may start again.
    rate_limited_until: Option<Instant>,
    /// How long handlers run, smoothed; none before the first has ended.
    handler_time: Option<Duration>,
}

impl PollState {
    pub(super) fn new(now: Instant, interval: Duration) -> Self {
        let drained = BTreeSet::new();
        let (next_poll, drained_until) = (now, now);
        Self {
            claim_now: true,
            drained,
            drained_until,
            next_poll,
            interval,
            rate_limited_until: None,
            handler_time: None,
        }
    }

    pub(super) fn wake(&mut self) {
        self.claim_now = true;
        self.drained.clear();
    }

    pub(super) fn record_run(&mut self, time: Duration) {
        self.handler_time = Some(self.handler_time.map_or(time, |before| (before * 7 + time) / 8));
    }

    /// Whether a wake-up would change anything.
    pub(super) fn wants_wakeups(&self) -> bool {
        !self.claim_now || !self.drained.is_empty()
    }

    fn prefetches(&self) -> bool {
        self.handler_time.is_some_and(|time| time < PREFETCH_HANDLER_MAX)
    }
}

impl Engine {
    /// How many more messages may be claimed.
    fn capacity(&self) -> usize {
        if !self.mode.claims() {
            return 0;
        }
        let prefetch = self.options.prefetch && self.polling.prefetches();
        let limit = self.options.concurrency() * if prefetch { 2 } else { 1 };
        let free = match self.mode {
            // Messages that cannot start at once are queued, and their leases are extended.
            Mode::Pass { left, .. } => left,
            _ => limit.saturating_sub(self.tasks.len() + self.in_flight.queue.len()),
        };
        // Half a call at most: the other half is for settlements.
        free.min(self.options.batch as usize).min(CALL_ITEMS_MAX / 2)
    }

    /// When to claim next; none if there is no capacity.
    pub(super) fn next_claim(&self, now: Instant) -> Option<Instant> {
        if self.capacity() == 0 {
            return None;
        }
        let next = if self.polling.claim_now { now } else { self.polling.next_poll };
        Some(self.polling.rate_limited_until.map_or(next, |rate| next.min(rate)))
    }

    /// New claims, if they are due, and the claim group of each.
    pub(super) fn claims(&mut self, now: Instant) -> (Vec<Claim>, Vec<usize>) {
        if self.next_claim(now).is_none_or(|at| now < at) {
            return (Vec::new(), Vec::new());
        }
        if !self.knows_pauses() {
            self.read_pauses(now);
            return (Vec::new(), Vec::new());
        }
        if !self.polling.claim_now || now >= self.polling.drained_until {
            // A poll claims from all groups again, so that busy topics never hide the others for longer than the poll
            // interval.
            self.polling.drained.clear();
            self.polling.drained_until = now + self.options.poll_interval;
        }
        let shares = self.routes.shares(self.capacity(), now, &self.polling.drained);
        // A wake-up after this point is for messages that came after this claim, or are part of it.
        self.polling.claim_now = false;
        self.polling.next_poll = now + self.polling.interval;
        self.polling.rate_limited_until = self.routes.next_rate(now);
        let lease = Span::lease(self.options.lease).expect("the lease is checked when the worker is built");
        let claim = |Share { group, topics, attempts_max, messages }: Share| {
            let batch = u32::try_from(messages).ok().and_then(|messages| Batch::new(messages).ok());
            let batch = batch.expect("a share is at least one message and at most half a call");
            let mut claim = Claim::new(self.options.namespace, self.owner, lease, batch);
            claim.topics = topics;
            claim.attempts_max = attempts_max;
            claim.worker.clone_from(&self.name);
            claim.request = Some(RequestId::from_u128(self.shared.random()));
            (claim, group)
        };
        shares.into_iter().map(claim).unzip()
    }

    pub(super) fn knows_pauses(&self) -> bool {
        self.pauses_answered || self.shared.pauses.are_known(self.options.namespace)
    }

    /// Reads the paused topics, in a call of its own. Claims follow when it is answered.
    pub(super) fn read_pauses(&mut self, now: Instant) {
        if self.pauses.is_none() && now >= self.pauses_not_before {
            let limit = self.options.call_timeout.min(self.mode.call_limit());
            self.pauses = Some(PausesCall::read(self.shared.pauses.clone(), self.options.namespace, limit));
        }
    }

    pub(super) fn pauses_read(&mut self, response: Result<(), Error>) -> Result<(), Error> {
        match response {
            Ok(()) => {
                self.monitor.succeeded("records");
                self.pauses_answered = true;
                Ok(())
            }
            // A worker that has nothing to claim or to repeat does not need them.
            Err(error) if error.is_retryable() && !self.mode.claims() && self.unanswered.is_none() => Ok(()),
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                self.pauses_not_before = Instant::now() + self.pause_after_failure();
                self.failed("records", error)
            }
        }
    }

    /// When a claim that is due at this moment can be made, or the paused topics can be read for it; none if they are
    /// being read.
    pub(super) fn once_pauses_are_known(&self, at: Instant) -> Option<Instant> {
        match &self.pauses {
            _ if self.knows_pauses() => Some(at),
            Some(_) => None,
            None => Some(at.max(self.pauses_not_before)),
        }
    }

    /// Records claimed deliveries, and decides when to claim again.
    pub(super) fn claimed(
        &mut self,
        WorkRequest { claims, groups, claimed_at, .. }: &WorkRequest,
        deliveries: Vec<Vec<Delivery>>,
        sent_at: Instant,
    ) {
        if claims.is_empty() {
            return;
        }
        if !self.polling.claim_now {
            // While a topic is paused, a claim of all topics is made for some of the others at a time.
            let some_kept_back = !self.shared.pauses.none_is_paused(self.options.namespace);
            let is_drained = |claim: &Claim, messages: usize| match claim.topics.named() {
                None if some_kept_back => messages == 0,
                _ => messages < claim.batch.get() as usize,
            };
            let requested = groups.iter().zip(claims).zip(&deliveries);
            let drained = requested.filter(|((_, claim), deliveries)| is_drained(claim, deliveries.len()));
            self.polling.drained.extend(drained.map(|((group, _), _)| *group));
        }
        let count: usize = deliveries.iter().map(Vec::len).sum();
        debug!(store = %self.shared.name, owner = %self.owner, claimed = count, "claimed");
        let now = Instant::now();
        // The leases may have been granted long ago: no handler starts before a heartbeat has renewed them.
        let stale = claimed_at.is_some() || now > sent_at + self.options.lease / 3;
        if stale && count > 0 {
            self.next_extend = now;
        }
        let granted_until = claimed_at.unwrap_or(sent_at) + self.options.lease;
        let deadline = if stale { granted_until.max(now + self.options.lease / 3) } else { granted_until };
        for delivery in deliveries.into_iter().flatten() {
            self.add_delivery(delivery, deadline, stale);
        }
        // Groups that did not fit into this claim are claimed next, and those that may have more; after that, the next
        // poll or wake-up decides.
        self.polling.claim_now |=
            self.routes.claimable(now).iter().any(|group| !self.polling.drained.contains(group));
        self.polling.interval = match count {
            0 => (self.polling.interval * 2)
                .min(self.options.poll_interval_max.max(self.options.poll_interval)),
            _ => self.options.poll_interval,
        };
        let jitter = 0.9 + self.shared.fraction() / 5.0;
        self.polling.next_poll = now + self.polling.interval.mul_f64(jitter);
        let complete = self.polling.drained.len() == self.routes.group_count();
        self.mode.claimed(count, self.in_flight.len(), complete);
    }

    /// Queues a claimed delivery, or settles it at once if no handler can start.
    fn add_delivery(&mut self, delivery: Delivery, deadline: Instant, stale: bool) {
        let key: DeliveryKey = (delivery.uid, delivery.lease.fence);
        // A repeated claim returns the same deliveries as before.
        if self.in_flight.contains(&key) {
            return;
        }
        let route = self.routes.find(&delivery.content.topic);
        let prefetched = stale || self.tasks.len() + self.in_flight.queue.len() >= self.options.concurrency();
        let item =
            Item { delivery: Arc::new(delivery), route, deadline, phase: Phase::Queued { prefetched } };
        let Some(route) = route else { return self.unhandled(key, item) };
        self.in_flight.insert(key, item);
        if self.mode.starts() {
            self.routes.all[route].queued += 1;
            self.in_flight.queue.push_back(key);
        } else {
            self.in_flight.settle(key, Verdict::Release);
        }
    }

    /// Settles a message whose topic has no handler in this worker (IBX-074).
    fn unhandled(&mut self, key: DeliveryKey, item: Item) {
        let delivery = item.delivery.clone();
        let topic = &delivery.content.topic;
        let text = match self.options.namespace {
            Namespace::Commands => "the contract is not registered",
            _ => "no handler for this topic",
        };
        warn!(store = %self.shared.name, %topic, id = %delivery.key.id, "{text}");
        let failure = Failure::retry(text);
        let verdict = match self.options.unhandled {
            Unhandled::Dead => {
                Verdict::Fail { reason: oncebox_core::DeadReason::Unhandled, error: failure.last_error() }
            }
            Unhandled::Abandon | Unhandled::Leave => verdict::of_failure(
                &self.shared,
                &self.options,
                &RouteSettings::default(),
                &delivery,
                &failure,
            ),
        };
        self.in_flight.insert(key, item);
        self.in_flight.settle(key, verdict);
    }

    /// Starts queued deliveries in order, as far as concurrency and the limits of their topics allow.
    pub(super) fn start_queued(&mut self, now: Instant) {
        if !self.mode.starts() {
            return;
        }
        let mut later = Vec::new();
        while self.tasks.len() < self.options.concurrency()
            && let Some(key) = self.in_flight.queue.pop_front()
        {
            if !self.start(key, now) {
                later.push(key);
            }
        }
        for key in later.into_iter().rev() {
            self.in_flight.queue.push_front(key);
        }
        // A topic may have used up its rate just now.
        let rate_limited_until = [self.polling.rate_limited_until, self.routes.next_rate(now)];
        self.polling.rate_limited_until = rate_limited_until.into_iter().flatten().min();
    }

    /// Starts one delivery; false if it has to wait.
    fn start(&mut self, key: DeliveryKey, now: Instant) -> bool {
        let busy = self.in_flight.busy.contains(&key.0);
        let Some(item) = self.in_flight.get_mut(&key) else { return true };
        let (Some(index), Phase::Queued { prefetched }) = (item.route, &item.phase) else { return true };
        let route = &mut self.routes.all[index];
        // A delivery that waited here starts only with most of its lease left. The next heartbeat extends it.
        let stale = *prefetched && item.deadline.saturating_duration_since(now) < self.options.lease * 2 / 3;
        if stale {
            self.next_extend = now;
        }
        if busy || stale || !route.may_start(now) {
            return false;
        }
        if let Some(rate) = &mut route.rate {
            rate.take(now);
        }
        route.queued -= 1;
        route.running += 1;
        let cancellation = CancellationToken::new();
        item.phase = Phase::Running { cancellation: cancellation.clone(), lost: false };
        let delivery = item.delivery.clone();
        if delivery.deliveries <= 1 {
            route.metrics.waited(self.shared.clock.now().since(delivery.accepted_at));
        }
        let transaction = route
            .settings
            .transaction
            .map(|_| TransactionStart { monitor: self.monitor.clone(), retry_for: self.options.lease });
        let attempt = Attempt {
            transaction,
            handler: route.handler.clone(),
            timeout: route.settings.timeout.or(self.options.timeout),
            deadline: item.deadline,
            context: Context::new(delivery, cancellation.clone(), self.shared.clone()),
            cancellation,
        };
        self.in_flight.busy.insert(key.0);
        let task = self.tasks.spawn(attempt.run());
        self.running.insert(task.id(), key);
        true
    }
}
