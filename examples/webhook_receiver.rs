//! A webhook receiver: accepts each event once, responds as soon as it is stored on disk, and handles it afterwards.
//!
//! ```sh
//! cargo run -p oncebox-examples --bin webhook_receiver -- 127.0.0.1:8080 embedded:./webhook-data
//! curl -i localhost:8080/webhooks/stripe -d '{"id": "evt_1", "type": "payment.received", "cents": 1250}'
//! ```
//!
//! Ctrl-C stops it gracefully: it accepts no new requests, handlers finish or their messages are released, then the
//! store is closed.

use std::env;
use std::error::Error as StdError;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use oncebox::{
    Context, EnqueueOutcome, EnqueueReceipt, Error, ErrorKind, Failure, Inbox, Json, Message, Oncebox,
    Worker, message::Divergence,
};
use serde::Deserialize;
use tokio::net::TcpListener;

/// The parts of an event that every source sends.
#[derive(Deserialize)]
struct Event {
    id: String,
    #[serde(rename = "type")]
    topic: String,
}

/// The payload of an event that has a handler.
#[derive(Deserialize)]
struct Payment {
    cents: u64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn StdError>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let store = arguments.next().unwrap_or_else(|| "embedded:./webhook-data".to_owned());

    let oncebox = Oncebox::builder()
        // A sender that reuses an id for other content gets a conflict.
        .on_divergence(Divergence::Conflict)
        .open(&store)
        .await?;

    let worker = Worker::new(&oncebox).on("payment.received", payment_received).start()?;

    let listener = TcpListener::bind(&address).await?;
    println!("listening on {}", listener.local_addr()?);
    let routes =
        Router::new().route("/webhooks/{source}", routing::post(receive)).with_state(oncebox.inbox());
    axum::serve(listener, routes).with_graceful_shutdown(interrupted()).await?;

    // No more requests arrive. Running handlers finish, or their messages are released.
    let stopped = worker.stop().await?;
    oncebox.close().await?;
    println!("stopped: {} handled", stopped.handled);
    Ok(())
}

/// Responds when the event is on disk. The sender does not wait for the handler.
async fn receive(State(inbox): State<Inbox>, Path(source): Path<String>, body: Bytes) -> Response {
    // A real receiver verifies the sender's signature here, before it parses the body.
    let Ok(event) = serde_json::from_slice::<Event>(&body) else {
        return (StatusCode::BAD_REQUEST, "the body is not JSON with an `id` and a `type`\n").into_response();
    };
    // The body is stored unchanged: it is what the sender signed, and what the handler reads.
    let message = Message::new(event.topic, source, event.id).bytes(body);
    match inbox.enqueue(message).await {
        Ok(receipt) => success(&receipt),
        Err(error) => failure(&error),
    }
}

/// A duplicate gets a success status too, so that the sender stops sending it.
fn success(receipt: &EnqueueReceipt) -> Response {
    let (status, text) = match receipt.outcome {
        EnqueueOutcome::Conflict => (StatusCode::CONFLICT, "this id was used before with other content\n"),
        EnqueueOutcome::Accepted => (StatusCode::OK, "accepted\n"),
        _ => (StatusCode::OK, "duplicate\n"),
    };
    (status, text).into_response()
}

/// Senders retry events without a 2xx response, so rejecting one loses nothing.
fn failure(error: &Error) -> Response {
    let status = match error.kind() {
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::Saturated => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut headers = HeaderMap::new();
    if error.is_retryable() {
        let seconds = error.retry_after().map_or(1, |after| after.as_secs().max(1));
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    (status, headers, format!("{error}\n")).into_response()
}

/// Runs at least once for each event. Use `context.id()` to make a second run harmless.
async fn payment_received(Json(payment): Json<Payment>, context: Context) -> Result<(), Failure> {
    println!("handled {} of {}: {} cents", context.id(), context.source(), payment.cents);
    Ok(())
}

async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without signal handling it runs until it is killed, which loses nothing either.
        std::future::pending::<()>().await;
    }
}
