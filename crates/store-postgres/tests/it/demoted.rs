//! A read-only server: demoted, or a replica.

use std::collections::BTreeSet;
use std::time::Duration;

use oncebox_core::{
    Accepted, Batch, Budget, Claim, Delivery, Error, ErrorKind, Key, MessageQuery, MessageState, Namespace,
    NewMessage, Owner, Payload, ReadyTopics, RequestId, Scope, Span, Store, StoreExt, Topic,
};
use oncebox_store_postgres::{PostgresOptions, PostgresStore};
use oncebox_testkit::TestResult;
use oncebox_testkit::servers::{PgBouncer, Postgres, Replica, psql};

const DEADLINE: Duration = Duration::from_secs(60);

fn message(id: &str) -> NewMessage {
    let key = Key::inbox("shop", id).unwrap();
    NewMessage::new(key, Topic::new("orders").unwrap(), Payload::new("{}").unwrap())
}

fn span(seconds: u64) -> Span {
    Span::lease(Duration::from_secs(seconds)).unwrap()
}

fn claim() -> Claim {
    Claim::new(Namespace::Inbox, Owner::new(7).unwrap(), span(3_600), Batch::new(10).unwrap())
}

/// A claim that returns the same deliveries again while its leases last.
fn repeatable_claim() -> Claim {
    Claim { request: Some(RequestId::from_u128(5)), ..claim() }
}

fn is_read_only(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable
        && error.is_retryable()
        && error.to_string().contains("read-only (SQLSTATE 25006)")
}

/// The backends that serve the store.
fn backends(url: &str) -> Result<BTreeSet<String>, String> {
    let pids = psql(url, "select pid from pg_stat_activity where application_name = 'oncebox'")?;
    Ok(pids.lines().map(str::to_owned).collect())
}

/// Makes a call and returns its error: calls that write, and calls that only read, whose answers could be stale.
async fn rejection(store: &PostgresStore, call: &str, delivery: &Delivery) -> Result<Error, String> {
    let key = message("1").key;
    let scope = Scope::all(Namespace::Inbox);
    let error = match call {
        "accept" => store.accept_one(&message("3")).await.err(),
        "claim" => store.claim(&claim()).await.err(),
        "repeated claim" => store.claim(&repeatable_claim()).await.err(),
        "claim with a limit" => {
            store.claim(&Claim { in_flight_max: Some(1), request: None, ..claim() }).await.err()
        }
        "settle" => store.settle(&[delivery.release()]).await.err(),
        "extend" => store.extend(&[delivery.extend(span(60))]).await.err(),
        "get by key" => store.get(&[key.into()]).await.err(),
        "get an unknown key" => store.get(&[message("never").key.into()]).await.err(),
        "page" => store.page(&MessageQuery::all(Namespace::Inbox)).await.err(),
        "counts" => store.counts(&scope).await.err(),
        "topics" => store.ready_topics(&ReadyTopics::first(Namespace::Inbox)).await.err(),
        "usage" => store.usage().await.err(),
        "maintenance" => store.maintain(Budget::new(10)).await.err(),
        other => return Err(format!("unknown call {other}")),
    };
    let error = error.ok_or_else(|| format!("{call} succeeded"))?;
    if is_read_only(&error) { Ok(error) } else { Err(format!("{call}: {error}")) }
}

const CALLS: [&str; 13] = [
    "accept",
    "claim",
    "repeated claim",
    "claim with a limit",
    "settle",
    "extend",
    "get by key",
    "get an unknown key",
    "page",
    "counts",
    "topics",
    "usage",
    "maintenance",
];

/// Every call reports the cause, also one that only reads, and keeps no connection to the demoted server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_a_demoted_server_are_not_reused() -> TestResult {
    let server = Postgres::start()?;
    let url = server.url();
    let store =
        PostgresStore::open(&format!("{url}?ensure=yes&connections=1"), PostgresOptions::default()).await?;
    store.accept(&[message("1")]).await?;
    let delivery = store.claim(&repeatable_claim()).await?.remove(0);
    psql(&url, "alter system set default_transaction_read_only = on")?;
    psql(&url, "select pg_reload_conf()")?;
    let end = tokio::time::Instant::now() + DEADLINE;
    // The sessions switch to read-only with a delay; until then they write.
    while let Ok(accepted) = store.accept_one(&message("2")).await {
        assert!(matches!(accepted, Accepted::New { .. } | Accepted::Duplicate { .. }));
        assert!(tokio::time::Instant::now() < end, "the server did not become read-only");
    }
    let mut seen = BTreeSet::new();
    for call in CALLS {
        rejection(&store, call, &delivery).await?;
        // A connection that failed with this error is closed: the next call gets another one.
        seen.extend(backends(&url)?);
        while backends(&url)?.iter().any(|pid| seen.contains(pid)) {
            assert!(tokio::time::Instant::now() < end, "{call} kept its connection");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    psql(&url, "alter system reset default_transaction_read_only")?;
    psql(&url, "select pg_reload_conf()")?;
    while store.accept_one(&message("4")).await.is_err() {
        assert!(tokio::time::Instant::now() < end, "the server did not become writable");
    }
    assert_eq!(store.settle(&[delivery.release()]).await?, [oncebox_core::Settled::Released]);
    store.close().await?;
    Ok(())
}

/// A real replica rejects every call until it is promoted, also those that only read: stale data must not answer "was
/// this processed?". After the promotion, the same store works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_rejects_calls_until_it_is_promoted() -> TestResult {
    let mut primary = Postgres::start()?;
    let first =
        PostgresStore::open(&format!("{}?ensure=yes", primary.url()), PostgresOptions::default()).await?;
    first.accept(&[message("1")]).await?;
    let delivery = first.claim(&repeatable_claim()).await?.remove(0);
    let replica = Replica::of(&primary)?;
    let store = PostgresStore::open(&replica.url(), PostgresOptions::default()).await?;
    // The primary waits for the replica, so the replica has this, too.
    first.settle(&[delivery.release()]).await?;
    first.close().await?;
    for call in CALLS {
        rejection(&store, call, &delivery).await?;
    }
    primary.kill();
    let promoted = replica.promote()?;
    let found = store.get_one(&message("1").key.into()).await?.ok_or("the key is lost")?;
    assert_eq!(found.state, MessageState::Processing);
    assert!(matches!(store.accept_one(&message("2")).await?, Accepted::New { .. }));
    assert_eq!(store.claim(&claim()).await?.len(), 2);
    store.close().await?;
    drop(promoted);
    Ok(())
}

/// Behind a pooler each transaction may use a different session: a statement that reads reports itself whether its
/// server is read-only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demoted_server_behind_a_pooler_rejects_reads() -> TestResult {
    let server = Postgres::start()?;
    let pooler = PgBouncer::start(&server)?;
    let url = format!("{}?ensure=yes&connections=2&pooler=transaction", pooler.url_for("postgres"));
    let store = PostgresStore::open(&url, PostgresOptions::default()).await?;
    store.accept(&[message("1")]).await?;
    let delivery = store.claim(&repeatable_claim()).await?.remove(0);
    psql(&server.url(), "alter system set default_transaction_read_only = on")?;
    psql(&server.url(), "select pg_reload_conf()")?;
    // The pooler keeps its sessions, and each of them switches with a delay.
    let end = tokio::time::Instant::now() + DEADLINE;
    for call in CALLS {
        while let Err(answered) = rejection(&store, call, &delivery).await {
            assert!(tokio::time::Instant::now() < end, "{answered}");
        }
    }
    store.close().await?;
    Ok(())
}
