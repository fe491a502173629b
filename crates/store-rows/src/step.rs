//! One step: a transaction that loads messages, decides, and stores the changes.

use std::collections::BTreeMap;

use oncebox_core::machine::{CallContext, Machine};
use oncebox_core::{IdSource, MessageState, Snapshot};

use crate::body::Body;
use crate::decision::{Decision, Events, Loaded, Rewrite, decide};
use crate::lane::{LaneKey, lane_key_of_snapshot};
use crate::rows::{Changes, LockWait, LockedRows, Rows, StepFailure, Wanted};
use crate::targets::Targets;

/// Loads the messages that a call names, decides, and stores the changes.
pub(crate) async fn decide_once<R: Rows, T>(
    rows: &mut R,
    lock_wait: LockWait,
    ids: &mut dyn IdSource,
    targets: &Targets<'_>,
    each: impl FnOnce(&mut Machine<Body>, &mut CallContext<'_, Body>) -> T,
) -> Result<(T, Events), StepFailure> {
    rows.begin(lock_wait).await?;
    let messages = rows.load(Wanted::Named(targets)).await?;
    let ticket = rows.ticket().await?;
    let elsewhere = count_elsewhere(rows, targets, &messages).await?;
    let loaded = Loaded { messages, ticket, elsewhere };
    let decision = decide(&loaded, Rewrite::Changed, ids, each)?;
    finish(rows, &loaded, decision).await
}

/// Loads messages with due timers, and stores what time has changed. Returns how many there were.
pub(crate) async fn run_timers_once<R: Rows>(
    rows: &mut R,
    lock_wait: LockWait,
    ids: &mut dyn IdSource,
    items_max: u32,
    locked: LockedRows,
) -> Result<(usize, Events), StepFailure> {
    rows.begin(lock_wait).await?;
    let messages = rows.load(Wanted::Due { items_max, locked }).await?;
    if messages.is_empty() {
        rows.commit().await?;
        return Ok((0, Events::default()));
    }
    let ticket = rows.ticket().await?;
    let loaded = Loaded { messages, ticket, elsewhere: Vec::new() };
    let count = loaded.messages.len();
    let decision = decide(&loaded, Rewrite::All, ids, |_, _| count)?;
    finish(rows, &loaded, decision).await
}

/// Stores a decision and commits.
pub(crate) async fn finish<R: Rows, T>(
    rows: &mut R,
    loaded: &Loaded,
    decision: Decision<T>,
) -> Result<(T, Events), StepFailure> {
    let Decision { answer, writes, now, events } = decision;
    rows.store(Changes { loaded: &loaded.messages, writes: &writes, now }).await?;
    rows.commit().await?;
    Ok((answer, events))
}

/// Counts the unfinished messages of the lanes whose limits decide, without the loaded messages; up to their limits.
async fn count_elsewhere<R: Rows>(
    rows: &mut R,
    targets: &Targets<'_>,
    messages: &[Snapshot<Body>],
) -> Result<Vec<(LaneKey, u64)>, StepFailure> {
    if !targets.has_lane_limits() {
        return Ok(Vec::new());
    }
    // By lane: its limit, and how many of its unfinished messages are loaded.
    let mut lanes: BTreeMap<LaneKey, (u64, u64)> =
        targets.lanes.iter().map(|(lane, max)| (lane.clone(), (*max, 0))).collect();
    if let Some(max) = targets.redrive_lane_max {
        // Also of messages that are not Dead: an earlier order of the same call may cancel them.
        for lane in messages.iter().filter_map(lane_key_of_snapshot) {
            let (lane_max, _) = lanes.entry(lane).or_default();
            *lane_max = u64::from(max.get()).max(*lane_max);
        }
    }
    let unfinished = messages.iter().filter(|message| message.state == MessageState::Processing);
    for lane in unfinished.filter_map(lane_key_of_snapshot) {
        lanes.entry(lane).and_modify(|(_, loaded)| *loaded += 1);
    }
    let demands: Vec<_> = lanes.iter().map(|(lane, (max, loaded))| (lane.clone(), max + loaded)).collect();
    let counted = rows.count_unfinished(&demands).await?;
    let counts = lanes.into_iter().zip(counted);
    Ok(counts.map(|((lane, (_, loaded)), counted)| (lane, counted.saturating_sub(loaded))).collect())
}
