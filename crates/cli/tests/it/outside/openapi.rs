//! The OpenAPI description of the server: clients generated from it, requests generated from it, and the errors that it
//! lists.

mod clients;
mod errors;
mod requests;
mod responses;
mod tools;
