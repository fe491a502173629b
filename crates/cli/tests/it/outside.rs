//! Black-box tests of the server: the real binary, called over HTTP as programs in other languages do.

mod http;
mod mailbox_client;
mod rig;

// Reads /proc.
#[cfg(target_os = "linux")]
mod amnesia;
mod batch_items;
mod batches;
mod bounds;
mod bytes;
mod capabilities;
mod correlation;
mod delivery;
mod due;
// Needs mount namespaces and reads files through /proc.
#[cfg(target_os = "linux")]
mod full_disk;
mod ledger;
#[cfg(target_os = "linux")]
mod memory;
mod metrics;
mod model;
mod multiple_servers;
mod nack;
mod newline;
// Changes a resource limit of another process.
#[cfg(target_os = "linux")]
mod open_files;
mod openapi;
mod operator;
mod outage;
mod ownership;
mod pauses;
mod permissions;
mod race;
mod readme;
mod receipts;
mod redrive;
mod reload;
mod request_checks;
mod restart;
mod rules;
mod shards;
mod slow;
mod stopping;
mod strict;
mod tampering;
mod tls;
mod topics;
