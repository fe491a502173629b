//! Database outages: calls fail soon, and work again without intervention.

mod proxy;

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Accepted, Error, ErrorKind, Key, NewMessage, Payload, Store, StoreExt, Topic, TransactionalStore,
};
use oncebox_store_postgres::{PgTransaction, PostgresOptions, PostgresStore};
use oncebox_testkit::servers::{PgBouncer, Postgres};
use sqlx::postgres::PgPoolOptions;
use tokio::time::{Instant, sleep, timeout};

use proxy::Proxy;

/// Half of the time that a call waits for a connection.
const SOON: Duration = Duration::from_secs(5);
/// Longer than a pooler takes to reconnect to its server.
const DEADLINE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

fn message(id: &str) -> NewMessage {
    let key = Key::inbox("shop", id).unwrap();
    NewMessage::new(key, Topic::new("payments").unwrap(), Payload::new("{}").unwrap())
}

async fn open(url: &str) -> Arc<PostgresStore> {
    let mut options = PostgresOptions::default();
    options.ensure = true;
    Arc::new(PostgresStore::open(url, options).await.unwrap())
}

async fn accept(store: &PostgresStore, id: &str) -> Result<Vec<Accepted>, Error> {
    timeout(SOON, store.accept(&[message(id)])).await.expect("the call returns soon")
}

/// Makes calls until one fails; each must return soon.
async fn fails(store: &PostgresStore) -> Error {
    loop {
        if let Err(error) = accept(store, "1").await {
            return error;
        }
    }
}

/// Makes calls until one succeeds; each must return soon.
async fn works_again(store: &PostgresStore, id: &str) {
    let works = async {
        while let Err(error) = accept(store, id).await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            sleep(PAUSE).await;
        }
    };
    timeout(DEADLINE, works).await.expect("calls succeed again");
}

/// Neither calls under way nor transactions and their commits hang.
/// Holds: RULE-25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_waits_for_a_database_that_hangs() {
    let server = Postgres::start().unwrap();
    let store = open(&server.url()).await;
    accept(&store, "1").await.unwrap();
    let mut transaction = store.begin_transaction().await.unwrap();
    let ended = store.begin_transaction().await.unwrap();
    server.freeze();
    let error = fails(&store).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("outcome is unknown"), "the call was under way: {error}");
    let error = fails(&store).await;
    assert!(error.to_string().contains("nothing was done"), "the call was not sent: {error}");
    let messages = [message("2")];
    let inside = timeout(SOON, store.accept_in(&mut transaction, &messages)).await;
    assert_eq!(
        inside.expect("the call returns").err().map(|error| error.kind()),
        Some(ErrorKind::Unavailable)
    );
    let committed = timeout(SOON, store.commit(ended)).await;
    assert_eq!(
        committed.expect("the call returns").err().map(|error| error.kind()),
        Some(ErrorKind::Unavailable)
    );
    assert!(timeout(SOON, store.begin_transaction()).await.expect("the call returns").is_err());
    assert!(timeout(SOON, store.usage()).await.expect("the call returns").is_err());
    assert_eq!(
        timeout(SOON, store.accept(&[])).await.expect("the call returns").unwrap(),
        [],
        "an empty call succeeds"
    );
    server.thaw();
    works_again(&store, "3").await;
    drop(transaction);
    // An abandoned transaction holds no locks.
    works_again(&store, "2").await;
    store.close().await.unwrap();
}

/// A store can be closed while its database hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_can_be_closed_while_its_database_hangs() {
    let server = Postgres::start().unwrap();
    let store = open(&server.url()).await;
    let transaction = store.begin_transaction().await.unwrap();
    server.freeze();
    timeout(DEADLINE, store.close()).await.expect("the call returns").unwrap();
    let error = accept(&store, "1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    drop(transaction);
    server.thaw();
}

/// The probe waits for its connection, and a call waits for another transaction's lock: while other calls are
/// answered, no call fails.
/// Holds: RULE-25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_probe_fails_no_call_while_others_are_answered() {
    let server = Postgres::start().unwrap();
    // Three besides the reserved ones, all of which are opened before the server stops accepting new ones.
    let store = open(&format!("{}?connections=5", server.url())).await;
    let mut holder = store.begin_transaction().await.unwrap();
    let others = [store.begin_transaction().await.unwrap(), store.begin_transaction().await.unwrap()];
    drop(others);
    store.accept_in(&mut holder, &[message("held")]).await.unwrap();
    server.freeze_listener();
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.accept(&[message("held")]).await }
    });
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        store.get_one(&Key::inbox("shop", "1").unwrap().into()).await.expect("the call succeeds");
        sleep(PAUSE).await;
    }
    assert!(!waiting.is_finished(), "the call waits for the transaction");
    store.commit(holder).await.unwrap();
    let accepted = timeout(DEADLINE, waiting).await.expect("the call returns").unwrap().unwrap();
    assert!(matches!(accepted[..], [Accepted::Duplicate { .. }]), "{accepted:?}");
    server.thaw();
}

/// Requests lost in the network are never answered, and the server that is reachable later does not know the earlier
/// connections.
/// Holds: RULE-25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_from_before_an_outage_are_not_reused() {
    let database = Postgres::shared().unwrap().lend_database().unwrap();
    let proxy = Proxy::start(Postgres::shared().unwrap().port()).await;
    let store = open(&proxy.through(database.url())).await;
    for round in 0..3 {
        accept(&store, &format!("before {round}")).await.unwrap();
        proxy.lose();
        let error = fails(&store).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        fails(&store).await;
        proxy.serve();
        works_again(&store, &format!("after {round}")).await;
        // Whichever connection the calls get.
        for call in 0..20 {
            accept(&store, &format!("{round} {call}")).await.unwrap();
        }
    }
    store.close().await.unwrap();
}

/// Opens as many transactions as handlers may have, retrying until that succeeds.
async fn all_transactions(store: &PostgresStore) -> Vec<PgTransaction> {
    let opened = async {
        let mut open = Vec::new();
        while open.len() < store.transactions_max() {
            match store.begin_transaction().await {
                Ok(transaction) => open.push(transaction),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                    sleep(PAUSE).await;
                }
            }
        }
        open
    };
    timeout(DEADLINE, opened).await.expect("every connection is free again")
}

/// Transactions that an outage cut off, open or about to be committed, keep no connection: neither of the store's own
/// pool nor of the application's. The store can be closed afterwards.
/// Holds: RULE-25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_cut_off_by_an_outage_free_their_connections() {
    let database = Postgres::shared().unwrap().lend_database().unwrap();
    let proxy = Proxy::start(Postgres::shared().unwrap().port()).await;
    let url = proxy.through(database.url());
    let own = open(&format!("{url}?connections=5")).await;
    let pool = PgPoolOptions::new().max_connections(3).connect(&url).await.unwrap();
    let passed_in = Arc::new(PostgresStore::new(pool, &PostgresOptions::default()));
    for store in [own, passed_in] {
        assert_eq!(store.transactions_max(), 2);
        for dropped_while_down in [true, false] {
            let mut open = all_transactions(&store).await;
            let mut ended = open.pop().unwrap();
            store.accept_in(&mut ended, &[message("ended")]).await.unwrap();
            proxy.lose();
            fails(&store).await;
            let committed = timeout(SOON, store.commit(ended)).await.expect("the call returns");
            assert_eq!(committed.err().map(|error| error.kind()), Some(ErrorKind::Unavailable));
            if dropped_while_down {
                open.clear();
            }
            proxy.serve();
            works_again(&store, "after").await;
            drop(open);
            drop(all_transactions(&store).await);
        }
        timeout(DEADLINE, store.close()).await.expect("the store is closed").unwrap();
    }
}

/// An open transaction does not prevent the store from being closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_transaction_does_not_prevent_closing() {
    let database = Postgres::shared().unwrap().lend_database().unwrap();
    let store = open(database.url()).await;
    let transaction = store.begin_transaction().await.unwrap();
    timeout(DEADLINE, store.close()).await.expect("the store is closed").unwrap();
    drop(transaction);
}

/// The pooler answers, but its server does not.
/// Holds: RULE-25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_behind_a_pooler_is_noticed() {
    let mut server = Postgres::start().unwrap();
    let pooler = PgBouncer::start(&server).unwrap();
    let store = open(&format!("{}?pooler=transaction", pooler.url_for("postgres"))).await;
    accept(&store, "1").await.unwrap();
    server.stop_immediately().unwrap();
    let error = fails(&store).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    for _ in 0..5 {
        assert!(accept(&store, "2").await.is_err());
    }
    server.restart().unwrap();
    works_again(&store, "2").await;
    server.freeze();
    fails(&store).await;
    fails(&store).await;
    server.thaw();
    works_again(&store, "3").await;
    store.close().await.unwrap();
}
