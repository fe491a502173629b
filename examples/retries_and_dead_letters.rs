//! Every way a handler can fail, what happens to the message, and how an operator redrives dead letters.
//!
//! ```sh
//! cargo run -p oncebox-examples --bin retries_and_dead_letters
//! ```

use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oncebox::{
    Backoff, Context, Failure, Json, Message, MessageState, Oncebox, State, Worker,
    message::{LastError, Namespace},
    operator::{MessageQuery, SweepFilter},
    worker::{Growth, Jitter},
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Payment {
    cents: u64,
}

/// A dependency of the handlers: a bank that is closed at first.
#[derive(Default)]
struct Bank {
    open: AtomicBool,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn StdError>> {
    let oncebox = Oncebox::builder().attempts_max(3).open("memory:").await?;
    let inbox = oncebox.inbox();
    let bank = Arc::new(Bank::default());
    for id in ["fails-once", "asks-for-time", "panics-once", "gives-up", "never-works"] {
        inbox.enqueue(Message::new("payment", "shop", id).json(&Payment { cents: 100 })?).await?;
    }
    inbox.enqueue(Message::new("payment", "shop", "unreadable").text("{\"cents\":")).await?;

    println!("The bank is closed:");
    work(&oncebox, &bank).await?;

    println!("Dead letters:");
    let operator = oncebox.operator("ada").because("the bank has opened");
    let mut query = MessageQuery::all(Namespace::Inbox);
    query.state = Some(MessageState::Dead);
    for message in operator.page(&query).await?.messages {
        let error = message.last_error.as_ref().map_or("", LastError::as_str);
        println!("  {}: {:?}, {error}", message.key.id, message.dead);
    }

    // Retrying cannot fix an undecodable payload, so those are erased. The others are redriven, with their attempts
    // reset.
    let unreadable = SweepFilter::dead().reason(oncebox::message::DeadReason::Undecodable);
    println!("Erased: {}", operator.purge(&unreadable).await?.changed);
    bank.open.store(true, Ordering::Relaxed);
    println!("Redriven: {}", operator.redrive_where(&SweepFilter::dead().topic("payment")).await?.changed);

    println!("The bank is open:");
    work(&oncebox, &bank).await?;
    let counts = operator.counts(None).await?;
    println!("Result: {} done, {} dead", counts.done, counts.dead);
    assert_eq!((counts.done, counts.dead), (5, 0));
    oncebox.close().await?;
    Ok(())
}

/// Runs a worker until every message is Done or Dead.
async fn work(oncebox: &Oncebox, bank: &Arc<Bank>) -> Result<(), oncebox::Error> {
    // A short delay for the example; the default is 2, 4, 8 … 60 s.
    let short = Duration::from_millis(20);
    let backoff = Backoff::new(short, short, Growth::Fixed, Jitter::None)?;
    let worker = Worker::new(oncebox).with_state(bank.clone()).on("payment", pay).backoff(backoff).start()?;
    let operator = oncebox.operator("example");
    loop {
        let counts = operator.counts(None).await?;
        if counts.ready + counts.waiting + counts.leased == 0 {
            break;
        }
        tokio::time::sleep(short).await;
    }
    worker.stop().await?;
    Ok(())
}

async fn pay(State(bank): State<Arc<Bank>>, payment: Json<Payment>, context: Context) -> Result<(), Failure> {
    let outcome = try_to_pay(&bank, &payment.0, &context);
    let result = outcome.as_ref().map_or_else(|failure| failure.text().to_owned(), |()| "paid".to_owned());
    println!("  {} (delivery {}): {result}", context.id(), context.delivery());
    outcome
}

fn try_to_pay(bank: &Bank, payment: &Payment, context: &Context) -> Result<(), Failure> {
    let first = context.attempts() == 0;
    let open = bank.open.load(Ordering::Relaxed);
    match context.id() {
        // Any error is a retry: `?` is enough.
        "fails-once" if first => Err("connection reset by peer".into()),
        // The remote service says when to retry.
        "asks-for-time" if first => Err(Failure::retry_after(Duration::from_millis(50), "429: try later")),
        // A panic is caught and counts as a failure.
        "panics-once" if first && !open => panic!("a bug, for {} cents", payment.cents),
        // Retrying would not help: an operator has to handle it.
        "gives-up" if !open => Err(Failure::dead("the account is locked")),
        // It becomes a dead letter after three attempts.
        "never-works" if !open => Err(Failure::retry("503: closed")),
        _ => Ok(()),
    }
}
