//! What was seen, in numbers.

use std::fmt;

/// How often each thing was answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sends that took a message in.
    pub accepted: u64,
    /// Sends that were told that the message came before.
    pub duplicates: u64,
    /// Deliveries.
    pub deliveries: u64,
    /// Deliveries after the first of their message.
    pub redeliveries: u64,
    /// Acknowledgements that count.
    pub acks: u64,
    /// Negative ones that count.
    pub nacks: u64,
    /// Extensions that count.
    pub extensions: u64,
    /// Settlements that came too late.
    pub lost: u64,
    /// Leases on keys.
    pub begun: u64,
    /// Keys that were found busy or processed.
    pub refused: u64,
    /// Marks that count.
    pub marks: u64,
    /// Leases on keys that were given back.
    pub releases: u64,
}

impl Tally {
    pub(super) fn with(self, other: Self) -> Self {
        Self {
            begun: other.begun,
            refused: other.refused,
            marks: other.marks,
            releases: other.releases,
            ..self
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} messages taken in, {} duplicates known; {} deliveries ({} repeated), {} acks, {} nacks, {} extensions, \
             {} too late; ledger: {} begun, {} refused, {} marked, {} released",
            self.accepted,
            self.duplicates,
            self.deliveries,
            self.redeliveries,
            self.acks,
            self.nacks,
            self.extensions,
            self.lost,
            self.begun,
            self.refused,
            self.marks,
            self.releases
        )
    }
}
