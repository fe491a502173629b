//! Layers: stores that wrap another store. A layer keeps the contract of [`Store`](crate::store::Store), whatever it adds.

pub mod coalesce;

pub use coalesce::Coalesced;
