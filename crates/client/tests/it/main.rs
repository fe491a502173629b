//! The client against a server that says what a test wants.

mod answers;
mod repeats;
mod requests;
mod rig;
mod stream;
