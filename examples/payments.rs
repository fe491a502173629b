//! Payments as commands: scheduled, run, retried, dead-lettered and redriven.
//!
//! ```sh
//! cargo run -p oncebox-examples --bin payments -- postgres://localhost/shop
//! cargo run -p oncebox-examples --bin payments -- embedded:./data
//! ```
//!
//! On PostgreSQL, a command is stored in the same transaction as the row of its payment, and the writes of its handler
//! commit with its completion: kill the program with `kill -9` at any time, and the table `payments` and the commands
//! still agree. The embedded store cannot share a transaction with the application: there an idempotency key prevents a
//! payment from being stored twice, and the handler is idempotent.

use std::collections::BTreeMap;
use std::env;
use std::error::Error as StdError;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use oncebox::commands::{
    Command, Contracts, Execution, Mediator, Processor, ProcessorOptions, ScheduleOptions, Scheduler,
};
use oncebox::postgres::{PgTransaction, PostgresOptions, PostgresStore};
use oncebox::{
    Backoff, Failure, Oncebox, Operator,
    message::{LastError, Namespace, Uid},
    operator::SweepFilter,
    worker::{Growth, Jitter},
};
use serde::{Deserialize, Serialize};
use sqlx::{Executor, PgPool};

const TABLE: &str = "create table if not exists payments \
    (command uuid primary key, payment bigint not null unique, cents bigint not null, paid int not null default 0)";

#[derive(Serialize, Deserialize, Command)]
#[command(name = "payments.commands.process-payment", version = 1)]
struct ProcessPayment {
    #[command(idempotency_key)]
    payment: i64,
    cents: i64,
}

/// A bank that fails the first attempt of some payments, and has a branch that is closed.
#[derive(Clone, Default)]
struct Bank {
    branch_open: Arc<AtomicBool>,
    /// The payments made, if there is no table for them.
    paid: Arc<Mutex<BTreeMap<Uid, i64>>>,
    in_table: bool,
}

impl Bank {
    fn answer(&self, payment: i64, delivery: u32) -> Result<(), Failure> {
        match payment % 10 {
            3 if delivery == 1 => Err("the bank hung up".into()),
            7 if !self.branch_open.load(Ordering::Relaxed) => Err("the branch is closed".into()),
            _ => Ok(()),
        }
    }
}

/// Runs at least once. Its writes in the transaction take effect exactly once, when the command is completed.
async fn process(command: Arc<ProcessPayment>, execution: Execution<Bank>) -> Result<(), Failure> {
    let (bank, context) =
        (execution.state(), execution.context().ok_or("the command must be run by a processor")?);
    if bank.in_table {
        let mut tx = execution.transaction::<PgTransaction>()?;
        let pay = sqlx::query("update payments set paid = paid + 1 where command = $1::uuid and cents = $2");
        let pay = pay.bind(context.uid().to_string()).bind(command.cents);
        if pay.execute(&mut **tx).await?.rows_affected() != 1 {
            return Err(Failure::dead("there is no such payment"));
        }
        // If the bank does not answer, the writes are rolled back.
        return bank.answer(command.payment, context.delivery());
    }
    bank.answer(command.payment, context.delivery())?;
    // The command's id is the key, so a second run changes nothing.
    bank.paid.lock().unwrap_or_else(PoisonError::into_inner).insert(context.uid(), command.cents);
    Ok(())
}

/// Stores each payment's command and row in one transaction.
async fn order_in_table(
    scheduler: &Scheduler,
    pool: &PgPool,
    payments: Range<i64>,
) -> Result<(), Box<dyn StdError>> {
    for payment in payments {
        let mut tx = pool.begin().await?;
        let command = ProcessPayment { payment, cents: payment * 100 };
        let (receipt, wake) = scheduler.schedule_in(&mut tx, &command, ScheduleOptions::default()).await?;
        let insert = sqlx::query(
            "insert into payments (command, payment, cents) values ($1::uuid, $2, $3) on conflict do nothing",
        );
        insert
            .bind(receipt.command_id.to_string())
            .bind(payment)
            .bind(command.cents)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        wake.fire();
    }
    Ok(())
}

/// Stores payments. Their idempotency keys prevent duplicates if the program is killed and run again.
async fn order(scheduler: &Scheduler, payments: Range<i64>) -> Result<(), Box<dyn StdError>> {
    let commands: Vec<_> = payments.map(|payment| ProcessPayment { payment, cents: payment * 100 }).collect();
    let options = std::iter::repeat(ScheduleOptions::default());
    for receipt in scheduler.schedule_many(commands.iter().zip(options)).await? {
        receipt?;
    }
    Ok(())
}

fn processor(oncebox: &Oncebox, bank: &Bank, contracts: &Contracts) -> Result<Processor, oncebox::Error> {
    let mediator = Mediator::builder().with_state(bank.clone()).handle(process).build()?;
    let soon = Duration::from_millis(20);
    let mut options = ProcessorOptions::default();
    options.concurrency = Some(4);
    options.retry.attempts_max = 3;
    options.retry.backoff = Backoff::new(soon, soon, Growth::Fixed, Jitter::None)?;
    options.poll_interval = Duration::from_millis(50);
    options.lease = Duration::from_secs(10);
    Processor::new(oncebox, contracts, &mediator, options)
}

/// Waits until every command is completed or dead-lettered.
async fn all_settled(operator: &Operator) -> Result<(), oncebox::Error> {
    loop {
        let counts = operator.counts(None).await?;
        if counts.ready + counts.waiting + counts.leased == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Lists dead letters, then redrives them. Runs while the processor works.
async fn redrive_dead_letters(operator: &Operator, bank: &Bank) -> Result<(), oncebox::Error> {
    all_settled(operator).await?;
    let mut query = oncebox::operator::MessageQuery::all(Namespace::Commands);
    query.state = Some(oncebox::MessageState::Dead);
    for dead in operator.page(&query).await?.messages {
        let error = dead.last_error.as_ref().map_or("", LastError::as_str);
        println!("dead letter {} after {} attempts: {error}", dead.key.id, dead.deliveries);
    }
    bank.branch_open.store(true, Ordering::Relaxed);
    println!("redriven: {}", operator.redrive_where(&SweepFilter::dead()).await?.changed);
    all_settled(operator).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn StdError>> {
    let mut arguments = env::args().skip(1);
    let url = arguments
        .next()
        .ok_or("missing store URL, for example postgres://localhost/shop or embedded:./data")?;
    let first: i64 = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let payments = first..first + 20;
    let contracts = Contracts::new().add::<ProcessPayment>()?;
    let (oncebox, pool) = if url.starts_with("postgres") {
        let pool = PgPool::connect(&url).await?;
        pool.execute(TABLE).await?;
        let options = PostgresOptions::default();
        options.schema.ensure(&pool).await?;
        let store = Arc::new(PostgresStore::new(pool.clone(), &options));
        (Oncebox::builder().on_postgres(store)?, Some(pool))
    } else {
        (Oncebox::open(&url).await?, None)
    };
    let bank = Bank { in_table: pool.is_some(), ..Bank::default() };
    let mut processor = processor(&oncebox, &bank, &contracts)?;
    if pool.is_some() {
        processor = processor.in_transactions::<PgTransaction>()?;
    }
    println!("open");

    let operator = oncebox.operator("ada").in_namespace(Namespace::Commands).because("the branch has opened");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let processing = tokio::spawn(processor.run(async { drop(stopped.await) }));
    let scheduler = oncebox.scheduler(&contracts);
    match &pool {
        Some(pool) => order_in_table(&scheduler, pool, payments).await?,
        None => order(&scheduler, payments).await?,
    }
    redrive_dead_letters(&operator, &bank).await?;
    drop(stop);
    let done = processing.await??;
    println!("completed: {}, retries: {}, dead letters: {}", done.handled, done.retrying, done.dead);
    oncebox.close().await?;
    Ok(())
}
