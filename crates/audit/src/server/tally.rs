//! Counters for the summary.

use std::fmt;

/// Number of responses by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerTally {
    /// Sends that were accepted.
    pub accepted: u64,
    /// Sends that were answered as duplicates.
    pub duplicates: u64,
    /// Deliveries.
    pub deliveries: u64,
    /// Deliveries after the first of their message.
    pub redeliveries: u64,
    /// Acknowledgements that were carried out.
    pub acks: u64,
    /// Negative acknowledgements that were carried out.
    pub nacks: u64,
    /// Extensions that were carried out.
    pub extensions: u64,
    /// Settlements under lost leases.
    pub lost: u64,
    /// Leases on keys that were acquired.
    pub begun: u64,
    /// Begins of keys that were busy or processed.
    pub refused: u64,
    /// Marks that were carried out.
    pub marks: u64,
    /// Leases on keys that were released.
    pub releases: u64,
}

impl ServerTally {
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

impl fmt::Display for ServerTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} messages accepted, {} duplicates; {} deliveries ({} repeated), {} acks, {} nacks, {} extensions, \
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
