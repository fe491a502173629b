//! The library as its user sees it, on every store that it can open.

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
mod hardship;
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
mod open;
#[cfg(test)]
mod operator;
#[cfg(test)]
mod outage;
#[cfg(test)]
mod pace;
#[cfg(test)]
mod queue;
#[cfg(test)]
mod replays;
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
mod upkeep;
#[cfg(test)]
mod worker;

// Every async test here says `crate = "crate::timed"`: it fails at a deadline instead of hanging.
#[cfg(test)]
use oncebox_testkit::timed;
