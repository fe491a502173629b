//! Claims: which messages may be delivered, and whether the deliveries of the store are right.

use oncebox_core::{Claim, Delivery, MessageState, Shard, Snapshot, Topic};

use super::leases::LeaseRequest;
use super::{Facts, Illegal, Model, Row};

/// Within a namespace, the messages of one lane are delivered in order.
type Lane = (Topic, Shard);

impl Model {
    /// The expected result of a claim in `work`, adopting the lanes and fences that the store chose.
    pub fn claim(&mut self, claim: &Claim, actual: &[Delivery]) -> Result<Vec<Delivery>, Illegal> {
        self.catch_up();
        for delivery in actual {
            self.note_number(delivery.uid, delivery.number)?;
        }
        if let Some(repeated) = self.repeated(claim) {
            return Ok(repeated);
        }
        let mut delivered = Vec::new();
        let mut skipped = Vec::new();
        let batch = self.capacity(claim);
        for actual in actual.iter().take(batch) {
            delivered.push(self.deliver(claim, &delivered, actual)?);
            let heads = self.heads(claim).into_iter();
            let too_big = heads.filter(|head| !fits(claim, &delivered, &self.rows[*head].message));
            skipped.extend(too_big.map(|head| self.lane(head)));
        }
        if delivered.len() < batch {
            let left = self.heads(claim).into_iter().find(|head| !skipped.contains(&self.lane(*head)));
            if let Some(left) = left {
                let uid = self.rows[left].message.uid;
                return Err(Illegal(format!("one more delivery, {uid}: it is claimable and fits")));
            }
        }
        Ok(delivered)
    }

    /// The maximum number of messages that a claim may deliver.
    fn capacity(&self, claim: &Claim) -> usize {
        let of_namespace = |row: &&Row| row.message.key.namespace == claim.namespace;
        let leased = |row: &&Row| row.message.state == MessageState::Processing && row.message.is_leased();
        let in_flight = self.rows.iter().filter(of_namespace).filter(leased).count();
        let max = claim.in_flight_max.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
        (claim.batch.get() as usize).min(max.saturating_sub(in_flight))
    }

    /// The current deliveries of an earlier claim with the same owner and request, by fence, except those whose content
    /// was replaced since; none if no lease is current.
    fn repeated(&self, claim: &Claim) -> Option<Vec<Delivery>> {
        let request = claim.request_identity()?;
        let of_the_same_call = |row: &Row| {
            let grant = row.message.current();
            row.message.key.namespace == claim.namespace
                && grant
                    .is_some_and(|grant| grant.lease.owner == claim.owner && grant.request == Some(request))
        };
        let mut indices: Vec<_> =
            (0..self.rows.len()).filter(|index| of_the_same_call(&self.rows[*index])).collect();
        if indices.is_empty() {
            return None;
        }
        indices.retain(|index| self.rows[*index].message.current().is_some_and(|grant| !grant.superseded));
        let mut deliveries: Vec<_> = indices.into_iter().map(|index| self.delivery(index)).collect();
        deliveries.sort_by_key(|delivery| delivery.lease.fence);
        Some(deliveries)
    }

    /// Delivers one message: it has to be the first of its lane, and to fit.
    fn deliver(
        &mut self,
        claim: &Claim,
        delivered: &[Delivery],
        actual: &Delivery,
    ) -> Result<Delivery, Illegal> {
        let heads = self.heads(claim);
        let Some(index) = heads.iter().copied().find(|head| self.rows[*head].message.uid == actual.uid)
        else {
            let uids: Vec<_> = heads.iter().map(|head| self.rows[*head].message.uid).collect();
            let position = delivered.len();
            return Err(Illegal(format!(
                "delivery {position} to be the first of a lane, {uids:?}, not {}",
                actual.uid
            )));
        };
        if !fits(claim, delivered, &self.rows[index].message) {
            return Err(Illegal(format!("no delivery of {}: it does not fit", actual.uid)));
        }
        let lease_request = LeaseRequest {
            owner: claim.owner,
            lease: claim.lease,
            request: claim.request_identity(),
            attempts_max: claim.attempts_max,
            worker: claim.worker.clone(),
        };
        self.grant(index, lease_request, Some(actual.lease.fence))?;
        Ok(self.delivery(index))
    }

    /// The first claimable message of each lane that the claim may be served from.
    fn heads(&self, claim: &Claim) -> Vec<usize> {
        let mut heads: Vec<usize> = Vec::new();
        for index in self.in_order() {
            let message = &self.rows[index].message;
            let wanted =
                message.content.as_ref().is_some_and(|content| claim.topics.contains(&content.topic));
            let first = |heads: &[usize]| heads.iter().all(|head| self.lane(*head) != self.lane(index));
            if message.key.namespace == claim.namespace
                && wanted
                && self.is_claimable(message)
                && first(&heads)
            {
                heads.push(index);
            }
        }
        heads
    }

    fn lane(&self, index: usize) -> Lane {
        let content =
            self.rows[index].message.content.as_ref().expect("only messages with content are in a lane");
        (content.topic.clone(), content.shard)
    }

    /// Whether a claim may deliver the message now.
    pub(super) fn is_claimable(&self, message: &Snapshot) -> bool {
        let retry_passed = message.retry_at.is_none_or(|at| at <= self.now);
        message.is_queued(self.now) && retry_passed && self.is_first_in_partition(message)
    }

    /// Whether its partition, if it has one, is free and it is the first in it.
    fn is_first_in_partition(&self, message: &Snapshot) -> bool {
        let Some(partition) = message.content.as_ref().and_then(|content| content.partition.as_ref()) else {
            return true;
        };
        let namespace = message.key.namespace;
        self.rows.iter().all(|row| {
            let other = &row.message;
            let in_flight = other.key.namespace == namespace
                && other.current().is_some_and(|grant| grant.partition.as_ref() == Some(partition));
            let before = other.is_in(namespace, partition)
                && other.is_queued(self.now)
                && other.number < message.number;
            !in_flight && !before
        })
    }

    fn delivery(&self, index: usize) -> Delivery {
        let message = &self.rows[index].message;
        assert_eq!(message.state, MessageState::Processing, "only a Processing message is delivered");
        Delivery {
            uid: message.uid,
            number: self.number(index),
            key: message.key.clone(),
            content: message.content.clone().expect("only messages with content are delivered"),
            fingerprint: message.fingerprint.expect("a message with content has a fingerprint"),
            hash: message.hash.clone(),
            trace: message.trace.clone(),
            accepted_at: message.accepted_at,
            last_seen_at: message.last_seen_at,
            attempts: message.attempts,
            deliveries: message.deliveries,
            last_error: message.last_error.clone(),
            lease: message.current().expect("the lease was granted before").lease,
        }
    }
}

/// Whether a claim may deliver the message after those that it has delivered so far.
fn fits(claim: &Claim, delivered: &[Delivery], message: &Snapshot) -> bool {
    let before: u64 = delivered.iter().map(|delivery| delivery.content.payload.len() as u64).sum();
    let own = message.content.as_ref().map_or(0, |content| content.payload.len() as u64);
    delivered.is_empty() || claim.bytes_max.is_none_or(|max| before + own <= max)
}
