//! Upper bounds of journal bytes for the items of a call, reserved before anything is applied.

use oncebox_core::limits::RECORD_KIND_NAME_BYTES_MAX;
use oncebox_core::machine::REMOVALS_MAX;
use oncebox_core::{Action, Claim, Key, NewMessage, Observation, Order, RecordOp, Settlement, Verdict};

/// An effect without its strings.
pub(crate) const RECORD_BYTES: u64 = 192;

fn text(bytes: usize) -> u64 {
    bytes as u64 + 8
}

pub(crate) fn key(key: &Key) -> u64 {
    // Beginning a key may write three effects: recorded, observed and granted.
    3 * RECORD_BYTES + text(key.source.as_str().len()) + text(key.id.as_str().len())
}

pub(crate) fn observation(observation: &Observation) -> u64 {
    key(&observation.key) + RECORD_BYTES
}

pub(crate) fn message(message: &NewMessage) -> u64 {
    let content = &message.content;
    let partition = content.partition.as_ref().map_or(0, |partition| partition.as_str().len());
    let attributes = content.attributes.bytes() + content.attributes.iter().count() * 8;
    let texts = content.topic.as_str().len() + partition + message.trace.bytes() + attributes;
    2 * RECORD_BYTES + key(&message.key) + text(texts) + content.payload.len() as u64
}

pub(crate) fn settlement(settlement: &Settlement) -> u64 {
    let error = match &settlement.verdict {
        Verdict::Abandon { error, .. } | Verdict::Fail { error, .. } => error.as_ref(),
        _ => None,
    };
    RECORD_BYTES + text(error.map_or(0, |error| error.as_str().len()))
}

/// Bytes that a claim writes with each lease in addition to its record.
pub(crate) fn worker(claim: &Claim) -> u64 {
    claim.worker.as_ref().map_or(0, |worker| text(worker.as_str().len()))
}

pub(crate) fn order(order: &Order) -> u64 {
    let error = match &order.action {
        Action::MarkDead { error } => error.as_ref(),
        _ => None,
    };
    let recorded = match &order.target {
        oncebox_core::MessageRef::Key(target) => key(target),
        oncebox_core::MessageRef::Uid(_) => 0,
    };
    RECORD_BYTES + recorded + text(error.map_or(0, |error| error.as_str().len()))
}

/// The removal of a record.
pub(crate) const RECORD_REMOVED_BYTES: u64 = RECORD_KIND_NAME_BYTES_MAX as u64 + 16;

pub(crate) fn record_op(op: &RecordOp) -> u64 {
    match op {
        RecordOp::Put { id, value, .. } => {
            let removals = u64::from(REMOVALS_MAX) * RECORD_REMOVED_BYTES;
            RECORD_BYTES + text(id.as_str().len()) + text(value.as_bytes().len()) + removals
        }
        RecordOp::Delete { .. } => RECORD_REMOVED_BYTES,
        _ => 0,
    }
}
