//! When to ask for more, and for how much; and starting what has come.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::limits::CALL_ITEMS_MAX;
use oncebox_core::{Batch, Claim, Delivery, Namespace, RequestId, Span, Verdict};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{Engine, Mode};
use crate::worker::attempt::{Attempt, Beginning, Ticket};
use crate::worker::calls::Work;
use crate::worker::context::Context;
use crate::worker::failure::Failure;
use crate::worker::held::{Item, Phase};
use crate::worker::options::Unhandled;
use crate::worker::route::{RouteSettings, Share};
use crate::worker::verdict;

/// Handlers that take longer gain nothing from messages claimed ahead, and those would wait here while another worker is
/// idle.
const LOOK_AHEAD_HANDLER_MAX: Duration = Duration::from_millis(100);

/// Whether a claim is worth it, and how fast handlers are.
pub(super) struct Appetite {
    /// A claim may bring something at once.
    pub(super) hungry: bool,
    /// The wishes that brought less than was asked for, since something woke us.
    quiet: BTreeSet<usize>,
    /// When they are asked again, even if others always have more.
    quiet_until: Instant,
    /// When to ask even so.
    next_poll: Instant,
    /// The present interval between polls, which grows while nothing comes.
    interval: Duration,
    /// A topic that had used up its rate may go on then.
    rated_until: Option<Instant>,
    /// How long handlers run, smoothed; none before the first has ended.
    handler_time: Option<Duration>,
}

impl Appetite {
    pub(super) fn new(now: Instant, interval: Duration) -> Self {
        let quiet = BTreeSet::new();
        let (next_poll, quiet_until) = (now, now);
        Self { hungry: true, quiet, quiet_until, next_poll, interval, rated_until: None, handler_time: None }
    }

    pub(super) fn woken(&mut self) {
        self.hungry = true;
        self.quiet.clear();
    }

    pub(super) fn ran(&mut self, time: Duration) {
        self.handler_time = Some(self.handler_time.map_or(time, |before| (before * 7 + time) / 8));
    }

    /// Whether a wake-up would tell anything new.
    pub(super) fn listens(&self) -> bool {
        !self.hungry || !self.quiet.is_empty()
    }

    fn looks_ahead(&self) -> bool {
        self.handler_time.is_some_and(|time| time < LOOK_AHEAD_HANDLER_MAX)
    }
}

impl Engine {
    /// How many more messages there is room for.
    fn room(&self) -> usize {
        if !self.mode.claims() {
            return 0;
        }
        let ahead = self.options.look_ahead && self.appetite.looks_ahead();
        let limit = self.options.concurrency() * if ahead { 2 } else { 1 };
        let free = match self.mode {
            // What cannot start at once waits here, under leases that are extended.
            Mode::Pass { left, .. } => left,
            _ => limit.saturating_sub(self.tasks.len() + self.held.queue.len()),
        };
        // Half a call at most: the other half is for results.
        free.min(self.options.batch as usize).min(CALL_ITEMS_MAX / 2)
    }

    /// When to claim next, if there is room.
    pub(super) fn next_claim(&self, now: Instant) -> Option<Instant> {
        if self.room() == 0 {
            return None;
        }
        let poll = if self.appetite.hungry { now } else { self.appetite.next_poll };
        Some(self.appetite.rated_until.map_or(poll, |rate| poll.min(rate)))
    }

    /// New claims, if they are worth it, and the wishes that they are for.
    pub(super) fn claims(&mut self, now: Instant) -> (Vec<Claim>, Vec<usize>) {
        if self.next_claim(now).is_none_or(|at| now < at) {
            return (Vec::new(), Vec::new());
        }
        if !self.appetite.hungry || now >= self.appetite.quiet_until {
            // A poll asks everybody anew, and however busy some topics are, the others are not forgotten over them.
            self.appetite.quiet.clear();
            self.appetite.quiet_until = now + self.options.poll_interval;
        }
        let shares = self.lanes.shares(self.room(), now, &self.appetite.quiet);
        // What wakes from here on came after the claim, or is in it.
        self.appetite.hungry = false;
        self.appetite.next_poll = now + self.appetite.interval;
        self.appetite.rated_until = self.lanes.next_rate(now);
        let lease = Span::lease(self.options.lease).expect("the lease is checked when the worker is built");
        let claim = |Share { wish, topics, attempts_max, messages }: Share| {
            let batch = u32::try_from(messages).ok().and_then(|messages| Batch::new(messages).ok());
            let batch = batch.expect("a share is from one to half a call");
            let mut claim = Claim::new(self.options.namespace, self.owner, lease, batch);
            claim.topics = topics;
            claim.attempts_max = attempts_max;
            claim.worker.clone_from(&self.name);
            claim.request = Some(RequestId::from_u128(self.shared.random()));
            (claim, wish)
        };
        shares.into_iter().map(claim).unzip()
    }

    /// Takes in what was claimed, and decides when to ask again.
    pub(super) fn claimed(
        &mut self,
        Work { claims, wishes, claimed_at, .. }: &Work,
        deliveries: Vec<Vec<Delivery>>,
        sent_at: Instant,
    ) {
        if claims.is_empty() {
            return;
        }
        if !self.appetite.hungry {
            let asked = wishes.iter().zip(claims).zip(&deliveries);
            let quiet = asked.filter(|((_, claim), got)| got.len() < claim.batch.get() as usize);
            self.appetite.quiet.extend(quiet.map(|((wish, _), _)| *wish));
        }
        let count: usize = deliveries.iter().map(Vec::len).sum();
        debug!(store = %self.shared.name, owner = %self.owner, claimed = count, "claimed");
        let now = Instant::now();
        // Granted long ago perhaps: nothing of it starts before a heartbeat has made its lease a fresh one.
        let stale = claimed_at.is_some() || now > sent_at + self.options.lease / 3;
        if stale && count > 0 {
            self.next_beat = now;
        }
        let granted_until = claimed_at.unwrap_or(sent_at) + self.options.lease;
        let deadline = if stale { granted_until.max(now + self.options.lease / 3) } else { granted_until };
        for delivery in deliveries.into_iter().flatten() {
            self.take(delivery, deadline, stale);
        }
        // Those for whom there was no room are asked next, and those who may have more; then a poll or a wake-up decides.
        self.appetite.hungry |= self.lanes.open(now).iter().any(|wish| !self.appetite.quiet.contains(wish));
        self.appetite.interval = match count {
            0 => (self.appetite.interval * 2)
                .min(self.options.poll_interval_max.max(self.options.poll_interval)),
            _ => self.options.poll_interval,
        };
        let jitter = 0.9 + self.shared.fraction() / 5.0;
        self.appetite.next_poll = now + self.appetite.interval.mul_f64(jitter);
        let complete = self.appetite.quiet.len() == self.lanes.wishes();
        self.mode.claimed(count, self.held.len(), complete);
    }

    fn take(&mut self, delivery: Delivery, deadline: Instant, stale: bool) {
        let ticket: Ticket = (delivery.uid, delivery.lease.fence);
        // A claim that was asked for again brings what it brought before.
        if self.held.contains(&ticket) {
            return;
        }
        let lane = self.lanes.find(&delivery.content.topic);
        let ahead = stale || self.tasks.len() + self.held.queue.len() >= self.options.concurrency();
        let item = Item { delivery: Arc::new(delivery), lane, deadline, phase: Phase::Queued { ahead } };
        let Some(lane) = lane else { return self.unhandled(ticket, item) };
        self.held.insert(ticket, item);
        if self.mode.starts() {
            self.lanes.all[lane].queued += 1;
            self.held.queue.push_back(ticket);
        } else {
            self.held.settle(ticket, Verdict::Release);
        }
    }

    /// A message whose topic nobody here handles (IBX-074).
    fn unhandled(&mut self, ticket: Ticket, item: Item) {
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
        self.held.insert(ticket, item);
        self.held.settle(ticket, verdict);
    }

    /// Starts what waits, in order, as far as slots and the limits of its topic allow.
    pub(super) fn start_queued(&mut self, now: Instant) {
        if !self.mode.starts() {
            return;
        }
        let mut later = Vec::new();
        while self.tasks.len() < self.options.concurrency()
            && let Some(ticket) = self.held.queue.pop_front()
        {
            if !self.start(ticket, now) {
                later.push(ticket);
            }
        }
        for ticket in later.into_iter().rev() {
            self.held.queue.push_front(ticket);
        }
        // A topic may have used up its rate just now.
        let rated_until = [self.appetite.rated_until, self.lanes.next_rate(now)];
        self.appetite.rated_until = rated_until.into_iter().flatten().min();
    }

    /// Starts one; false if it has to wait.
    fn start(&mut self, ticket: Ticket, now: Instant) -> bool {
        let busy = self.held.busy.contains(&ticket.0);
        let Some(item) = self.held.get_mut(&ticket) else { return true };
        let (Some(place), Phase::Queued { ahead }) = (item.lane, &item.phase) else { return true };
        let lane = &mut self.lanes.all[place];
        // What has waited here starts only with most of its lease left: the next heartbeat makes it so.
        let stale = *ahead && item.deadline.saturating_duration_since(now) < self.options.lease * 2 / 3;
        if stale {
            self.next_beat = now;
        }
        if busy || stale || !lane.may_start(now) {
            return false;
        }
        if let Some(rate) = &mut lane.rate {
            rate.take(now);
        }
        lane.queued -= 1;
        lane.running += 1;
        let cancellation = CancellationToken::new();
        item.phase = Phase::Running { cancellation: cancellation.clone(), lost: false };
        let delivery = item.delivery.clone();
        if delivery.deliveries <= 1 {
            lane.metrics.waited(self.shared.clock.now().since(delivery.accepted_at));
        }
        let transaction = lane
            .settings
            .transaction
            .map(|_| Beginning { pulse: self.pulse.clone(), patience: self.options.lease });
        let attempt = Attempt {
            transaction,
            endpoint: lane.endpoint.clone(),
            timeout: lane.settings.timeout.or(self.options.timeout),
            deadline: item.deadline,
            context: Context::new(delivery, cancellation.clone(), self.shared.clone()),
            cancellation,
        };
        self.held.busy.insert(ticket.0);
        let task = self.tasks.spawn(attempt.run());
        self.running.insert(task.id(), ticket);
        true
    }
}
