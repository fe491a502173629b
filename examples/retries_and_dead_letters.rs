//! Every way a handler can fail, what becomes of the message, and how an operator brings dead letters back.
//!
//! ```sh
//! cargo run -p oncebox-examples --bin retries_and_dead_letters
//! ```

use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oncebox::{
    Backoff, Context, Failure, Filter, Growth, Jitter, Json, LastError, Message, MessageState, Namespace,
    Oncebox, Query, State, Worker,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Payment {
    cents: u64,
}

/// What the handlers depend on: a bank that is closed at first.
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
    let mut query = Query::all(Namespace::Inbox);
    query.state = Some(MessageState::Dead);
    for letter in operator.page(&query).await?.messages {
        let error = letter.last_error.as_ref().map_or("", LastError::as_str);
        println!("  {}: {:?}, {error}", letter.key.id, letter.dead);
    }

    // What nobody can read stays unreadable. The others get another chance, with their attempts counted anew.
    let unreadable = Filter::dead().reason(oncebox::DeadReason::Undecodable);
    println!("Erased: {}", operator.purge(&unreadable).await?.changed);
    bank.open.store(true, Ordering::Relaxed);
    println!("Redriven: {}", operator.redrive_where(&Filter::dead().topic("payment")).await?.changed);

    println!("The bank is open:");
    work(&oncebox, &bank).await?;
    let counts = operator.counts(None).await?;
    println!("In the end: {} done, {} dead", counts.done, counts.dead);
    assert_eq!((counts.done, counts.dead), (5, 0));
    oncebox.close().await?;
    Ok(())
}

/// Works until every message is Done or Dead.
async fn work(oncebox: &Oncebox, bank: &Arc<Bank>) -> Result<(), oncebox::Error> {
    // So that nobody waits; the usual is 2, 4, 8 … 60 s.
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
    let told = outcome.as_ref().map_or_else(|failure| failure.text().to_owned(), |()| "paid".to_owned());
    println!("  {} (delivery {}): {told}", context.id(), context.delivery());
    outcome
}

fn try_to_pay(bank: &Bank, payment: &Payment, context: &Context) -> Result<(), Failure> {
    let first = context.attempts() == 0;
    let open = bank.open.load(Ordering::Relaxed);
    match context.id() {
        // Any error is a retry: `?` is enough.
        "fails-once" if first => Err("connection reset by peer".into()),
        // The other side knows best when to come again.
        "asks-for-time" if first => Err(Failure::retry_after(Duration::from_millis(50), "429: come later")),
        // A panic is caught, and counts as a failure.
        "panics-once" if first && !open => panic!("a bug, for {} cents", payment.cents),
        // Trying again would not help: an operator has to look at it.
        "gives-up" if !open => Err(Failure::dead("the account is locked")),
        // After three attempts it is dead by itself.
        "never-works" if !open => Err(Failure::retry("503: closed")),
        _ => Ok(()),
    }
}
