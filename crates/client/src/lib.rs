//! A typed client of the server of Oncebox: mailbox, ledger, and what operators need.
//!
//! ```no_run
//! use oncebox_client::Client;
//! use oncebox_client::wire::mailbox::{Recv, Send};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), oncebox_client::Error> {
//! let client = Client::new("http://127.0.0.1:7420")?; // or "unix:/run/oncebox.sock"
//!
//! let sent = client
//!     .send(&Send {
//!         topic: "orders".into(),
//!         idem_key: "order-1".into(),
//!         payload_b64: b"{}".to_vec().into(),
//!         ..Send::default()
//!     })
//!     .await?;
//! println!("{} until {}", sent.msg_id, sent.dedup_until);
//!
//! let wish = Recv { topic: "orders".into(), wait_ms: Some(10_000), ..Recv::default() };
//! for envelope in client.recv(&wish).await?.messages {
//!     println!("{} came {} times", envelope.msg_id, envelope.attempt);
//!     client.ack(&envelope.receipt).await?;
//! }
//!
//! // Or as they come.
//! let mut stream = client.recv_stream(&wish).await?;
//! while let Some(envelope) = stream.next().await {
//!     client.ack(&envelope?.receipt).await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What is repeated
//! A call that fails is made again, up to [`Builder::retries`] times within [`Builder::timeout`], with pauses that grow, are
//! spread, and are never shorter than the server asks for (`Retry-After`). Only what may be repeated is:
//!
//! | call | no connection | connection broke, 408, 429, 503 | why |
//! |---|---|---|---|
//! | `send`, `send_batch` | again | again | the idempotency key makes it the same message |
//! | `recv`, `work` | again | again | a `request_id`, made up if not given, gets the same deliveries |
//! | `ack`, `extend` | again | again | the same settlement again gets the same answer |
//! | `nack`, and in `settle` or `work` | again | again, if named by its receipt | a message may be in another delivery by then |
//! | `mark_processed`, `release` | again | again | as above |
//! | `recv_stream` | again | no | what it gave out cannot be given out again |
//! | `try_begin` | again | no | a repeat would be told `Busy` by its own lease |
//! | `redrive_dead_letters`, `redrive`, `purge` | again | only dry runs | a repeat takes the next that match |
//! | everything that only reads | again | again | |
//!
//! `E_CORRUPT` travels as 503 and is not repeated, nor is anything else the server refuses, nor what timed out: then its time
//! is over.
//!
//! # Bounds
//! Answers and lines of a stream are read up to 64 MiB. Connections are pooled, those that nobody uses for 30 seconds are closed.

mod address;
mod call;
mod client;
mod connect;
mod error;
mod health;
mod ledger;
mod mailbox;
mod operator;
mod random;
mod repeat;
mod stream;
mod target;

pub use client::{Builder, Client};
pub use error::{Error, Kind};
/// The shapes of requests and answers.
pub use oncebox_wire as wire;
pub use stream::Stream;
