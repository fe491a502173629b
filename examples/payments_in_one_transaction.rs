//! Payments from webhooks, booked exactly once: the booking and the message's completion commit together.
//!
//! `cargo run -p oncebox-examples --bin payments_in_one_transaction -- postgres://localhost/shop`, then send a payment
//! any number of times:
//!
//! ```sh
//! curl -i localhost:7421/payments -H 'payment-id: p-1' -d '{"account": "ann", "cents": 1250}'
//! ```
//!
//! Kill it with `kill -9` at any time: `bookings` contains each payment with a 202 response exactly once.

use std::env;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use oncebox::postgres::{PostgresOptions, PostgresStore, Tx};
use oncebox::{Context, Failure, Inbox, Json, Message, Oncebox, Worker};
use serde::Deserialize;
use sqlx::{Executor, PgPool};

const TABLE: &str = "create table if not exists bookings (payment text primary key, account text not null, cents bigint not null)";

#[derive(Deserialize)]
struct Payment {
    account: String,
    cents: i64,
}

/// Runs at least once; its writes take effect exactly once.
async fn book(mut tx: Tx, payment: Json<Payment>, context: Context) -> Result<(), Failure> {
    let Json(Payment { account, cents }) = payment;
    if cents <= 0 {
        return Err(Failure::dead("the amount must be greater than zero"));
    }
    let insert = sqlx::query("insert into bookings (payment, account, cents) values ($1, $2, $3)");
    insert.bind(context.id()).bind(account).bind(cents).execute(&mut **tx).await?;
    Ok(())
}

/// Responds when the payment is stored. Without a response the bank sends it again, which is harmless.
async fn receive(State(inbox): State<Inbox>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let Some(id) = headers.get("payment-id").and_then(|id| id.to_str().ok()) else {
        return StatusCode::BAD_REQUEST;
    };
    match inbox.enqueue(Message::new("payment", "bank", id).bytes(body)).await {
        Ok(_) => StatusCode::ACCEPTED,
        Err(error) if error.is_retryable() => StatusCode::SERVICE_UNAVAILABLE,
        Err(_) => StatusCode::BAD_REQUEST,
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = env::args().nth(1).ok_or("missing database URL, for example postgres://localhost/shop")?;
    let address = env::args().nth(2).unwrap_or_else(|| "127.0.0.1:7421".to_owned());
    let pool = PgPool::connect(&url).await?;
    pool.execute(TABLE).await?;
    let options = PostgresOptions::default();
    options.schema.ensure(&pool).await?;
    let store = Arc::new(PostgresStore::new(pool, &options));
    let oncebox = Oncebox::builder().on_postgres(store)?;

    let worker = Worker::new(&oncebox).on("payment", book).concurrency(4).start()?;
    let router = Router::new().route("/payments", post(receive)).with_state(oncebox.inbox());
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("listening on {}", listener.local_addr()?);
    let stopped = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    axum::serve(listener, router).with_graceful_shutdown(stopped).await?;
    worker.stop().await?;
    oncebox.close().await?;
    Ok(())
}
