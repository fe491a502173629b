//! Layers: stores around a store. Whatever a layer adds, the contract of the port stays.

pub mod coalesce;

pub use coalesce::Coalesced;
