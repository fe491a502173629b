//! The description of the server, as programs of other languages take it: clients that are generated from it, requests that are made
//! of it, and the refusals that it lists.

mod answers;
mod clients;
mod refusals;
mod requests;
mod tools;
