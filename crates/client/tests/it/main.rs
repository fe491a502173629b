//! The client against a scripted server.

mod requests;
mod responses;
mod retries;
mod scripted_server;
mod stream;
