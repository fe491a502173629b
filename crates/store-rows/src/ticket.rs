//! The ticket of a transaction: its time, and the numbers that it may assign.

use oncebox_core::Timestamp;
use oncebox_core::limits::CLAIM_MESSAGES_MAX;

/// The numbers and fences that a [`Ticket`] reserves, from its floor on: more than one transaction assigns.
pub const TICKET_SIZE: u64 = 16_384;

const _: () = assert!(TICKET_SIZE > CLAIM_MESSAGES_MAX as u64);

/// Whether messages and keys can be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// There is capacity.
    Open,
    /// Nothing can be added: the outcome is `Saturated`.
    Full,
}

/// The moment of a decision, and the numbers that it may assign.
#[derive(Debug, Clone, Copy)]
pub struct Ticket {
    /// The database's time.
    pub now: Timestamp,
    /// The first of [`TICKET_SIZE`] numbers and fences that no other transaction assigns; higher than all that were
    /// reserved before.
    pub floor: u64,
    /// Whether messages and keys can be added.
    pub admission: Admission,
}
