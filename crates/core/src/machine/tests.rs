//! Properties of the machine as a whole: replay, eviction, restart, salvage.

mod evict;
mod replay;
mod restart;
mod salvage;
mod world;
