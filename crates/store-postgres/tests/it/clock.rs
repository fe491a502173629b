//! Whose clock decides: the server's, not that of the process.

use std::str::FromStr;
use std::time::Duration;

use oncebox_core::{
    Accepted, Batch, Claim, Key, Namespace, NewMessage, Observed, Owner, Payload, Policy, Settled, Sighting,
    Span, Store, StoreExt, Timestamp, Topic,
};
use oncebox_store_postgres::{Options, PostgresStore, Schema};
use oncebox_system::wall;
use oncebox_testkit::TestResult;
use oncebox_testkit::servers::{Postgres, psql};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// So far the server's clock is ahead of this process's.
const AHEAD: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// A clock that is ahead, under the name of the server's own, for connections that search it first.
const CLOCK: &str = "create schema ahead; create function ahead.clock_timestamp() returns timestamptz language sql volatile \
                     as 'select pg_catalog.clock_timestamp() + interval ''90 days'''";

fn message(id: &str) -> Result<NewMessage, oncebox_core::Error> {
    Ok(NewMessage::new(Key::inbox("shop", id)?, Topic::new("orders")?, Payload::new("hello")?))
}

/// It is a time of the server: by far not the process's, and no other either.
#[track_caller]
fn is_servers(time: Timestamp) {
    let ahead = time.since(wall());
    assert!(ahead + DAY > AHEAD && ahead < AHEAD + DAY, "{ahead:?} ahead");
}

/// Every time that is kept, and every time that is waited for, is the server's.
/// Holds: IBX-025, IBX-026, RULE-09.
#[tokio::test]
async fn the_server_s_clock_decides() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    psql(database.url(), CLOCK)?;
    let settings = PgConnectOptions::from_str(database.url())?;
    let settings = settings.options([("search_path", "ahead,pg_catalog")]);
    let pool = PgPoolOptions::new().max_connections(6).connect_with(settings).await?;
    Schema::default().ensure(&pool).await?;
    let store = PostgresStore::new(pool, &Options::default());

    let mut first = message("1")?;
    // By the process's clock not for 80 days.
    first.content.due = Some(wall().after(DAY * 80));
    let accepted = store.accept_one(&first).await?;
    let Accepted::New { receipt, .. } = accepted else { panic!("{accepted:?}") };
    is_servers(receipt.accepted_at);
    store.accept_one(&first).await?;
    let stored = store.get_one(&first.key.clone().into()).await?.ok_or("it is known")?;
    is_servers(stored.last_seen_at);
    assert!(stored.last_seen_at >= stored.accepted_at);

    let lease = Span::new("lease", Duration::from_secs(60))?;
    let claim = Claim::new(Namespace::Inbox, Owner::new(1)?, lease, Batch::ONE);
    let delivery = store.claim(&claim).await?.pop().ok_or("by the server's clock it is due")?;
    is_servers(delivery.lease.until);
    assert_eq!(store.settle(&[delivery.ack()]).await?, [Settled::Done]);
    let done = store.get_one(&delivery.uid.into()).await?.ok_or("it is known")?;
    is_servers(done.finished_at.ok_or("it is finished")?);

    let sighting = Sighting { key: message("2")?.key, hash: None, hold: Policy::INBOX.hold };
    let seen = store.observe(&[sighting]).await?;
    let [Observed::First(receipt)] = &seen[..] else { panic!("{seen:?}") };
    is_servers(receipt.accepted_at);

    let mut late = message("3")?;
    // By the process's clock not for 80 days.
    late.content.expires = Some(wall().after(DAY * 80));
    store.accept_one(&late).await?;
    assert_eq!(store.claim(&claim).await?, [], "by the server's clock it has expired");
    Ok(())
}
