//! A receiver of webhooks: takes each event in once, answers as soon as it is safe on disk, and handles it afterwards.
//!
//! ```sh
//! cargo run -p oncebox-examples --bin webhook_receiver -- 127.0.0.1:8080 embedded:./webhook-data
//! curl -i localhost:8080/webhooks/stripe -d '{"id": "evt_1", "type": "payment.received", "cents": 1250}'
//! ```
//!
//! Ctrl-C stops it: no new requests, handlers end or are given back, then the store is closed.

use std::env;
use std::error::Error as StdError;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use oncebox::{
    Context, Divergence, Error, Failure, Inbox, Json, Kind, Message, Oncebox, Outcome, Receipt, Worker,
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

/// An event that there is a handler for.
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
        // A sender that uses an id for two things is told so.
        .on_divergence(Divergence::Conflict)
        .open(&store)
        .await?;

    let worker = Worker::new(&oncebox).on("payment.received", payment_received).start()?;

    let listener = TcpListener::bind(&address).await?;
    println!("listening on {}", listener.local_addr()?);
    let routes =
        Router::new().route("/webhooks/{source}", routing::post(receive)).with_state(oncebox.inbox());
    axum::serve(listener, routes).with_graceful_shutdown(interrupted()).await?;

    // Nothing comes in any more. What is in handlers' hands ends, or goes back to the inbox.
    let stopped = worker.stop().await?;
    oncebox.close().await?;
    println!("stopped: {} handled", stopped.handled);
    Ok(())
}

/// Answers when the event is on disk. What the handler makes of it is nothing that the sender has to wait for.
async fn receive(State(inbox): State<Inbox>, Path(source): Path<String>, body: Bytes) -> Response {
    // A real receiver checks the sender's signature here, before it looks into the body.
    let Ok(event) = serde_json::from_slice::<Event>(&body) else {
        return (StatusCode::BAD_REQUEST, "the body is not JSON with an `id` and a `type`\n").into_response();
    };
    // The body goes in as it came: it is what was signed, and what the handler reads.
    let message = Message::new(event.topic, source, event.id).bytes(body);
    match inbox.enqueue(message).await {
        Ok(receipt) => answer(&receipt),
        Err(error) => refuse(&error),
    }
}

/// An event that came before is as good as taken in: the sender shall stop sending it.
fn answer(receipt: &Receipt) -> Response {
    let (status, text) = match receipt.outcome {
        Outcome::Conflict => (StatusCode::CONFLICT, "this id came before with other content\n"),
        Outcome::Accepted => (StatusCode::OK, "accepted\n"),
        _ => (StatusCode::OK, "known\n"),
    };
    (status, text).into_response()
}

/// Senders repeat what they get no 2xx for, so nothing is lost by saying no.
fn refuse(error: &Error) -> Response {
    let status = match error.kind() {
        Kind::Invalid => StatusCode::BAD_REQUEST,
        Kind::Saturated => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut headers = HeaderMap::new();
    if error.is_retryable() {
        let seconds = error.retry_after().map_or(1, |after| after.as_secs().max(1));
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    (status, headers, format!("{error}\n")).into_response()
}

/// Runs at least once for each event: `context.id()` is what makes a second run harmless.
async fn payment_received(Json(payment): Json<Payment>, context: Context) -> Result<(), Failure> {
    println!("handled {} of {}: {} cents", context.id(), context.source(), payment.cents);
    Ok(())
}

async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without signals it runs until it is killed, which loses nothing either.
        std::future::pending::<()>().await;
    }
}
