//! The turns of lanes: which lane a process served last.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use oncebox_core::{Claim, Namespace, Topics};

use crate::search::LanePosition;

/// Maximum number of combinations of topics that are remembered.
const CLAIMED_MAX: usize = 1_024;

/// The lanes that the claims of a process served last, by what they claim. A hint: without it, claims begin at the first
/// lane.
#[derive(Debug, Default)]
pub struct Rotation(Mutex<HashMap<(Namespace, Topics), LanePosition>>);

impl Rotation {
    fn lock(&self) -> MutexGuard<'_, HashMap<(Namespace, Topics), LanePosition>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn last(&self, claim: &Claim) -> Option<LanePosition> {
        self.lock().get(&(claim.namespace, claim.topics.clone())).cloned()
    }

    pub(crate) fn served(&self, claim: &Claim, lane: LanePosition) {
        let (mut last, claimed) = (self.lock(), (claim.namespace, claim.topics.clone()));
        if last.len() >= CLAIMED_MAX && !last.contains_key(&claimed) {
            last.clear();
        }
        last.insert(claimed, lane);
    }
}
