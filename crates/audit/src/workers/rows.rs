//! The final rows of the message table.

use crate::{Result, Violation};

pub(super) const DONE: u64 = 2;
pub(super) const DEAD: u64 = 3;
/// The settlement that ended the last lease.
pub(super) const BY_ACK: &str = "0";
pub(super) const BY_FAILURE: &str = "2";

/// The row of a message; [`super::protocol`] describes its form.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) key: String,
    pub(super) uid: String,
    pub(super) state: u64,
    pub(super) deliveries: u64,
    pub(super) attempts: u64,
    pub(super) fence: u64,
    pub(super) kind: String,
    pub(super) leases: u64,
}

impl Row {
    pub(super) fn read(line: &str) -> Result<Self> {
        parse(line).ok_or_else(|| Violation::new(format!("invalid row: {line}")))
    }
}

fn parse(line: &str) -> Option<Row> {
    let fields: Vec<&str> = line.split('|').collect();
    let [key, uid, state, deliveries, attempts, fence, kind, leases] = fields.try_into().ok()?;
    Some(Row {
        key: key.to_owned(),
        uid: uid.to_owned(),
        state: state.parse().ok()?,
        deliveries: deliveries.parse().ok()?,
        attempts: attempts.parse().ok()?,
        fence: fence.parse().ok()?,
        kind: kind.to_owned(),
        leases: leases.parse().ok()?,
    })
}
