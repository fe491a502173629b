//! The settlements of a call while it runs.

use std::collections::HashSet;

use oncebox_core::{Settled, Settlement, Verdict};
use uuid::Uuid;

use crate::codes::bigint;
use crate::query::Query;

/// Settlements of a call that are not finished: acknowledgements go with the next statement, and those that it could
/// not apply take the slow path.
pub(super) struct PendingSettlements<'a> {
    pub(super) settlements: &'a [Settlement],
    pub(super) outcomes: Vec<Option<Settled>>,
    pub(super) uids: Vec<Uuid>,
    owners: Vec<Uuid>,
    fences: Vec<i64>,
}

impl<'a> PendingSettlements<'a> {
    /// Only acknowledgements of distinct messages go with a statement; any other settlement sends all of them to the
    /// slow path.
    pub(super) fn new(settlements: &'a [Settlement]) -> Self {
        let outcomes = vec![None; settlements.len()];
        let (uids, owners, fences) = (Vec::new(), Vec::new(), Vec::new());
        let mut pending = Self { settlements, outcomes, uids, owners, fences };
        let mut seen = HashSet::new();
        let is_distinct_ack = |item: &Settlement| item.verdict == Verdict::Ack && seen.insert(item.uid);
        if settlements.iter().all(is_distinct_ack) {
            // Sorted, so that two calls that acknowledge the same messages do not deadlock.
            let mut items: Vec<_> = settlements.iter().collect();
            items.sort_unstable_by_key(|item| item.uid);
            pending.uids = items.iter().map(|item| Uuid::from_u128(item.uid.as_u128())).collect();
            pending.owners = items.iter().map(|item| Uuid::from_u128(item.owner.as_u128())).collect();
            pending.fences = items.iter().map(|item| bigint(item.fence.get())).collect();
        }
        pending
    }

    /// Binds the acknowledgements, as `work_1` takes them.
    pub(super) fn bind<'q>(&'q self, query: Query<'q>) -> Query<'q> {
        query.bind(&self.uids).bind(&self.owners).bind(&self.fences)
    }

    /// Records what was acknowledged; returns the indexes of the settlements that are left.
    pub(super) fn record_acks(&mut self, acked: &HashSet<Uuid>) -> Vec<usize> {
        for (settlement, outcome) in self.settlements.iter().zip(&mut self.outcomes) {
            if acked.contains(&Uuid::from_u128(settlement.uid.as_u128())) {
                *outcome = Some(Settled::Done);
            }
        }
        self.uids.clear();
        self.owners.clear();
        self.fences.clear();
        (0..self.outcomes.len()).filter(|index| self.outcomes[*index].is_none()).collect()
    }
}
