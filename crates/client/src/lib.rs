//! A typed client for the Oncebox server: mailbox, ledger and operator API.
//!
//! ```no_run
//! use oncebox_client::Client;
//! use oncebox_client::wire::mailbox::{RecvRequest, SendRequest};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), oncebox_client::ClientError> {
//! let client = Client::new("http://127.0.0.1:7420")?; // or "unix:/run/oncebox.sock"
//!
//! let sent = client
//!     .send(&SendRequest {
//!         topic: "orders".into(),
//!         idem_key: "order-1".into(),
//!         payload_b64: b"{}".to_vec().into(),
//!         ..SendRequest::default()
//!     })
//!     .await?;
//! println!("{} until {}", sent.msg_id, sent.dedup_until);
//!
//! let request = RecvRequest { topic: "orders".into(), wait_ms: Some(10_000), ..RecvRequest::default() };
//! for envelope in client.recv(&request).await?.messages {
//!     println!("{}: delivery {}", envelope.msg_id, envelope.attempt);
//!     client.ack(&envelope.receipt).await?;
//! }
//!
//! // Or as a stream.
//! let mut stream = client.recv_stream(&request).await?;
//! while let Some(envelope) = stream.next().await {
//!     client.ack(&envelope?.receipt).await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Retries
//! A failed call is retried up to [`ClientBuilder::retries`] times within [`ClientBuilder::timeout`], with exponential
//! backoff and jitter, and never earlier than the server's `Retry-After`. Whether a call is retried depends on whether
//! that is safe:
//!
//! | call | no connection | connection lost, 408, 429, 503 | reason |
//! |---|---|---|---|
//! | `send`, `send_batch` | retried | retried | the idempotency key makes it the same message |
//! | `recv`, `work` | retried | retried | the `request_id`, generated if missing, gets the same deliveries |
//! | `ack`, `extend` | retried | retried | repeating a settlement gets the same response |
//! | `nack`, also in `settle`, `work` | retried | retried if by receipt | a message id may mean another delivery |
//! | `mark_processed`, `release` | retried | retried | repeating it gets the same response |
//! | `recv_stream` | retried | not retried | its deliveries cannot be delivered again |
//! | `try_begin` | retried | not retried | its own lease would make a retry `Busy` |
//! | `pause_topic`, `resume_topic` | retried | retried | repeating it changes nothing |
//! | `redrive_dead_letters`, `redrive`, `purge` | retried | only dry runs | a retry would change further messages |
//! | all calls that only read | retried | retried | |
//!
//! `E_CORRUPT` has status 503 but is not retried. Neither are other error responses, nor calls that ran into the
//! timeout.
//!
//! # Limits
//! Responses and lines of a stream are read up to 64 MiB. Connections are pooled; idle ones are closed after 30
//! seconds.

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
mod retry;
mod stream;
mod target;
mod tls;

pub use client::{Client, ClientBuilder};
pub use error::{ClientError, ClientErrorKind};
/// Requests and responses.
pub use oncebox_wire as wire;
pub use stream::Stream;
