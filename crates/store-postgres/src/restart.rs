//! After a restart, a mailbox lane does not deliver far ahead of the deliveries that were outstanding before
//! (MBX-G-9).
//!
//! On a shared database, a restart is a process that starts to serve. The deliveries that are outstanding when it
//! first claims from the mailbox are *inherited*: some process made them before. Past the oldest of them, processes
//! that started deliver at most 32 messages of the lane together, until that delivery is settled or its visibility
//! timeout ends. The table `ahead` records what they delivered, and a claim from such a lane locks the lane's row
//! there. A process without inherited deliveries neither reads nor writes the table. See ADR 0008.

mod ahead;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex as Lock, PoisonError};

use oncebox_core::Shard;
use tokio::sync::{Mutex, MutexGuard};

pub(crate) use self::ahead::{Ahead, Delivered, Inherited, Outstanding, ReorderLimits};
use crate::hints::Lane;

/// The deliveries that a process inherited when it started to serve.
#[derive(Default)]
pub(crate) struct Restart {
    /// `None` until the first claim from the mailbox. Claims run one at a time while an inherited delivery is
    /// outstanding.
    inherited: Mutex<Option<Inherited>>,
    /// No inherited delivery is outstanding any more, and none ever will be.
    finished: AtomicBool,
    depths: Lock<BTreeMap<Shard, u64>>,
}

impl Restart {
    /// The inherited deliveries, for one claim at a time; none once no such delivery is outstanding any more.
    pub(crate) async fn inherited(&self) -> Option<MutexGuard<'_, Option<Inherited>>> {
        if self.finished.load(Ordering::Acquire) {
            return None;
        }
        Some(self.inherited.lock().await)
    }

    /// No inherited delivery is outstanding any more.
    pub(crate) fn finish(&self) {
        self.finished.store(true, Ordering::Release);
    }

    /// By shard, the maximum number of messages that a lane delivered past its oldest inherited delivery.
    pub(crate) fn depths(&self) -> BTreeMap<Shard, u64> {
        self.depths.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records what limited lanes delivered, with the fences.
    pub(crate) fn record(&self, inherited: &Inherited, ahead: &mut Ahead, delivered: &[(Lane, i64, i64)]) {
        let mut depths = self.depths.lock().unwrap_or_else(PoisonError::into_inner);
        for (lane, number, fence) in delivered {
            let depth = inherited.record_delivery(ahead, lane, *number, *fence) as u64;
            let shard = Shard(u16::try_from(lane.1).unwrap_or_default());
            if depth > 0 {
                let max_depth = depths.entry(shard).or_default();
                *max_depth = depth.max(*max_depth);
            }
        }
    }
}
