//! Tests of the library's public API, on every store that it can open.

#[cfg(test)]
mod capture;
#[cfg(test)]
mod coalesce;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod deadlines;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod health;
#[cfg(test)]
mod idle;
#[cfg(test)]
mod inbox;
#[cfg(test)]
mod integrity;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod ledger;
#[cfg(test)]
mod mailbox;
#[cfg(test)]
mod maintenance;
#[cfg(test)]
mod open;
#[cfg(test)]
mod operator;
#[cfg(test)]
mod outage;
#[cfg(test)]
mod pacing;
#[cfg(test)]
mod pauses;
#[cfg(test)]
mod queue;
#[cfg(test)]
mod replays;
#[cfg(test)]
mod robustness;
#[cfg(test)]
mod stopping;
#[cfg(test)]
mod telemetry;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod transaction;
#[cfg(test)]
mod unhandled;
#[cfg(test)]
mod worker;

// Every async test here has `crate = "crate::timed"`, so it fails at a deadline instead of hanging.
#[cfg(test)]
use oncebox_testkit::timed;
