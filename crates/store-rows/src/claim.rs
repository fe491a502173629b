//! Claims: finds claimable messages, loads them, and lets the state machine deliver.

use std::collections::HashSet;

use oncebox_core::machine::{CallContext, Machine};
use oncebox_core::{
    Claim, Content, Delivery, Error, ErrorKind, MessageState, Payload, Settlement, Snapshot, Uid, Worked,
};

use crate::body::Body;
use crate::call::{Call, TIMER_STEP_MAX};
use crate::decision::{Decision, Events, Loaded, Rewrite, decide};
use crate::rotation::Rotation;
use crate::rows::{Changes, StepFailure, Wanted};
use crate::search::{ClaimIdentity, LanePosition, Search, Sought};
use crate::targets::Targets;

/// How many steps of due timers run before a claim.
const TIMER_STEPS_MAX: u32 = 3;
/// How often a transaction searches again because a claim has received too little of what was found: others were
/// faster, or it does not fit. Each time it looks for [`SEARCH_GROWTH`] times as much.
const SEARCHES_MAX: u32 = 5;
const SEARCH_GROWTH: usize = 4;

/// The result of one claim, before the contents are known.
struct Claimed {
    deliveries: Vec<Delivery<Body>>,
    /// Whether the deliveries are those of an earlier attempt.
    repeated: bool,
}

impl<R: Search> Call<'_, R> {
    /// Settles deliveries, then claims; see [`oncebox_core::Store::work`]. Each claim is a transaction.
    pub async fn work(
        &mut self,
        rotation: &Rotation,
        settlements: &[Settlement],
        claims: &[Claim],
    ) -> Result<Worked, Error> {
        let settled = self.settle(settlements).await?;
        let mut deliveries = Vec::with_capacity(claims.len());
        if !claims.is_empty() {
            self.run_all_timers(TIMER_STEPS_MAX * TIMER_STEP_MAX).await?;
        }
        for claim in claims {
            deliveries.push(self.claim(rotation, claim).await?);
        }
        Ok(Worked { settled, deliveries })
    }

    /// Serves a claim. If other processes are always faster, it receives nothing.
    async fn claim(&mut self, rotation: &Rotation, claim: &Claim) -> Result<Vec<Delivery>, Error> {
        let after = rotation.last(claim);
        for _ in 0..R::ATTEMPTS_MAX {
            match self.claim_once(claim, after.as_ref()).await {
                Ok((deliveries, repeated, events)) => {
                    let last = deliveries.last().filter(|_| !repeated);
                    if let Some(Delivery { content, .. }) = last {
                        rotation.served(claim, (content.topic.clone(), content.shard));
                    }
                    self.committed(events);
                    return Ok(deliveries);
                }
                Err(StepFailure::Conflict) => {}
                Err(failure) => return Err(failure.into()),
            }
        }
        Ok(Vec::new())
    }

    /// Loads candidates until the claim is full or there are no more, stores the leases, and reads the contents.
    async fn claim_once(
        &mut self,
        claim: &Claim,
        after: Option<&LanePosition>,
    ) -> Result<(Vec<Delivery>, bool, Events), StepFailure> {
        self.rows.begin(self.lock_wait()).await?;
        let mut messages = match ClaimIdentity::of(claim) {
            Some(identity) => self.rows.load_request(&identity).await?,
            None => Vec::new(),
        };
        let left = match claim.in_flight_max {
            Some(max) => max.saturating_sub(self.rows.count_in_flight(claim.namespace).await?),
            None => u64::MAX,
        };
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(claim.batch.get() as usize);
        let mut items_max = wanted;
        for search in 1.. {
            let mut is_last = search == SEARCHES_MAX || items_max == 0;
            if items_max > 0 {
                let (namespace, topics) = (claim.namespace, &claim.topics);
                let found = self.rows.find(Sought::Claimable { namespace, topics, after, items_max }).await?;
                is_last |= found.len() < items_max;
                self.load_more(&mut messages, found).await?;
            }
            let ticket = self.rows.ticket().await?;
            let loaded = Loaded { messages, ticket, elsewhere: Vec::new() };
            let limited = with_in_flight(claim, left, &loaded.messages);
            let decision = decide(&loaded, Rewrite::Changed, &mut *self.ids, |machine, context| {
                claim_from(machine, context, &limited, ticket.floor)
            })?;
            let Claimed { deliveries, repeated } = &decision.answer;
            if is_last || *repeated || deliveries.len() >= wanted {
                return self.finish_claim(&loaded, decision).await;
            }
            messages = loaded.messages;
            items_max = items_max.saturating_mul(SEARCH_GROWTH);
        }
        unreachable!("the last search ends the loop")
    }

    /// Loads the messages that are not loaded yet, without those that another claim has leased since they were found.
    async fn load_more(
        &mut self,
        messages: &mut Vec<Snapshot<Body>>,
        found: Vec<Uid>,
    ) -> Result<(), StepFailure> {
        let known: HashSet<Uid> = messages.iter().map(|message| message.uid).collect();
        let uids: Vec<Uid> = found.into_iter().filter(|uid| !known.contains(uid)).collect();
        if uids.is_empty() {
            return Ok(());
        }
        let targets = Targets { uids, ..Targets::default() };
        let loaded = self.rows.load(Wanted::Named(&targets)).await?;
        messages.extend(loaded.into_iter().filter(|message| message.lease().is_none()));
        Ok(())
    }

    async fn finish_claim(
        &mut self,
        loaded: &Loaded,
        decision: Decision<Claimed>,
    ) -> Result<(Vec<Delivery>, bool, Events), StepFailure> {
        let Decision { answer: Claimed { deliveries, repeated }, writes, now, events } = decision;
        if !writes.is_empty() {
            self.rows.store(Changes { loaded: &loaded.messages, writes: &writes, now }).await?;
        }
        let uids: Vec<Uid> = deliveries.iter().map(|delivery| delivery.uid).collect();
        let contents = if uids.is_empty() { Vec::new() } else { self.rows.contents(&uids).await? };
        if contents.len() != uids.len() {
            let text = "a message that was claimed has no content: the store was changed by hand";
            return Err(Error::new(ErrorKind::Corrupt, text).into());
        }
        self.rows.commit().await?;
        let contents = deliveries.into_iter().zip(contents);
        let deliveries = contents.map(|(delivery, (payload, attributes))| {
            let content = Content { attributes, ..delivery.content.clone().with_payload(|_| payload) };
            with_content(delivery, content)
        });
        Ok((deliveries.collect(), repeated, events))
    }
}

impl ClaimIdentity {
    fn of(claim: &Claim) -> Option<Self> {
        let request = claim.request_identity()?;
        Some(Self { namespace: claim.namespace, owner: claim.owner, request })
    }
}

/// Claims from the loaded messages. Fences from `floor` on are new.
fn claim_from(
    machine: &mut Machine<Body>,
    context: &mut CallContext<'_, Body>,
    claim: &Claim,
    floor: u64,
) -> Claimed {
    // A message that was claimable when it was loaded is not news to those who wait for it.
    machine.take_wakeups(|_, _| ());
    let deliveries = machine.claim(context, claim);
    let repeated = deliveries.iter().any(|delivery| delivery.lease.fence.get() < floor);
    Claimed { deliveries, repeated }
}

/// The claim with a limit on the messages in flight that counts only the loaded ones: `left` more than they are.
fn with_in_flight(claim: &Claim, left: u64, messages: &[Snapshot<Body>]) -> Claim {
    let is_leased = |message: &&Snapshot<Body>| {
        message.key.namespace == claim.namespace
            && message.state == MessageState::Processing
            && message.lease().is_some()
    };
    let leased = messages.iter().filter(is_leased).count() as u64;
    let in_flight_max = claim.in_flight_max.map(|_| left.saturating_add(leased));
    Claim { in_flight_max, ..claim.clone() }
}

fn with_content(delivery: Delivery<Body>, content: Content<Payload>) -> Delivery {
    Delivery {
        uid: delivery.uid,
        number: delivery.number,
        key: delivery.key,
        content,
        fingerprint: delivery.fingerprint,
        hash: delivery.hash,
        trace: delivery.trace,
        accepted_at: delivery.accepted_at,
        last_seen_at: delivery.last_seen_at,
        attempts: delivery.attempts,
        deliveries: delivery.deliveries,
        last_error: delivery.last_error,
        lease: delivery.lease,
    }
}
