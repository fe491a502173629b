//! Judges a server that is killed again and again, from its answers alone.
//!
//! Whoever asks says so before the request leaves, and tells the answer after it came; both under one lock. So what is
//! recorded as held was held already, and what is recorded as given up is given up no earlier. A request without an answer
//! may have been carried out or not. The moment of an answer is when it is told, under the lock, and not when it came.
//! Moments are milliseconds of the wall clock: server and judge run on one machine.

mod keys;
mod messages;
mod tally;
#[cfg(test)]
mod tests;

pub use keys::{Began, Keys, LedgerLease, Marks};
pub use messages::{Delivery, Messages, Op, Outcome};
pub use tally::Tally;

/// Everything that was asked and answered.
#[derive(Debug, Default)]
pub struct Book {
    /// The mailbox.
    pub messages: Messages,
    /// The ledger.
    pub keys: Keys,
}

impl Book {
    /// What was answered so far.
    pub fn tally(&self) -> Tally {
        self.messages.tally.with(self.keys.tally)
    }
}

/// What a message with this key carries.
pub fn payload(key: &str) -> String {
    // Of all sizes up to 2 KiB, and another one for each key.
    let sum = key.bytes().fold(7_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
    format!("{key}:").repeat(1 + sum % (2_048 / (key.len() + 1)).max(1))
}
