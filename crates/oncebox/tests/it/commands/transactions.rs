//! Commands in transactions of the application, on PostgreSQL.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use oncebox::commands::{CommandStatus, Execution, Mediator, Processor, ProcessorOptions, ScheduleOutcome};
use oncebox::postgres::PgTransaction;
use oncebox::{ErrorKind, Failure, Oncebox, message::Uid};
use sqlx::{AssertSqlSafe, Executor, PgPool, Row};

use super::kit::{Bank, Pay, contracts, options, pay, plain, processor};
use crate::fixture::{self, on_every_store};

/// Commands on the database server's clock, and an application table in the same database.
struct Shop {
    oncebox: Oncebox,
    pool: PgPool,
    table: Arc<str>,
}

async fn shop() -> Shop {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (store, pool) = fixture::postgres(None).await;
    let table = format!("public.booked{}", NEXT.fetch_add(1, Ordering::Relaxed));
    pool.execute(AssertSqlSafe(format!("create table {table} (payment bigint)"))).await.unwrap();
    Shop { oncebox: Oncebox::builder().on_postgres(store).unwrap(), pool, table: table.into() }
}

impl Shop {
    async fn booked(&self) -> Vec<i64> {
        let all = AssertSqlSafe(format!("select payment from {} order by payment", self.table));
        self.pool.fetch_all(all).await.unwrap().iter().map(|row| row.get(0)).collect()
    }

    async fn status(&self, id: Uid) -> Option<CommandStatus> {
        self.oncebox.scheduler(&contracts()).status(id).await.unwrap()
    }
}

fn insert(table: &str, payment: u64) -> AssertSqlSafe<String> {
    AssertSqlSafe(format!("insert into {table} values ({payment})"))
}

/// Holds: CMD-17.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn a_command_is_stored_with_the_applications_own_row_or_not_at_all() {
    let shop = shop().await;
    let scheduler = shop.oncebox.scheduler(&contracts());
    let id = Uid::from_u128(0xCAFE);
    for commits in [false, true] {
        let mut tx = shop.pool.begin().await.unwrap();
        tx.execute(insert(&shop.table, 1)).await.unwrap();
        let (receipt, wake) = scheduler.schedule_in(&mut tx, &pay(1), plain().command_id(id)).await.unwrap();
        assert_eq!(
            (receipt.outcome, receipt.command_id),
            (ScheduleOutcome::Accepted, id),
            "new the first time, and again after a rollback"
        );
        assert_eq!(shop.status(id).await, None, "it is not visible before the commit");
        if commits {
            tx.commit().await.unwrap();
            wake.fire();
        } else {
            tx.rollback().await.unwrap();
        }
        assert_eq!(
            (shop.booked().await.len(), shop.status(id).await.is_some()),
            (usize::from(commits), commits)
        );
    }
    let mut tx = shop.pool.begin().await.unwrap();
    let (again, _) = scheduler.schedule_in(&mut tx, &pay(2), plain().command_id(id)).await.unwrap();
    assert_eq!((again.outcome, again.command_id), (ScheduleOutcome::AlreadyAccepted, id));
    tx.rollback().await.unwrap();
    let bank = Bank::default();
    processor(&shop.oncebox, &bank, options(|_| {})).process_pending().await.unwrap();
    assert_eq!(
        (bank.done(), shop.status(id).await),
        (vec!["1 100".to_owned()], Some(CommandStatus::Completed))
    );
}

/// Holds: CMD-17.
#[test]
fn a_store_without_transactions_rejects_transactional_calls() {
    on_every_store(async |fixture| {
        // The fixture opens PostgreSQL without transactions, too.
        let error = fixture.scheduler().schedule_in(&mut 7, &pay(1), plain()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let processor = processor(&fixture.oncebox, &Bank::default(), options(|_| {}));
        let refused = processor.in_transactions::<PgTransaction>().err().unwrap();
        assert!(refused.to_string().contains("does not support transactions"), "{refused}");
    });
}

async fn book(command: Arc<Pay>, execution: Execution<Arc<str>>) -> Result<(), Failure> {
    let mut tx = execution.transaction::<PgTransaction>()?;
    (**tx).execute(insert(execution.state(), command.payment)).await?;
    let first = execution.context().is_some_and(|context| context.delivery() == 1);
    if command.payment == 2 && first { Err("not yet".into()) } else { Ok(()) }
}

async fn audit(command: Arc<Pay>, execution: Execution<Arc<str>>) -> Result<(), Failure> {
    let mut tx = execution.transaction::<PgTransaction>()?;
    (**tx).execute(insert(execution.state(), command.payment + 100)).await?;
    Ok(())
}

/// The writes of all handlers of a command commit together with its completion; the writes of a failed run are rolled
/// back.
/// Holds: CMD-10, RULE-01.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn handler_writes_commit_with_the_completion() {
    let shop = shop().await;
    let mediator =
        Mediator::builder().with_state(shop.table.clone()).handle(book).after(audit).build().unwrap();
    let processor = Processor::new(&shop.oncebox, &contracts(), &mediator, options(|_| {})).unwrap();
    let processor = processor.in_transactions::<PgTransaction>().unwrap();
    let scheduler = shop.oncebox.scheduler(&contracts());
    let mut ids = Vec::new();
    for payment in 1..=2 {
        ids.push(scheduler.schedule(&pay(payment), plain()).await.unwrap().command_id);
    }
    let stopped = processor.process_pending().await.unwrap();
    assert_eq!((stopped.handled, stopped.retrying), (1, 1));
    assert_eq!(shop.booked().await, [1, 101]);
    assert_eq!(shop.status(ids[0]).await, Some(CommandStatus::Completed));
    assert!(matches!(shop.status(ids[1]).await, Some(CommandStatus::Failed { attempt: 1, .. })));
    let outside = mediator.send(pay(3)).await.unwrap_err();
    assert!(outside.text().contains("does not run in a transaction of this type"), "{}", outside.text());
}

/// Holds: CMD-08.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn commands_are_stored_in_the_chosen_postgres_schema_by_url_or_pool() {
    let server = oncebox_testkit::servers::Postgres::shared().unwrap();
    let url = server.url();
    let joint = if url.contains('?') { '&' } else { '?' };
    let by_url = Oncebox::open(&format!("{url}{joint}schema=chosen&ensure=yes")).await.unwrap();
    let scheduler = by_url.scheduler(&contracts());
    let key = plain().idempotency_key("k");
    let id = scheduler.schedule(&pay(1), key.clone()).await.unwrap().command_id;

    // The same tables, opened with a pool of the application.
    let pool = PgPool::connect(&url).await.unwrap();
    let mut chosen = oncebox::postgres::PostgresOptions::default();
    chosen.schema = oncebox::postgres::Schema::new("chosen").unwrap();
    let store = oncebox::postgres::PostgresStore::new(pool.clone(), &chosen);
    let by_pool = Oncebox::builder().on_postgres(Arc::new(store)).unwrap();
    let again = by_pool.scheduler(&contracts()).schedule(&pay(1), key).await.unwrap();
    assert_eq!((again.outcome, again.command_id), (ScheduleOutcome::AlreadyAccepted, id));
    let bytes = sqlx::query("select payload from chosen.message").fetch_all(&pool).await.unwrap();
    let bytes: Vec<Vec<u8>> = bytes.iter().map(|row| row.get(0)).collect();
    assert_eq!(bytes, [br#"{"payment":1,"cents":100}"#], "stored byte by byte");
    let bank = Bank::default();
    assert_eq!(processor(&by_pool, &bank, options(|_| {})).process_pending().await.unwrap().handled, 1);
    assert_eq!(scheduler.status(id).await.unwrap(), Some(CommandStatus::Completed));
    by_url.close().await.unwrap();
}

/// Each running command needs a connection for its transaction.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn transactional_concurrency_above_the_connection_limit_is_rejected_at_construction() {
    let shop = shop().await;
    let processor = |set: fn(&mut ProcessorOptions)| {
        processor(&shop.oncebox, &Bank::default(), options(set)).in_transactions::<PgTransaction>()
    };
    let refused = processor(|options| options.concurrency = Some(6)).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    let text = "6 handlers would run in transactions at once, but the store's connections allow only 5: ";
    assert!(refused.to_string().starts_with(text), "{refused}");
    processor(|options| options.concurrency = Some(5)).unwrap();
    processor(|_| {}).unwrap();
}
