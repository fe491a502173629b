//! A server that only reads: demoted, or a replica.

use std::collections::BTreeSet;
use std::time::Duration;

use oncebox_core::{
    Accepted, Batch, Budget, Claim, Delivery, Error, Key, Kind, Namespace, NewMessage, Owner, Payload, Query,
    ReadyTopics, RequestId, Scope, Span, State, Store, StoreExt, Topic,
};
use oncebox_store_postgres::{Options, PostgresStore};
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

/// A claim that is told the same again while its leases last.
fn asked() -> Claim {
    Claim { request: Some(RequestId::from_u128(5)), ..claim() }
}

fn is_read_only(error: &Error) -> bool {
    error.kind() == Kind::Unavailable
        && error.is_retryable()
        && error.to_string().contains("read-only (SQLSTATE 25006)")
}

/// The backends that serve the store.
fn backends(url: &str) -> Result<BTreeSet<String>, String> {
    let pids = psql(url, "select pid from pg_stat_activity where application_name = 'oncebox'")?;
    Ok(pids.lines().map(str::to_owned).collect())
}

/// How calls are refused, by what they are: those that write, and those that only read, whose answers would be old.
async fn refusal(store: &PostgresStore, call: &str, held: &Delivery) -> Result<Error, String> {
    let key = message("1").key;
    let scope = Scope::all(Namespace::Inbox);
    let refused = match call {
        "accept" => store.accept_one(&message("3")).await.err(),
        "claim" => store.claim(&claim()).await.err(),
        "claim again" => store.claim(&asked()).await.err(),
        "claim with a bound" => {
            store.claim(&Claim { in_flight_max: Some(1), request: None, ..claim() }).await.err()
        }
        "settle" => store.settle(&[held.release()]).await.err(),
        "extend" => store.extend(&[held.extend(span(60))]).await.err(),
        "get by key" => store.get(&[key.into()]).await.err(),
        "get what is unknown" => store.get(&[message("never").key.into()]).await.err(),
        "page" => store.page(&Query::all(Namespace::Inbox)).await.err(),
        "counts" => store.counts(&scope).await.err(),
        "topics" => store.ready_topics(&ReadyTopics::first(Namespace::Inbox)).await.err(),
        "usage" => store.usage().await.err(),
        "upkeep" => store.upkeep(Budget::new(10)).await.err(),
        other => return Err(format!("{other} is not made here")),
    };
    let refused = refused.ok_or_else(|| format!("{call} was answered"))?;
    if is_read_only(&refused) { Ok(refused) } else { Err(format!("{call}: {refused}")) }
}

const CALLS: [&str; 13] = [
    "accept",
    "claim",
    "claim again",
    "claim with a bound",
    "settle",
    "extend",
    "get by key",
    "get what is unknown",
    "page",
    "counts",
    "topics",
    "usage",
    "upkeep",
];

/// Every call says what is the matter, also one that only reads, and leaves no connection behind to the server that was demoted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_a_demoted_server_are_not_used_again() -> TestResult {
    let server = Postgres::start()?;
    let url = server.url();
    let store = PostgresStore::open(&format!("{url}?ensure=yes&connections=1"), Options::default()).await?;
    store.accept(&[message("1")]).await?;
    let delivery = store.claim(&asked()).await?.remove(0);
    psql(&url, "alter system set default_transaction_read_only = on")?;
    psql(&url, "select pg_reload_conf()")?;
    let end = tokio::time::Instant::now() + DEADLINE;
    // The server tells its sessions in its own time; until then they write.
    while let Ok(accepted) = store.accept_one(&message("2")).await {
        assert!(matches!(accepted, Accepted::New { .. } | Accepted::Duplicate { .. }));
        assert!(tokio::time::Instant::now() < end, "the server did not become read-only");
    }
    let mut seen = BTreeSet::new();
    for call in CALLS {
        refusal(&store, call, &delivery).await?;
        // A connection that failed so is closed: the next call has another one.
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

/// A real replica refuses every call until it takes the primary's place, also one that only reads: "was this processed?" is not answered by what
/// may be old. Then the same store works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_refuses_until_it_is_promoted() -> TestResult {
    let mut primary = Postgres::start()?;
    let first = PostgresStore::open(&format!("{}?ensure=yes", primary.url()), Options::default()).await?;
    first.accept(&[message("1")]).await?;
    let delivery = first.claim(&asked()).await?.remove(0);
    let replica = Replica::of(&primary)?;
    let store = PostgresStore::open(&replica.url(), Options::default()).await?;
    // The primary waits for the replica, so this is there, too.
    first.settle(&[delivery.release()]).await?;
    first.close().await?;
    for call in CALLS {
        refusal(&store, call, &delivery).await?;
    }
    primary.kill();
    let promoted = replica.promote()?;
    let found = store.get_one(&message("1").key.into()).await?.ok_or("the key is lost")?;
    assert_eq!(found.state, State::Processing);
    assert!(matches!(store.accept_one(&message("2")).await?, Accepted::New { .. }));
    assert_eq!(store.claim(&claim()).await?.len(), 2);
    store.close().await?;
    drop(promoted);
    Ok(())
}

/// Behind a pooler each transaction may have another session: the statement that reads says itself which server it ran on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demoted_server_behind_a_pooler_answers_no_read() -> TestResult {
    let server = Postgres::start()?;
    let pooler = PgBouncer::start(&server)?;
    let url = format!("{}?ensure=yes&connections=2&pooler=transaction", pooler.url_for("postgres"));
    let store = PostgresStore::open(&url, Options::default()).await?;
    store.accept(&[message("1")]).await?;
    let delivery = store.claim(&asked()).await?.remove(0);
    psql(&server.url(), "alter system set default_transaction_read_only = on")?;
    psql(&server.url(), "select pg_reload_conf()")?;
    // The pooler keeps its sessions, and each hears of it in its own time.
    let end = tokio::time::Instant::now() + DEADLINE;
    for call in CALLS {
        while let Err(answered) = refusal(&store, call, &delivery).await {
            assert!(tokio::time::Instant::now() < end, "{answered}");
        }
    }
    store.close().await?;
    Ok(())
}
