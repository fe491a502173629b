//! A server that only reads: demoted, or a replica.

use std::collections::BTreeSet;
use std::time::Duration;

use oncebox_core::{
    Accepted, Batch, Budget, Claim, Error, Key, Kind, Namespace, NewMessage, Owner, Payload, Span, Store,
    StoreExt, Topic,
};
use oncebox_store_postgres::{Options, PostgresStore};
use oncebox_testkit::TestResult;
use oncebox_testkit::servers::{Postgres, Replica, psql};

const DEADLINE: Duration = Duration::from_secs(60);

fn message(id: &str) -> NewMessage {
    let key = Key::inbox("shop", id).unwrap();
    NewMessage::new(key, Topic::new("orders").unwrap(), Payload::new("{}").unwrap())
}

fn claim() -> Claim {
    let (owner, lease) = (Owner::new(7).unwrap(), Span::lease(Duration::from_secs(30)).unwrap());
    Claim::new(Namespace::Inbox, owner, lease, Batch::new(10).unwrap())
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

/// Every call that writes says what is the matter, and leaves no connection behind to the server that was demoted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_a_demoted_server_are_not_used_again() -> TestResult {
    let server = Postgres::start()?;
    let url = server.url();
    let store = PostgresStore::open(&format!("{url}?ensure=yes&connections=1"), Options::default()).await?;
    store.accept(&[message("1")]).await?;
    let delivery = store.claim(&claim()).await?.remove(0);
    psql(&url, "alter system set default_transaction_read_only = on")?;
    psql(&url, "select pg_reload_conf()")?;
    let end = tokio::time::Instant::now() + DEADLINE;
    // The server tells its sessions in its own time; until then they write.
    while let Ok(accepted) = store.accept_one(&message("2")).await {
        assert!(matches!(accepted, Accepted::New { .. } | Accepted::Duplicate { .. }));
        assert!(tokio::time::Instant::now() < end, "the server did not become read-only");
    }
    let mut seen = BTreeSet::new();
    let release = [delivery.release()];
    for call in 0..4 {
        let refused = match call {
            0 => store.accept_one(&message("3")).await.err(),
            1 => store.claim(&claim()).await.err(),
            2 => store.settle(&release).await.err(),
            _ => store.extend(&[delivery.extend(Span::lease(Duration::from_secs(60))?)]).await.err(),
        };
        let refused = refused.ok_or_else(|| format!("call {call} was answered"))?;
        assert!(is_read_only(&refused), "call {call}: {refused}");
        // A connection that failed so is closed: the next call has another one.
        seen.extend(backends(&url)?);
        while backends(&url)?.iter().any(|pid| seen.contains(pid)) {
            assert!(tokio::time::Instant::now() < end, "call {call} kept its connection");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    psql(&url, "alter system reset default_transaction_read_only")?;
    psql(&url, "select pg_reload_conf()")?;
    while store.accept_one(&message("4")).await.is_err() {
        assert!(tokio::time::Instant::now() < end, "the server did not become writable");
    }
    assert_eq!(store.settle(&release).await?, [oncebox_core::Settled::Released]);
    store.close().await?;
    Ok(())
}

/// A real replica refuses what writes until it takes the primary's place; then the same store works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_refuses_until_it_is_promoted() -> TestResult {
    let mut primary = Postgres::start()?;
    PostgresStore::open(&format!("{}?ensure=yes", primary.url()), Options::default()).await?.close().await?;
    let replica = Replica::of(&primary)?;
    let store = PostgresStore::open(&replica.url(), Options::default()).await?;
    let refused = store.accept_one(&message("1")).await.err().ok_or("a replica took a message in")?;
    assert!(is_read_only(&refused), "{refused}");
    let refused = store.claim(&claim()).await.err().ok_or("a replica said that there is nothing")?;
    assert!(is_read_only(&refused), "{refused}");
    let refused = store.usage().await.err().ok_or("a replica says that it has room")?;
    assert!(is_read_only(&refused), "{refused}");
    store.upkeep(Budget::new(10)).await?;
    primary.kill();
    let promoted = replica.promote()?;
    assert!(matches!(store.accept_one(&message("1")).await?, Accepted::New { .. }));
    assert_eq!(store.claim(&claim()).await?.len(), 1);
    store.close().await?;
    drop(promoted);
    Ok(())
}
