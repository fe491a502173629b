//! The server, from outside: the real binary, spoken to as programs in other languages do.

mod http;
mod rig;
mod talk;

mod amnesia;
mod bounds;
mod delivery;
mod restart;
