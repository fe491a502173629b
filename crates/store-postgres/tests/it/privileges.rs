//! A role that may only read and write rows: enough for everything except creating the tables.

use std::time::Duration;

use oncebox_core::{
    Accepted, Action, Batch, Begin, Budget, Claim, Delivery, ErrorKind, Extended, Extension, Id, Key,
    MessageQuery, MessageRef, MessageState, Namespace, NewMessage, Observation, Operated, Order, Owner,
    Payload, Policy, ReadyTopics, Scope, Settled, Settlement, Source, Span, Store, StoreExt, Topic, Verdict,
};
use oncebox_store_postgres::{PostgresOptions, PostgresStore, Schema};
use oncebox_testkit::TestResult;
use oncebox_testkit::servers::{Database, Postgres, psql};
use sqlx::PgPool;

/// Creates a role that may connect; returns its URL.
fn role(database: &Database<'_>, name: &str) -> Result<String, String> {
    psql(database.url(), &format!("create role {name} login"))?;
    Ok(database.url().replace("postgres@", &format!("{name}@")))
}

fn key(namespace: Namespace, id: &str) -> Result<Key, oncebox_core::Error> {
    Ok(Key::new(namespace, Source::new("shop")?, Id::new(id)?))
}

fn message(id: &str) -> Result<NewMessage, oncebox_core::Error> {
    Ok(NewMessage::new(key(Namespace::Inbox, id)?, Topic::new("orders")?, Payload::new("hello")?))
}

fn span(seconds: u64) -> Span {
    Span::new("test duration", Duration::from_secs(seconds)).expect("a valid duration")
}

async fn claim(store: &PostgresStore, batch: u32) -> Result<Vec<Delivery>, oncebox_core::Error> {
    store.claim(&Claim::new(Namespace::Inbox, Owner::new(1)?, span(30), Batch::new(batch)?)).await
}

async fn settle(
    store: &PostgresStore,
    delivery: &Delivery,
    verdict: Verdict,
) -> Result<Settled, oncebox_core::Error> {
    let (owner, fence) = (delivery.lease.owner, delivery.lease.fence);
    Ok(store.settle(&[Settlement { uid: delivery.uid, owner, fence, verdict }]).await?[0])
}

/// Holds: IBX-115, IBX-126.
#[tokio::test]
async fn four_privileges_are_enough_for_all_operations() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let (admin, schema) = (PgPool::connect(database.url()).await?, Schema::default());
    schema.ensure(&admin).await?;
    let pool = PgPool::connect(&role(&database, "four_privileges")?).await?;
    psql(
        database.url(),
        "grant usage on schema oncebox to four_privileges; \
         grant select, insert, update, delete on all tables in schema oncebox to four_privileges",
    )?;
    assert_eq!(schema.validate(&pool).await?, [""; 0]);
    assert_eq!(schema.ensure(&pool).await?.before, Some(Schema::VERSION));
    let error = Schema::new("another")?.ensure(&pool).await.unwrap_err();
    assert!(error.to_string().starts_with("this role may not create or change tables"), "{error}");

    let store = PostgresStore::new(pool, &PostgresOptions::default());
    run_lifecycle(&store).await?;
    observe(&store).await?;
    assert_eq!(store.counts(&Scope::all(Namespace::Inbox)).await?.ready, 1);
    assert_eq!(store.page(&MessageQuery::all(Namespace::Inbox)).await?.messages.len(), 4);
    assert_eq!(store.maintain(Budget::new(100)).await?.forgotten, 0);
    store.close().await?;
    Ok(())
}

/// Accepts, repeats, claims, extends, acknowledges, abandons, fails, redrives, releases and erases.
async fn run_lifecycle(store: &PostgresStore) -> TestResult {
    let messages = [message("ack")?, message("abandon")?, message("fail")?, message("erase")?];
    for accepted in store.accept(&messages).await? {
        assert!(matches!(accepted, Accepted::New { .. }), "{accepted:?}");
    }
    let again = store.accept_one(&messages[0]).await?;
    assert!(matches!(again, Accepted::Duplicate { .. }), "{again:?}");
    let topics = store.ready_topics(&ReadyTopics::first(Namespace::Inbox)).await?;
    assert_eq!(topics, [Topic::new("orders")?]);
    let claimed = claim(store, 4).await?;
    let [ack, abandon, fail, erase] = &claimed[..] else { return Err(format!("{claimed:?}").into()) };
    let (owner, fence) = (ack.lease.owner, ack.lease.fence);
    let extended = store.extend(&[Extension { uid: ack.uid, owner, fence, lease: span(60) }]).await?;
    assert!(matches!(extended[..], [Extended::Until(_)]), "{extended:?}");
    settle(store, ack, Verdict::Ack).await?;
    settle(store, abandon, Verdict::Abandon { delay: span(3_600), error: None }).await?;
    settle(store, fail, Verdict::Fail { reason: oncebox_core::DeadReason::Failed, error: None }).await?;
    settle(store, erase, Verdict::Release).await?;
    assert!(matches!(order(store, "erase", Action::Erase).await?, Operated::Changed(_)));
    let redrive = Action::REDRIVE;
    assert!(matches!(order(store, "fail", redrive).await?, Operated::Changed(_)));
    let found =
        store.get_one(&MessageRef::Key(messages[0].key.clone())).await?.ok_or("the message is kept")?;
    assert_eq!(found.state, MessageState::Done);
    assert_eq!(settle(store, ack, Verdict::Ack).await?, settle(store, ack, Verdict::Ack).await?);
    Ok(())
}

async fn order(store: &PostgresStore, id: &str, action: Action) -> Result<Operated, oncebox_core::Error> {
    store.operate_one(&Order { target: MessageRef::Key(key(Namespace::Inbox, id)?), action }).await
}

async fn observe(store: &PostgresStore) -> TestResult {
    let hold = Policy::LEDGER.hold;
    let observation = Observation { key: key(Namespace::Inbox, "seen")?, hash: None, hold };
    store.observe(&[observation]).await?;
    let begin = Begin { key: key(Namespace::Ledger, "begun")?, owner: Owner::new(1)?, lease: span(30), hold };
    store.begin(&[begin]).await?;
    Ok(())
}

/// Holds: IBX-126.
#[tokio::test]
async fn a_missing_privilege_is_reported() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let (admin, schema) = (PgPool::connect(database.url()).await?, Schema::default());
    schema.ensure(&admin).await?;
    let pool = PgPool::connect(&role(&database, "few_privileges")?).await?;
    psql(
        database.url(),
        "grant usage on schema oncebox to few_privileges; grant select on all tables in schema oncebox to few_privileges; \
         grant insert on oncebox.lease to few_privileges; revoke execute on function oncebox.next_id_block() from public",
    )?;
    assert_eq!(
        schema.validate(&pool).await?,
        [
            "function `next_id_block()` grants nothing, not execute",
            "table `ahead` grants select, not select, insert, update, delete",
            "table `lease` grants select, insert, not select, insert, update, delete",
            "table `message` grants select, not select, insert, update, delete",
            "table `record` grants select, not select, insert, update, delete",
            "table `record_kind` grants select, not select, insert, update, delete",
        ]
    );
    psql(database.url(), "revoke select on oncebox.meta from few_privileges")?;
    assert_eq!(schema.validate(&pool).await?.len(), 7);
    let store = PostgresStore::new(pool, &PostgresOptions::default());
    let error = store.accept_one(&message("1")?).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("schema validate"), "{error}");
    Ok(())
}

/// The owner of a schema may lack the privilege to create one.
#[tokio::test]
async fn a_schema_owner_creates_the_tables_in_it() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let url = role(&database, "schema_owner")?;
    psql(database.url(), "create schema oncebox authorization schema_owner")?;
    let (pool, schema) = (PgPool::connect(&url).await?, Schema::default());
    assert_eq!(schema.ensure(&pool).await?.before, None);
    assert_eq!(schema.validate(&pool).await?, [""; 0]);
    // The database is reused, and roles persist.
    psql(database.url(), "drop owned by schema_owner cascade")?;
    Ok(())
}
