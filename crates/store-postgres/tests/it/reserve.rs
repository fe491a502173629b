//! The connections reserved for heartbeats and settlements.

use std::time::Duration;

use oncebox_core::{
    Batch, Claim, Extended, Key, Namespace, NewMessage, Owner, Payload, Settled, Span, Store, StoreExt,
    Topic, TransactionalStore,
};
use oncebox_store_postgres::{PostgresOptions, PostgresStore};
use oncebox_testkit::servers::{Postgres, psql};
use sqlx::postgres::PgPoolOptions;
use tokio::time::timeout;

use crate::{fresh, pool};

const LEASE: Duration = Duration::from_secs(30);
/// Longer than any wait for a connection.
const DEADLINE: Duration = Duration::from_secs(60);

fn claim() -> Claim {
    let (owner, lease) = (Owner::new(7).unwrap(), Span::lease(LEASE).unwrap());
    Claim::new(Namespace::Inbox, owner, lease, Batch::new(1).unwrap())
}

fn message(id: &str) -> NewMessage {
    let key = Key::inbox("shop", id).unwrap();
    NewMessage::new(key, Topic::new("payments").unwrap(), Payload::new("{}").unwrap())
}

/// While every connection of the pool is in a transaction, leases are still extended, settled and claimed.
/// Holds: RULE-05.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_transactions_do_not_block_heartbeats_and_settlements() {
    let options = fresh(&pool().await).await;
    let server = Postgres::shared().unwrap();
    let small = PgPoolOptions::new().max_connections(2).acquire_timeout(Duration::from_secs(1));
    let store = PostgresStore::new(small.connect(&server.url()).await.unwrap(), &options);
    store.accept(&[message("1"), message("2")]).await.unwrap();
    let delivery = store.claim(&claim()).await.unwrap().remove(0);

    let open = [store.begin_transaction().await.unwrap(), store.begin_transaction().await.unwrap()];
    let extended = timeout(DEADLINE, store.extend(&[delivery.extend(Span::lease(LEASE).unwrap())])).await;
    let extended = extended.expect("the call returns").expect("heartbeats have a reserved connection");
    assert!(matches!(extended[..], [Extended::Until(_)]), "{extended:?}");
    let worked = timeout(DEADLINE, store.work(&[delivery.ack()], &[claim()])).await;
    let worked = worked.expect("the call returns").expect("settlements have a reserved connection");
    assert_eq!((&worked.settled[..], worked.deliveries[0].len()), (&[Settled::Done][..], 1));
    drop(open);
}

/// The reserved connections count towards the limit in the URL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_opens_no_more_connections_than_its_url_allows() {
    let database = Postgres::shared().unwrap().lend_database().unwrap();
    for (connections, transactions) in [(1, 0), (2, 0), (3, 0), (4, 1), (8, 5)] {
        let application = format!("store-of-{connections}");
        let url =
            format!("{}?connections={connections}&ensure=yes&application_name={application}", database.url());
        let store = PostgresStore::open(&url, PostgresOptions::default()).await.unwrap();
        assert_eq!(store.transactions_max(), transactions, "of {connections} connections");
        store.accept(&[message(&application)]).await.unwrap();
        // The maximum number of transactions, and every kind of call at the same time.
        let mut open = Vec::new();
        for _ in 0..transactions {
            open.push(store.begin_transaction().await.unwrap());
        }
        let delivery = store.claim(&claim()).await.unwrap().remove(0);
        let extension = delivery.extend(Span::lease(LEASE).unwrap());
        let (settlement, other) = ([delivery.ack()], message("other"));
        let (extended, settled, accepted) = tokio::join!(
            store.extend(std::slice::from_ref(&extension)),
            store.work(&settlement, &[]),
            store.accept(std::slice::from_ref(&other)),
        );
        extended.unwrap();
        settled.unwrap();
        accepted.unwrap();
        let count = format!("select count(*) from pg_stat_activity where application_name = '{application}'");
        let seen: u32 = psql(database.url(), &count).unwrap().trim().parse().unwrap();
        assert!((1..=connections).contains(&seen), "{seen} connections, {connections} allowed");
        drop(open);
        store.close().await.unwrap();
    }
}
