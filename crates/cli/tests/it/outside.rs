//! The server, from outside: the real binary, spoken to as programs in other languages do.

mod http;
mod rig;
mod talk;

// It looks into /proc.
#[cfg(target_os = "linux")]
mod amnesia;
mod bounds;
mod bytes;
mod correlation;
mod delivery;
mod described;
mod due;
// Namespaces, and files through /proc.
#[cfg(target_os = "linux")]
mod full_disk;
mod gate;
mod giving_back;
mod items;
mod ledger;
mod many;
#[cfg(target_os = "linux")]
mod memory;
mod metrics;
mod model;
mod newline;
// It changes a limit of another process.
#[cfg(target_os = "linux")]
mod open_files;
mod operator;
mod outage;
mod ownership;
mod private;
mod race;
mod readme;
mod receipts;
mod redrive;
mod reload;
mod restart;
mod rules;
mod several;
mod shards;
mod slow;
mod stopping;
mod strict;
mod tampering;
mod topics;
