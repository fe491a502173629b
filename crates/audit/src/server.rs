//! Checks a server that is killed repeatedly, by its responses alone.
//!
//! Each client records a request before it sends it, and the response after it arrives, both under one lock. So a lease
//! that is recorded as held was held by then, and one that is recorded as given up was not given up earlier. A request
//! without a response may or may not have been carried out. The time of a response is when it is recorded under the
//! lock, not when it arrived. Times are milliseconds of the wall clock; server and clients run on one machine.

mod keys;
mod messages;
mod tally;
#[cfg(test)]
mod tests;

pub use keys::{KeyHistory, LeaseEnd, LedgerLease, ObservedBegin};
pub use messages::{MessageHistory, ObservedDelivery, ObservedOp, ObservedOutcome};
pub use tally::ServerTally;

/// All requests and responses of a campaign.
#[derive(Debug, Default)]
pub struct ServerHistory {
    /// The mailbox.
    pub messages: MessageHistory,
    /// The ledger.
    pub keys: KeyHistory,
}

impl ServerHistory {
    /// Counters of all responses so far.
    pub fn tally(&self) -> ServerTally {
        self.messages.tally.with(self.keys.tally)
    }
}

/// The payload of the message with this key.
pub fn payload(key: &str) -> String {
    // The size depends on the key, and is about 2 KiB at most.
    let sum = key.bytes().fold(7_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
    format!("{key}:").repeat(1 + sum % (2_048 / (key.len() + 1)).max(1))
}
