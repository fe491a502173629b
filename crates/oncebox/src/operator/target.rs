//! What an order is about, and whether there is capacity for it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use oncebox_core::{Action, Bound, Error, LastError, Operated, Ref, Scope, Shard, Snapshot, State, Topic};

use super::Operator;

/// Messages that are read at once, with their payloads, at most.
const READ_AT_ONCE_MAX: usize = 64;
/// When to come again while a shard is full: receivers empty it, nobody knows how fast.
const CAPACITY_RETRY: Duration = Duration::from_secs(1);

/// A message that an order is about.
pub(super) struct Target {
    pub(super) at: Ref,
    /// For the audit log: a change may hide it.
    pub(super) error: Option<LastError>,
    /// Where it comes back if it is redriven.
    lane: Option<(Topic, Shard)>,
}

impl Target {
    pub(super) fn of<P>(message: &Snapshot<P>) -> Self {
        let dead = message.content.as_ref().filter(|_| message.state == State::Dead);
        let lane = dead.map(|content| (content.topic.clone(), content.shard));
        Self { at: message.uid.into(), error: message.last_error.clone(), lane }
    }
}

impl Operator {
    /// Reads what orders need to know about their messages, before they change them.
    async fn look_up(&self, targets: &[Ref]) -> Result<Vec<Target>, Error> {
        let mut found = Vec::with_capacity(targets.len());
        for targets in targets.chunks(READ_AT_ONCE_MAX) {
            let messages = self.shared.store.get(targets).await?;
            found.extend(targets.iter().zip(messages).map(|(at, message)| {
                let known = message.as_ref().map(Target::of);
                let (error, lane) = known.map_or((None, None), |target| (target.error, target.lane));
                Target { at: at.clone(), error, lane }
            }));
        }
        Ok(found)
    }

    /// How many of these, from the first on, can be ordered before a shard is full; and the bound that the next would pass.
    /// It is asked before the order is carried out, so senders at the same time may take what is left.
    pub(super) async fn fitting(
        &self,
        targets: &[Target],
        action: &Action,
    ) -> Result<(usize, Option<Bound>), Error> {
        let (Some(most), Action::Redrive { .. }) = (self.lane_max, action) else {
            return Ok((targets.len(), None));
        };
        let most = u64::from(most.get());
        let mut lanes: HashMap<&(Topic, Shard), u64> = HashMap::new();
        for (place, target) in targets.iter().enumerate() {
            let Some(lane) = &target.lane else { continue };
            let used = match lanes.entry(lane) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(self.unfinished(lane).await?),
            };
            if *used >= most {
                return Ok((place, Some(Bound::new(Bound::LANE_MESSAGES, *used, most))));
            }
            *used += 1;
        }
        Ok((targets.len(), None))
    }

    async fn unfinished(&self, (topic, shard): &(Topic, Shard)) -> Result<u64, Error> {
        let scope = Scope { namespace: self.namespace, topic: Some(topic.clone()), shard: Some(*shard) };
        let counts = self.shared.store.counts(&scope).await?;
        Ok(counts.ready + counts.waiting + counts.leased)
    }

    /// Carries out orders by name, one outcome each, in order; those that do not fit are `Saturated`.
    pub(super) async fn order_named(&self, targets: &[Ref], action: &Action) -> Result<Vec<Operated>, Error> {
        let mut targets = self.look_up(targets).await?;
        let (fitting, bound) = self.fitting(&targets, action).await?;
        let left = targets.split_off(fitting).len();
        let mut operated = self.order(targets, action).await?;
        if let Some(bound) = bound {
            let saturated = Operated::Saturated { retry_after: CAPACITY_RETRY, bound };
            operated.extend(std::iter::repeat_n(saturated, left));
        }
        Ok(operated)
    }
}
