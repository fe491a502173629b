//! A role that may only read and write rows: enough for everything but making the tables.

use std::time::Duration;

use oncebox_core::{
    Accepted, Action, Batch, Begin, Budget, Claim, Delivery, Extended, Extension, Id, Key, Kind, Namespace,
    NewMessage, Operated, Order, Owner, Payload, Policy, Query, ReadyTopics, Ref, Scope, Settled, Settlement,
    Sighting, Source, Span, State, Store, StoreExt, Topic, Verdict,
};
use oncebox_store_postgres::{Options, PostgresStore, Schema};
use oncebox_testkit::TestResult;
use oncebox_testkit::servers::{Database, Postgres, psql};
use sqlx::PgPool;

/// A role that did not exist before, who may connect; its name and its URL.
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
    Span::new("test duration", Duration::from_secs(seconds)).expect("a sensible one")
}

async fn take(store: &PostgresStore, batch: u32) -> Result<Vec<Delivery>, oncebox_core::Error> {
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
async fn four_rights_are_enough_for_the_whole_life_of_messages() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let (admin, schema) = (PgPool::connect(database.url()).await?, Schema::default());
    schema.ensure(&admin).await?;
    let pool = PgPool::connect(&role(&database, "four_rights")?).await?;
    psql(
        database.url(),
        "grant usage on schema oncebox to four_rights; \
         grant select, insert, update, delete on all tables in schema oncebox to four_rights",
    )?;
    assert_eq!(schema.validate(&pool).await?, [""; 0]);
    assert_eq!(schema.ensure(&pool).await?.before, Some(Schema::VERSION));
    let refused = Schema::new("another")?.ensure(&pool).await.unwrap_err();
    assert!(refused.to_string().starts_with("this role may not make or change tables"), "{refused}");

    let store = PostgresStore::new(pool, &Options::default());
    live(&store).await?;
    observe(&store).await?;
    assert_eq!(store.counts(&Scope::all(Namespace::Inbox)).await?.ready, 1);
    assert_eq!(store.page(&Query::all(Namespace::Inbox)).await?.messages.len(), 4);
    assert_eq!(store.upkeep(Budget::new(100)).await?.forgotten, 0);
    store.close().await?;
    Ok(())
}

/// Accepted, again, claimed, extended, acknowledged, abandoned, failed, redriven, released, erased.
async fn live(store: &PostgresStore) -> TestResult {
    let messages = [message("ack")?, message("abandon")?, message("fail")?, message("erase")?];
    for accepted in store.accept(&messages).await? {
        assert!(matches!(accepted, Accepted::New { .. }), "{accepted:?}");
    }
    let again = store.accept_one(&messages[0]).await?;
    assert!(matches!(again, Accepted::Duplicate { .. }), "{again:?}");
    let topics = store.ready_topics(&ReadyTopics::first(Namespace::Inbox)).await?;
    assert_eq!(topics, [Topic::new("orders")?]);
    let taken = take(store, 4).await?;
    let [ack, abandon, fail, erase] = &taken[..] else { return Err(format!("{taken:?}").into()) };
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
    let found = store.get_one(&Ref::Key(messages[0].key.clone())).await?.ok_or("it is kept")?;
    assert_eq!(found.state, State::Done);
    assert_eq!(settle(store, ack, Verdict::Ack).await?, settle(store, ack, Verdict::Ack).await?);
    Ok(())
}

async fn order(store: &PostgresStore, id: &str, action: Action) -> Result<Operated, oncebox_core::Error> {
    store.operate_one(&Order { target: Ref::Key(key(Namespace::Inbox, id)?), action }).await
}

async fn observe(store: &PostgresStore) -> TestResult {
    let hold = Policy::LEDGER.hold;
    let sighting = Sighting { key: key(Namespace::Inbox, "seen")?, hash: None, hold };
    store.observe(&[sighting]).await?;
    let begin = Begin { key: key(Namespace::Ledger, "begun")?, owner: Owner::new(1)?, lease: span(30), hold };
    store.begin(&[begin]).await?;
    Ok(())
}

/// Holds: IBX-126.
#[tokio::test]
async fn a_right_that_is_missing_is_named() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let (admin, schema) = (PgPool::connect(database.url()).await?, Schema::default());
    schema.ensure(&admin).await?;
    let pool = PgPool::connect(&role(&database, "few_rights")?).await?;
    psql(
        database.url(),
        "grant usage on schema oncebox to few_rights; grant select on all tables in schema oncebox to few_rights; \
         grant insert on oncebox.lease to few_rights; revoke execute on function oncebox.next_ticket() from public",
    )?;
    assert_eq!(
        schema.validate(&pool).await?,
        [
            "function `next_ticket()` lets you do nothing, not call it",
            "table `ahead` lets you select, not select, insert, update, delete",
            "table `lease` lets you select, insert, not select, insert, update, delete",
            "table `message` lets you select, not select, insert, update, delete",
        ]
    );
    psql(database.url(), "revoke select on oncebox.meta from few_rights")?;
    assert_eq!(schema.validate(&pool).await?.len(), 5);
    let store = PostgresStore::new(pool, &Options::default());
    let refused = store.accept_one(&message("1")?).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Unavailable);
    assert!(refused.to_string().contains("schema validate"), "{refused}");
    Ok(())
}

/// Whoever owns a schema may lack the right to make one.
#[tokio::test]
async fn the_owner_of_a_schema_makes_the_tables_in_it() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let url = role(&database, "schema_owner")?;
    psql(database.url(), "create schema oncebox authorization schema_owner")?;
    let (pool, schema) = (PgPool::connect(&url).await?, Schema::default());
    assert_eq!(schema.ensure(&pool).await?.before, None);
    assert_eq!(schema.validate(&pool).await?, [""; 0]);
    // The database is lent again, and roles stay.
    psql(database.url(), "drop owned by schema_owner cascade")?;
    Ok(())
}
