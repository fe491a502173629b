//! The slow path does not touch payloads: counts what the server reads and writes in its out-of-line storage (TOAST).

use std::time::Duration;

use oncebox_core::{
    Accepted, Batch, Budget, Claim, Key, Namespace, NewMessage, Owner, Payload, Settled, Span, Store,
    StoreExt, Topic,
};
use oncebox_store_postgres::{PostgresOptions, PostgresStore};
use oncebox_testkit::TestResult;
use oncebox_testkit::servers::{Database, Postgres, psql};

const PAYLOAD_BYTES: usize = 256 << 10;
/// Longer than any of these calls takes, however slow the machine is.
const DEADLINE: Duration = Duration::from_secs(60);

fn message(id: usize) -> NewMessage {
    // Bytes that cannot be compressed.
    let bytes = (0..PAYLOAD_BYTES / 8)
        .flat_map(|index| ((index + id) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    let payload = Payload::new(bytes.collect::<Vec<_>>()).unwrap();
    NewMessage::new(Key::inbox("shop", id.to_string()).unwrap(), Topic::new("big").unwrap(), payload)
}

fn claim(batch: u32, lease: Duration) -> Claim {
    let (owner, lease) = (Owner::new(7).unwrap(), Span::lease(lease).unwrap());
    Claim::new(Namespace::Inbox, owner, lease, Batch::new(batch).unwrap())
}

/// TOAST blocks read and TOAST rows written by all sessions that have disconnected.
async fn out_of_line(database: &Database<'_>) -> Result<(u64, u64), String> {
    let end = tokio::time::Instant::now() + DEADLINE;
    while psql(
        database.url(),
        "select count(*) from pg_stat_activity where application_name = 'oncebox' and datname = current_database()",
    )? != "0"
    {
        assert!(tokio::time::Instant::now() < end, "the store's sessions did not end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let counted = psql(
        database.url(),
        "select t.toast_blks_read + t.toast_blks_hit, s.n_tup_ins + s.n_tup_upd \
           from pg_statio_user_tables t join pg_class c on c.oid = t.relid join pg_stat_all_tables s on s.relid = c.reltoastrelid \
          where t.schemaname = 'oncebox' and t.relname = 'message'",
    )?;
    let (read, written) = counted.split_once('|').ok_or("expected two numbers")?;
    Ok((read.parse().map_err(|_| "expected a number")?, written.parse().map_err(|_| "expected a number")?))
}

async fn open(database: &Database<'_>) -> Result<PostgresStore, oncebox_core::Error> {
    PostgresStore::open(&format!("{}?ensure=yes", database.url()), PostgresOptions::default()).await
}

/// Lapsed leases, failures, duplicates and orders update large messages without reading or writing their payloads.
/// Holds: RULE-27.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_are_untouched_unless_content_changes() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let store = open(&database).await?;
    let messages: Vec<_> = (0..8).map(message).collect();
    store.accept(&messages).await?;
    let claimed = store.claim(&claim(8, Duration::from_millis(1))).await?;
    assert_eq!(claimed.len(), 8);
    store.close().await?;
    let (read, written) = out_of_line(&database).await?;
    assert!(read > 0 && written > 0, "the counters include the payloads: {read}, {written}");

    let store = open(&database).await?;
    // Maintenance writes that the leases have lapsed.
    let end = tokio::time::Instant::now() + DEADLINE;
    let mut lapsed = 0;
    while lapsed < 8 {
        lapsed += store.maintain(Budget::new(100)).await?.lapsed;
        assert!(tokio::time::Instant::now() < end, "{lapsed} of 8 leases have lapsed");
    }
    let settled = store.settle(&[claimed[0].abandon(Span::delay(Duration::from_secs(1))?, None)]).await?;
    assert_eq!(settled, [Settled::LeaseLost]);
    for message in &messages {
        let mut same = message.clone();
        same.policy.divergence = oncebox_core::Divergence::KeepFirst;
        assert!(matches!(store.accept_one(&same).await?, Accepted::Duplicate { .. }));
    }
    let cancel = oncebox_core::Order { target: claimed[1].uid.into(), action: oncebox_core::Action::Cancel };
    store.operate(&[cancel]).await?;
    store.close().await?;
    assert_eq!(out_of_line(&database).await?, (read, written), "payloads were read or written");

    // Failures during a current lease: the claim reads payloads, the settlement does not.
    let store = open(&database).await?;
    let again = store.claim(&claim(7, Duration::from_secs(60))).await?;
    assert_eq!(again.len(), 7);
    assert!(
        again.iter().all(|one| one.content.payload
            == messages[one.key.id.as_str().parse::<usize>().unwrap()].content.payload)
    );
    store.close().await?;
    let (read, still) = out_of_line(&database).await?;
    assert_eq!(still, written);
    let store = open(&database).await?;
    let abandons: Vec<_> =
        again.iter().map(|one| one.abandon(Span::delay(Duration::from_secs(1)).unwrap(), None)).collect();
    assert!(store.settle(&abandons).await?.iter().all(|one| matches!(one, Settled::Retrying { .. })));
    store.close().await?;
    assert_eq!(out_of_line(&database).await?, (read, written), "a failure read or wrote payloads");
    Ok(())
}
